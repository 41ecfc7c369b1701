"""Commands about mappings: map and tune."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from . import models
from .api import compile, simulate
from .graph import Graph, nearest, user_error
from .machine import Machine
from .mapping import MappingTable, Product, products
from .mapping_import import from_timeloop, from_zigzag
from .tune import graph_of, tune

__all__ = ["register"]

WHAT = "A network's name, a graph file (.json, .tsim), or matmul:M,N,K[,dtype]."


def _workload(what: str, batch: int, dtype: str | None) -> Graph:
    if ":" in what:
        named = what.count(",") < 3 and dtype
        return graph_of(f"{what},{dtype}" if named else what)
    if Path(what).suffix in (".json", ".tsim"):
        return Graph.load(what)
    return models.build(what, batch=batch)


def _tiles(graph: Graph, machine: Machine, text: str) -> MappingTable:
    """ "m=128,n=256,k=512" as a table for the graph's only product."""
    chosen = products(graph, machine)
    if len(chosen) != 1:
        raise user_error("--tiles is for a single product", value=f"{len(chosen)} products", allowed="1")
    tiles: dict[str, int] = {}
    for part in text.split(","):
        name, equals, size = part.partition("=")
        if not equals or not size.strip().isdecimal():
            raise user_error("cannot read a tile size", value=f"'{part}'", allowed="loop=size, as m=128")
        tiles[name.strip()] = int(size)
    return MappingTable({chosen[0].operation: {"tiles": tiles}}, source="--tiles")


def _table(path: str, order: str | None, form: str, chosen: list[Product]) -> MappingTable:
    """A table in one of the forms that can be read."""
    if form == "timeloop":
        return from_timeloop(path, chosen)
    if form == "zigzag":
        return from_zigzag(path, chosen)
    if form != "tilesim":
        allowed = ("tilesim", "timeloop", "zigzag")
        raise user_error(
            "unknown form of a table", value=f"'{form}'", allowed=", ".join(allowed), suggestion=nearest(form, allowed)
        )
    return MappingTable.load(path, order)


def _describe(product: Product, nest: dict[str, Any], cycles: int | None) -> list[str]:
    """A nest level by level, with the bytes and cycles of each."""
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
        lines.append(f"{indent}{verb} {operand:<6} {count:>7,} x {moved / count:>12,.0f} B = {moved:>14,} B off chip")
    used = product.problem.scratchpad_bytes(nest)
    lines += [
        f"  scratchpad      {used:>14,} B",
        f"  compute         {cost['compute_cycles']:>14,.0f} cycles",
        f"  memory          {cost['memory_cycles']:>14,.0f} cycles",
        f"  lower bound     {cost['bound_cycles']:>14,.0f} cycles, set by {cost['limit']}",
        f"  modelled        {cost['cycles']:>14,.0f} cycles",
    ]
    if cycles is not None:
        lines.append(f"  simulated       {cycles:>14,} cycles")
    return lines


def _why(product: Product, nests: dict[str, dict[str, Any]], cycles: dict[str, int]) -> list[str]:
    """What changed between the heuristic's nest and the others, in bytes and bounds."""
    base = product.cost(nests["heuristic"])
    lines = []
    for name, nest in nests.items():
        if name == "heuristic":
            continue
        if nest == nests["heuristic"]:
            lines.append(f"{name} chooses the heuristic's nest.")
            continue
        other = product.cost(nest)
        parts = []
        for index, operand in enumerate(("a", "b", "result")):
            if other["bytes"][index] != base["bytes"][index]:
                parts.append(f"{operand} moves {other['bytes'][index] / max(1, base['bytes'][index]):.2f} x the bytes")
        if abs(other["compute_cycles"] - base["compute_cycles"]) > 0.005 * base["compute_cycles"]:
            ratio = other["compute_cycles"] / max(1.0, base["compute_cycles"])
            parts.append(f"the array is busy {ratio:.2f} x as long")
        if other["limit"] != base["limit"]:
            parts.append(f"the bound is set by {other['limit']} instead of {base['limit']}")
        if nest["depths"] != nests["heuristic"]["depths"]:
            parts.append(f"buffers {nests['heuristic']['depths']} become {nest['depths']}")
        ratio = cycles["heuristic"] / max(1, cycles[name])
        lines.append(f"{name} is {ratio:.3f} x as fast as heuristic: " + ("; ".join(parts) or "same bytes") + ".")
    return lines


def map_(
    what: Annotated[str, typer.Argument(help=WHAT)],
    machine: Annotated[str, typer.Option(help="Preset or file.")] = "tpu-v3",
    batch: Annotated[int, typer.Option(min=1, help="Images or sequences.")] = 1,
    dtype: Annotated[str | None, typer.Option(help="Of matmul:M,N,K.")] = None,
    show: Annotated[
        bool, typer.Option("--show", help="Nests with bytes and time per level, and why they differ.")
    ] = False,
    table: Annotated[str | None, typer.Option(help="A mapping table to apply and report on.")] = None,
    order: Annotated[str | None, typer.Option(help="Of sizes in the table's keys: M_K_N or M_N_K.")] = None,
    form: Annotated[str, typer.Option("--format", help="Of the table: tilesim, timeloop or zigzag.")] = "tilesim",
    tiles: Annotated[str | None, typer.Option(help="Manual sizes of a single product: m=128,n=256,k=512.")] = None,
    budget: Annotated[int, typer.Option(min=1, help="Candidates that tuning simulates.")] = 32,
) -> None:
    """Show how products are mapped."""
    graph, target = _workload(what, batch, dtype), Machine.load(machine)
    chosen = products(graph, target)
    if table is not None or tiles is not None:
        given = _table(table, order, form, chosen) if table is not None else _tiles(graph, target, tiles or "")
        program = compile(graph, target, mapping=given)
        typer.echo(given.report())
        typer.echo(f"heuristic {simulate(compile(graph, target)).cycles:,} cycles, table {simulate(program).cycles:,}")
        if given.illegal:
            raise typer.Exit(2)
        return
    if not show:
        for product in chosen:
            cost = product.cost()
            typer.echo(f"{product.operation:<24} {product.text()}  {sum(cost['bytes']):,} B  {cost['limit']}")
        return
    for product in chosen:
        found = product.problem.search()
        nests = {"heuristic": product.nest, "cost": found["best"][0][0]}
        if len(chosen) == 1:
            entry = tune(graph, target, budget).best.entries.get(product.operation)
            nests["tuned"] = entry or product.nest
        cycles = {
            name: simulate(compile(graph, target, mapping={product.operation: nest})).cycles
            for name, nest in (nests.items() if len(chosen) == 1 else [])
        }
        m, n, k = product.sizes
        typer.echo(f"{product.operation}: M {m}, N {n}, K {k}, {'/'.join(product.info['memory_dtypes'])}")
        for name, nest in nests.items():
            typer.echo(f"\n{name}\n" + "\n".join(_describe(product, nest, cycles.get(name))))
        modelled = product.cost(nests["cost"])["cycles"]
        typer.echo(
            f"\nNo nest of the space takes less than {found['lower_bound']:,.0f} cycles by the model; "
            f"the best found takes {modelled:,.0f} (gap {found['gap']:.1%}, {found['priced']:,} nests priced)."
        )
        if cycles:
            typer.echo("\n".join(_why(product, nests, cycles)))


def tune_(
    what: Annotated[str, typer.Argument(help=WHAT)],
    machine: Annotated[str, typer.Option(help="Preset or file.")] = "tpu-v3",
    batch: Annotated[int, typer.Option(min=1, help="Images or sequences.")] = 1,
    dtype: Annotated[str | None, typer.Option(help="Of matmul:M,N,K.")] = None,
    budget: Annotated[int, typer.Option(min=1, help="Candidates per distinct product.")] = 64,
    jobs: Annotated[int | None, typer.Option(min=1, help="Threads; default: one per processor.")] = None,
    confirm: Annotated[str | None, typer.Option(help="Simulate the best four again: bank.")] = None,
    resume: Annotated[str | None, typer.Option(help="A store of simulated cycles, created if missing.")] = None,
    save: Annotated[str | None, typer.Option(help="Write the best mapping as a table.")] = None,
) -> None:
    """Find the fastest mapping by simulating candidates."""
    graph, target = _workload(what, batch, dtype), Machine.load(machine)

    def progress(done: int, total: int, name: str) -> None:
        end = "\n" if done == total else ""
        typer.echo(f"\r{done}/{total} {name:<40}{end}", err=True, nl=False)

    shown = progress if sys.stderr.isatty() else None
    study = tune(graph, target, budget, store=resume, jobs=jobs, confirm=confirm, progress=shown)
    for row in study.operations:
        typer.echo(
            f"{row['operation']:<24} x{row['count']:<3} {row['heuristic_cycles']:>12,} -> {row['best_cycles']:>12,} "
            f"cycles ({row['gain']:.3f} x, {row['gap']:.1%} above the bound)  {row['mapping']}"
        )
    for note in study.notes:
        typer.echo(note)
    typer.echo(repr(study))
    if study.baseline is not None and study.result is not None:
        typer.echo(f"whole graph: {study.baseline.cycles:,} -> {study.result.cycles:,} cycles")
    if save:
        study.best.save(save)
    if study.interrupted:
        typer.echo(
            "interrupted: the best so far" + (f"; the same call resumes from {resume}" if resume else ""), err=True
        )
        raise typer.Exit(130)


def register(app: typer.Typer) -> None:
    """Adds the commands to the command line.

    Args:
        app: of `tilesim`.
    """
    app.command("map")(map_)
    app.command("tune")(tune_)
