"""Compiles a graph for a machine."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from .. import _core
from .._core import Unsupported, UserError
from ..base.arguments import integer, one_of
from ..base.checked import checked
from ..base.errors import shown, unsupported
from ..base.late_calls import LateCalls
from ..base.progress import counter
from ..graph import Graph, nearest, user_error
from ..graph.devices import single_device_graph
from ..graph.trips import checked as checked_trips
from ..graph.trips import counted
from ..loading import GraphLike, as_graph
from ..machine.machine import Machine, MachineLike
from ..mapping.half_attention import with_half_attention
from ..mapping.integer_products import with_integer_products
from ..mapping.manual_nests import EXAMPLE, by_loops, checked_nest, is_nest
from ..mapping.sparse_products import with_sparse_products
from ..program.footprint import check_capacity
from ..program.fusion import Fusion, rules_text
from ..program.program import Program
from .placer import compile_mixed
from .profile import lowered_as, way_of
from .residency import wished
from .smallest_scratchpad import with_smallest
from .zero_tiles import check_formats, with_own_weights, with_zero_tiles

__all__ = ["compile"]

STRATEGIES = ("profile", "heuristic", "cost", "gemmini", "pytorchsim")


#: Value of `mapping` -> function of graph, machine and `fuse` that searches loop nests; later modules register theirs.
SEARCHES: dict[str, Callable[[Graph, Machine, str], Any]] = LateCalls()


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

    Mapping "cost" searches with the cost model; "profile", the default, follows the vendor's compiler if the machine's
    file describes it (its lowering profile), so that times agree with those measured on the chip, and otherwise equals
    "cost"; "heuristic" improves the estimated time step by step and compiles faster; "gemmini" and "pytorchsim"
    choose like these tools; "tuned" simulates 16 candidates per distinct kernel (`ts.tune` has more options).

    Args:
        graph: the workload: a graph, a model's name, "matmul:M,N,K[,dtype]", or a file that `tilesim run` accepts.
        machine: preset name, file, dict or Machine.
        mapping: "profile", "cost", "heuristic", "gemmini", "pytorchsim", "tuned"; a MappingTable or its .json file
            (products without an entry use "profile", see its `report`); or a dict: operation name to
            {"tiles", "order", "depths", "unit"} or, for vector kernels, {"tiles", "lane", "depth"} (sizes in elements);
            both may have "sub" (sizes of the transfers of a tile) and "contexts" (number of contexts of a core).
            Sizes and order are lists, or dicts by loop name as in a table's file: {"tiles": {"m": 128, "n": 64}} or
            just {"m": 128, "n": 64}; missing loops are not tiled. For a study of `ts.tune`, its `best`.
        lowering: "native" follows the vendor's compiler by the lowering profile of the machine's file; "best" ignores
            the profile and omits barriers between kernels. By default "native" with a profile, else "best".
        fuse: rules that may fuse operations into one kernel: "all", "none", or names of `ts.mapping.fusion_rules()`
            (a list, or a text with commas). `Program.fusion.table()` lists accepted and rejected groups with reasons.
        residency: values that stay in the cores' scratchpads between kernels: "auto" (those that save memory traffic
            without a longer estimate; for programs of at most 50,000 tile operations on all cores together, the fastest
            in simulation of these, as many as fit, and none), "none", or a dict from tensor name to "scratchpad" or
            "memory"; other tensors use the default. Default: "auto" with lowering "best", else "none".
            `Program.memory_plan` lists resident values.
        layout: axis orders in memory on machines that pad the two minor axes to tiles (`layout.tile`): "auto" gives
            every tensor the order that costs least in padding and in transposes of readers and writers;
            "given" keeps the last axis minor. `Result.padded_bytes` counts moved padding.
        fallback: operations that the machine cannot run raise an "error" or run on its "host" (settings host.*): a
            device timed in closed form, behind a link with timed transfers.
        place: dict from operation name to "host" or "machine", which overrides the placement.
        cores: number of cores that share each kernel, by rows, columns, batches or other loops. By default all; with
            lowering "best" half, a quarter, an eighth ... if a program of at most 500,000 tile operations on all cores
            together simulates faster.
        contexts: number of contexts per core that share each kernel unless the mapping states another ("contexts" of a
            nest): one loads while another computes, each with its share of the core's memories. At most
            `core.contexts`; by default the mapping's.
        capacity: tensors that exceed the machine's `memory.capacity` appear in the result's approximations
            ("report") or raise an "error"; temporaries share bytes as in `Program.memory_plan`.
        sort: core type that runs the program, on machines with several types. By default all types share each kernel in
            proportion to their speeds, or only the first type runs it, whichever has the faster estimate.
        integer_products: if arrays multiply i8, multiplies the integers of dequantized operands, with
            scales and zero points after the product (pass "integer_products"; see `Program.graph.changes`).
        trips: trip counts of data-dependent loops by operation (prefixed with its function's name and a dot outside the
            entry): a number, or minimum and maximum. `run` counts trips on its inputs; `execute` and `verify`
            recompile if their inputs give other numbers.
        collectives: "error" raises an error for collectives; "untimed" computes them as if all devices held the same
            tensors, with zero communication time, which the result notes.
        zero_tiles: "skip" neither loads nor multiplies all-zero tiles of 128 by 128 of a weight, if the estimate
            is faster; the program's notes name the products. Zero times NaN or infinity is then zero, so an
            exact product (attribute precision) skips tiles only if its other operand is a weight without these values.
            "test" also skips tiles of activations before and after relu, maximum, select, clamp or multiply: a pass of
            the vector unit finds them, and mappings assume that half are zero. "off" skips no tiles.

    Returns:
        The program; a `MixedProgram` if operations run on the host.

    Raises:
        Unsupported: for an operation or dtype that neither the machine nor the chosen host can run.
        UserError: when no tile fits the scratchpad, an option or a type of cores is unknown, or the machine has fewer
            cores; with capacity="error" when the tensors exceed the machine's memory.
    """
    one_of("unknown treatment of capacity", "capacity", capacity, "report", "error")
    one_of("unknown layout", "layout", layout, "auto", "given")
    one_of("unknown fallback", "fallback", fallback, "error", "host")
    one_of("unknown treatment of collectives", "collectives", collectives, "error", "untimed")
    one_of("unknown treatment of tiles of zeros", "zero_tiles", zero_tiles, "off", "skip", "test")
    rules_text(fuse)
    mapping = getattr(mapping, "best", mapping)  # `mapping` may be a study
    fuse = fuse if isinstance(fuse, str) else list(fuse)
    machine = Machine.load(machine)
    stays = wished(residency, way_of(machine, lowering))
    graph, machine = as_graph(graph), lowered_as(machine, lowering)
    if not graph.outputs:
        remedy = "Call builder.output(tensor) before builder.build()"
        raise user_error("the graph has no outputs, so nothing is computed", place=graph.name, suggestion=remedy)
    target = machine.only(sort) if sort is not None else machine
    if cores is not None:
        cores = integer("cores", cores, most=int(target.get("core.count")), none="all cores")
    if contexts is not None:
        most = int(target.get("core.contexts"))
        contexts = integer("contexts", contexts, most=most, none="as many as the mapping asks for")
    options = {"mapping": mapping, "fuse": fuse, "fallback": fallback, "place": place, "cores": cores}
    if lowering is not None:
        options["lowering"] = lowering
    if residency is not None:
        options["residency"] = residency
    if layout != "auto":
        options["layout"] = layout
    if collectives == "untimed":
        graph = single_device_graph(graph)
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
        searched = mapping in ("profile", "cost", "tuned")  # which find a tile where the heuristic has one
        return _compiled(graph, other, other, options | ({"mapping": "heuristic"} if searched else {}), stays)

    try:
        if not place:
            said, marked = dict[str, str](), graph
            while True:  # ends when every marked product skips its zero tiles
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
        raise user_error(
            "cores= does not apply to a program with operations on the host", place="sort", value=f"'{sort}'"
        )
    return _mixed(graph, target, options, stays)


def _as_multiplied(
    graph: Graph, target: Machine, zero_tiles: str, integers: bool, sparse: bool, leave: Iterable[str] = ()
) -> Graph:
    """Converts products and weights to forms of the machine's units; products in `leave` multiply their zero tiles."""
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
    notes: Iterable[str] = (),
) -> Program:
    """Compiles without a host; adds to `unused` the products that multiply their zero tiles."""
    fuse = rules_text(options["fuse"])
    mappings, rest = _mappings(graph, target, options["mapping"], fuse)
    cores, contexts = options.get("cores") or 0, options.get("contexts") or 0
    groups: list[dict[str, Any]] = []
    stays, levels = residency
    more: dict[str, Any] = {"cores": cores, "contexts": contexts, "layout": options.get("layout", "auto")}
    more |= {"residency": stays, "levels": levels, "timed": True, "unused": unused, "notes": list(notes)}
    if (heard := counter("kernels")) is not None:
        more["counted"] = heard
    core = _core.compile(graph.core, target.core, fuse, mappings, rest, groups=groups, **more)
    program = Program(core, graph, machine)
    program.fusion = Fusion(groups)
    program.options = options
    return program


def _with_remedy(error: Unsupported, tried: bool = False, forced: bool = False) -> Exception:
    """Adds suggestions to an error for an operation that the machine cannot run."""
    own, between = error.suggestion, error.lack == "devices"
    remedy = "With fallback='host' (--fallback host) it runs on the host, which is timed"
    if forced:
        own, remedy = "", f"Remove '{error.operation}' from place"
        remedy += "" if tried else ", and set fallback='host'"
    elif between:
        remedy = "It is a collective, and this simulates one device. With collectives='untimed' (--collectives "
        remedy += "untimed) its communication takes zero time, as the result notes"
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
        what = "residency by tensor does not apply to a program with operations on the host"
        raise user_error(what, place="residency", value=shown(named), allowed="auto, none")

    def compile_part(part: Graph) -> Program:
        own = mapping
        if isinstance(mapping, Mapping) and not isinstance(mapping, MappingTable):
            names = {op["name"] for op in part.operations()}
            if any(isinstance(nest, Mapping) and "lane" in nest for nest in mapping.values()):
                names |= {kernel.operation for kernel in kernels(part, target, fuse=options["fuse"])}
            own = {key: nest for key, nest in mapping.items() if key in names}
        # the graph already has integer products if requested
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
    """Returns loop nests by operation name, and the mapping rule for other products."""
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
    """Checks the form of a mapping; the lowering checks whether its nests are legal.

    Nests with named loops or missing fields are read like those of a mapping table.
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
        raise user_error("unknown kernel", place="mapping", value=f"'{name}'", allowed=allowed,
                         suggestion=nearest(name, known))  # fmt: skip
    return {**found, **{name: checked_nest(nest, name) for name, nest in nests.items()}}
