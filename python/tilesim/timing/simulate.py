"""The main calls: compile, simulate, run."""

from __future__ import annotations

import logging
import os
import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from .. import _core
from ..analytic.lower_bound import bound_knowing
from ..base.arguments import integer
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
from ..program.data_sources import data_of_parts, opened, tensors_that_timing_reads
from ..program.footprint import over_capacity
from ..program.jobs import Job, cores_of, simulate_jobs
from ..program.mixed import MixedProgram, Turn
from ..program.program import Program
from ..results.checks import LINE, check_note
from ..results.result import Result
from .accuracy import accuracy as accuracy_of
from .estimated import estimated
from .execution import inputs_of
from .execution import verify as verify_program
from .latencies import CLOSED_FORM, INSTRUCTION, TileLatencies
from .level import kernel_latencies
from .manual_programs import machine_of, program_of
from .mixed_run import simulate_parts
from .options import CompileOptions, SimulateOptions, by_call, options_text
from .quantize import quantize as quantized
from .quantize import sample
from .rerun import Rerun
from .residency import capacity_of, residency
from .scale_sim import scale_sim_note

__all__ = ["compile", "run", "simulate"]

FIDELITIES = ("ideal", "simple", "bank")
logger = logging.getLogger("tilesim")

LIMIT = 4_000_000  # programs with more tile operations, on all cores together, replay steady loops
WARNED_FROM = 40_000_000  # programs with more tile operations log a warning
UNBOUNDED = 9 * 10**18  # number of tile operations of a program with data-dependent loops
RATE = 5_000_000  # cautious estimate of simulated tile operations per second


def with_network(machine: MachineLike, network: str | None) -> Machine:
    """Returns the machine with the requested network between cores."""
    target = Machine.load(machine)
    return target if network is None else target.replace({"network.kind": network})


def _names(resident: Iterable[str] | str) -> list[str]:
    if not is_iterable(resident):
        raise user_error(
            "resident tensors must be a list of names", value=shown(resident), allowed='["w", ...], "auto"'
        )
    return list(resident)


def _dram_part(machine: Machine) -> _core.DramPart:
    name = machine.get("memory.part")
    if not name:
        allowed = ", ".join(Part.names())
        raise user_error("bank memory needs a DRAM part", place="memory.part", allowed=allowed)
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
    """Simulates the time of a program.

    Args:
        program: a compiled program (a graph or a workload's name is compiled first), or several jobs on one chip: jobs
            on different cores share network and memory, jobs on the same core run in turn.
        machine: default: the program's machine.
        memory: "ideal" (only a core's DMA port limits traffic), "simple", or "bank" (DRAM channels of the machine's
            memory.part); default: the machine's.
        network: "simple" (latency, port bandwidth, finite buffers), or every flit in every router of "crossbar",
            "mesh", "torus", "ring", "tree", "cmesh" (sized for the machine), a name with sizes ("mesh_4x8") or a .json
            file; default: the machine's.
        timeline: whether to record intervals for `Result.timeline`.
        tensors: arrays by name, of the program's tensors or values of its graph (group sizes, counts, token ids, page
            tables), for loop bounds, addresses and gathered rows; others are computed from them by the reference
            kernels. A .npz file must have every array that timing reads. Instead of an array, a distribution:
            "uniform", "balanced", or "zipf:s" (index i from 0 on, with weight 1 / (i + 1)^s), for a tensor by name,
            for all rows per group as "counts", for all indices of tables and pages as "indices". Defaults: zeros for
            inputs, evenly spread rows of experts, consecutive gathered rows. `Result.data_sources` has the source of
            each tensor.
        seed: seed of the distributions.
        replay: for programs beyond 4,000,000 tile operations (all cores together), simulate a few trips of steady loops
            and extrapolate; with banks, also equal layers beyond 1 GiB of tensors. The result notes it. Never with a
            timeline. The logger "tilesim" warns before more than 40,000,000 operations.
        placement: memory regions of tensors by name, for machines with several: "interleaved", "local" (each page in
            the region of the core that touches it first) or a region's number; default: memory.placement.
        latencies: tile latencies, used before the closed forms; `result.data["tile_latencies"]` counts hits. A
            store of source "instruction" simulates missing kernels, as level "instruction" does.
        resident: names of the program's tensors that use the machine's cache (settings memory.cache.*); others
            bypass it; "auto": as `ts.mapping.residency` proposes. Default: a hardware-managed cache keeps recent data,
            and a software-managed cache stays empty.
        level: "tile": closed forms; "instruction": kernels on the machine's core, once per distinct operation, cached
            in `latencies` (of source "instruction"; default: in memory for this process); "live": concurrent kernels in
            the engine, which share a core's pipes and scratchpad ports. Operations without a kernel keep their closed
            form, as the result notes.

    Returns:
        The result.

    Raises:
        UserError: for an unknown fidelity or a program without a machine; for unknown resident tensors, or ones beyond
            the cache; for unknown tensors, a file without required arrays, an unknown distribution, or an index out
            of range.
    """
    automatic = isinstance(resident, str) and resident == "auto"
    names = "auto" if automatic else tuple(_names(resident))
    options = SimulateOptions(
        memory,
        network,
        timeline,
        opened(tensors or {}),
        integer("seed", seed, 0),
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
        raise user_error("the program has no machine", suggestion="Add machine=...")
    own = program.machine if program.machine is not None and program.machine.name == target.name else target
    unread = has_profile(target) and not has_profile(own)
    target = lowered_as(target, "best" if unread else program.options.get("lowering"))
    return _simulate(program, target, options)


def _expected(simulated: int, whole: int) -> None:
    """Logs a warning before a long run."""
    if simulated < WARNED_FROM or simulated >= UNBOUNDED:
        return
    of = f" of {whole:,}, the others are extrapolated" if simulated < whole else ", without extrapolation"
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
    """Explains an engine error about a program that was compiled for another machine."""
    parts = {key: str(getattr(error, key, "")) for key in ("what", "place", "value", "allowed")}
    own = program.machine.name if program.machine is not None else ""
    remedy = f"The program was compiled for {own}. Compile the graph for {target.name}"
    return user_error(**parts, suggestion=remedy, sort=type(error))


def _simulate(program: Program, target: Machine, options: SimulateOptions) -> Result:
    _checked_memory(options.memory)
    by_itself = capacity_of(target) > 0 and target.get("memory.cache.managed") == "hardware"
    if isinstance(program, MixedProgram):
        if options.resident or by_itself:
            remedy = "Set memory.cache.sets to 0" if by_itself else "Leave out resident"
            raise unsupported("a cache is not supported with a host part", place="memory.cache", suggestion=remedy)
        if options.placement:
            raise user_error("placement is not supported with a host part", place="placement")
        return _simulate_mixed(program, target, options)
    data_of = tensors_that_timing_reads(program, options.tensors, options.seed)
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
        data_reads = bool(data.get("data_sources"))  # whether timing reads lengths or pages
        known = attention_data(program.graph.core, data_of.arrays, usual=True) if data_reads else None
        # Banks determine the attainable bandwidth.
        banks = options.memory == "bank" and target.get("memory.kind") != "bank"
        bound = bound_knowing(program.graph, target.replace({"memory.kind": "bank"}) if banks else target, known)
        data["bounds"] = bound.and_further(data_of.further_bytes(data["operations"])).data
    data["versions"] = {"tilesim": _core.__version__, "python": platform.python_version()}
    if named := options_text({**program.changed_options, **options.given()}):
        data["options"] = named
    data["approximations"] += [*left_open(target.to_dict()), *scale_sim_note(data, program.graph, target)]
    data["approximations"] += check_note(data)
    return Result(data, Rerun(program, target, options, _simulate))


def _unlike(program: Program, target: Machine, fabric: str) -> list[str]:
    """Lists approximations for a program on another machine, or beyond the memory capacity."""
    said = []
    if program.machine is not None and program.machine.name != target.name:
        said.append(
            f"the program was compiled for {program.machine.name} with its tiles, layouts and units; compile it for "
            f"{target.name} for a fair comparison"
        )
    if fabric != "simple" and program.sends and program.machine and program.machine.get("network.kind") == "simple":
        said.append(
            "the program uses multicasts through the sender's port; routers take one packet per destination: "
            f"compile for a machine with network.kind={fabric}"
        )
    if over := over_capacity(program, target):
        said.append(
            f"memory.capacity is not enforced: {over[0]} on {over[1]}; compile with capacity='error' to enforce it"
        )
    return said


def _looked_up(latencies: TileLatencies, counts: dict[str, Any]) -> list[str]:
    """Notes the use of custom tile latencies."""
    if latencies.source in (CLOSED_FORM, INSTRUCTION):
        return []
    looked = f"tile latencies: {counts['hits']} lookups from '{latencies.source}' in place of closed forms"
    lacking = f"; {counts['misses']} misses used closed forms" if counts["misses"] else ""
    return [looked + lacking]


def _simulate_jobs(jobs: Sequence[Job], machine: MachineLike | None, options: SimulateOptions) -> Result:
    if not jobs or not all(isinstance(job, Job) for job in jobs):
        raise user_error("not a list of jobs", value=shown(jobs), allowed="a Graph, a Program, a list of ts.Job")
    if options.level == "instruction":
        raise unsupported(
            "jobs are not supported at level instruction", place="level", suggestion="level='live' runs their kernels"
        )
    if options.tensors or options.latencies is not None:
        raise user_error(
            "the option belongs to each job", place="tensors, latencies", suggestion="Use Job(program, tensors=...)"
        )
    if any(isinstance(job.program, MixedProgram) for job in jobs):
        raise user_error("a program with a host part cannot be one of several jobs")
    target = jobs[0].program.machine if machine is None else Machine.load(machine)
    if target is None:
        raise user_error("the program has no machine", suggestion="Add machine=...")
    names = dict.fromkeys(job.program.machine.name for job in jobs if job.program.machine is not None)
    if machine is None and len(names) > 1:
        remedy = "Compile all for one machine, or name it: ts.simulate(jobs, machine=...)"
        raise user_error("the jobs' programs are compiled for different machines", value=", ".join(names),
                         suggestion=remedy)  # fmt: skip
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
        sources.update(given.sources(data.get("data_sources", {})))
        return data

    data = simulate_parts(program, target, part_result, options.timeline)
    if sources:
        data["data_sources"] = sources
    data["approximations"] += [*(program.graph.assumptions if program.graph is not None else []), *program.loops_said]
    data["versions"] = {"tilesim": _core.__version__, "python": platform.python_version()}
    if named := options_text({**program.changed_options, **options.given()}):
        data["options"] = named
    data["approximations"] = [line for line in data["approximations"] if not line.startswith(LINE)]  # of parts
    data["approximations"] += check_note(data)
    return Result(data, Rerun(program, target, options, _simulate))


_RUN_NAMES = ("args", "machine", "verify", "timeline", "memory", "network", "accuracy", "quantize", "batch", "context",
        "phase", "dtype", "passes")  # fmt: skip


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
    passes: str | Sequence[str] | None = None,
    **options: Any,
) -> Result:
    """Compiles and simulates a model with defaults.

    Args:
        model: a graph; a torch.nn.Module (then `args` are its arguments); a network's name, "matmul:M,N,K[,dtype]", or
            a file as for `tilesim run`; a hand-written tile program runs unchanged on its machine.
        args: inputs for verification, trip counts of data-dependent loops and values that timing reads; default: random
            inputs and typical values.
        machine: preset name, file, dict or Machine; or a device (`ts.machines()` lists both), which is estimated by
            `ts.estimate`.
        verify: whether to execute too and compare with the reference kernels.
        timeline: whether to record intervals.
        memory: as for `simulate`.
        network: as for `simulate`, and for compilation.
        accuracy: store errors of a quantized graph in `Result.accuracy`, against f32 (True) or against this graph, by
            `ts.analytic.accuracy`.
        quantize: "i8", "fp8" or "w4a16" as in `ts.quantize`, with scales of 1; "bf16" or "f16": all floats in that
            dtype. With accuracy, the arguments or random inputs calibrate the scales, and accuracy=True compares with
            the given graph.
        batch: size of a named workload: images, sequences or products; default: 1.
        context: tokens of a language model (alias `sequence`); default: the network's own.
        phase: phase of a generative language model: "prefill" or "decode".
        dtype: data type of a named network or product; default: as published.
        passes: patterns to recognise in the model, as for `ts.optimize`; default: "all" for imported models.
        options: other options of `compile` (mapping, fuse, contexts, fallback, place, ...) or `simulate` (tensors,
            resident, placement, latencies, replay); for a device, of `estimate`.

    Returns:
        The result; for a device an `Estimate`.

    Raises:
        UserError: as `compile` and `simulate`; for an unknown machine or option; when verification fails.
    """
    if (by_hand := program_of(model)) is not None:
        compiled, simulated = by_call(options, CompileOptions, SimulateOptions)
        other = {"verify": verify, "accuracy": accuracy, "quantize": quantize, "args": args, "passes": passes}
        own = machine_of(by_hand, machine, {**compiled, **other})
        return simulate(by_hand, own, memory=memory, network=network, timeline=timeline, **simulated)
    if isinstance(args, str) and (args in Machine.names() or args in Device.names()):
        remedy = f'ts.run({model!r}, machine="{args}")' if isinstance(model, str) else f'Give it as machine="{args}"'
        what = "the second argument of run has the model's inputs"
        raise user_error(what, place="run: args", value=f"'{args}'", suggestion=remedy)
    target = load_target(machine)
    sizes = Sizes.of(batch, context, options.pop("sequence", None), phase, dtype)
    compiled, simulated = (
        ({}, {}) if isinstance(target, Device) else by_call(options, CompileOptions, SimulateOptions, own=_RUN_NAMES)
    )
    graph = as_graph(model, args, sizes, passes)
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
    """Returns, by name, the inputs on which timing depends; checks the shapes of all inputs."""
    data: dict[str, Any] = {}
    for row, array in zip(graph.core.inputs, inputs_of(graph, args, 0), strict=True):
        shape = list(getattr(array, "shape", ()))
        if shape != list(row["shape"]):
            allowed = f"{row['dtype']}{list(row['shape'])}"
            raise user_error("an input has a wrong shape", place=row["name"], value=str(shape), allowed=allowed)
        data[row["name"]] = array
    return data if program.reads_tensors else {}
