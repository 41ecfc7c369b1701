"""Times matrix products by the core's model, with a library's kernels and constants of a family or profile."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import _core
from ..base.arguments import numbers_of
from ..base.checked import checked
from ..base.errors import Unsupported, unknown
from ..graph import user_error
from ..machine.device import Device, Rate
from .constants import CONSTANTS, resolve, standard
from .families import Entry, Protocol, family, protocol
from .menus import BY_RULES, kernels
from .profile import Profile
from .schemes import Scheme, scheme

__all__ = ["CONSTANTS", "GemmEstimator", "estimator", "gemm_seconds", "kernels"]

TERMS: list[str] = list(_core.gemm_term_names())


@dataclass(frozen=True)
class GemmEstimator:
    """Predicts the seconds of matrix products on one device with one scheme."""

    device: Device
    scheme: Scheme
    entry: Entry
    weight_sets: float
    origin: str
    packs: bool = False
    calls: float = 1000.0
    packs_beyond: float = 0.0
    host: float = 0.0

    @property
    def widens(self) -> bool:
        """Whether the product's loop widens or packs the weights."""
        return self.packs or self.scheme.weight_bytes < self.scheme.activation_bytes

    def core(self, constants: dict[str, float] | None = None) -> _core.GemmModel:
        """Builds the core's model; `constants` replace those of the entry."""
        device, how = self.device, self.scheme
        shared = device.shared
        hardware = {
            "units": float(device.units),
            "clock": device.clock_hz,
            "flops_per_second": device.rate(how.arithmetic).flops_per_second,
            "memory_bytes_per_second": device.memory.bytes_per_second,
            "cache_bytes": shared.bytes,
            "cache_bytes_per_clock": shared.bytes_per_second / device.clock_hz,
        }
        if device.kind in ("tpu", "npu"):
            hardware["block_bytes"] = shared.bytes
        if device.kind == "cpu":
            hardware["lane_flops_per_clock"] = device.vector_rate("f32") / device.units / device.clock_hz
        nearer = device.levels[: device.levels.index(shared)]
        if device.kind == "cpu" and len(nearer) > 1:  # the second cache level
            hardware["near_bytes"] = nearer[-1].bytes
            hardware["near_bytes_per_clock"] = nearer[-1].bytes_per_second / device.clock_hz
        bytes_ = {
            "activation_bytes": how.activation_bytes,
            "weight_bytes": how.weight_bytes,
            "output_bytes": how.output_bytes,
            "cast_bytes": how.cast_bytes,
            "weight_sets": self.weight_sets,
            "widens": float(self.widens),
            "calls": self.calls,
            "host": self.host,
            "packs_beyond": self.packs_beyond,
            "rules": float(self.entry.kernels in BY_RULES),
        }
        given = {**self.entry.constants, **(constants or {})}
        _check(constants or {})
        values = resolve({name: value for name, value in given.items() if name in CONSTANTS}, device, how)
        return _core.GemmModel(hardware, bytes_, values, kernels(self.entry.kernels))

    def seconds(self, m: ArrayLike, n: ArrayLike, k: ArrayLike, batch: ArrayLike = 1) -> NDArray[np.float64]:
        """Returns the seconds of `batch` products of [m, k] by [k, n]."""
        shape, columns = _columns(batch, m, n, k)
        return np.asarray(self.core().seconds(*columns)).reshape(shape)

    def terms(self, m: ArrayLike, n: ArrayLike, k: ArrayLike, batch: ArrayLike = 1) -> dict[str, NDArray[np.float64]]:
        """Returns the seconds of each term of products by name."""
        shape, columns = _columns(batch, m, n, k)
        table = np.asarray(self.core().terms(*columns))
        return {name: table[:, i].reshape(shape) for i, name in enumerate(TERMS)}


def _check(constants: dict[str, float]) -> None:
    for name, value in constants.items():
        info = CONSTANTS.get(name)
        if info is None:
            raise unknown("constant", name, CONSTANTS)
        if not info["low"] <= value <= info["high"]:
            raise user_error(
                "constant out of range",
                place=name,
                value=f"{value:g} {info['unit']}",
                allowed=f"{info['low']:g} to {info['high']:g}",
            )


def _columns(*values: ArrayLike) -> tuple[tuple[int, ...], list[NDArray[np.float64]]]:
    arrays = numbers_of(*values)
    for array in arrays:
        if not np.all(np.isfinite(array) & (array > 0)):
            raise user_error("an extent must be positive", value=str(array[~(array > 0)][:1]))
    return arrays[0].shape, [np.ascontiguousarray(array).reshape(-1) for array in arrays]


def _like(device: Device) -> Sequence[str]:
    chain = [device.family]
    while (following := family(chain[-1]).like) and following not in chain:
        chain.append(following)
    return chain


def array_edge(device: Device) -> int:
    """Infers the rows (= columns) of a unit's array from its rate for 16-bit floats, else f32 or i8."""
    for dtype in ("bf16", "f16", "f32", "i8"):
        if flops := device.rate(dtype).flops_per_second:
            edge = math.sqrt(flops / device.units / device.clock_hz / 2)
            return 1 << max(0, int(math.log2(max(1.0, edge)) + 0.4))
    return 128


def _standard(device: Device, how: Scheme, called: Protocol) -> Entry:
    edge = array_edge(device)
    arrays = f"array-{edge}"
    menus = {"cpu": "cpu" if called.packs else "cpu-packed", "tpu": arrays, "npu": arrays}
    menu = menus.get(device.kind, "simt" if how.arithmetic in ("f32", "f64") else "library")
    constants = standard(device, how, called.casts)
    if device.kind in ("tpu", "npu"):  # the scratchpad supplies the arrays at full rate
        constants["feed"] = CONSTANTS["feed"]["high"]
        constants["half_tile"] = constants["epilogue"] = 0.0
        constants["tile"], constants["energy"] = (CONSTANTS[name]["low"] for name in ("tile", "energy"))
    if called.launch != "graph" or device.kind != "gpu":  # a captured graph launches faster
        constants["launch"] = constants["vector_launch"] = device.launch_seconds * device.clock_hz
    provenance = dict.fromkeys(constants, "default: no rows of this family and scheme")
    return Entry("gemm", how.name, constants=constants, provenance=provenance, kernels=menu)


def find_entry(
    operation: str,
    device: Device,
    names: Sequence[str],
    engine: str = "",
    source: str = "",
    profile: Profile | None = None,
) -> tuple[Entry | None, str]:
    """Finds constants in the profile, the family or a similar family; returns the entry and its origin."""
    for name in names:
        if profile is not None and (entry := profile.find(operation, device.name, name, engine, source)):
            return entry, f"profile {profile.name}"
    for kin in _like(device):
        for name in names:
            if entry := family(kin).find(operation, name, engine or source):
                return entry, f"family {kin}"
    return None, "defaults"


# A scheme without fitted constants takes those of the most similar scheme with the same type of kernel.
_WIDENED = ["int4_wo", "int8_wo", "bf16"]
_NEAREST = {
    "fp16": ["bf16"], "bf16": ["fp16"], "tf32": ["bf16"], "fp8_e5m2": ["fp8"], "fp8_nocast": ["fp8"],
    "mxfp8": ["fp8"], "nvfp4": ["fp8"], "mxfp4": ["nvfp4", "fp8"], "w8a8": ["fp8", "sq"], "sq": ["int8", "fp8"],
    "int8": ["sq", "fp8"], "int4_g128": _WIDENED, "int4_g128_zp": _WIDENED, "w8a8_zp": ["w8a8", "fp8", "sq"],
    "fp8_wo": ["int8_wo", "bf16"], "int8_wo": ["bf16"], "int4_wo": ["int8_wo", "bf16"],
}  # fmt: skip


def nearest_schemes(name: str) -> list[str]:
    """Returns the schemes that run the same type of kernel, most similar first."""
    return list(_NEAREST.get(name, []))


def _narrower(entry: Entry, device: Device, rate: Rate) -> Entry:
    """Adapts constants to a device whose units have fewer lanes than those of the measured device.

    Operand loads limit both units to the same operations per cycle, so fewer lanes are busy for a larger share
    of the time, at most all of it.
    """
    own = rate.flops_per_second / (device.units * device.clock_hz)
    if not entry.unit_flops_per_cycle or own > 0.95 * entry.unit_flops_per_cycle:
        return entry
    share = min(1.0, entry.constants["efficiency"] * entry.unit_flops_per_cycle / own)
    told = (f"{entry.constants['efficiency']:.4g} of {entry.unit_flops_per_cycle:.0f} operations per cycle and unit, "
            f"which has {own:.0f} here; {entry.provenance.get('efficiency', '')}")  # fmt: skip
    return replace(entry, constants={**entry.constants, "efficiency": share},
                   provenance={**entry.provenance, "efficiency": told})  # fmt: skip


@checked()
def estimator(
    device: Device | str,
    dtype: str | Scheme = "bf16",
    *,
    engine: str = "",
    source: str = "",
    profile: Profile | str | None = None,
) -> GemmEstimator:
    """Returns the product model of a device and scheme."""
    target = Device.load(device)
    how = scheme(dtype, target)
    rate = target.rate(how.arithmetic)
    if rate.how == "absent":
        raise Unsupported(f"{target.name} cannot run {how.name}: {rate.reason}")
    names = [how.name, *_NEAREST.get(how.name, [])]
    if rate.how == "emulated":  # an emulated dtype runs on vector lanes like fp32
        names = [how.name, "fp32"]
    entry, origin = find_entry("gemm", target, names, engine, source, Profile.open(profile))
    if entry is None:
        entry = _standard(target, how, protocol(engine or source))
    entry = _narrower(replace(entry, constants={**standard(target, how), **entry.constants}), target, rate)
    called = protocol(engine or source)
    host = called.host_of(target.family, how.name)
    return GemmEstimator(
        target, how, entry, called.sets_of(how.name), origin, called.packs, called.calls, called.packs_beyond, host
    )


def gemm_seconds(
    device: Device | str,
    m: ArrayLike,
    n: ArrayLike,
    k: ArrayLike,
    dtype: str = "bf16",
    batch: ArrayLike = 1,
    **options: Any,
) -> NDArray[np.float64]:
    """Returns the seconds of matrix products."""
    return estimator(device, dtype, **options).seconds(m, n, k, batch)
