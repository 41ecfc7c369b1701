"""Closed-form times of convolutions, as implicit products or by Winograd transforms (3 by 3, stride 1).

Direct: a product of [images x outputs, channels x taps] by [channels x taps, filters], timed by the product model.
Winograd F(2x2) and F(4x4): 16 or 36 products over 2x2 or 4x4 blocks of outputs; the transforms move input and output
through memory once more. The model assumes that the library chooses its fastest algorithm.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import _core
from ..base.arguments import numbers_of
from ..graph import user_error
from ..machine.device import Device
from . import gemm
from .profile import Profile

__all__ = ["CONSTANTS", "ConvCases", "conv_seconds", "conv_terms", "estimator_of"]

Array = NDArray[np.float64]
TERMS: list[str] = list(_core.convolution_term_names())
_EXTENTS = ("batch", "channels", "filters", "size", "kernel", "stride", "padding")

CONSTANTS: dict[str, dict[str, Any]] = {
    **gemm.CONSTANTS,
    **{row["name"]: row for row in _core.convolution_constants()},
}


@dataclass(frozen=True)
class ConvCases:
    """Extents of square convolutions, each an array of one common shape."""

    batch: Array
    channels: Array
    filters: Array
    size: Array
    kernel: Array
    stride: Array
    padding: Array

    @property
    def outputs(self) -> Array:
        """Height and width of the output in elements."""
        return np.floor((self.size + 2 * self.padding - self.kernel) / self.stride) + 1


def estimator_of(
    device: Device | str, dtype: str, engine: str = "", source: str = "", profile: Profile | None = None
) -> gemm.GemmEstimator:
    """Returns the product model with constants fitted to convolutions."""
    base = gemm.estimator(device, dtype, engine=engine, source=source, profile=profile)
    entry, origin = gemm.find_entry("conv", base.device, [base.scheme.name], engine, source, profile)
    standard = {name: float(info["default"]) for name, info in CONSTANTS.items()}
    if entry is None:
        entry, origin = replace(base.entry, operation="conv"), base.origin
    return replace(base, entry=replace(entry, constants={**standard, **entry.constants}), origin=origin)


def _product_constants(constants: Mapping[str, float], efficiency: float) -> dict[str, float]:
    plain = {name: constants[name] for name in gemm.CONSTANTS}
    plain["efficiency"] = max(0.01, plain["efficiency"] * efficiency)
    return plain


def conv_terms(
    found: gemm.GemmEstimator, cases: ConvCases, constants: Mapping[str, float] | None = None
) -> dict[str, Array]:
    """Returns the seconds of each algorithm, and of the fastest one."""
    if not np.all(cases.outputs > 0):
        raise user_error("the kernel is larger than the padded input")
    columns = {name: np.ravel(getattr(cases, name)) for name in _EXTENTS}
    table = np.asarray(core_of(found, constants).terms(**columns))
    return {name: table[:, i].reshape(np.shape(cases.batch)) for i, name in enumerate(TERMS)}


def core_of(found: gemm.GemmEstimator, constants: Mapping[str, float] | None = None) -> _core.ConvolutionModel:
    """Builds the core's model of convolutions."""
    c = {**found.entry.constants, **(constants or {})}
    direct, plain = found.core(_product_constants(c, c["taps_share"])), found.core(_product_constants(c, 1.0))
    return _core.ConvolutionModel(direct, plain, found.device.memory.bytes_per_second * c["memory_share"], c)


def conv_seconds(
    device: Device | str,
    batch: ArrayLike,
    channels: ArrayLike,
    size: ArrayLike,
    filters: ArrayLike,
    kernel: ArrayLike = 3,
    stride: ArrayLike = 1,
    padding: ArrayLike = 0,
    dtype: str = "fp32",
    profile: Profile | str | None = None,
) -> Array:
    """Returns the seconds of square 2-D convolutions."""
    arrays = numbers_of(batch, channels, filters, size, kernel, stride, padding)
    shape = arrays[0].shape
    cases = ConvCases(*[np.ascontiguousarray(array).reshape(-1) for array in arrays])
    found = estimator_of(device, dtype, profile=Profile.open(profile))
    return conv_terms(found, cases)["total"].reshape(shape)
