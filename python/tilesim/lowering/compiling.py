"""Graphs and machines to programs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from .. import _core
from .._core import Unsupported, UserError
from ..base.above import Above
from ..base.arguments import one_of, whole
from ..base.checked import checked
from ..base.errors import shown, unsupported
from ..base.progress import counter
from ..graph import Graph, nearest, user_error
from ..graph.devices import alone
from ..graph.trips import checked as checked_trips
from ..graph.trips import counted
from ..loading import GraphLike, as_graph
from ..machine.machine import Machine, MachineLike
from ..mapping.by_hand import EXAMPLE, by_loops, checked_nest, is_nest
from ..mapping.half_attention import with_half_attention
from ..mapping.integer_products import with_integer_products
from ..mapping.sparse_products import with_sparse_products
from ..program.footprint import check_capacity
from ..program.fusion import Fusion, rules_text
from ..program.program import Program
from .placer import compile_mixed
from .profile import lowered_as, way_of
from .residency import wished
from .smallest import with_smallest
from .zero_tiles import check_formats, with_own_weights, with_zero_tiles

__all__ = ["compile"]

STRATEGIES = ("profile", "heuristic", "cost", "gemmini", "pytorchsim")


#: Searches for nests, by the value of `mapping` that asks for them: graph, machine and `fuse` to nests. Studies stand
#: above this floor.
SEARCHES: dict[str, Callable[[Graph, Machine, str], Any]] = Above()


@checked("cores", "mapping")
def compile(
    graph: GraphLike,
    machine: MachineLike = "tpu-v3",
    *,
    mapping: Any = "profile",
    lowering: str | None = None,
    fuse: str | Sequence[str] = "all",
    residency: str | Mapping[str, str] | None = None,
    layout: str = "auto",
    fallback: str = "error",
    place: Mapping[str, str] | None = None,
    cores: int | None = None,
    capacity: str = "report",
    sort: str | None = None,
    contexts: int | None = None,
    integer_products: bool = True,
    trips: Mapping[str, Any] | None = None,
    collectives: str = "error",
    zero_tiles: str = "off",
) -> Program:
    """Lowers a graph to a tile program.

    "cost" searches with the cost model; "profile", the default, imitates the chip's own compiler where the machine's
    file says what that does (its lowering profile), so that times measured on the chip are predicted, and is the same
    as "cost" elsewhere; "heuristic" shortens the estimated time move by move, in less time; "gemmini" and "pytorchsim"
    choose as those tools do; "tuned" simulates 16 candidates per distinct kernel (`ts.tune` does so with more say).

    Args:
        graph: the workload: a graph, a network's name, "matmul:M,N,K[,dtype]", or a file that `tilesim run` takes.
        machine: preset name, file, dict or Machine.
        mapping: "profile", "cost", "heuristic", "gemmini", "pytorchsim", "tuned"; a MappingTable or its .json file
            (products without an entry are mapped as by "profile", see its `report`); or a dict: operation name to
            {"tiles", "order", "depths", "unit"} or, for vector kernels, {"tiles", "lane", "depth"} (sizes in elements);
            both may have "sub" (sizes of the pieces in which tiles move) and "contexts" (of a core, that share it).
            Sizes and order are lists, or name their loops as in a table's file: {"tiles": {"m": 128, "n": 64}} or
            just {"m": 128, "n": 64}, where loops left out stay whole. A study of `ts.tune` stands for its `best`.
        lowering: "native" does what the chip's own compiler does, as the lowering profile of the machine's file says;
            "best" reads no profile and puts no barrier between kernels; none: "native" where there is a profile,
            "best" elsewhere.
        fuse: rules that may fuse operations into one kernel: "all", "none", or names of `ts.mapping.fusion_rules()`
            (a list, or a text with commas). `Program.fusion.table()` tells which groups were taken, and why others not.
        residency: which values between kernels stay in the scratchpads of the cores: "auto" (those that save bytes of
            memory and take no longer by the estimate; of programs of at most 50,000 tile operations on all cores
            together, these, as many as fit, or none, whichever is simulated as fastest), "none", or a dict of a
            tensor's name to "scratchpad" or "memory"; the others are then as by default, which is "auto" where the
            lowering is "best" and else "none". `Program.memory_plan` lists those that stay.
        layout: orders of axes in memory, on machines that pad the two minor ones to tiles (`layout.tile`): "auto" gives
            every tensor the order in which its padding, and lanes that its readers and writers would change, cost
            least; "given" leaves the last axis minor. `Result.padded_bytes` counts what padding moves.
        fallback: what the machine cannot run is an "error", or goes to its "host" (settings host.*): a device whose
            closed form gives the time, behind a link that transfers take time to cross.
        place: operations by name that run on "host" or "machine" in any case.
        cores: how many cores of the machine share the work of each kernel, by rows, columns, batches or other loops;
            none: all of them, or half as many, a quarter, an eighth ... where the lowering is "best" and a program of
            at most 500,000 tile operations on all cores together is simulated as faster so.
        contexts: of a core, that share every kernel which the mapping does not give another number ("contexts" of a
            nest): one loads while another computes, each with its share of the core's memories. At most
            `core.contexts`; none: as many as the mapping asks for.
        capacity: tensors that exceed the machine's `memory.capacity` are named in the result's approximations
            ("report"), or an "error"; temporaries share bytes as `Program.memory_plan` says.
        sort: machines with cores of several sorts: the one that runs the program; none: all of them share it, each
            kernel in proportion to their speeds or on the first sort alone, whichever the estimate finds faster.
        integer_products: where arrays multiply i8, products of dequantized operands are computed on the integers, with
            scales and zero points behind them (pass "integer_products"; `Program.graph.changes` tells which).
        trips: how often loops run that only data end, by operation (behind its function's name and a dot where that is
            not the entry): a number, or the fewest and the most. `run` counts them on the inputs that it gets;
            `execute` and `verify` compile again where the inputs ask for other numbers.
        collectives: operations between devices are an "error", or "untimed": they give what they give where all devices
            hold the same tensors, and what passes between devices takes no time, as the result says.
        zero_tiles: "skip": tiles of 128 by 128 of a weight that are all zero are neither loaded nor multiplied, where
            that is estimated to take less; the program's notes name the products. Zero times NaN or infinity then
            counts as zero, so an exact product (attribute precision) is left as it is unless its other operand is a
            weight without these. "test": also tiles of activations that enter or come from relu, maximum, select,
            clamp or multiply: a pass of the vector unit finds them, and kernels are chosen as if half were zero.
            "off": every tile is.

    Returns:
        The program; a `MixedProgram` where operations run on the host.

    Raises:
        Unsupported: for an operation or dtype that the machine cannot run; that cannot run on the host either.
        UserError: when no tile fits the scratchpad, an option is unknown, or the machine has fewer cores or no such
            sort; with capacity="error" when the tensors exceed the machine's memory.
    """
    one_of("unknown treatment of capacity", "capacity", capacity, "report", "error")
    one_of("unknown layout", "layout", layout, "auto", "given")
    one_of("unknown fallback", "fallback", fallback, "error", "host")
    one_of("unknown treatment of collectives", "collectives", collectives, "error", "untimed")
    one_of("unknown treatment of tiles of zeros", "zero_tiles", zero_tiles, "off", "skip", "test")
    rules_text(fuse)
    mapping = getattr(mapping, "best", mapping)  # of a study
    fuse = fuse if isinstance(fuse, str) else list(fuse)
    machine = Machine.load(machine)
    stays = wished(residency, way_of(machine, lowering))
    graph, machine = as_graph(graph), lowered_as(machine, lowering)
    target = machine.only(sort) if sort is not None else machine
    if cores is not None:
        cores = whole("cores", cores, most=int(target.get("core.count")), none="all of the machine's")
    if contexts is not None:
        most = int(target.get("core.contexts"))
        contexts = whole("contexts", contexts, most=most, none="one, or as many as the mapping asks for")
    options = {"mapping": mapping, "fuse": fuse, "fallback": fallback, "place": place, "cores": cores}
    if lowering is not None:
        options["lowering"] = lowering
    if residency is not None:
        options["residency"] = residency
    if layout != "auto":
        options["layout"] = layout
    if collectives == "untimed":
        graph = alone(graph)
    given, sparse = graph, (contexts or 1) == 1
    graph = _as_multiplied(given, target, zero_tiles, integer_products, sparse)
    if zero_tiles != "off":
        options["zero_tiles"] = zero_tiles
    if not integer_products:
        options["integer_products"] = False
    if sort is not None:
        options["sort"] = sort
    if contexts is not None:
        options["contexts"] = contexts
    if trips:
        known = checked_trips(graph, trips)
        program = compile(counted(graph, known), machine, capacity=capacity, **options)
        program.ended_by_data(graph, known, {**options, "trips": known})
        program.given = given
        return program

    def for_another(other: Machine) -> Program:
        return _compiled(graph, other, other, options, stays)

    try:
        if not place:
            said, marked = dict[str, str](), graph
            while True:  # what is not used leaves the plain program
                unused: dict[str, str] = {}
                program = _compiled(marked, machine, target, options, stays, unused, said.values())
                if not unused:
                    break
                said |= unused
                marked = _as_multiplied(given, target, zero_tiles, integer_products, sparse, said)
            program.sort, program.given = sort or "", given
            if capacity == "error":
                check_capacity(program, target)
            return program
    except Unsupported as error:
        if fallback == "error":
            raise with_smallest(_with_remedy(error), target, for_another) from None
    except UserError as error:
        raise with_smallest(error, target, for_another) from None
    if sort is not None:
        raise user_error("a program with a part on the host runs on all cores", place="sort", value=f"'{sort}'")
    return _mixed(graph, target, options, stays)


def _as_multiplied(
    graph: Graph, target: Machine, zero_tiles: str, integers: bool, sparse: bool, leave: Iterable[str] = ()
) -> Graph:
    """The graph with its products and weights as the machine's units take them; `leave`: without tiles of zeros."""
    check_formats(graph)
    graph = with_own_weights(graph, target)
    if zero_tiles != "off":
        graph = with_zero_tiles(graph, zero_tiles == "test", leave)
    graph = with_half_attention(graph, target)
    if integers:
        graph = with_integer_products(graph, target)
    return with_sparse_products(graph, target) if sparse else graph


def _compiled(
    graph: Graph,
    machine: Machine,
    target: Machine,
    options: dict[str, Any],
    residency: tuple[str, dict[str, str]],
    unused: dict[str, str] | None = None,
    said: Iterable[str] = (),
) -> Program:
    """A program of the machine alone. `unused` gets products whose tiles of zeros it multiplies; `said`: its notes."""
    fuse = rules_text(options["fuse"])
    mappings, rest = _mappings(graph, target, options["mapping"], fuse)
    cores, contexts = options.get("cores") or 0, options.get("contexts") or 0
    groups: list[dict[str, Any]] = []
    stays, levels = residency
    more: dict[str, Any] = {"cores": cores, "contexts": contexts, "layout": options.get("layout", "auto")}
    more |= {"residency": stays, "levels": levels, "timed": True, "unused": unused, "notes": list(said)}
    if (heard := counter("kernels")) is not None:
        more["counted"] = heard
    core = _core.compile(graph.core, target.core, fuse, mappings, rest, groups=groups, **more)
    program = Program(core, graph, machine)
    program.fusion = Fusion(groups)
    program.options = options
    return program


def _with_remedy(error: Unsupported, tried: bool = False, forced: bool = False) -> Exception:
    """The error of a machine that cannot run an operation, and what to do about it."""
    own, between = error.suggestion, error.lack == "devices"
    remedy = "With fallback='host' (--fallback host) it runs on the host, and that takes its time"
    if forced:
        own, remedy = "", f"It was to run on the machine: leave '{error.operation}' out of place"
        remedy += "" if tried else ", and take fallback='host'"
    elif between:
        remedy = "It is between devices, and this is the simulation of one. With collectives='untimed' (--collectives "
        remedy += "untimed) what passes between devices takes no time, and the result says so"
    elif tried:
        remedy = ""
    if own and "host" not in own and not between:
        remedy = f"{own}. {remedy}" if remedy else own
    elif own:
        remedy = own
    parts = {key: getattr(error, key) for key in ("what", "place", "value", "allowed")}
    parts["what"] = parts["what"] or str(error)
    told = unsupported(**parts, suggestion=remedy)
    for key in ("operation", "function", "lack"):
        setattr(told, key, getattr(error, key))
    return told


def _mixed(graph: Graph, target: Machine, options: dict[str, Any], residency: tuple[str, dict[str, str]]) -> Program:
    from ..mapping import MappingTable, kernels

    mapping, place = options["mapping"], dict(options["place"] or {})
    if residency[1]:
        named = ", ".join(sorted(residency[1]))
        what = "tensors cannot be given levels where the host runs a part"
        raise user_error(what, place="residency", value=shown(named), allowed="auto, none")

    def compile_part(part: Graph) -> Program:
        own = mapping
        if isinstance(mapping, Mapping) and not isinstance(mapping, MappingTable):
            names = {op["name"] for op in part.operations()}
            if any(isinstance(nest, Mapping) and "lane" in nest for nest in mapping.values()):
                names |= {kernel.operation for kernel in kernels(part, target, fuse=options["fuse"])}
            own = {key: nest for key, nest in mapping.items() if key in names}
        # integers are in the place of what was dequantized already, as far as that was wanted
        more = {"mapping": own, "fallback": "error", "place": None, "integer_products": False}  # tiles are marked too
        return _compiled(part, target, target, {**options, **more}, residency)

    anything = options["fallback"] == "host"
    try:
        program = compile_mixed(graph, target, place, anything, compile_part)
    except Unsupported as error:
        raise _with_remedy(error, anything, place.get(error.operation) == "machine") from None
    program.options = options
    return program


def _mappings(graph: Graph, target: Machine, mapping: Any, fuse: str) -> tuple[dict[str, Any], str]:
    """Nests by operation name, and how other products are mapped."""
    from ..mapping import MappingTable

    if isinstance(mapping, str) and mapping == "tuned":
        mapping = SEARCHES["tuned"](graph, target, fuse)
    if isinstance(mapping, os.PathLike) or (isinstance(mapping, str) and mapping.endswith(".json")):
        mapping = MappingTable.load(mapping)
    if isinstance(mapping, MappingTable):
        return mapping.nests_for(graph, target, fuse), "profile"
    if isinstance(mapping, Mapping):
        return _nests(mapping, graph, target, fuse), "profile"
    if isinstance(mapping, str) and mapping in STRATEGIES:
        return {}, mapping
    allowed = (*STRATEGIES, "tuned")
    raise user_error(
        "unknown mapping",
        value=shown(mapping),
        allowed=", ".join(allowed) + f", a MappingTable or its .json file, a Study, a dict as {EXAMPLE}",
        suggestion=nearest(mapping, allowed) if isinstance(mapping, str) else "",
    )


def _nests(mapping: Mapping[str, Any], graph: Graph, target: Machine, fuse: str) -> dict[str, dict[str, Any]]:
    """A mapping with its form checked; whether nests of lists are legal is decided by the lowering.

    Nests that name their loops, or leave something to the compiler, are read as a table's.
    """
    from ..mapping import MappingTable, kernels

    nests = {str(name): nest for name, nest in mapping.items() if is_nest(nest)}
    named = {str(name): by_loops(nest, str(name)) for name, nest in mapping.items() if not is_nest(nest)}
    if not named:
        return {name: checked_nest(nest, name) for name, nest in nests.items()}
    table = MappingTable(named, source="mapping")
    found = table.nests_for(graph, target, fuse)
    for reason in table.illegal.values():
        raise user_error(reason)
    for name in table.unused:
        known = list(dict.fromkeys(kernel.operation for kernel in kernels(graph, target, fuse=fuse)))
        allowed = ", ".join(known[:8]) + (", ..." if len(known) > 8 else "")
        raise user_error("no kernel has this name", place="mapping", value=f"'{name}'", allowed=allowed,
                         suggestion=nearest(name, known))  # fmt: skip
    return {**found, **{name: checked_nest(nest, name) for name, nest in nests.items()}}
