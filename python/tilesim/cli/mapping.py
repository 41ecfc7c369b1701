"""The commands `map` and `tune`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from ..base import figures
from ..base.arguments import is_size
from ..base.columns import ROWS, cut, folded, layout, number, percent, text
from ..base.columns import name as names_of
from ..base.extras import need
from ..base.files import writing
from ..base.screen import Lines, indented, wrapped
from ..graph import Graph, nearest, user_error
from ..lowering.profile import lowered_as
from ..machine.machine import Machine
from ..mapping import MappingTable, Product, VectorKernel, kernels, products
from ..mapping.fields import pieces_text
from ..mapping.foreign import from_timeloop, from_zigzag
from ..study.tune import Study
from ..study.tune import tune as search
from ..timing.options import CompileOptions, SimulateOptions, WorkloadOptions
from ..timing.simulate import compile, simulate
from .load import graph_of, machine_of
from .options import OUTPUT, Model, Only, Output, Target
from .screen import say
from .show import step


def _tiles(chosen: list[Product], text: str) -> MappingTable:
    """Parses --tiles "m=128,n=256,k=512" into a mapping table for the graph's only product."""
    if len(chosen) != 1:
        raise user_error("--tiles needs a graph with one matrix product", value=f"{len(chosen)} products", allowed="1")
    tiles: dict[str, int] = {}
    for part in text.split(","):
        name, equals, size = part.partition("=")
        if not equals or not is_size(size.strip()):
            raise user_error("not a tile size", place="--tiles", value=f"'{part}'", allowed="loop=size, such as m=128")
        tiles[name.strip()] = int(size)
    return MappingTable({chosen[0].operation: {"tiles": tiles}}, source="--tiles")


def _table(path: str, order: str | None, form: str, chosen: list[Product]) -> MappingTable:
    """Reads a mapping table in the format `form`."""
    if form == "timeloop":
        return from_timeloop(path, chosen)
    if form == "zigzag":
        return from_zigzag(path, chosen)
    if form != "tilesim":
        allowed = ("tilesim", "timeloop", "zigzag")
        raise user_error(
            "unknown format of a mapping table",
            value=f"'{form}'",
            allowed=", ".join(allowed),
            suggestion=nearest(form, allowed),
        )
    return MappingTable.load(path, order)


def _describe(product: Product | VectorKernel, nest: dict[str, Any], cycles: int | None) -> list[str]:
    """Returns one line per level of a loop nest, and its simulated cycles if given."""
    lines = _vector_levels(product, nest) if isinstance(product, VectorKernel) else _levels(product, nest)
    if cycles is not None:
        lines.append(f"  simulated       {cycles:>14,} cycles")
    return lines


def _levels(product: Product, nest: dict[str, Any]) -> list[str]:
    cost, info = product.cost(nest), product.info
    lines = [f"  {product.text(nest)}"]
    indent = "    "
    for dim in nest["order"]:
        extent, tile = info["extents"][dim], nest["tiles"][dim]
        if tile < extent:
            lines.append(f"{indent}for {product.names[dim]} in {-(-extent // tile)} tiles of {tile}")
            indent += "  "
    for index, (operand, verb) in enumerate((("a", "load"), ("b", "load"), ("result", "store"))):
        moved, count = cost["bytes"][index], cost["transfers"][index]
        pieces = f" in {cost['pieces'][index]} pieces each" if cost["pieces"][index] > 1 else ""
        lines.append(
            f"{indent}{verb} {operand:<6} {count:>7,} x {moved / count:>12,.0f} B = {moved:>14,} B off chip{pieces}"
        )
    return [
        *lines,
        f"  scratchpad      {product.problem.scratchpad_bytes(nest):>14,} B",
        f"  compute         {cost['compute_cycles']:>14,.0f} cycles",
        f"  memory          {cost['memory_cycles']:>14,.0f} cycles",
        f"  lower bound     {cost['bound_cycles']:>14,.0f} cycles, set by {cost['limit']}",
        f"  modelled        {cost['cycles']:>14,.0f} cycles",
    ]


def _vector_levels(kernel: VectorKernel, nest: dict[str, Any]) -> list[str]:
    cost = kernel.cost(nest)
    lines = [f"  {kernel.text(nest)}"]
    indent = "    "
    for axis, (extent, tile) in enumerate(zip(kernel.sizes, nest["tiles"], strict=True)):
        if tile < extent:
            streams = ", repeated for each reduction" if kernel.info["reduced"][axis] else ""
            lines.append(f"{indent}for axis {axis} in {-(-extent // tile)} tiles of {tile}{streams}")
            indent += "  "
    moved = f"load {cost['read_bytes']:,} B and store {cost['written_bytes']:,} B"
    return [
        *lines,
        f"{indent}{moved} in {cost['transfers']:,} transfers",
        f"  scratchpad      {kernel.problem.scratchpad_bytes(nest):>14,} B",
        f"  compute         {cost['compute_cycles']:>14,.0f} cycles",
        f"  memory          {cost['memory_cycles']:>14,.0f} cycles",
        f"  lower bound     {cost['bound_cycles']:>14,.0f} cycles, set by compulsory bytes",
        f"  estimated       {cost['cycles']:>14,.0f} cycles, set by {cost['limit']}",
    ]


def _operand_bytes(cost: dict[str, Any]) -> dict[str, int]:
    """Returns the bytes by operand from the cost of a matrix product or a vector kernel."""
    if "bytes" in cost:
        return dict(zip(("a", "b", "result"), cost["bytes"], strict=True))
    return {"loads": cost["read_bytes"], "stores": cost["written_bytes"]}


def _why(product: Product | VectorKernel, nests: dict[str, dict[str, Any]], cycles: dict[str, int]) -> list[str]:
    """Compares each nest with the heuristic's: bytes, buffer depths and limiting resource."""
    base = product.cost(nests["heuristic"])
    buffers, unit = ("depths", "array") if isinstance(product, Product) else ("depth", "vector unit")
    lines = []
    for name, nest in nests.items():
        if name == "heuristic":
            continue
        before = next(other for other in nests if nests[other] == nest)
        if nest == nests["heuristic"] or before != name:
            lines.append(f"{name} chooses the same nest as {'heuristic' if nest == nests['heuristic'] else before}.")
            continue
        other = product.cost(nest)
        parts = []
        for operand, count in _operand_bytes(base).items():
            if _operand_bytes(other)[operand] != count:
                parts.append(f"{operand}: {_operand_bytes(other)[operand] / max(1, count):.2f} x the bytes")
        if abs(other["compute_cycles"] - base["compute_cycles"]) > 0.005 * base["compute_cycles"]:
            ratio = other["compute_cycles"] / max(1.0, base["compute_cycles"])
            parts.append(f"the {unit} is busy {ratio:.2f} x as long")
        if other["limit"] != base["limit"]:
            parts.append(f"the bound is set by {other['limit']} instead of {base['limit']}")
        if nest[buffers] != nests["heuristic"][buffers]:
            parts.append(f"buffers {nests['heuristic'][buffers]} become {nest[buffers]}")
        if pieces := pieces_text(nest, product.names):
            parts.append(f"tiles move in{pieces.removeprefix(' |')}, so that compute starts with the first piece")
        if nest.get("contexts", 1) != 1:
            parts.append(f"{nest['contexts']} contexts of the core share the kernel")
        if nest.get("lane") != nests["heuristic"].get("lane"):
            parts.append(f"axis {nest['lane']} is mapped to lanes instead of {nests['heuristic']['lane']}")
        if nest.get("order") != nests["heuristic"].get("order") and not parts:
            parts.append("another order of loops")
        ratio = cycles["heuristic"] / max(1, cycles[name])
        lines.append(f"{name} is {ratio:.3f} x as fast as heuristic: " + ("; ".join(parts) or "same bytes") + ".")
    return lines


def _listed(chosen: Sequence[Product | VectorKernel], everything: bool) -> Lines:
    """Returns a table of kernels and nests in execution order; layers with equal mappings are folded."""
    rows = []
    for kernel in chosen:
        cost = kernel.cost()
        moved = sum(_operand_bytes(cost).values())
        rows.append({"operation": kernel.operation, "nest": kernel.text(), "bytes": moved, "limit": cost["limit"]})
    if not everything:
        rows = folded(rows, (), alike=("nest", "bytes", "limit"))
    columns = [names_of("operation"), text("nest", 0, 24), number("bytes", 1), text("set by", 2, 8)]
    cells = [[row["operation"], row["nest"], f"{row['bytes']:,}", row["limit"]] for row in rows]
    return layout(columns, cells)


def map_(
    model: Model,
    work: WorkloadOptions,
    on: Target,
    compiling: Annotated[CompileOptions, Only("mapping", "lowering", "fuse", "contexts")],
    show: Annotated[
        bool,
        typer.Option(
            "--show",
            rich_help_panel=OUTPUT,
            help="Show loop nests with bytes and time per level, and explain their differences.",
        ),
    ] = False,
    table: Annotated[str | None, typer.Option(help="Apply this mapping table, and report on it.")] = None,
    order: Annotated[str | None, typer.Option(help="Order of sizes in the table's keys: M_K_N or M_N_K.")] = None,
    form: Annotated[
        str, typer.Option("--format", help="Format of the table: tilesim, timeloop or zigzag.")
    ] = "tilesim",
    tiles: Annotated[str | None, typer.Option(help="Tile sizes of a single product: m=128,n=256,k=512.")] = None,
    budget: Annotated[int, typer.Option(min=1, help="Number of candidates to simulate.")] = 32,
    *,
    out: Annotated[Output, Only("all")],
) -> None:
    graph = graph_of(model, work)
    target = lowered_as(machine_of(on, graph), compiling.lowering)
    options = {name: value for name, value in compiling.given().items() if name in ("mapping", "fuse", "contexts")}
    table = options.pop("mapping") if str(compiling.mapping).endswith(".json") else table
    if table is not None and tiles is not None:
        raise user_error("tile sizes are given twice", value="--table and --tiles", allowed="one of the two")
    if table is not None or tiles is not None:
        own = products(graph, target)
        given = _table(table, order, form, own) if table is not None else _tiles(own, tiles or "")
        program = compile(graph, target, mapping=given, fuse=compiling.fuse)
        say(indented(given.report()))
        plain = simulate(compile(graph, target, fuse=compiling.fuse))
        typer.echo(f"default {plain.cycles:,} cycles, table {simulate(program).cycles:,}")
        if given.illegal:
            raise typer.Exit(2)
        return
    chosen = kernels(graph, target, **options)
    if not show:
        say(_listed(chosen, out.all))
        return
    rules = {
        rule: {kernel.operation: kernel.nest for kernel in kernels(graph, target, **{**options, "mapping": rule})}
        for rule in ("heuristic", "cost")
    }
    entries = {}
    if len(chosen) == 1:
        with step(f"tuning for {target.name}") as tuning:
            study = search(graph, target, budget=budget, progress=tuning.at, fuse=compiling.fuse)
            entries = study.best.entries
    for kernel in chosen:
        by_rule = {rule: nests.get(kernel.operation, kernel.nest) for rule, nests in rules.items()}
        _show(kernel, by_rule, graph, target, entries if len(chosen) == 1 else None)


def _show(
    kernel: Product | VectorKernel,
    by_rule: dict[str, dict[str, Any]],
    graph: Graph,
    target: Machine,
    tuned: dict[str, Any] | None,
) -> None:
    """Prints the distinct nests that the rules choose for a kernel; simulates them if it is the only kernel."""
    lower_bound = kernel.candidates(1)[1]
    nests = dict(by_rule)
    if kernel.nest not in nests.values():
        nests = {"profile (default)": kernel.nest, **nests}
    cycles: dict[str, int] = {}
    if tuned is not None:
        nests["tuned"] = tuned.get(kernel.operation, kernel.nest)
        cycles = {
            name: simulate(compile(graph, target, mapping={kernel.operation: nest})).cycles
            for name, nest in nests.items()
        }
    if isinstance(kernel, Product):
        m, n, k = kernel.sizes
        lines = [f"{kernel.operation}: M {m}, N {n}, K {k}, {'/'.join(kernel.info['memory_dtypes'])}"]
    else:
        sizes = "x".join(map(str, kernel.sizes))
        lines = [f"{kernel.operation}: vector kernel over {sizes} ({kernel.info['kernel']})"]
    for name, nest in nests.items():
        names = [other for other in nests if nests[other] == nest]
        if name == names[0]:
            lines += ["", ", ".join(names), *_describe(kernel, nest, cycles.get(name))]
    modelled = kernel.cost(nests["cost"])["cycles"]
    lines += [
        "",
        f"Cost model: lower bound {lower_bound:,.0f} cycles, the nest of cost "
        f"{modelled:,.0f} (gap {modelled / lower_bound - 1 if lower_bound else 0.0:.1%}).",
        *([f"Simulation: the fastest nest is {_fastest(cycles)}."] if cycles else []),
        *(_why(kernel, nests, cycles) if cycles else []),
        "",
    ]
    say(indented("\n".join(lines)))


def _fastest(cycles: dict[str, int]) -> str:
    """Returns the names and the cycles of the fastest simulated nests."""
    least = min(cycles.values())
    return f"{', '.join(name for name in cycles if cycles[name] == least)}, {least:,} cycles"


def _picture_format(path: str) -> str:
    """The format of a picture by the path's extension."""
    known = need("matplotlib.backend_bases", "notebook").FigureCanvasBase.get_supported_filetypes()
    ending = path.rpartition(".")[2].lower()
    if ending not in known:
        raise user_error("unknown picture format", place=path, value=f"'{ending}'", allowed=", ".join(known))
    return ending


def _tuned(study: Study, everything: bool) -> Lines:
    """Returns a table of distinct kernels with default and best mapping."""
    columns = [
        names_of("operation"),
        number("runs", 3),
        number("default, cycles"),
        number("best, cycles"),
        number("gain, ×"),
    ]
    columns += [number("above bound, %", 2), text("mapping", 1, 16)]
    cells = [
        [
            row["operation"],
            f"{row['count']:,}",
            f"{row['default_cycles']:,}",
            f"{row['best_cycles']:,}",
            f"{row['gain']:.3f}",
            percent(row["gap"]),
            row["mapping"],
        ]
        for row in study.operations[: None if everything else ROWS]
    ]
    return [*layout(columns, cells), *cut(study.operations, everything, what="kernels")] if cells else []


def _history(study: Study) -> Lines:
    """Returns a table of all simulated candidates."""
    rows = study.history().rows
    keys = list(rows[0]) if rows else []
    columns = [text(key, 0, 16) if isinstance(rows[0][key], str) else number(key, 1) for key in keys]
    cells = [[figures.digits(one) if isinstance(one, float) else one for one in row.values()] for row in rows]
    return layout(columns, cells) if rows else ["No candidate was simulated."]


def tune(
    model: Model,
    work: WorkloadOptions,
    on: Target,
    compiling: Annotated[CompileOptions, Only("mapping", "lowering", "fuse")],
    simulating: Annotated[SimulateOptions, Only("memory", "seed")],
    budget: Annotated[
        int, typer.Option(min=1, help="Number of candidates per distinct product or vector kernel.")
    ] = 64,
    jobs: Annotated[int | None, typer.Option(min=1, help="Threads; default: one per processor.")] = None,
    confirm: Annotated[
        str | None, typer.Option(help="Simulate the best four again with this memory model: bank.")
    ] = None,
    save: Annotated[str | None, typer.Option(help="Write the best mapping table.", rich_help_panel=OUTPUT)] = None,
    sampler: Annotated[
        str, typer.Option(help="Source of candidates: model (the cost model), random or optuna.")
    ] = "model",
    history: Annotated[
        bool, typer.Option("--history", rich_help_panel=OUTPUT, help="Print every simulated candidate.")
    ] = False,
    plot: Annotated[
        str | None, typer.Option(help="Write the history as a picture (.png, .svg).", rich_help_panel=OUTPUT)
    ] = None,
    *,
    out: Annotated[Output, Only("store", "all")],
) -> None:
    picture = _picture_format(plot) if plot else ""
    graph = graph_of(model, work)
    target = machine_of(on, graph)
    given = {**compiling.given(), **simulating.given()}
    with step(f"tuning for {target.name}") as tuning:
        study = search(
            graph, target, budget=budget, store=out.store, jobs=jobs, confirm=confirm, progress=tuning.at,
            sampler=sampler, **given,
        )  # fmt: skip
    say(_tuned(study, out.all))
    before, after = study.baseline, study.result  # simulated now for an interrupted study
    lines = [line for note in [*study.notes, repr(study)] for line in wrapped(note, hang="  ")]
    if before is not None and after is not None:
        lines.append(f"whole graph: {before.cycles:,} -> {after.cycles:,} cycles")
    say(lines)
    if history:
        say(_history(study))
    if plot:
        with writing(plot, "wb") as file:
            study.plot("history").savefig(file, format=picture)
    if save:
        study.best.save(save)
    if study.interrupted:
        typer.echo(
            "interrupted: this is the best so far"
            + (f"; the same command resumes from {out.store}" if out.store else ""),
            err=True,
        )
        raise typer.Exit(130)
