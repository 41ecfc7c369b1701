"""The calls that users make first: compile, simulate, run."""

from __future__ import annotations

import logging
import os
import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from .. import _core
from ..analytic.lower_bound import bound_knowing
from ..base.arguments import whole
from ..base.checked import checked, is_iterable
from ..base.errors import path_text, shown, unsupported
from ..base.progress import counter
from ..frontends.torch.entry import is_module
from ..graph import Graph, nearest, user_error
from ..graph.trips import measured, open_loops
from ..loading import GraphLike, Sizes, as_graph, load
from ..lowering.compiling import compile
from ..lowering.profile import has_profile, lowered_as
from ..machine.device import Device
from ..machine.foreign import left_open
from ..machine.machine import Machine, MachineLike
from ..machine.target import load as load_target
from ..memory import Part
from ..network import topology_of
from ..program.data_roles import attention_data
from ..program.data_sources import data_of_parts, known_data, opened
from ..program.footprint import over_capacity
from ..program.jobs import Job, cores_of, simulate_jobs
from ..program.mixed import MixedProgram, Turn
from ..program.program import Program
from ..results.checks import LINE, told
from ..results.result import Result
from .accuracy import accuracy as accuracy_of
from .again import Again
from .by_hand import machine_of, program_of
from .estimated import estimated
from .execution import inputs_of
from .execution import verify as verify_program
from .latencies import CLOSED_FORM, INSTRUCTION, TileLatencies
from .level import kernel_latencies
from .mixed_run import simulate_parts
from .options import CompileOptions, SimulateOptions, divided, said
from .quantize import quantize as quantized
from .quantize import sample
from .residency import capacity_of, residency
from .scale_sim import told as scale_sim_told

__all__ = ["compile", "run", "simulate"]

FIDELITIES = ("ideal", "simple", "bank")
logger = logging.getLogger("tilesim")

LIMIT = 4_000_000  # tile operations, on all cores together, beyond which steady loops are replayed
SAID = 40_000_000  # tile operations of a run that is said before it starts
RATE = 5_000_000  # tile operations per second of one processor, at least about


def with_network(machine: MachineLike, network: str | None) -> Machine:
    """The machine with the network that it will be simulated with: what cores send each other depends on it."""
    target = Machine.load(machine)
    return target if network is None else target.replace({"network.kind": network})


def _names(resident: Iterable[str] | str) -> list[str]:
    if not is_iterable(resident):
        raise user_error("resident tensors are a list of names", value=shown(resident), allowed='["w", ...], "auto"')
    return list(resident)


def _dram_part(machine: Machine) -> _core.DramPart:
    name = machine.get("memory.part")
    if not name:
        allowed = ", ".join(Part.names())
        raise user_error("memory of fidelity bank needs a DRAM part", place="memory.part", allowed=allowed)
    return Part.load(name).core


@checked("memory")
def simulate(
    program: Program | GraphLike | list[Job] | tuple[Job, ...],
    machine: MachineLike | None = None,
    *,
    memory: str | None = None,
    network: str | None = None,
    timeline: bool = False,
    tensors: Mapping[str, Any] | str | os.PathLike[str] | None = None,
    seed: int = 0,
    replay: bool = True,
    placement: Mapping[str, str | int] | None = None,
    latencies: TileLatencies | None = None,
    resident: Iterable[str] | str = (),
    level: str = "tile",
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
        tensors: arrays by name, of the program's tensors or values of its graph (group sizes, counts, token ids, page
            tables): what loops and addresses read, and where gathered rows lie, is taken from them, or computed from
            them by the reference kernels. A .npz file with such arrays must have all that timing reads. In place of an
            array a distribution: "uniform", "balanced", or "zipf:s" (number i, from 0 on, in proportion to
            1 / (i + 1)^s), for one tensor by its name, for all rows per group as "counts", for all indices of tables
            and pages as "indices". For the rest a compiled program says what is typical (inputs: zeros, rows of
            experts: spread evenly, gathered rows: one behind the other). `Result.data_sources` tells for every tensor
            that was read which of these it was.
        seed: of the distributions.
        replay: simulate steady loops of programs beyond 4,000,000 tile operations (all cores together) for a few
            trips, and with banks equal layers of programs beyond 1 GiB of tensors twice, and extend them linearly; the
            result says so. Never with a timeline. The logger "tilesim" warns before a run of more than 40,000,000.
        placement: machines with several memory regions: where tensors lie, by name: "interleaved", "local" (each page
            in the region of the core that touches it first) or a region's number; others as memory.placement says.
        latencies: of tile computes, asked before the closed forms; `result.data["tile_latencies"]` counts its hits. A
            store of source "instruction" times the kernels that it lacks, as level "instruction" does.
        resident: machines with a cache (settings memory.cache.*): names of the program's tensors that stay in it, all
            others pass by; "auto": what `ts.mapping.residency` proposes. None given: a cache that hardware manages
            keeps what was used last, one that software manages keeps nothing.
        level: "tile": tile computes take what closed forms say; "instruction": what their kernels take on the machine's
            core, once for each distinct compute, kept in `latencies` (of source "instruction"; none: in memory, for
            all calls of this process); "live": what they take beside each other in the engine, where the queues of a
            core share its pipes and scratchpad ports. Computes without a kernel keep their closed form; the result says
            which.

    Returns:
        The result.

    Raises:
        UserError: for an unknown fidelity or a program without a machine; for resident tensors that the program lacks,
            that exceed the cache, or of a machine without one; for tensors that neither program nor graph has, a file
            without what timing reads, an unknown distribution, an index outside its table, more rows than there are.
    """
    automatic = isinstance(resident, str) and resident == "auto"
    names = "auto" if automatic else tuple(_names(resident))
    options = SimulateOptions(
        memory,
        network,
        timeline,
        opened(tensors or {}),
        whole("seed", seed, 0),
        replay,
        dict(placement or {}),
        kernel_latencies(level, latencies),
        names,
        level,
    )
    if isinstance(program, (list, tuple, Iterator)):
        return _simulate_jobs(list(program), machine, options)
    if isinstance(program, (str, os.PathLike)):
        program = load(path_text(program))
    if not isinstance(program, Program):
        program = compile(program, with_network(machine or "tpu-v3", network))
    target = program.machine if machine is None else Machine.load(machine)
    if target is None:
        raise user_error("the program does not say for which machine it is", suggestion="pass machine=...")
    own = program.machine if program.machine is not None and program.machine.name == target.name else target
    unread = has_profile(target) and not has_profile(own)
    target = lowered_as(target, "best" if unread else program.options.get("lowering"))
    return _simulate(program, target, options)


def _expected(simulated: int, whole: int) -> None:
    """Says before a long run what it will cost."""
    if simulated < SAID:
        return
    of = f" of {whole:,}, the others replayed from them" if simulated < whole else ", none of them replayed"
    seconds = simulated / RATE
    took = f"{seconds:.0f} seconds" if seconds < 600 else f"{seconds / 60:,.0f} minutes"
    logger.warning("%s tile operations are simulated%s: up to %s", f"{simulated:,}", of, took)


def _checked_memory(memory: str | None) -> None:
    if memory is not None and not (isinstance(memory, str) and memory in FIDELITIES):
        named = nearest(memory, FIDELITIES) if isinstance(memory, str) else ""
        allowed = ", ".join(FIDELITIES)
        raise user_error(
            "unknown memory fidelity", place="memory", value=shown(memory), allowed=allowed, suggestion=named
        )


def _for_another(error: Exception, program: Program, target: Machine) -> Exception:
    """A refusal of the engine, where the program was made for another machine."""
    parts = {key: str(getattr(error, key, "")) for key in ("what", "place", "value", "allowed")}
    own = program.machine.name if program.machine is not None else ""
    remedy = f"The program was compiled for {own}: compile the graph for {target.name}"
    return user_error(**parts, suggestion=remedy, sort=type(error))


def _simulate(program: Program, target: Machine, options: SimulateOptions) -> Result:
    _checked_memory(options.memory)
    by_itself = capacity_of(target) > 0 and target.get("memory.cache.managed") == "hardware"
    if isinstance(program, MixedProgram):
        if options.resident or by_itself:
            remedy = "set memory.cache.sets to 0" if by_itself else "leave out resident"
            raise unsupported("a cache where the host runs a part", place="memory.cache", suggestion=remedy)
        if options.placement:
            raise user_error("tensors cannot be placed where the host runs a part", place="placement")
        return _simulate_mixed(program, target, options)
    data_of = known_data(program, options.tensors, options.seed)
    names = list(
        residency(program, target, tensors=data_of.arrays) if options.resident == "auto" else _names(options.resident)
    )
    dram = _dram_part(target) if (options.memory or target.get("memory.kind")) == "bank" else None
    fabric = str(options.network or target.get("network.kind"))
    topology = topology_of(target, fabric)
    latencies = options.latencies
    elsewhere = program.machine is not None and program.machine.name != target.name
    books = latencies.books(target) if latencies is not None else {}
    cores = cores_of(program, target)
    places = {name: str(place) for name, place in options.placement.items()}

    parts: dict[str, Any] = {"dram": dram, "network": fabric, "topology": topology, "cores": cores}
    parts |= {"resident": names, "latencies": books.get(""), "placement": places}
    parts["kernels"], parts["live"] = latencies is not None and latencies.source == INSTRUCTION, options.level == "live"
    parts["sort_latencies"] = {sort: book for sort, book in books.items() if sort}
    parts["replay_beyond"] = LIMIT if options.replay else None
    parts["expected"] = _expected
    if (heard := counter("tile operations, at most")) is not None:
        parts["counted"] = heard
    try:
        found = _core.simulate(program.core, target.core, options.memory, options.timeline, data_of.arrays, **parts)
    except _core.UserError as error:
        raise _for_another(error, program, target) if elsewhere else error from None
    data = found.data()
    data["machine"] = target.label
    data_of.tell(data)
    data["approximations"] += _unlike(program, target, fabric)
    data["approximations"] += [*(program.graph.assumptions if program.graph is not None else []), *program.loops_said]
    if program.graph is not None and program.graph.setting:
        data["setting"] = program.graph.setting
    if latencies is not None:
        data["tile_latencies"] = counts = latencies.close_books(target, books)
        data["approximations"] += _looked_up(latencies, counts)
    if program.machine is not None:
        data["lowering"] = "native" if has_profile(program.machine) else "best"
    if program.graph is not None and (options.memory or target.get("memory.kind")) != "ideal":
        data_reads = bool(data.get("data_sources"))  # what timing read of lengths and pages, given or not
        known = attention_data(program.graph.core, data_of.arrays, usual=True) if data_reads else None
        # Simulated banks say themselves which part of their peak they reach.
        banks = options.memory == "bank" and target.get("memory.kind") != "bank"
        bound = bound_knowing(program.graph, target.replace({"memory.kind": "bank"}) if banks else target, known)
        data["bounds"] = bound.and_further(data_of.further_bytes(data["operations"])).data
    data["versions"] = {"tilesim": _core.__version__, "python": platform.python_version()}
    if named := said({**program.changed_options, **options.given()}):
        data["options"] = named
    data["approximations"] += [*left_open(target.to_dict()), *scale_sim_told(data, program.graph, target), *told(data)]
    return Result(data, Again(program, target, options, _simulate))


def _unlike(program: Program, target: Machine, fabric: str) -> list[str]:
    """Approximations of a program on a machine that it was not compiled for, or whose memory it exceeds."""
    said = []
    if program.machine is not None and program.machine.name != target.name:
        said.append(
            f"the program was compiled for {program.machine.name}: its tiles, layouts and units suit that machine; to "
            f"know {target.name}, compile for it"
        )
    if fabric != "simple" and program.sends and program.machine and program.machine.get("network.kind") == "simple":
        said.append(
            "the program was compiled for multicasts that pass the sender's port once; routers take one packet per "
            f"destination: compile for a machine with network.kind={fabric}"
        )
    if over := over_capacity(program, target):
        said.append(
            f"memory.capacity is not enforced: {over[0]} on {over[1]}; compile with capacity='error' to refuse it"
        )
    return said


def _looked_up(latencies: TileLatencies, counts: dict[str, Any]) -> list[str]:
    """Where tile computes take times from elsewhere than closed forms and kernels."""
    if latencies.source in (CLOSED_FORM, INSTRUCTION):
        return []
    looked = f"tile latencies: {counts['hits']} lookups from '{latencies.source}' in place of closed forms"
    lacking = f"; {counts['misses']} found nothing there: closed forms instead" if counts["misses"] else ""
    return [looked + lacking]


def _simulate_jobs(jobs: Sequence[Job], machine: MachineLike | None, options: SimulateOptions) -> Result:
    if not jobs or not all(isinstance(job, Job) for job in jobs):
        raise user_error("nothing to simulate", value=shown(jobs), allowed="a Graph, a Program, a list of ts.Job")
    if options.level == "instruction":
        raise unsupported("jobs at level instruction", place="level", suggestion="level='live' runs their kernels")
    if options.tensors or options.latencies is not None:
        raise user_error("of jobs each has its own", place="tensors, latencies", suggestion="Job(program, tensors=...)")
    if any(isinstance(job.program, MixedProgram) for job in jobs):
        raise user_error("a program with a part on the host cannot be one of several jobs")
    target = jobs[0].program.machine if machine is None else Machine.load(machine)
    if target is None:
        raise user_error("the program does not say for which machine it is", suggestion="pass machine=...")
    _checked_memory(options.memory)
    memory, fabric = options.memory, str(options.network or target.get("network.kind"))
    parts: dict[str, Any] = {"memory": memory, "network": fabric, "topology": topology_of(target, fabric)}
    parts["dram"] = _dram_part(target) if (memory or target.get("memory.kind")) == "bank" else None
    parts["live"] = options.level == "live"
    places = {name: str(place) for name, place in options.placement.items()}
    return simulate_jobs(jobs, target, parts, options.timeline, places)


def _simulate_mixed(program: MixedProgram, target: Machine, options: SimulateOptions) -> Result:
    given = data_of_parts(program, options.tensors)
    sources: dict[str, str] = {}

    def part_result(part: Turn) -> dict[str, Any]:
        assert part.program is not None
        own = given.of_part(part)
        data = _simulate(part.program, target, options.of_part(own)).data
        sources.update(given.told(data.get("data_sources", {})))
        return data

    data = simulate_parts(program, target, part_result, options.timeline)
    if sources:
        data["data_sources"] = sources
    data["approximations"] += [*(program.graph.assumptions if program.graph is not None else []), *program.loops_said]
    data["versions"] = {"tilesim": _core.__version__, "python": platform.python_version()}
    if named := said({**program.changed_options, **options.given()}):
        data["options"] = named
    data["approximations"] = [line for line in data["approximations"] if not line.startswith(LINE)]  # of parts
    data["approximations"] += told(data)
    return Result(data, Again(program, target, options, _simulate))


_OWN = ("args", "machine", "verify", "timeline", "memory", "network", "accuracy", "quantize", "batch", "context",
        "phase", "dtype")  # fmt: skip


@checked("memory")
def run(
    model: Any,
    args: Any = (),
    machine: MachineLike | Device = "tpu-v3",
    *,
    verify: bool = False,
    timeline: bool = False,
    memory: str | None = None,
    network: str | None = None,
    accuracy: bool | GraphLike = False,
    quantize: str | None = None,
    batch: int | None = None,
    context: int | None = None,
    phase: str | None = None,
    dtype: str | None = None,
    **options: Any,
) -> Result:
    """The first minute: compile and simulate with defaults.

    Args:
        model: a graph; a torch.nn.Module (then `args` are its arguments); a network's name, "matmul:M,N,K[,dtype]", or
            a file that `tilesim run` takes; a tile program by hand is simulated as it is, on the machine that it names.
        args: inputs for verification, on which loops that data end are counted, and from which `simulate` takes or
            computes what timing reads; none: random ones, and what is typical.
        machine: preset name, file, dict or Machine; or a device (`ts.machines()` lists both), which is estimated as
            `ts.estimate` does, and not simulated.
        verify: also execute and compare with the reference kernels.
        timeline: record intervals.
        memory: as for `simulate`.
        network: as for `simulate`; the program is compiled for it too.
        accuracy: `Result.accuracy` has the errors of a quantized graph against f32, as `ts.analytic.accuracy` finds
            them (True), or against this graph.
        quantize: "i8", "fp8" or "w4a16": products as `ts.quantize` makes them, with scales of 1; "bf16" or "f16": all
            floats in that dtype. With accuracy they are calibrated with the arguments or the random inputs, and
            accuracy=True is against the graph as given.
        batch: of a workload that is named: images, sequences or products; None: 1.
        context: of a network that reads text: tokens (`sequence` is another word for it); None: the network's own.
        phase: of a network that writes text: "prefill" or "decode".
        dtype: of a named network or product; None: its own.
        options: any other option of `compile` (mapping, fuse, contexts, fallback, place, ...) or of `simulate`
            (tensors, resident, placement, latencies, replay), by its name there; with a device of `estimate`.

    Returns:
        The result; with a device an `Estimate`.

    Raises:
        UserError: as `compile` and `simulate`; for an unknown machine or option, or one that an estimate does not take;
            also when verification fails.
    """
    if (by_hand := program_of(model)) is not None:
        compiled, simulated = divided(options, CompileOptions, SimulateOptions)
        other = {"verify": verify, "accuracy": accuracy, "quantize": quantize, "args": args}
        own = machine_of(by_hand, machine, {**compiled, **other})
        return simulate(by_hand, own, memory=memory, network=network, timeline=timeline, **simulated)
    if isinstance(args, str) and (args in Machine.names() or args in Device.names()):
        remedy = f'ts.run({model!r}, machine="{args}")' if isinstance(model, str) else f'Give it as machine="{args}"'
        what = "the second argument of run has the model's inputs"
        raise user_error(what, place="run: args", value=f"'{args}'", suggestion=remedy)
    target = load_target(machine)
    sizes = Sizes.of(batch, context, options.pop("sequence", None), phase, dtype)
    compiled, simulated = (
        ({}, {}) if isinstance(target, Device) else divided(options, CompileOptions, SimulateOptions, own=_OWN)
    )
    graph = as_graph(model, args, sizes)
    if isinstance(target, Device):
        asked: dict[str, Any] = {"verify": verify, "timeline": timeline, "memory": memory}
        asked |= {"network": network, "accuracy": accuracy}
        asked = {name: value for name, value in asked.items() if value}
        return estimated(graph, target, asked, options, (CompileOptions, SimulateOptions), quantize)
    if quantize is not None:
        calibrate = None if accuracy is False else sample(graph, args or None)
        accuracy, graph = graph if accuracy is True else accuracy, quantized(graph, quantize, calibrate)
    given = args is not None and not (isinstance(args, (tuple, list, dict)) and not args)
    counts = given and "trips" not in compiled and open_loops(graph)
    if counts:
        compiled["trips"] = measured(graph, inputs_of(graph, args, 0))
    program = compile(graph, with_network(target, network), **compiled)
    program.trips_counted = bool(counts)
    if verify:
        outcome = verify_program(program, args or None)
        if not outcome.ok:
            raise user_error(f"the tiled program differs from the reference:\n{outcome}")
    wanted = given and (program.reads_tensors or not is_module(model))  # a module's arguments are its graph's inputs
    own = opened(simulated.pop("tensors", None) or {})
    data = {**_data_of(program, graph, args), **own} if wanted else own
    result = simulate(program, memory=memory, network=network, timeline=timeline, tensors=data, **simulated)
    if accuracy is not False:
        errors = accuracy_of(program, None if accuracy is True else accuracy, args if given else None)
        result.data["accuracy"] = errors.data
    return result


def _data_of(program: Program, graph: Graph, args: Any) -> dict[str, Any]:
    """Inputs by name, where timing reads anything; their shapes are checked anyway."""
    data: dict[str, Any] = {}
    for row, array in zip(graph.core.inputs, inputs_of(graph, args, 0), strict=True):
        shape = list(getattr(array, "shape", ()))
        if shape != list(row["shape"]):
            allowed = f"{row['dtype']}{list(row['shape'])}"
            raise user_error("an input has another shape", place=row["name"], value=str(shape), allowed=allowed)
        data[row["name"]] = array
    return data if program.reads_tensors else {}
