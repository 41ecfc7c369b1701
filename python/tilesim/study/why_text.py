"""The answer to "why" as plain text and as a simple piece of HTML."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from ..base.figures import count, duration, percent, rate, ratio, short, size

__all__ = ["OTHERWISE", "alternative_lines", "html_of", "lines_of"]

WIDTH = 80
OTHERWISE = "Simulated otherwise (cycles of these operations; of the program):"
_MOST = 8  # kernels that are listed
_UNITS = {"array": "arrays", "vector": "vector units", "memory": "memory", "none": "nothing"}


def lines_of(data: Mapping[str, Any], width: int = WIDTH) -> list[str]:
    """The answer line by line.

    Args:
        data: JSON form of a `Why`; without "alternatives" those are left out.
        width: columns, 60 or more.

    Returns:
        Lines that fit.
    """
    terms = [*_terms(data["terms"], width), "", *_wrapped(data["attribution"], width)]
    lines = [
        *_head(data, width),
        *_parts(data["parts"], width),
        "",
        *terms,
        "",
        *_wrapped(_roofline(data["roofline"]), width),
    ]
    if data["tiles"]:
        lines += ["", "Tiles:"]
        for tiles in data["tiles"][:6]:
            lines += _wrapped(_tiles(tiles, width), width, "  ")
        if len(data["tiles"]) > 6:
            lines.append(f"  ... and {len(data['tiles']) - 6:,} more kernels")
    if "alternatives" in data:
        rows = [line for row in data["alternatives"] for line in alternative_lines(row, width)]
        lines += ["", *_wrapped(OTHERWISE, width)] if rows else []
        lines += rows
    return lines


def alternative_lines(row: Mapping[str, Any], width: int = WIDTH) -> list[str]:
    """One alternative.

    Args:
        row: of `Why.alternatives`.
        width: columns.

    Returns:
        A line, or two where the columns are few.
    """
    pairs = (("own_cycles", "own_gain"), ("cycles", "gain"))
    numbers = "".join(f"  {count(row[cycles]):>11} {_speed(row[gain]):<13}" for cycles, gain in pairs).rstrip()
    room = width - 2 - 2 * 27
    if room >= 20:
        return [f"  {short(str(row['what']), room):<{room}}{numbers}"]
    return [f"  {short(str(row['what']), width - 2)}", f"  {numbers}"]


def _speed(gain: float) -> str:
    if abs(gain - 1) < 0.005:
        return "as fast"
    return f"{ratio(gain)} faster" if gain > 1 else f"{ratio(1 / gain) if gain > 0 else '∞'} slower"


def _wrapped(text: str, width: int, indent: str = "") -> list[str]:
    return textwrap.wrap(
        text, width, break_on_hyphens=False, initial_indent=indent, subsequent_indent=indent + "  " if indent else ""
    )


def _head(data: Mapping[str, Any], width: int) -> list[str]:
    lines = [f"{short(data['operation'], width)}"]
    runs = f" in {data['runs']:,} runs" if data["runs"] > 1 else ""
    place = f"{data['program']} on {data['machine']}"
    took = f"{count(data['cycles'])} cycles, {duration(data['seconds'])}{runs}: {percent(data['share'])} of {place}."
    lines += _wrapped(took, width)
    least = f"At least {count(data['bound_cycles'])} cycles, {duration(data['bound_seconds'])}"
    least += f" of the {_UNITS[data['bound']]}"
    if data["bound_cycles"] > data["cycles"]:
        least += "; it takes less, since a part of it ran beside others."
    elif data["bound_cycles"] > 0:
        least += f"; it takes {ratio(data['cycles'] / data['bound_cycles'])} that."
    if data["bound"] == "none":
        least = "No bound is known: nothing is computed or moved."
    lines += _wrapped(least, width)
    if data["hidden_cycles"]:
        lines += _wrapped(
            f"{count(data['hidden_cycles'])} cycles of its runs are counted as other operations', which ran beside it.",
            width,
        )
    if data["note"]:
        lines += _wrapped(data["note"][0].upper() + data["note"][1:] + ".", width)
    return lines


def _parts(rows: Sequence[Mapping[str, Any]], width: int) -> list[str]:
    """Kernels with the cycles of each, where there are several; each name asks for its kernel alone."""
    if len(rows) < 2:
        return []
    shown = rows if len(rows) <= _MOST else sorted(rows, key=lambda row: -int(row["cycles"]))[:_MOST]
    cycles = max(6, *(len(count(row["cycles"])) for row in shown))
    room = max(12, min(max(len(row["kernel"]) for row in shown), width - cycles - 13))
    lines = ["", f"  {'kernel':<{room}}  {'cycles':>{cycles}}  {'share':>7}"]
    lines += [
        f"  {short(row['kernel'], room):<{room}}  {count(row['cycles']):>{cycles}}  {percent(row['share']):>7}"
        for row in shown
    ]
    if len(rows) > len(shown):
        rest = sum(row["cycles"] for row in rows) - sum(row["cycles"] for row in shown)
        lines += _wrapped(f"... and {len(rows) - len(shown):,} shorter kernels: {count(rest)} cycles", width, "  ")
    return [*lines, *_wrapped("Each of these names asks for its kernel alone; what follows is of all together.", width)]


def _terms(rows: Sequence[Mapping[str, Any]], width: int) -> list[str]:
    names = max(4, *(len(row["term"]) for row in rows))
    cycles = max(6, *(len(count(row["cycles"])) for row in rows))
    left = f"{'term':<{names}}  {'cycles':>{cycles}}  {'share':>7}  "
    room = max(10, width - len(left))
    lines = [left + "what it is"]
    for row in rows:
        first = f"{row['term']:<{names}}  {count(row['cycles']):>{cycles}}  {percent(row['share']):>7}  "
        for at, text in enumerate(textwrap.wrap(row["meaning"], room, break_on_hyphens=False)):
            lines.append((first if at == 0 else " " * len(first)) + text)
    return lines


def _roofline(point: Mapping[str, Any]) -> str:
    attained, ceiling = point["attained_flops_per_second"], point["ceiling_flops_per_second"]
    text = f"Roofline ({point['of']}): {size(point['bytes'])} moved"
    if point["intensity"] is not None:
        text += f", {point['intensity']:,.3g} FLOP/byte"
    text += f"; {rate(attained, 'FLOP/s')} and {rate(point['attained_bytes_per_second'], 'B/s')} attained"
    if ceiling:
        text += f", {percent(attained / ceiling)} of the {rate(ceiling, 'FLOP/s')} that are possible there"
    peaks = (rate(point["peak_flops_per_second"], "FLOP/s"), rate(point["peak_bytes_per_second"], "B/s"))
    return f"{text} (peaks: {', '.join(peaks)})."


def _tiles(tiles: Mapping[str, Any], width: int) -> str:
    loops = ", ".join(
        f"{row['loop']} {row['trips'] if isinstance(row['trips'], int) else '(' + str(row['trips']) + ')'}"
        for row in tiles["loops"]
    )
    buffers = ", ".join(
        f"{row['depth']} x {row['name']} {row['dtype']}[{' x '.join(map(str, row['tile'])) or count(row['elements'])}]"
        for row in tiles["buffers"]
    )
    return f"{short(tiles['kernel'], width // 2)}: loops {loops or 'none'}; buffers {buffers or 'none'}"


def html_of(data: Mapping[str, Any]) -> str:
    """The answer as tables.

    Args:
        data: JSON form of a `Why`.

    Returns:
        HTML without styles or scripts of its own.
    """
    head = "".join(f"<p>{escape(line)}</p>" for line in _head(data, 10_000))
    rows = [("term", "cycles", "share", "what it is")]
    rows += [(row["term"], count(row["cycles"]), percent(row["share"]), row["meaning"]) for row in data["terms"]]
    found = head + _html_table(rows) + f"<p>{escape(_roofline(data['roofline']))}</p>"
    others = [("simulated", "own cycles", "", "cycles", "")]
    for row in data.get("alternatives", ()):
        others.append(
            (row["what"], count(row["own_cycles"]), _speed(row["own_gain"]), count(row["cycles"]), _speed(row["gain"]))
        )
    parts = [("kernel", "cycles", "share")]
    parts += [(row["kernel"], count(row["cycles"]), percent(row["share"])) for row in data["parts"]]
    if len(parts) > 2:
        found = found.replace("</p><table>", "</p>" + _html_table(parts) + "<table>", 1)
    return found + (_html_table(others) if len(others) > 1 else "")


def _html_table(rows: Sequence[Sequence[str]]) -> str:
    lines = []
    for at, row in enumerate(rows):
        tag = "td" if at else "th"
        lines.append("<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in row) + "</tr>")
    return "<table>" + "".join(lines) + "</table>"
