"""Simulates alternatives of a program: other mappings, lowerings, layouts and fusion."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from .. import _core
from ..graph.cast import CASTS, multiplied_floats
from ..graph.zeros import has_zero_tiles
from ..lowering.profile import has_profile
from ..mapping import MappingTable, kernels
from ..program.fusion import fusion_rules, rules_text
from ..program.mixed import MixedProgram
from ..results.advice import Advice
from ..results.result import Result
from ..results.result_calls import ASKED
from ..timing.rerun import Rerun
from .samplers import sampler_of

__all__ = ["advice", "offers", "simulated", "tuned"]

CANDIDATES = 8
"""Mappings of one kernel to simulate standalone."""
SCHEMES = {"i8": "i8", "fp8": "f8e4m3fn", "w4a16": ""}
"""Quantizations, each with the dtype that the arrays must support ("": the graph's own)."""
LONGEST, WORTH = 4, 0.8
"""Number of longest kernels that advice tunes, or fewer that cover this share of the time."""
LARGEST = 400_000
"""Tile operations beyond which advice tunes no mapping."""


def offers(again: Rerun, kernel: str = "") -> Iterator[dict[str, Any]]:
    """Yields options of `compile` that are worth a simulation."""
    if not again.compiled or isinstance(again.program, MixedProgram):
        return
    program, options = again.program, again.program.options
    profile = has_profile(again.target)
    if profile:
        yield {"lowering": "best"}
    if options.get("zero_tiles", "off") == "off" and _zeros_in(again):
        yield {"zero_tiles": "skip"}
    mapping = options.get("mapping", "profile")
    now = "cost" if mapping == "profile" and not profile else mapping
    for other in ("cost", "heuristic"):
        if now != other:
            yield {"mapping": other}
    fuse = rules_text(options.get("fuse", "all"))
    if kernel:
        rules = _rules_of(program, kernel)
        active = list(fusion_rules()) if fuse == "all" else [] if fuse == "none" else fuse.split(",")
        if rules & set(active):
            yield {"fuse": [rule for rule in active if rule not in rules]}
    if fuse != "none":
        yield {"fuse": "none"}
    elif fuse != "all":
        yield {"fuse": "all"}
    if len(again.target.get("layout.tile") or ()) and options.get("layout", "auto") == "auto":
        yield {"layout": "given"}


def _zeros_in(again: Rerun) -> bool:
    """Whether a weight with known elements has zero tiles; the answer is cached."""
    if "zero tiles" not in again.known:
        again.known["zero tiles"] = again.workload is not None and has_zero_tiles(again.workload)
    return bool(again.known["zero tiles"])


def _rules_of(program: Any, kernel: str) -> set[str]:
    """Returns the fusion rules that formed a kernel."""
    if not program.fusion.known:
        return set()
    rows = program.fusion.table().rows
    names = (kernel, f".{kernel}")
    return {
        row["rule"]
        for row in rows
        if row["decision"] == "taken" and (row["candidate"] == kernel or row["candidate"].endswith(names[1]))
    }


def advice(result: Result) -> tuple[Iterator[Advice], Iterator[Advice]]:
    """Yields faster ways to compile a result's graph for its machine: by other rules, then quantized or tuned."""
    again = result._again
    if not isinstance(again, Rerun) or not again.compiled:
        return iter(()), iter(())
    if isinstance(again.program, MixedProgram):  # a program with host parts can only be quantized
        return iter(()), _narrower(result, again)
    return _by_rule(result, again), chain(_narrower(result, again), _tuned(result, again))


def _by_rule(result: Result, again: Rerun) -> Iterator[Advice]:
    for change in offers(again):
        kind = next(iter(change))
        if kind in ("lowering", "mapping", "zero_tiles"):
            yield from _faster(result, simulated(again, change), change)


def _narrower(result: Result, again: Rerun) -> Iterator[Advice]:
    """Yields advice to quantize to supported dtypes; scales of 1 suffice for timing.

    Graphs with f32 or f64 products are first cast to the faster of bf16 and f16.
    """
    quantize = ASKED["quantize"]
    rates = again.target.get("core.array.rates")
    graph = again.workload
    if graph is not None and multiplied_floats(graph) & {"f32", "f64"}:
        cast: list[tuple[int, str, Result]] = []
        for dtype in CASTS:
            if rates.get(dtype, 0) > 0 and (other := _quantized(again, quantize, dtype)) is not None:
                cast.append((other.cycles, dtype, other))
        if cast:
            _, dtype, other = min(cast, key=lambda one: one[0])
            yield from _faster(result, other, {"quantize": dtype})
    for scheme, dtype in SCHEMES.items():
        if dtype and rates.get(dtype, 0) <= 0:
            continue
        if (other := _quantized(again, quantize, scheme)) is not None:
            yield from _faster(result, other, {"quantize": scheme})


def _quantized(again: Rerun, quantize: Any, scheme: str) -> Result | None:
    """Simulates the quantized graph; returns None if it cannot be quantized or run."""
    try:
        return again.otherwise(quantize(again.workload, scheme))
    except (_core.UserError, _core.Unsupported):
        return None


def _tuned(result: Result, again: Rerun) -> Iterator[Advice]:
    if not 0 < result.data["tile_operations"] <= LARGEST:
        return
    rows = sorted(result.data["operations"], key=lambda row: -row["exclusive"])
    names, told = [], 0
    for row in rows[:LONGEST]:
        if told < WORTH * result.cycles:
            names.append(row["name"])
        told += row["exclusive"]
    if change := tuned(again, names):
        yield from _faster(result, simulated(again, change), change)


def _faster(result: Result, other: Result | None, change: dict[str, Any]) -> Iterator[Advice]:
    key = next(iter(change))
    kind = "lowering" if key == "zero_tiles" else key
    found = Advice(change, other.cycles, result.cycles, kind) if other is not None else None
    if found is not None and found.worth_telling:
        yield found


def simulated(again: Rerun, change: Mapping[str, Any]) -> Result | None:
    """Simulates the program with other options; returns None if that fails."""
    try:
        return again.otherwise(**change)
    except (_core.UserError, _core.Unsupported):
        return None


def tuned(again: Rerun, names: Sequence[str], candidates: int = CANDIDATES) -> dict[str, Any]:
    """Returns better mappings of kernels by operation; simulates each kernel standalone."""
    program, target = again.program, again.target
    mapping = program.options.get("mapping", "profile")
    if not again.compiled or program.workload is None or not isinstance(mapping, (str, dict)) or program.sort:
        return {}
    if isinstance(program, MixedProgram):
        return {}  # the machine's parts are separate programs
    if mapping == "tuned":
        return {}  # the program is tuned already
    given = mapping if isinstance(mapping, dict) else {}
    rule = "profile" if given or str(mapping).endswith(".json") else str(mapping)
    if rule != "profile" and has_profile(target):
        return {}  # a dict of nests would give other kernels mapping "profile"
    fuse = rules_text(program.options.get("fuse", "all"))
    found: dict[str, Any] = {}
    graph = program.graph if program.graph is not None else program.workload  # includes zero tiles and integer products
    contexts = program.options.get("contexts") or 1
    try:
        every = kernels(graph, target, fuse=fuse, mapping=rule, contexts=contexts)
    except _core.Unsupported:  # the host runs this kernel
        return {}
    every = [one for one in every if one.operation not in _skipping(program)]
    if str(mapping).endswith(".json"):
        given = MappingTable.load(str(mapping)).nests_for(graph, target, fuse)
    elif rule != "profile":  # other kernels keep the nests of the rule
        named = Counter(one.operation for one in every)
        given = {one.operation: dict(one.nest) for one in every if named[one.operation] == 1}
    chosen = [one for one in every if one.operation in names]
    for kernel in chosen:
        if sum(one.operation == kernel.operation for one in chosen) > 1:
            continue  # the name occurs in several functions
        offered = sampler_of("model", kernel, candidates + 1, 0).ask(candidates + 1)
        now = given.get(kernel.operation, dict(kernel.nest))
        nests = [now, *(nest for nest, _ in offered if nest != now)][: candidates + 1]
        cycles = [_kernel_cycles(again, graph, fuse, kernel, nest) for nest in nests]
        best = min(range(len(nests)), key=lambda at: cycles[at])
        if cycles[best] < cycles[0]:
            found[kernel.operation] = nests[best]
    others = {name: nest for name, nest in given.items() if name not in found}
    return {"mapping": {**found, **others}} if found else {}


def _skipping(program: Any) -> set[str]:
    """Returns the products that skip zero tiles, which an explicit mapping would disable."""
    sign = ": tiles of zeros"
    return {note.split(sign)[0] for note in program.notes if sign in note and "neither loaded nor" in note}


_COPIED = ("cores", "contexts", "layout")
"""Options of the run that also apply to a standalone kernel; not those about residency between kernels."""


def _kernel_cycles(again: Rerun, graph: Any, fuse: str, kernel: Any, nest: dict[str, Any]) -> float:
    memory = again.options.memory or str(again.target.get("memory.kind"))
    if memory == "bank":
        memory = "simple"  # faster for candidates; the chosen mapping is simulated as requested
    try:
        options = {name: again.program.options[name] for name in _COPIED if again.program.options.get(name) is not None}
        program = _core.compile(
            graph.core, again.target.core, fuse, {kernel.operation: nest}, "profile", kernel.operation, **options
        )
        return float(_core.simulate(program, again.target.core, memory).cycles)
    except _core.UserError:
        return float("inf")
