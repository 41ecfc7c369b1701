"""Formats the explanation of `why` as text."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from ..base.figures import count, duration, percent, rate, ratio, short, size

__all__ = ["OTHERWISE", "alternative_lines", "head_lines", "lines_of", "roofline_text", "speed_text", "tiles_text"]

WIDTH = 80
OTHERWISE = "Alternatives (cycles of these operations; of the program):"
_MOST = 8  # most kernels to list
_UNITS = {"array": "arrays", "vector": "vector units", "memory": "memory", "none": "nothing"}


def lines_of(data: Mapping[str, Any], width: int = WIDTH) -> list[str]:
    """Formats the explanation line by line."""
    terms = [*_terms(data["terms"], width), "", *_wrapped(data["attribution"], width)]
    lines = [
        *head_lines(data, width),
        *_parts(data["parts"], width),
        "",
        *terms,
        "",
        *_wrapped(roofline_text(data["roofline"]), width),
    ]
    if data["tiles"]:
        lines += ["", "Tiles:"]
        for tiles in data["tiles"][:6]:
            lines += _wrapped(f"{short(tiles['kernel'], width // 2)}: {tiles_text(tiles)}", width, "  ")
        if len(data["tiles"]) > 6:
            lines.append(f"  ... and {len(data['tiles']) - 6:,} more kernels")
    if "alternatives" in data:
        rows = [line for row in data["alternatives"] for line in alternative_lines(row, width)]
        lines += ["", *_wrapped(OTHERWISE, width)] if rows else []
        lines += rows
    return lines


def alternative_lines(row: Mapping[str, Any], width: int = WIDTH) -> list[str]:
    """Formats one alternative."""
    pairs = (("own_cycles", "own_gain"), ("cycles", "gain"))
    numbers = "".join(f"  {count(row[cycles]):>11} {speed_text(row[gain]):<13}" for cycles, gain in pairs).rstrip()
    room = width - 2 - 2 * 27
    if room >= 20:
        return [f"  {short(str(row['what']), room):<{room}}{numbers}"]
    return [f"  {short(str(row['what']), width - 2)}", f"  {numbers}"]


def speed_text(gain: float) -> str:
    """Formats a speed-up or slow-down."""
    if abs(gain - 1) < 0.005:
        return "as fast"
    return f"{ratio(gain)} faster" if gain > 1 else f"{ratio(1 / gain) if gain > 0 else '∞'} slower"


def _wrapped(text: str, width: int, indent: str = "") -> list[str]:
    return textwrap.wrap(
        text, width, break_on_hyphens=False, initial_indent=indent, subsequent_indent=indent + "  " if indent else ""
    )


def head_lines(data: Mapping[str, Any], width: int) -> list[str]:
    """Formats name, time and lower bound."""
    lines = [f"{short(data['operation'], width)}"]
    runs = f" in {data['runs']:,} runs" if data["runs"] > 1 else ""
    place = f"{data['program']} on {data['machine']}"
    took = f"{count(data['cycles'])} cycles, {duration(data['seconds'])}{runs}: {percent(data['share'])} of {place}."
    lines += _wrapped(took, width)
    least = f"At least {count(data['bound_cycles'])} cycles, {duration(data['bound_seconds'])}"
    least += f" of the {_UNITS[data['bound']]}"
    if data["bound_cycles"] > data["cycles"]:
        least += "; its own time is less, since it overlapped with others."
    elif data["bound_cycles"] > 0:
        least += f"; it takes {ratio(data['cycles'] / data['bound_cycles'])} this bound."
    if data["bound"] == "none":
        least = "No lower bound: the operation computes and moves nothing."
    lines += _wrapped(least, width)
    if data["hidden_cycles"]:
        lines += _wrapped(
            f"{count(data['hidden_cycles'])} cycles of its runs are attributed to overlapping operations.",
            width,
        )
    if data["note"]:
        lines += _wrapped(data["note"][0].upper() + data["note"][1:] + ".", width)
    return lines


def _parts(rows: Sequence[Mapping[str, Any]], width: int) -> list[str]:
    """Formats the cycles of each kernel, if there are several."""
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
    return [*lines, *_wrapped("The rest explains all kernels together; each name above selects one.", width)]


def _terms(rows: Sequence[Mapping[str, Any]], width: int) -> list[str]:
    names = max(4, *(len(row["term"]) for row in rows))
    cycles = max(6, *(len(count(row["cycles"])) for row in rows))
    left = f"{'term':<{names}}  {'cycles':>{cycles}}  {'share':>7}  "
    room = max(10, width - len(left))
    lines = [left + "meaning"]
    for row in rows:
        first = f"{row['term']:<{names}}  {count(row['cycles']):>{cycles}}  {percent(row['share']):>7}  "
        for at, text in enumerate(textwrap.wrap(row["meaning"], room, break_on_hyphens=False)):
            lines.append((first if at == 0 else " " * len(first)) + text)
    return lines


def roofline_text(point: Mapping[str, Any]) -> str:
    """Formats the roofline point."""
    attained, ceiling = point["attained_flops_per_second"], point["ceiling_flops_per_second"]
    text = f"Roofline ({point['of']}): {size(point['bytes'])} moved"
    if point["intensity"] is not None:
        text += f", {point['intensity']:,.3g} FLOP/byte"
    text += f"; {rate(attained, 'FLOP/s')} and {rate(point['attained_bytes_per_second'], 'B/s')} attained"
    if ceiling:
        text += f", {percent(attained / ceiling)} of the {rate(ceiling, 'FLOP/s')} possible at this intensity"
    peaks = (rate(point["peak_flops_per_second"], "FLOP/s"), rate(point["peak_bytes_per_second"], "B/s"))
    return f"{text} (peaks: {', '.join(peaks)})."


def tiles_text(tiles: Mapping[str, Any]) -> str:
    """Formats the tiling of a kernel."""
    loops = ", ".join(
        f"{row['loop']} {row['trips'] if isinstance(row['trips'], int) else '(' + str(row['trips']) + ')'}"
        for row in tiles["loops"]
    )
    buffers = ", ".join(
        f"{row['depth']} x {row['name']} {row['dtype']}[{' x '.join(map(str, row['tile'])) or count(row['elements'])}]"
        for row in tiles["buffers"]
    )
    return f"loops {loops or 'none'}; buffers {buffers or 'none'}"
