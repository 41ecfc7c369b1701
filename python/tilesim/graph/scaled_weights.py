"""Narrow weights, and the scales of weights and activations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..base.dtypes import NUMPY
from ..base.errors import user_error
from .graph import Graph
from .narrow_weights import NarrowWeights, Source
from .rewriting import Function, Rewriter, Row
from .tensor import Tensor

GROUP = 128  # number of elements of a 4-bit weight that share a scale


class QuantizationScheme(NamedTuple):
    """The dtypes and scales with which products are quantized."""

    name: str
    dtype: str  # dtype of weights, and of activations unless they stay wide
    largest: float
    wide: bool = False  # whether activations stay in 16 bits


SCHEMES = {
    "i8": QuantizationScheme("i8", "i8", 127.0),
    "fp8": QuantizationScheme("fp8", "f8e4m3fn", 448.0),
    "w4a16": QuantizationScheme("w4a16", "i4", 7.0, True),
}


class ScaleInput(NamedTuple):
    """A tensor of scales that a function receives from each call."""

    what: str  # "inverse" of an activation's scale, "factor" after a product, or "scales" of a weight
    sites: tuple[str, ...]
    weight: Source | None
    label: str  # name of the operation, preceded by the calls that lead to it


def sixteen(dtype: str) -> str:
    """Returns the 16-bit dtype that replaces a dtype."""
    return "f16" if dtype == "f16" else "bf16"


def rounded(values: NDArray[Any], scheme: QuantizationScheme) -> NDArray[Any]:
    """Rounds elements to a narrow type with saturation."""
    clipped = np.clip(values, -scheme.largest, scheme.largest)
    whole = np.rint(clipped) if scheme.dtype[0] == "i" else clipped
    return np.nan_to_num(whole).astype(NUMPY[scheme.dtype])


def row_is_narrow(narrow: NarrowWeights, source: Source) -> bool:
    """Whether a weight or input becomes narrow."""
    return source not in narrow.bad and bool(narrow.axes.get(source))


class ScaledWeights(Rewriter):
    """Writes a graph with narrow weights; subclasses handle the operations that read them."""

    def __init__(self, graph: Graph, scheme: QuantizationScheme, peaks: Mapping[str, float] | None) -> None:
        """Finds the weights that become narrow."""
        super().__init__(graph)
        self.scheme, self.peaks = scheme, peaks
        self.narrow = NarrowWeights(graph, tables=not scheme.wide)
        self.narrow_values: dict[tuple[str, int], tuple[Source, Row]] = {}  # weights and inputs as they are
        self.made_wide: dict[tuple[str, int], Tensor] = {}
        self.own: dict[str, NDArray[Any]] = {}  # weight -> scales

    # --- weights ---

    def _bound(self, name: str) -> float:
        """Returns the largest magnitude that a random weight's recipe can produce."""
        row = self.weights[name]
        return max(float(abs(row["scale"]) + abs(row["offset"])), 1e-30)

    def _reduced(self, source: Source) -> tuple[int, ...] | None:
        """Returns the axes of a weight along which elements share a scale; None for all."""
        axis = self.narrow.axis(source)
        rank = len(self.weights[source.name]["shape"])
        return None if axis is None else tuple(i for i in range(rank) if i != axis)

    def _peaks_of(self, name: str) -> NDArray[Any]:
        """Returns the largest magnitude of a weight: one number, or one per channel."""
        if name not in self.own:
            if self.weights[name]["source"] == "random":
                found = np.asarray(self._bound(name), np.float32)
            else:
                values = np.abs(np.asarray(self.core.weight(name)).astype(np.float32))
                found = np.asarray(values.max(axis=self._reduced(Source("", name)), initial=0))
            self.own[name] = np.where(found > 0, found, 1).astype(np.float32)
        return self.own[name]

    def _spread(self, name: str) -> NDArray[Any]:
        """Shapes the scales of a weight so that they broadcast to it; they are 1 without calibration."""
        if self.peaks is None:
            return np.ones((), np.float32)
        scales = self._peaks_of(name) / np.float32(self.scheme.largest)
        axis = self.narrow.axis(Source("", name))
        if scales.ndim == 0 or axis is None:
            return scales.reshape(())
        return scales.reshape([-1 if i == axis else 1 for i in range(len(self.weights[name]["shape"]))])

    def constant(self, function: Function, name: str) -> Tensor:
        """Adds a weight, in the narrow dtype if only products read it."""
        source = Source("", name)
        if not row_is_narrow(self.narrow, source):
            return super().constant(function, name)
        codes = self._narrow(function, name)
        self.narrow_values[function.name, codes.value] = source, self.weights[name]
        return codes

    def _narrow(self, function: Function, name: str) -> Tensor:
        b, row = function.b, self.weights[name]
        if row["source"] != "random":
            wide = np.asarray(self.core.weight(name)).astype(np.float32)
            if not np.isfinite(wide).all():
                count = int((~np.isfinite(wide)).sum())
                what = "narrow dtypes hold neither NaN nor infinity"
                raise user_error(
                    what, place=name, value=f"{count:,} of {wide.size:,} elements", allowed="finite weights"
                )
            spread = self._per_element(name) if self.scheme.wide else self._spread(name)
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # of numbers next to zero
                data = rounded(wide / spread, self.scheme)
            return b.weight(name, data=data, trainable=row["trainable"])
        seed, scale, offset = row["seed"], row["scale"], row["offset"]
        if self.peaks is not None or self.scheme.wide:
            to_codes = self.scheme.largest / self._bound(name)
            scale, offset = scale * to_codes, offset * to_codes
            scale = max(scale, 1.0)  # a smaller scale would change the random integers
        elif self.scheme.dtype[0] == "i":
            scale, offset = 0.05, 0.0  # range of the random integers
        more = {"seed": seed, "scale": scale, "offset": offset, "trainable": row["trainable"]}
        return b.weight(name, row["shape"], self.scheme.dtype, **more)

    def input(self, function: Function, number: int, row: Row) -> Tensor:
        """Adds an input, which is narrow if every call passes a narrow weight."""
        if row_is_narrow(self.narrow, Source(function.name, row["name"])):
            codes = function.b.input(row["name"], row["shape"], self.scheme.dtype)
            self.narrow_values[function.name, codes.value] = Source(function.name, row["name"]), row
            return codes
        return super().input(function, number, row)

    # --- weights of 4 bits ---

    def _scales_shape(self, source: Source, shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of scales: one per group along the axis that is summed over, or one per channel."""
        depth, axis = self.narrow.depth(source), self.narrow.axis(source)
        if depth is not None:
            return tuple(-(-extent // GROUP) if i == depth else extent for i, extent in enumerate(shape))
        return tuple(extent if i == axis else 1 for i, extent in enumerate(shape))

    def _group_scales(self, name: str) -> NDArray[Any]:
        """Returns the scale of each group of a weight with known elements."""
        source, shape = Source("", name), tuple(self.weights[name]["shape"])
        values = np.abs(np.asarray(self.core.weight(name)).astype(np.float32))
        depth = self.narrow.depth(source)
        if depth is not None:
            more = [(0, -extent % GROUP if i == depth else 0) for i, extent in enumerate(shape)]
            split = (*shape[:depth], -(-shape[depth] // GROUP), GROUP, *shape[depth + 1 :])
            peaks = np.pad(values, more).reshape(split).max(axis=depth + 1, initial=0)
        else:
            kept = self._scales_shape(source, shape)
            peaks = values.max(axis=tuple(i for i, n in enumerate(kept) if n == 1), keepdims=True, initial=0)
        scales = np.where(peaks > 0, peaks, 1) / np.float32(self.scheme.largest)
        return scales.astype(NUMPY[sixteen(self.weights[name]["dtype"])])

    def _per_element(self, name: str) -> NDArray[Any]:
        """Repeats scales to one per element of a weight."""
        scales, depth = self._group_scales(name).astype(np.float32), self.narrow.depth(Source("", name))
        if depth is None:
            return scales
        wide = np.repeat(scales, GROUP, axis=depth)
        return np.take(wide, np.arange(self.weights[name]["shape"][depth]), axis=depth)

    def _widened(self, function: Function, x: Tensor | None) -> Tensor | None:
        """Dequantizes a tensor of 4-bit codes."""
        key = (function.name, -1 if x is None else x.value)
        if x is None or key not in self.narrow_values:
            return x
        if key not in self.made_wide:
            self.made_wide[key] = self._grouped(function, x, *self.narrow_values[key])
        return self.made_wide[key]

    def _grouped(self, function: Function, codes: Tensor, source: Source, row: Row) -> Tensor:
        """Dequantizes codes to 16 bits."""
        b, depth, dtype = function.b, self.narrow.depth(source), sixteen(row["dtype"])
        shape = tuple(row["shape"])
        need = ScaleInput("scales", (), source, source.name)
        part = self.take(function, need, self._scales_shape(source, shape), dtype)
        if depth is not None and shape[depth] > 0:
            lead, count = part.shape[:depth], part.shape[depth]
            dims = [i if i <= depth else i + 1 for i in range(part.ndim)]
            spread = b.op("broadcast", part, shape=[*lead, count, GROUP, *shape[depth + 1 :]], dims=dims)
            spread = spread.reshape(*lead, count * GROUP, *shape[depth + 1 :])
            part_of = (*[slice(None)] * depth, slice(0, shape[depth]))
            part = spread if count * GROUP == shape[depth] else spread[part_of]
        return b.apply("multiply", codes.convert(dtype), part, name=f"{source.name}.wide")

    # --- scales ---

    def _scale(self, site: str) -> float:
        """Returns the scale of an activation by its full name."""
        peak = (self.peaks or {}).get(site, 0.0)
        scale = np.float32(peak / self.scheme.largest) if np.isfinite(peak) else np.float32(0)
        return float(scale) if scale >= np.finfo(np.float32).tiny else 1.0  # keeps the inverse finite

    def _known_scales(self, need: ScaleInput) -> NDArray[Any]:
        """The elements of requested scales, if weight and activations are known."""
        if need.what == "inverse":
            return np.asarray(1 / self._scale(need.sites[0]), np.float32)
        factor = np.float32(1)
        for site in need.sites:
            factor = factor * np.float32(self._scale(site))
        if need.weight is None:
            return np.asarray(factor, np.float32)
        scales = self._spread(need.weight.name).reshape(-1)
        return np.asarray(factor * (scales if scales.size > 1 else scales[0]), np.float32)

    def take(self, function: Function, need: ScaleInput, shape: tuple[int, ...], dtype: str = "f32") -> Tensor:
        """Provides scales: a constant if all parts are known, else an additional input of the function."""
        label = f"{need.label}.{need.what}"
        if function.main or (not need.sites and (need.weight is None or not need.weight.function)):
            return self._constant_scales(function, need, label, shape, dtype)
        for held, tensor in function.taken:
            if held[0] == need:
                return tensor
        tensor = function.b.input(label, shape, dtype)
        function.taken.append(((need, shape, dtype), tensor))
        return tensor

    def _constant_scales(
        self, function: Function, need: ScaleInput, label: str, shape: tuple[int, ...], dtype: str
    ) -> Tensor:
        weight = need.weight
        if need.what != "scales" or weight is None:
            values = np.broadcast_to(self._known_scales(need), shape)
            return function.b.weight(label, data=np.array(values, order="C"), trainable=False)
        label = f"{weight.name}.scales"
        if self.weights[weight.name]["source"] == "random":  # equal scales need no elements
            bound = self._bound(weight.name) / self.scheme.largest
            return function.b.weight(label, shape, dtype, scale=0.0, offset=bound, trainable=False)
        return function.b.weight(label, data=self._group_scales(weight.name), trainable=False)

    def further(self, function: Function, row: Row, callee: Function) -> list[Tensor]:
        """Returns the scales that a call passes."""
        names = [x["name"] for x in self.core.signature(callee.name)[0]]
        found = []
        for (need, shape, dtype), _ in callee.taken:
            weight = need.weight
            if weight is not None and weight.function:
                weight = self.narrow.source(function.name, row["operands"][names.index(weight.name)]["name"])
            sites = tuple(f"{row['name']}/{site}" for site in need.sites)
            inner = ScaleInput(need.what, sites, weight, f"{row['name']}.{need.label}")
            found.append(self.take(function, inner, shape, dtype))
        return found
