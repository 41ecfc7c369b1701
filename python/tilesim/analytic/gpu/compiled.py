"""Prices a graph's kernels under a GPU framework, including waits for the launching host."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from ... import _core
from ...base.errors import user_error
from ...graph import Graph
from ...machine.device import Device
from ..constants import standard
from ..families import Entry
from ..gemm import estimator, find_entry
from ..operations import Cost, Costs, inlined, rows_of
from ..profile import Profile
from ..schemes import Scheme
from ..vector import CONSTANTS as STREAM
from ..vector import stream_model
from . import serving
from .groups import KernelGroup
from .kernels import COMPILERS, Kernel, check_compiler, kernels, kernels_of

__all__ = ["CONSTANTS", "CompiledKernels", "Priced", "count", "network_constants", "price_kernels"]

#: Constants of complete models in addition to the kernel models; each depends on the hardware or the library.
CONSTANTS: dict[str, dict[str, float | str]] = {
    "efficiency": {
        "default": 1.0,
        "low": 0.01,
        "high": 1.0,
        "unit": "share of the peak rate of f32 products within a tile (600 fp32 rows of NeuSight-linear, T4)",
    },
    "energy": {"default": 15.0, "low": 1e-3, "high": 1e4, "unit": "picojoules per f32 operation, of the whole board"},
    "memory_share": {"default": 0.85, "low": 0.05, "high": 0.97, "unit": "share of the memory's rate in streams"},
    "bias_share": {
        "default": 1.0, "low": 0.1, "high": 1.0,
        "unit": "rate of f32 products that add a bias to rows of a Linear's weights, over plain ones",
    },
    "ramp": {"default": 2e-6, "low": 0.0, "high": 1e-3, "unit": "s between two kernels of a stream"},
    "wave_smoothing": {
        "default": 0.9894, "low": 0.0, "high": 1.0,
        "unit": "1: the last wave of a product's tiles costs its share (600 fp32 rows of NeuSight-linear, T4)",
    },
    "epilogue": {
        "default": 1633.0, "low": 0.0, "high": 6e4,
        "unit": "cycles of prologue and epilogue of a tile (600 fp32 rows of NeuSight-linear, T4)",
    },
    "row": {"default": 80.0, "low": 0.0, "high": 1e5, "unit": "cycles per row and unit of a reduction"},
}  # fmt: skip
# Host seconds per launch: by a framework's operator, by generated code, by a replayed list of kernels.
# They are assumed from microbenchmarks, because measurements of long kernels do not determine them.
DISPATCH = {"eager": 8e-6, "torch": 4e-6, "xla": 2e-6}


@dataclass
class CompiledKernels:
    """A graph's kernels under a compiler, and the graph with inlined calls, whose operations the kernels index."""

    core: _core.Graph
    kernels: list[Kernel]
    compiler: str
    groups: list[KernelGroup] = field(default_factory=list)  # one group per kernel; filled for serving engines


@dataclass
class Priced:
    """Kernels in execution order with their costs, and the model's assumptions."""

    kernels: list[Kernel]
    costs: list[Cost]
    notes: list[str]
    stream: Callable[[Kernel], float]  # seconds of a non-library kernel on the same device


def network_constants(device: Device, profile: Profile | None = None) -> tuple[Entry, str]:
    """Returns the constants of complete models on a device, and their origin."""
    found, origin = find_entry("network", device, ["fp32"], "torch", profile=profile)
    known = {name: float(info["default"]) for name, info in CONSTANTS.items()}
    if found is None:
        return Entry("network", "fp32", "torch", constants=known), "defaults"
    return replace(found, constants={**known, **found.constants}), origin


class NetworkCosts(Costs):
    """Prices library calls within a model, which run back to back and reach the power limit."""

    def __init__(
        self, device: Device, scheme: str | None, engine: str, profile: Profile | None, constants: dict[str, float]
    ) -> None:
        """Stores the constants of networks."""
        super().__init__(device, scheme, engine, profile)
        self.constants = constants

    def _give_product(self, form: str, dtype: str, how: Scheme) -> None:
        if how.arithmetic != "f32":
            return super()._give_product(form, dtype, how)
        at = self.constants
        found = replace(estimator(self.device, how, engine=self.engine, profile=self.profile), calls=1e6)
        launch = at["ramp"] * self.device.clock_hz
        own = {name: at[name] for name in ("efficiency", "energy", "wave_smoothing", "epilogue")}
        own.update(launch=launch, vector_launch=launch)
        model = found.core({**standard(self.device, how), **own})
        rate = self.device.rate(how.arithmetic).flops_per_second
        self.model.give_product(form, dtype, model, how.name, "", rate)


def count(graph: Graph, compiler: str, tpu: bool = False) -> CompiledKernels:
    """Returns the kernels of a graph, for `price_kernels` to price on any device."""
    check_compiler(compiler)
    core = inlined(graph)
    if compiler == serving.FRAMEWORK:
        nodes, kept = serving.engine_nodes(list(core.operations()), core)
        groups = serving.grouped(nodes)
        return CompiledKernels(core, kernels_of(groups, nodes, kept), compiler, groups)
    outputs = [value["name"] for value in core.outputs]
    return CompiledKernels(core, kernels(list(core.operations()), outputs, compiler, tpu), compiler)


def price_kernels(
    counted: CompiledKernels,
    device: Device,
    *,
    scheme: str | None = None,
    engine: str = "",
    profile: Profile | None = None,
    constants: Mapping[str, float] | None = None,
) -> Priced:
    """Prices the kernels of a graph on a GPU, one after another."""
    compiler = counted.compiler
    if compiler == serving.FRAMEWORK and device.kind in ("gpu", "tpu"):
        prices = Costs(device, scheme, engine, profile)
        rows, notes = serving.priced(counted.groups, counted.kernels, counted.core, prices)
        return Priced(counted.kernels, rows, sorted([*notes, COMPILERS[compiler]]), lambda kernel: 0.0)
    if device.kind != "gpu":
        raise user_error(
            "the model of compilers covers GPUs only",
            place="compiler",
            value=f"'{compiler}' on {device.name}",
            allowed="a GPU",
            suggestion="Leave the compiler out for other devices",
        )
    entry, origin = network_constants(device, profile)
    at = {**entry.constants, **(constants or {})}
    found, notes = NetworkCosts(device, scheme, engine, profile, at).price(counted.core)
    calls = rows_of(found)
    pricer = _Pricer(device, at, compiler)
    costs = [pricer.price(kernel, calls) for kernel in counted.kernels]
    dropped = ("elementwise operations behind", "views and constants are assumed free")
    said = [note for note in notes if not note.startswith(dropped)]
    said += [
        COMPILERS[compiler],
        f"networks: constants of {origin} ({', '.join(f'{name} {at[name]:.4g}' for name in CONSTANTS)})",
        f"the host takes {DISPATCH[compiler] * 1e6:g} us per launch, overlapped with the device",
        "attention is one kernel where the graph has it as an operation, else its products and softmax are kernels",
    ]
    return Priced(counted.kernels, costs, sorted(said), lambda kernel: pricer.loop(kernel).seconds)


class _Pricer:
    """Prices consecutive kernels; the device waits if the host launches more slowly than it runs them."""

    def __init__(self, device: Device, constants: dict[str, float], compiler: str) -> None:
        self.at, self.dispatch = constants, DISPATCH[compiler]
        self.host = self.device = 0.0
        stream = {name: float(info["default"]) for name, info in STREAM.items()}
        stream.update(
            launch=constants["ramp"], memory_share=constants["memory_share"], row=constants["row"] / device.clock_hz
        )
        self.stream = stream_model(device, device.vector_rate("f32"), stream)
        self.cache, self.shared = stream, float(device.shared.bytes)
        far = device.memory.bytes_per_second * stream["memory_share"]
        self.nearer = max(0.0, 1 - far / (device.shared.bytes_per_second * stream["cache_share"]))

    def price(self, kernel: Kernel, calls: list[Cost]) -> Cost:
        """Returns the cost of the next kernel, including the wait for its launch."""
        cost = self._library(kernel, calls[kernel.call]) if kernel.call >= 0 else self.loop(kernel)
        self.host += self.dispatch * kernel.launches
        wait = max(0.0, self.host - self.device)
        self.device = max(self.host, self.device) + cost.seconds
        if wait > 0:
            cost.terms["host"] = wait
            cost.seconds += wait
        return cost

    def loop(self, kernel: Kernel) -> Cost:
        """Returns the cost of a non-library kernel."""
        bytes_ = kernel.bytes - sum(moved * self._found(whole) for moved, whole in kernel.passed) * self.nearer
        launch, memory, compute, rows, total = self.stream.once(bytes_, kernel.flops, kernel.rows)
        more = (kernel.launches - 1) * self.at["ramp"]
        terms = {"memory": memory, "compute": compute, "launch": launch + more, "rows": rows}
        what = "copy" if kernel.kind == "pointwise" else "reduction"
        kind = "fused" if len(kernel.operations) > 1 else what
        return Cost(kernel.name, kind, total + more, terms, kernel.bytes, kernel.flops, "f32", kernel.kind, None, None)

    def _found(self, whole: float) -> float:
        """Returns the share of a tensor that stays in the shared cache while the next kernel reads and writes."""
        full = 2 * whole / (self.shared * self.cache["cache_fill"])
        return 1 / (1 + math.exp(min(500.0, (full - 1) / self.cache["cache_edge"])))

    def _library(self, kernel: Kernel, cost: Cost) -> Cost:
        found = replace(cost, name=kernel.name, terms=dict(cost.terms), bytes=kernel.bytes)
        if kernel.epilogue and self.dispatch == DISPATCH["eager"] and cost.scheme == "fp32":
            slower = cost.seconds * (1 / self.at["bias_share"] - 1)
            found.seconds += slower
            found.terms["compute"] = found.terms.get("compute", 0.0) + slower
        return found
