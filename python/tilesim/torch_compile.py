"""The backend of `torch.compile`: it runs every captured graph as a tiled program and records a Result.

    y = torch.compile(model, backend="tilesim", options={"machine": "tpu-v3"})(x)
    tilesim.frontends.torch_backend.results()

If torch records gradients, a captured graph gives two: the forward pass, and at its first call the backward pass.

Options: `machine` (preset, file, dict or Machine), `fallback` ("error"; "reference": graphs that the machine cannot run
run in the reference kernels without a Result), `numerics` ("exact": products in the operands' dtype;
"machine": products rounded as on the machine).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from ._core import Unsupported
from .base.errors import unknown, user_error
from .base.locks import Lock
from .frontends.torch.frontend import export, read
from .frontends.torch.training import training, trains
from .graph.torch_arrays import elements_of, to_torch
from .machine.machine import Machine
from .program.program import Program
from .results.result import Result
from .timing import execution
from .timing import simulate as api

__all__ = ["CompiledGraph", "backend", "records", "register", "report", "reset", "results"]

logger = logging.getLogger("tilesim.torch")

_OPTIONS = {"machine": "tpu-v3", "fallback": "error", "numerics": "exact"}
_records: list[CompiledGraph] = []
_recording = Lock()  # guards the records and the call counts


class CompiledGraph:
    """One graph that torch.compile captured, for inputs of one shape."""

    def __init__(self, module: Any, inputs: Sequence[Any], options: Mapping[str, Any], name: str) -> None:
        """Imports, compiles and simulates."""
        self.name, self.calls, self.reason = name, 0, ""
        self.result: Result | None = None
        self._program: Program | None = None
        self._stored = {i: value for i, value in enumerate(inputs) if isinstance(value, torch.nn.Parameter)}
        self._free = [i for i, value in enumerate(inputs) if isinstance(value, torch.Tensor) and i not in self._stored]
        self._versions = [value._version for value in self._stored.values()]
        bound = _Bound(module, inputs, self._stored, self._free)
        exported = export(bound, tuple(inputs[i].detach() for i in self._free))
        self.graph, importer = read(exported, name)
        self._names = [spec.arg.name for spec in exported.graph_signature.input_specs if spec.kind.name == "USER_INPUT"]
        self._returned, self._changed = importer.returned, importer.changed
        self._compile(Machine.load(options["machine"]), options)

    def _compile(self, machine: Machine, options: Mapping[str, Any]) -> None:
        exact = options["numerics"] == "exact" and machine.core.multiply is not None
        runs_on = machine.replace({"core.array.multiply": "as stored"}) if exact else machine
        try:
            self._program = api.compile(self.graph, runs_on)
            self.result = api.simulate(api.compile(self.graph, machine) if exact else self._program)
        except Unsupported as error:
            if options["fallback"] != "reference":
                raise
            self._program, self.result, self.reason = None, None, str(error)
            logger.warning("graph %s runs on the reference kernels and has no Result: %s", self.name, error)

    def __repr__(self) -> str:
        """Name, cycles or reason for no Result, and number of calls."""
        cycles = f"{self.result.cycles:,} cycles" if self.result is not None else f"no Result: {self.reason}"
        return f"<CompiledGraph {self.name}: {cycles}, {self.calls} calls>"

    def __call__(self, *args: Any) -> tuple[Any, ...]:
        """Runs the tiled program."""
        with _recording:
            self.calls += 1
            versions = [value._version for value in self._stored.values()]
            if versions != self._versions and self._program is not None:
                self._program.forget_weights()
                self._versions = versions
        inputs = {name: elements_of(args[i]) for name, i in zip(self._names, self._free, strict=True)}
        program = self._program
        outputs = execution.reference(self.graph, inputs) if program is None else execution.execute(program, inputs)
        places = dict(zip(self._names, self._free, strict=True))
        for output, name in self._changed:
            if name not in places:
                raise user_error("a captured graph changes state outside its inputs", place=name)
            args[places[name]].copy_(to_torch(outputs[output]))
        return tuple(to_torch(outputs[name]) if name else value for name, value in self._returned)


class _Bound(torch.nn.Module):
    """A captured graph with fixed parameters and numbers; the remaining tensors are its arguments."""

    def __init__(self, graph: Any, inputs: Sequence[Any], stored: Mapping[int, Any], free: Sequence[int]) -> None:
        super().__init__()
        self.graph, self._inputs, self._free = graph, list(inputs), list(free)
        holders = [node.name for node in graph.graph.nodes if node.op == "placeholder"]
        self._places = {}
        for index, value in stored.items():
            name = holders[index].removeprefix("l_self_modules_").strip("_").replace("_parameters_", "_")
            self._places[index] = name
            self.register_parameter(name, value)

    def forward(self, *tensors: Any) -> Any:
        args = list(self._inputs)
        for index, name in self._places.items():
            args[index] = getattr(self, name)
        for index, value in zip(self._free, tensors, strict=True):
            args[index] = value
        return self.graph(*args)


class _Runner:
    """Replaces the captured graph: one CompiledGraph per set of input shapes."""

    def __init__(self, module: Any, options: Mapping[str, Any]) -> None:
        self.module, self.options = module, options
        self.compiled: dict[Any, CompiledGraph] = {}
        self._compiling = Lock()
        self.name = f"graph{len({id(record) for record in records()})}"

    def __call__(self, *args: Any) -> Any:
        key = tuple(map(_key, args))
        with self._compiling:  # compiles each set of shapes once, in whichever thread
            known = self.compiled.get(key)
            if known is None:
                name = self.name + (f".{len(self.compiled)}" if self.compiled else "")
                known = self.compiled[key] = CompiledGraph(self.module, args, self.options, name)
                with _recording:
                    _records.append(known)
        return known(*args)


def _key(value: Any) -> Any:
    if isinstance(value, torch.nn.Parameter):
        return value.data_ptr()
    if isinstance(value, torch.Tensor):
        return value.shape, value.dtype
    return value


def backend(
    module: Any, inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None, **_: Any
) -> Callable[..., Any]:
    """Entry point of torch.compile(model, backend="tilesim")."""
    chosen = {**_OPTIONS, **(options or {})}
    for name, value in chosen.items():
        if name not in _OPTIONS:
            raise unknown("option of backend tilesim", name, _OPTIONS)
        allowed = {"fallback": ("error", "reference"), "numerics": ("exact", "machine")}.get(name)
        if allowed and value not in allowed:
            raise user_error(f"unknown {name} of backend tilesim", value=f"'{value}'", allowed=", ".join(allowed))
    if trains(inputs):
        return training(module, inputs, lambda graph: _Runner(graph, chosen))
    return _Runner(module, chosen)


def register() -> None:
    """Registers backend="tilesim" unless the installed package's entry point has registered it."""
    if "tilesim" not in torch._dynamo.list_backends(exclude_tags=()):
        torch._dynamo.register_backend(backend, name="tilesim")


def records() -> list[CompiledGraph]:
    """Returns all graphs compiled since `reset`."""
    with _recording:
        return list(_records)


def results() -> list[Result]:
    """Returns the Results of the graphs compiled since `reset`."""
    return [record.result for record in records() if record.result is not None]


def report() -> dict[str, Any]:
    """Counts captured graphs, their calls, fallbacks and graph breaks since `reset`."""
    counters = torch._dynamo.utils.counters
    breaks = {str(reason): int(count) for reason, count in counters["graph_break"].items()}
    for reason, count in counters["unimplemented"].items():  # torch counts recompile limits only here
        if "limit" in str(reason).splitlines()[0]:
            breaks[str(reason)] = int(count)
            logger.warning("torch runs eagerly from now on: %s", " ".join(str(reason).splitlines()[:2]))
    frames = {name: int(counters["frames"][key]) for name, key in (("seen", "total"), ("captured", "ok"))}
    rows = [
        {
            "graph": record.name,
            "calls": record.calls,
            "cycles": record.result.cycles if record.result is not None else None,
            "reason": record.reason,
        }
        for record in records()
    ]
    if not rows:
        logger.warning("no call has reached backend tilesim")
    missed = bool(breaks) or not rows or frames["captured"] < frames["seen"]
    return {"graphs": rows, "graph_breaks": breaks, "frames": frames, "uncaptured": missed}


def reset() -> None:
    """Deletes all records and resets torch's counters of graph breaks."""
    with _recording:
        _records.clear()
    torch._dynamo.utils.counters.clear()
