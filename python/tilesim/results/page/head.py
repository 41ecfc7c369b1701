"""Shows headline figures, and tables that only some results have."""

from __future__ import annotations

from typing import Any

from ...base import figures
from ...base.palette import SERIES
from ...base.view import Bar, Bars, Card, Cards, Section, rows_of

__all__ = ["cards", "dtype_of", "mapping", "parts_section", "subtitle"]


def dtype_of(program: Any) -> str:
    """The most frequent dtype of the graph's weights (or inputs); "" if unknown."""
    graph = getattr(program, "graph", None)
    if graph is None:
        return ""
    elements: dict[str, int] = {}
    for row in [*graph.weights().values()] or graph.inputs:
        number = 1
        for extent in row["shape"]:
            number *= extent if isinstance(extent, int) else 1
        elements[row["dtype"]] = elements.get(row["dtype"], 0) + number
    return max(elements, key=lambda name: elements[name], default="")


def mapping(value: Any) -> dict[str, Any]:
    """Returns `value` if it is a dict, else an empty dict, because the schema allows other values."""
    return value if isinstance(value, dict) else {}


def subtitle(result: Any) -> str:
    """Names the machine, the lowering and the source of the figures."""
    configuration = mapping(result.data.get("configuration"))
    about = configuration.get("description") or mapping(configuration.get("device")).get("description", "")
    source = "estimated by closed forms" if result.estimated else "simulated"
    how = f"{result.lowering} lowering" if result.lowering else ""
    version = mapping(result.data.get("versions")).get("tilesim") or configuration.get("tilesim", "")
    return ", ".join(str(part) for part in (about, source, how, f"Tilesim {version}" if version else "") if part)


def cards(result: Any, program: Any) -> Cards:
    """Shows time, cycles, bottleneck, bytes, bytes over the bound, utilisation, dtype."""
    bound = result.bounds
    how = "estimated, " if result.estimated else ""
    found = [
        Card("time", figures.duration(result.seconds), f"{how}at {figures.rate(result.data['hertz'], 'Hz')}"),
        Card("cycles", figures.count(result.cycles)),
        Card("bound by", result.bottleneck, f"busy {figures.percent(result.data['bottleneck_share'])} of the time"),
        Card("bytes of memory", figures.size(result.memory_bytes), "read and written"),
    ]
    if bound and bound.bytes:
        over = f"at least {figures.size(bound.bytes)}"
        found.append(Card("bytes / bound", figures.ratio(result.memory_bytes / bound.bytes), over))
    if bound and bound.seconds:
        least = f"at least {figures.duration(bound.seconds)}"
        found.append(Card("time / bound", figures.ratio(result.seconds / bound.seconds), least))
    for name, share in result.utilisation.items():
        found.append(Card(f"{name} busy", figures.percent(share), "on average"))
    done = 2 * result.data["multiply_adds"]
    if done and result.seconds:
        found.append(Card("products", figures.rate(done / result.seconds, "FLOP/s"), figures.rate(done, "FLOP")))
    dtype = dtype_of(program)
    if dtype:
        found.append(Card("dtype", dtype, "of the weights" if program.graph.weights() else "of the inputs"))
    if result.host_share > 0:
        found.append(Card("host and link", figures.percent(result.host_share), "of the time; the machine waits"))
    if result.energy:
        found.append(Card("energy", figures.energy(sum(result.energy.values())), "of parts with known energy"))
    return Cards(found)


def parts_section(result: Any) -> list[Section]:
    """Shows cores, jobs, cache, energy and accuracy if the result has them."""
    found = _terms(result)
    shares = dict.fromkeys(("array", "vector", "load", "store"), "percent")
    sizes = dict.fromkeys(("load_bytes", "store_bytes", "send_bytes"), "size")
    cores = result.cores().rows
    if len(cores) > 1:
        found.append(Section("Cores", [rows_of("cores", cores, {**shares, **sizes, "core": "text"}, "cores")], "cores"))
    if jobs := [{**row, "cores": ", ".join(map(str, row["cores"]))} for row in result.jobs().rows]:
        found.append(Section("Concurrent programs", [rows_of("jobs", jobs, {}, "programs")], "jobs"))
    if cached := result.cache_table().rows:
        forms = {key: "size" for key in cached[0] if key.endswith("bytes")} | {"hit_rate": "percent"}
        found.append(Section("Cache", [rows_of("cache", cached, forms, "tensors")], "cache"))
    if result.energy:
        rows = [{"part": part, "energy": joules} for part, joules in result.energy.items()]
        found.append(Section("Energy", [rows_of("energy", rows, {"energy": "rate:J"}, "parts")], "energy"))
    if result.accuracy:
        table = rows_of("accuracy", result.data["accuracy"]["rows"], {}, "outputs")
        found.append(Section(f"Errors against {result.data['accuracy']['against']}", [table], "accuracy"))
    return found


_NOT_TERMS = ("operation", "kind", "scheme", "model", "ms", "bound", "occupancy")


def _terms(result: Any) -> list[Section]:
    """Shows the terms of an estimate's operations, longest first."""
    if not hasattr(result, "terms") or not (rows := result.terms().rows):
        return []
    names = [name for name in rows[0] if name not in _NOT_TERMS]
    sums = {name: sum(row[name] for row in rows) for name in names}
    names.sort(key=lambda name: -sums[name])
    first, rest = names[: len(SERIES) - 1], names[len(SERIES) - 1 :]
    colours = dict(zip([*first, "others"], SERIES, strict=False))
    bars = []
    for row in rows[:14]:
        parts = {name: row[name] / 1e3 for name in first} | {"others": sum(row[name] for name in rest) / 1e3}
        bars.append(Bar(row["operation"], parts, figures.duration(row["ms"] / 1e3)))
    said = "Terms of the closed form for the longest operations. Terms overlap, so the time is less than their sum."
    return [Section("Terms", [Bars(bars, colours, "duration", 0.0, said)], "terms")]
