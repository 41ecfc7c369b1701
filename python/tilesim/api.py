"""The calls that users make first: compile, simulate, run."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from . import _core
from ._errors import unsupported
from ._footprint import over_capacity
from ._trips import measured, open_loops
from .compiling import compile
from .execution import inputs_of
from .execution import verify as verify_program
from .graph import nearest, user_error
from .jobs import Job, cores_of, simulate_jobs
from .latencies import TileLatencies
from .loading import GraphLike, as_graph, load
from .machine import Machine, MachineLike
from .memory import Part
from .mixed import MixedProgram, Turn
from .mixed_run import simulate_parts
from .network import topology_of
from .program import Program
from .replay import LIMIT, LIMIT_BANKS, Memory, extended
from .residency import capacity_of, residency
from .result import Result

__all__ = ["compile", "run", "simulate"]

FIDELITIES = ("ideal", "simple", "bank")


def _with_network(machine: MachineLike, network: str | None) -> Machine:
    """The machine with the network that it will be simulated with: what cores send each other depends on it."""
    target = Machine.load(machine)
    return target if network is None else target.replace({"network.kind": network})


def _names(resident: Iterable[str] | str) -> list[str]:
    if isinstance(resident, str):
        raise user_error("resident tensors are a list of names", value=f"'{resident}'", allowed='["w", ...], "auto"')
    return list(resident)


def _dram_part(machine: Machine) -> _core.DramPart:
    name = machine.get("memory.part")
    if not name:
        allowed = ", ".join(Part.names())
        raise user_error("memory of fidelity bank needs a DRAM part", place="memory.part", allowed=allowed)
    return Part.load(name).core


def simulate(
    program: Program | GraphLike | list[Job] | tuple[Job, ...],
    machine: MachineLike | None = None,
    memory: str | None = None,
    network: str | None = None,
    timeline: bool = False,
    tensors: Mapping[str, Any] | None = None,
    replay: bool = True,
    placement: Mapping[str, str | int] | None = None,
    latencies: TileLatencies | None = None,
    resident: Iterable[str] | str = (),
) -> Result:
    """Runs a program in simulated time.

    Args:
        program: a compiled program (a graph, or what names one, is compiled first), or several jobs that run on one
            chip: those on different cores share network and memory, those on the same core take turns.
        machine: none: the one that the program was compiled for.
        memory: "ideal" (bytes take their time through a core's DMA port alone), "simple", or "bank" (DRAM channels of
            the machine's memory.part); none: what the machine says.
        network: "simple" (latency, port bandwidth, finite buffers), or every flit in every router of "crossbar",
            "mesh", "torus", "ring", "tree", "cmesh" (large enough for the machine), a name with sizes ("mesh_4x8") or
            a .json file; none: what the machine says.
        timeline: record intervals for `Result.timeline`.
        tensors: integer tensors that timing depends on (counts, offsets), by name. Of those not given a compiled
            program says what is typical (inputs: zeros, rows of experts: spread evenly); the result's approximations
            name what was assumed.
        replay: simulate steady loops of programs beyond 4,000,000 tile operations for a few trips, and with banks equal
            layers of programs beyond 1 GiB of tensors twice, and extend them linearly; the result says so. Never with a
            timeline.
        placement: machines with several memory regions: where tensors lie, by name: "interleaved", "local" (each page
            in the region of the core that touches it first) or a region's number; others as memory.placement says.
        latencies: of tile computes, asked before the closed forms; `result.data["tile_latencies"]` counts its hits.
        resident: machines with a cache (settings memory.cache.*): names of the program's tensors that stay in it, all
            others pass by; "auto": what `ts.residency` proposes. None given: a cache that hardware manages keeps what
            was used last, one that software manages keeps nothing.

    Returns:
        The result.

    Raises:
        UserError: for an unknown fidelity or a program without a machine; for resident tensors that the program lacks,
            that exceed the cache, or of a machine without one.
    """
    if isinstance(program, (list, tuple)):
        return _simulate_jobs(program, machine, memory, network, timeline, tensors, placement, latencies)
    if isinstance(program, (str, os.PathLike)):
        program = load(os.fspath(program))
    if not isinstance(program, Program):
        program = compile(program, _with_network(machine or "tpu-v3", network))
    target = program.machine if machine is None else Machine.load(machine)
    if target is None:
        raise user_error("the program does not say for which machine it is", suggestion="pass machine=...")
    if memory not in (None, *FIDELITIES):
        named = nearest(memory, FIDELITIES) if isinstance(memory, str) else ""
        allowed = ", ".join(FIDELITIES)
        raise user_error(
            "unknown memory fidelity", place="memory", value=repr(memory), allowed=allowed, suggestion=named
        )
    given = dict(tensors or {})
    places = {name: str(place) for name, place in (placement or {}).items()}
    by_itself = capacity_of(target) > 0 and target.get("memory.cache.managed") == "hardware"
    if isinstance(program, MixedProgram) and (resident or by_itself):
        remedy = "set memory.cache.sets to 0" if by_itself else "leave out resident"
        raise unsupported("a cache where the host runs a part", place="memory.cache", suggestion=remedy)
    names = list(residency(program, target, given) if resident == "auto" else _names(resident))
    dram = _dram_part(target) if (memory or target.get("memory.kind")) == "bank" else None
    if isinstance(program, MixedProgram):
        if placement:
            raise user_error("tensors cannot be placed where the host runs a part", place="placement")
        return _simulate_mixed(program, target, memory, network, timeline, given, replay, latencies)
    fabric = str(network or target.get("network.kind"))
    topology = topology_of(target, fabric)
    source = program
    books = latencies.books(target) if latencies is not None else {}
    cores = cores_of(program, target)

    def engine(core: _core.Program) -> dict[str, Any]:
        parts: dict[str, Any] = {"dram": dram, "network": fabric, "topology": topology, "cores": cores}
        parts |= {"resident": names, "latencies": books.get(""), "placement": places}
        parts["sort_latencies"] = {sort: book for sort, book in books.items() if sort}
        result = _core.simulate(core, target.core, memory, timeline, given, **parts)
        return dict(json.loads(result.to_json()))

    def again(change: dict[str, Any]) -> Result:
        changed = target.replace(change)
        other = compile(source.workload, changed, **source.options) if source.workload is not None else source
        more: dict[str, Any] = {
            "placement": placement,
            "latencies": latencies,
            "resident": resident if resident == "auto" else names,
        }
        return simulate(other, changed, memory, network, replay=replay, **more)

    data = None
    many = dram is not None and sum(count for count, _ in program.footprint) > LIMIT_BANKS
    long = replay and not timeline and (many or program.operations > LIMIT)
    # What a cache holds is not linear in the trips of a loop.
    cached = long and bool(by_itself or names)
    if long and not cached:
        around = _core.parse_bytes(target.get("memory.interleave_bytes")) * int(target.get("memory.channels"))
        alike = Memory(_core.parse_bytes(target.get("memory.burst_bytes")), around)
        data = extended(json.loads(program.core.to_json()), lambda text: engine(_core.Program.from_json(text)), alike)
    data = data or engine(program.core)
    if cached:
        data["approximations"].append(
            "nothing is replayed: a cache makes every trip of a loop differ, all were simulated"
        )
    if fabric != "simple" and program.sends and program.machine and program.machine.get("network.kind") == "simple":
        data["approximations"].append(
            "the program was compiled for multicasts that pass the sender's port once; routers take one packet per "
            f"destination: compile for a machine with network.kind={fabric}"
        )
    if found := over_capacity(program.footprint, target):
        text = f"memory.capacity is not enforced: {found[0]} on {found[1]}; compile with capacity='error' to refuse it"
        data["approximations"].append(text)
    data["approximations"] += [*(program.graph.assumptions if program.graph is not None else []), *program.loops_said]
    if latencies is not None:
        data["tile_latencies"] = counts = latencies.close_books(target, books)
        if counts["misses"] and latencies.source != "closed form":
            lacking = f"{counts['misses']} lookups found nothing of '{latencies.source}'"
            data["approximations"].append(f"tile latencies: {lacking}: closed forms instead")
    data["versions"] = {"tilesim": _core.__version__, "python": platform.python_version()}
    return Result(data, again)


def _simulate_jobs(
    jobs: Sequence[Job],
    machine: MachineLike | None,
    memory: str | None,
    network: str | None,
    timeline: bool,
    tensors: Mapping[str, Any] | None,
    placement: Mapping[str, str | int] | None,
    latencies: TileLatencies | None,
) -> Result:
    if not jobs or not all(isinstance(job, Job) for job in jobs):
        raise user_error("nothing to simulate", value=repr(jobs), allowed="a Graph, a Program, a list of ts.Job")
    if tensors or latencies is not None:
        raise user_error("of jobs each has its own", place="tensors, latencies", suggestion="Job(program, tensors=...)")
    if any(isinstance(job.program, MixedProgram) for job in jobs):
        raise user_error("a program with a part on the host cannot be one of several jobs")
    target = jobs[0].program.machine if machine is None else Machine.load(machine)
    if target is None:
        raise user_error("the program does not say for which machine it is", suggestion="pass machine=...")
    fabric = str(network or target.get("network.kind"))
    parts: dict[str, Any] = {"memory": memory, "network": fabric, "topology": topology_of(target, fabric)}
    parts["dram"] = _dram_part(target) if (memory or target.get("memory.kind")) == "bank" else None
    places = {name: str(place) for name, place in (placement or {}).items()}
    return simulate_jobs(jobs, target, parts, timeline, places)


def _simulate_mixed(
    program: MixedProgram,
    target: Machine,
    memory: str | None,
    network: str | None,
    timeline: bool,
    tensors: dict[str, Any],
    replay: bool,
    latencies: TileLatencies | None,
) -> Result:
    def part_result(part: Turn) -> dict[str, Any]:
        assert part.program is not None
        own = {name: tensors[name] for name in part.inputs if name in tensors}
        return simulate(part.program, target, memory, network, timeline, own, replay, latencies=latencies).data

    def again(change: dict[str, Any]) -> Result:
        assert program.workload is not None
        changed = target.replace(change)
        other = compile(program.workload, changed, **program.options)
        return simulate(other, changed, memory, network, replay=replay, latencies=latencies)

    data = simulate_parts(program, target, part_result, timeline)
    data["approximations"] += [*(program.graph.assumptions if program.graph is not None else []), *program.loops_said]
    data["versions"] = {"tilesim": _core.__version__, "python": platform.python_version()}
    return Result(data, again)


def run(
    model: Any,
    args: Any = (),
    machine: MachineLike = "tpu-v3",
    verify: bool = False,
    timeline: bool = False,
    fallback: str = "error",
    place: Mapping[str, str] | None = None,
    memory: str | None = None,
    network: str | None = None,
) -> Result:
    """The first minute: compile and simulate with defaults.

    Args:
        model: a graph; a torch.nn.Module (then `args` are its arguments); a network's name, "matmul:M,N,K[,dtype]", or
            a file that `tilesim run` takes.
        args: inputs for verification, on which loops that data end are counted; none: random ones.
        machine: preset name, file, dict or Machine.
        verify: also execute and compare with the reference kernels.
        timeline: record intervals.
        fallback: as `compile`.
        place: as `compile`.
        memory: as for `simulate`.
        network: as for `simulate`.

    Returns:
        The result.

    Raises:
        UserError: as `compile`; also when verification fails.
    """
    graph = as_graph(model, args)
    given = args is not None and not (isinstance(args, (tuple, list, dict)) and not args)
    trips = measured(graph, inputs_of(graph, args, 0)) if given and open_loops(graph) else None
    program = compile(graph, _with_network(machine, network), fallback=fallback, place=place, trips=trips)
    program.trips_counted = trips is not None
    if verify:
        outcome = verify_program(program, args or None)
        if not outcome.ok:
            raise user_error(f"the tiled program differs from the reference:\n{outcome}")
    return simulate(program, memory=memory, network=network, timeline=timeline)
