"""Products of narrow numbers: what stands around them, and the elements of their weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..base.dtypes import NUMPY
from .graph import Graph
from .narrow_weights import NarrowWeights, Source, channel_axis, hidden_functions, is_product
from .rewriting import Function, Rewriter, Row
from .tensor import Tensor

GROUP = 128  # elements of a weight that share a scale, in 4 bits


class Scheme(NamedTuple):
    """How products are quantized."""

    name: str
    dtype: str  # of weights, and of activations unless they stay wide
    largest: float
    wide: bool = False  # activations stay in 16 bits


SCHEMES = {
    "i8": Scheme("i8", "i8", 127.0),
    "fp8": Scheme("fp8", "f8e4m3fn", 448.0),
    "w4a16": Scheme("w4a16", "i4", 7.0, True),
}


class Needed(NamedTuple):
    """A tensor of scales that a function takes from its calls: they differ from call to call."""

    what: str  # "inverse" of an activation's scale, "factor" behind a product, "scales" of a weight
    sites: tuple[str, ...]
    weight: Source | None
    label: str  # of the operation, with the calls on the way to it


def site_of(row: Row) -> str:
    """The name of an activation among those of its function.

    Args:
        row: the value: name, dtype and shape.

    Returns:
        Its name.
    """
    return str(row["name"])


def probabilities(function: Function, value: str) -> bool:
    """Whether a value is a softmax, seen through views: it lies between 0 and 1 whatever the data.

    Args:
        function: where it is made.
        value: its name.

    Returns:
        Whether it is.
    """
    row = function.rows.get(value)
    while row is not None and row["kind"] in ("reshape", "transpose", "convert"):
        row = function.rows.get(row["operands"][0]["name"])
    if row is None or row["kind"] == "softmax":
        return row is not None
    if row["attributes"].get("function") != "divide":
        return False
    top, below = (function.rows.get(x["name"]) for x in row["operands"])
    if top is None or below is None or top["attributes"].get("function") != "exp":
        return False
    summed = below["kind"] == "reduce" and below["attributes"]["combiner"] == "add"
    return bool(summed and below["operands"][0]["name"] == row["operands"][0]["name"])


class Quantizer(Rewriter):
    """Writes a graph with narrow products."""

    def __init__(self, graph: Graph, scheme: Scheme, peaks: Mapping[str, float] | None) -> None:
        """Decides what becomes narrow.

        Args:
            graph: with attention in its parts where its products are to be narrow.
            scheme: how.
            peaks: largest magnitude of each activation; none: scales are 1.
        """
        super().__init__(graph)
        self.scheme, self.peaks = scheme, peaks
        self.narrow = NarrowWeights(graph, tables=not scheme.wide)
        self.count = 0
        self.kept: list[str] = []
        self.hidden = hidden_functions(self.core)
        self.narrow_values: dict[tuple[str, int], tuple[Source, Row]] = {}  # weights and inputs as they are
        self.made_wide: dict[tuple[str, int], Tensor] = {}
        self.codes: dict[tuple[str, str, str], Tensor] = {}  # activations that are quantized already
        self.own: dict[str, NDArray[Any]] = {}  # scales of weights

    # --- weights ---

    def _bound(self, name: str) -> float:
        """Largest magnitude that the recipe of a random weight can give."""
        row = self.weights[name]
        return max(float(abs(row["scale"]) + abs(row["offset"])), 1e-30)

    def _reduced(self, source: Source) -> tuple[int, ...] | None:
        """Axes of a weight that share a scale; none: all."""
        axis = self.narrow.axis(source)
        rank = len(self.weights[source.name]["shape"])
        return None if axis is None else tuple(i for i in range(rank) if i != axis)

    def _peaks_of(self, name: str) -> NDArray[Any]:
        """Largest magnitude of a weight: one number, or one for each channel."""
        if name not in self.own:
            if self.weights[name]["source"] == "random":
                found = np.asarray(self._bound(name), np.float32)
            else:
                values = np.abs(np.asarray(self.core.weight(name)).astype(np.float32))
                found = np.asarray(values.max(axis=self._reduced(Source("", name)), initial=0))
            self.own[name] = np.where(found > 0, found, 1).astype(np.float32)
        return self.own[name]

    def _spread(self, name: str) -> NDArray[Any]:
        """A weight's scales so that they broadcast to it; 1 without calibration."""
        if self.peaks is None:
            return np.ones((), np.float32)
        scales = self._peaks_of(name) / np.float32(self.scheme.largest)
        axis = self.narrow.axis(Source("", name))
        if scales.ndim == 0 or axis is None:
            return scales.reshape(())
        return scales.reshape([-1 if i == axis else 1 for i in range(len(self.weights[name]["shape"]))])

    def constant(self, function: Function, name: str) -> Tensor:
        """A weight, narrow where nothing but products reads it."""
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
            data = rounded(wide / (self._per_element(name) if self.scheme.wide else self._spread(name)), self.scheme)
            return b.weight(name, data=data, trainable=row["trainable"])
        seed, scale, offset = row["seed"], row["scale"], row["offset"]
        if self.peaks is not None or self.scheme.wide:
            to_codes = self.scheme.largest / self._bound(name)
            scale, offset = scale * to_codes, offset * to_codes
            scale = max(scale, 1.0)  # a smaller one means other random integers
        elif self.scheme.dtype[0] == "i":
            scale, offset = 0.05, 0.0  # random integers
        more = {"seed": seed, "scale": scale, "offset": offset, "trainable": row["trainable"]}
        return b.weight(name, row["shape"], self.scheme.dtype, **more)

    def input(self, function: Function, number: int, row: Row) -> Tensor:
        """An input; narrow where every call hands a narrow weight to it."""
        if row_is_narrow(self.narrow, Source(function.name, row["name"])):
            codes = function.b.input(row["name"], row["shape"], self.scheme.dtype)
            self.narrow_values[function.name, codes.value] = Source(function.name, row["name"]), row
            return codes
        return super().input(function, number, row)

    # --- weights of 4 bits ---

    def _scales_shape(self, source: Source, shape: Sequence[int]) -> tuple[int, ...]:
        """One scale for each group along the axis that is summed over, else one for each channel."""
        depth, axis = self.narrow.depth(source), self.narrow.axis(source)
        if depth is not None:
            return tuple(-(-extent // GROUP) if i == depth else extent for i, extent in enumerate(shape))
        return tuple(extent if i == axis else 1 for i, extent in enumerate(shape))

    def _group_scales(self, name: str) -> NDArray[Any]:
        """Of a weight with elements."""
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
        """A scale for each element of a weight."""
        scales, depth = self._group_scales(name).astype(np.float32), self.narrow.depth(Source("", name))
        if depth is None:
            return scales
        wide = np.repeat(scales, GROUP, axis=depth)
        return np.take(wide, np.arange(self.weights[name]["shape"][depth]), axis=depth)

    def _widened(self, function: Function, x: Tensor | None) -> Tensor | None:
        """What operations read in the place of codes of 4 bits."""
        key = (function.name, -1 if x is None else x.value)
        if x is None or key not in self.narrow_values:
            return x
        if key not in self.made_wide:
            self.made_wide[key] = self._grouped(function, x, *self.narrow_values[key])
        return self.made_wide[key]

    def _grouped(self, function: Function, codes: Tensor, source: Source, row: Row) -> Tensor:
        """The numbers that codes stand for, in 16 bits."""
        b, depth, dtype = function.b, self.narrow.depth(source), sixteen(row["dtype"])
        shape = tuple(row["shape"])
        need = Needed("scales", (), source, source.name)
        part = self.take(function, need, self._scales_shape(source, shape), dtype)
        if depth is not None and shape[depth] > 0:
            lead, count = part.shape[:depth], part.shape[depth]
            dims = [i if i <= depth else i + 1 for i in range(part.ndim)]
            spread = b.op("broadcast", part, shape=[*lead, count, GROUP, *shape[depth + 1 :]], dims=dims)
            spread = spread.reshape(*lead, count * GROUP, *shape[depth + 1 :])
            whole = (slice(None),) * depth
            part = spread if count * GROUP == shape[depth] else spread[(*whole, slice(0, shape[depth]))]
        return b.apply("multiply", codes.convert(dtype), part, name=f"{source.name}.wide")

    # --- scales ---

    def _scale(self, site: str) -> float:
        """Of an activation, by its whole name."""
        peak = (self.peaks or {}).get(site, 0.0)
        return peak / self.scheme.largest if peak > 0 and np.isfinite(peak) else 1.0

    def _known(self, need: Needed) -> NDArray[Any]:
        """Elements of what is needed, where weight and activations are known."""
        if need.what == "inverse":
            return np.asarray(1 / self._scale(need.sites[0]), np.float32)
        factor = np.float32(1)
        for site in need.sites:
            factor = factor * np.float32(self._scale(site))
        if need.weight is None:
            return np.asarray(factor, np.float32)
        scales = self._spread(need.weight.name).reshape(-1)
        return np.asarray(factor * (scales if scales.size > 1 else scales[0]), np.float32)

    def take(self, function: Function, need: Needed, shape: tuple[int, ...], dtype: str = "f32") -> Tensor:
        """Scales: a constant where all is known, else a further input of the function.

        Args:
            function: being written.
            need: what.
            shape: of the scales.
            dtype: of the scales.

        Returns:
            The tensor.
        """
        label = f"{need.label}.{need.what}"
        if function.main or (not need.sites and (need.weight is None or not need.weight.function)):
            return self._constant_scales(function, need, label, shape, dtype)
        for held, tensor in function.taken:
            if held[0] == need:
                return tensor  # type: ignore[no-any-return]
        tensor = function.b.input(label, shape, dtype)
        function.taken.append(((need, shape, dtype), tensor))
        return tensor

    def _constant_scales(
        self, function: Function, need: Needed, label: str, shape: tuple[int, ...], dtype: str
    ) -> Tensor:
        weight = need.weight
        if need.what != "scales" or weight is None:
            values = np.broadcast_to(self._known(need), shape)
            return function.b.weight(label, data=np.array(values, order="C"), trainable=False)
        label = f"{weight.name}.scales"
        if self.weights[weight.name]["source"] == "random":  # all alike: no elements are held
            bound = self._bound(weight.name) / self.scheme.largest
            return function.b.weight(label, shape, dtype, scale=0.0, offset=bound, trainable=False)
        return function.b.weight(label, data=self._group_scales(weight.name), trainable=False)

    def further(self, function: Function, row: Row, callee: Function) -> list[Tensor]:
        """The scales of this call."""
        names = [x["name"] for x in self.core.signature(callee.name)[0]]
        found = []
        for (need, shape, dtype), _ in callee.taken:
            weight = need.weight
            if weight is not None and weight.function:
                weight = self.narrow.source(function.name, row["operands"][names.index(weight.name)]["name"])
            sites = tuple(f"{row['name']}/{site}" for site in need.sites)
            inner = Needed(need.what, sites, weight, f"{row['name']}.{need.label}")
            found.append(self.take(function, inner, shape, dtype))
        return found

    # --- operations ---

    def operation(self, function: Function, row: Row, operands: list[Tensor | None]) -> list[Tensor]:
        """An operation; products with narrow operands where they can."""
        if self.scheme.wide:
            operands = [self._widened(function, x) for x in operands]
        first = row["operands"][0] if row["operands"] else None
        source = None if first is None else self.narrow.source(function.name, first["name"])
        x = operands[0] if operands else None
        if source is not None and x is not None and row["kind"] == "convert" and not self.scheme.wide:
            return [x]
        if source is not None and row["kind"] == "embedding":
            return [self._looked_up(function, row, source, operands)]
        if not is_product(row):
            return self.plain(function, row, operands)
        sources = [self.narrow.source(function.name, x["name"]) for x in row["operands"][:2]]
        chosen = row["kind"] == "ragged_contract"  # of experts: floats of 8 bits are no sums of theirs
        if self.scheme.wide or (chosen and self.scheme.dtype[0] != "i"):
            return self._weight_alone(function, row, operands, sources)
        if self.peaks is not None and function.name in self.hidden:  # in a loop or branch nothing was observed
            self.kept.append(row["name"])
            return self._weight_alone(function, row, operands, sources)
        return [self._product(function, row, operands, sources)]

    def _inverse(self, function: Function, value: Row) -> float | Tensor | None:
        """What an activation is multiplied by; none: 1."""
        if probabilities(function, value["name"]):
            return self.scheme.largest
        if self.peaks is None:
            return None
        return self.take(function, Needed("inverse", (site_of(value),), None, site_of(value)), ())

    def _codes(self, function: Function, value: Row, x: Tensor) -> Tensor:
        """An activation in narrow numbers, once for all that read it."""
        key = (function.name, value["name"], self.scheme.dtype)
        if key not in self.codes:
            b, name, inverse = function.b, value["name"], self._inverse(function, value)
            if inverse is not None:
                wide = x.convert("f32") if isinstance(inverse, Tensor) else x
                number = inverse if isinstance(inverse, Tensor) else b.scalar(inverse, x.dtype)
                x = b.apply("multiply", wide, number, name=f"{name}.scaled")
            if self.scheme.dtype[0] == "i":
                x = b.apply("round_even", x, name=f"{name}.rounded")
            self.codes[key] = b.op(
                "convert", x, dtype=self.scheme.dtype, overflow="saturate", name=f"{name}.{self.scheme.name}"
            )
        return self.codes[key]

    def _product(
        self, function: Function, row: Row, operands: list[Tensor | None], sources: list[Source | None]
    ) -> Tensor:
        """Narrow operands, sums in f32, and the scales behind them."""
        b, result = function.b, row["results"][0]
        chosen = row["kind"] == "ragged_contract"
        bias = operands[2] if len(operands) > 2 and not chosen else None
        factor = self._factor(function, row, sources)
        sums = result["dtype"] if factor is None and bias is None else "f32"
        narrow: list[Tensor] = []
        for x, value, source in zip(operands, row["operands"][:2], sources, strict=False):
            assert x is not None
            codes = x if source is not None else self._codes(function, value, x)
            # As wide as the sums: what is rounded on the way to them is no product of integers.
            narrow.append(codes.convert(sums) if self.scheme.dtype[0] == "i" else codes)
        self.count += 1
        attributes = row["attributes"] if chosen else {**row["attributes"], "dtype": sums}
        y: Tensor = b.op(row["kind"], *narrow, *([operands[2]] if chosen else []), name=row["name"], **attributes)
        if factor is not None:
            y = b.apply("multiply", y, factor, name=f"{row['name']}.scaled")
        if bias is not None:
            y = b.apply("add", y, self._bias(row, bias).convert("f32"), name=f"{row['name']}.bias")
        return y.convert(result["dtype"])

    def _bias(self, row: Row, bias: Tensor) -> Tensor:
        if row["kind"] != "convolution":
            return bias
        axis = row["attributes"]["y_labels"].find("C")
        return bias.reshape(*[bias.shape[0] if i == axis else 1 for i in range(len(row["results"][0]["shape"]))])

    def _factor(self, function: Function, row: Row, sources: list[Source | None]) -> Tensor | None:
        """What sums are multiplied by, in the shape of the result or a number; none: 1."""
        values = list(zip(row["operands"][:2], sources, strict=True))
        known = [value for value, source in values if source is None and probabilities(function, value["name"])]
        if self.peaks is None:
            return function.b.scalar(self.scheme.largest ** -len(known), "f32") if known else None
        sites = tuple(site_of(value) for value, source in values if source is None and value not in known)
        number, weight = next(((i, s) for i, s in enumerate(sources) if s is not None), (0, None))
        shape: tuple[int, ...] = ()
        axis = None if weight is None else self._result_axis(row, number)
        if axis is not None:
            shape = (row["results"][0]["shape"][axis],)
        need = Needed("factor", sites, weight, row["name"])
        if not sites and weight is None:
            factor = function.b.scalar(1.0, "f32")
        else:
            factor = self.take(function, need, shape)
        if known:
            factor = factor * self.scheme.largest ** -len(known)
        if axis is None:
            return factor
        rank = len(row["results"][0]["shape"])
        return factor.reshape(*[shape[0] if i == axis else 1 for i in range(rank)])

    def _result_axis(self, row: Row, number: int) -> int | None:
        """The axis of a product's result that a weight's channels make."""
        if channel_axis(row, number) is None:
            return None
        if row["kind"] == "convolution":
            return int(row["attributes"]["y_labels"].find("C"))
        rank = len(row["results"][0]["shape"])
        return rank - 1 if number == 1 else len(row["attributes"].get("a_batch", []))

    def _looked_up(self, function: Function, row: Row, source: Source, operands: list[Tensor | None]) -> Tensor:
        """Rows of a table that is a product's weight as well."""
        (codes,) = self.plain(function, row, operands)
        b, result = function.b, row["results"][0]
        wide = codes.convert(result["dtype"])
        if self.peaks is None:
            return wide
        scales = self._spread(source.name)
        if scales.size == 1:
            return wide * float(scales.reshape(()))
        if self.narrow.axis(source) == 0:
            data = np.ascontiguousarray(scales.reshape(-1, 1)).astype(NUMPY[result["dtype"]])
            table = b.weight(f"{row['name']}.scales", data=data, trainable=False)
            return wide * b.op("embedding", table, operands[1], name=f"{row['name']}.scale", **row["attributes"])
        return wide * b.weight(f"{row['name']}.scales", data=scales.reshape(-1).astype(NUMPY[result["dtype"]]))

    def _weight_alone(
        self, function: Function, row: Row, operands: list[Tensor | None], sources: list[Source | None]
    ) -> list[Tensor]:
        """A product of a narrow weight that is made wide again, with activations as they are."""
        b, made = function.b, list(operands)
        if not any(sources):
            return self.plain(function, row, operands)
        for number, (value, source) in enumerate(zip(row["operands"][:2], sources, strict=True)):
            x = made[number]
            assert x is not None
            if self.scheme.wide:
                made[number] = x.convert(sixteen(value["dtype"]))
            elif source is not None:
                x = x.convert(value["dtype"])
                if self.peaks is not None:
                    scales = self.take(function, Needed("factor", (), source, f"{row['name']}.weight"), ())
                    x = x * scales.convert(value["dtype"])
                made[number] = x
        self.count += 1
        attributes = dict(row["attributes"])
        result = row["results"][0]["dtype"]
        if row["kind"] != "ragged_contract":
            attributes["dtype"] = result
        y: Tensor = b.op(row["kind"], *made, name=row["name"], **attributes)
        return [y.convert(result)]


def sixteen(dtype: str) -> str:
    """The dtype of 16 bits in the place of one.

    Args:
        dtype: of floats.

    Returns:
        f16 for itself, bf16 for others.
    """
    return "f16" if dtype == "f16" else "bf16"


def rounded(values: NDArray[Any], scheme: Scheme) -> NDArray[Any]:
    """Elements in narrow numbers, saturated.

    Args:
        values: divided by their scales.
        scheme: which numbers.

    Returns:
        An array of the scheme's dtype.
    """
    clipped = np.clip(values, -scheme.largest, scheme.largest)
    whole = np.rint(clipped) if scheme.dtype[0] == "i" else clipped
    return np.nan_to_num(whole).astype(NUMPY[scheme.dtype])


def row_is_narrow(narrow: NarrowWeights, source: Source) -> bool:
    """Whether a weight or input becomes narrow.

    Args:
        narrow: the weights that do.
        source: which.

    Returns:
        Whether it is one of them.
    """
    return source not in narrow.bad and bool(narrow.axes.get(source))
