"""Loads the workload and the target of a command by its options, and writes JSON."""

from __future__ import annotations

import json
import sys
from typing import Any

from ..base.errors import user_error
from ..base.files import writing
from ..graph import Graph
from ..loading import load, load_graph
from ..machine.device import Device
from ..machine.machine import Machine
from ..machine.target import load as load_target
from ..program.program import Program
from ..timing.estimated import only_simulated
from ..timing.options import CompileOptions, WorkloadOptions
from ..timing.quantize import quantize
from ..timing.simulate import compile
from .options import Target

__all__ = ["compiled", "graph_of", "load_graph", "machine_of", "narrowed", "read", "target_of", "write"]

MACHINE = "tpu-v3"  # the default machine


def _sizes(work: WorkloadOptions) -> dict[str, Any]:
    return {name: value for name, value in work.given().items() if name != "quantize"}


def read(model: str, work: WorkloadOptions) -> Graph | Program:
    """Loads the workload without quantizing it."""
    return load(model, **_sizes(work))


def narrowed(loaded: Graph | Program, work: WorkloadOptions, calibrate: Any = None) -> Graph | Program:
    """Returns the workload, quantized if `--quantize` asks for it."""
    return loaded if work.quantize is None else quantize(loaded, work.quantize, calibrate)


def graph_of(model: str, work: WorkloadOptions) -> Graph:
    """Loads the workload as a graph, quantized if `--quantize` asks for it."""
    found = load_graph(model, **_sizes(work))
    return found if work.quantize is None else quantize(found, work.quantize)


def target_of(
    on: Target, loaded: Graph | Program | None = None, network: str | None = None, labels: bool = False
) -> Machine | Device:
    """Loads the named machine or device and applies --set; by default, the machine of a compiled program."""
    own = loaded.machine if isinstance(loaded, Program) else None
    found = load_target(on.machine or own or MACHINE, labels)
    if isinstance(found, Device):
        if on.set:
            raise only_simulated(found, ["--set"])
        return found
    wires = {"network.kind": network} if network and isinstance(loaded, Graph) else {}
    return found.replace({**on.set, **wires}) if on.set or wires else found


def machine_of(on: Target, loaded: Graph | Program | None = None, network: str | None = None) -> Machine:
    """Loads the named machine and applies --set; a device is an error."""
    found = target_of(on, loaded, network)
    return Machine.load(str(on.machine)) if isinstance(found, Device) else found


def compiled(loaded: Graph | Program, target: Machine, compiling: CompileOptions, **changed: Any) -> Program:
    """Compiles a graph; returns a program unchanged and rejects compiler options for it."""
    if isinstance(loaded, Graph):
        return compile(loaded, target, **{**compiling.given(), **changed})
    if compiling.asked:
        raise user_error(
            "options of the compiler do not apply to a compiled program",
            place=", ".join(compiling.asked),
            allowed="these options with a graph",
        )
    return loaded


def write(data: Any, target: str) -> None:
    """Writes JSON to a path, or to standard output for "-"."""
    text = json.dumps(data, indent=1)
    if target == "-":
        if sys.stdout is None:
            raise user_error("standard output is closed", value="-", allowed="a path")
        sys.stdout.write(text + "\n")
        return
    with writing(target) as file:
        file.write(text + "\n")
