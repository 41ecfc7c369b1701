"""Quantizes products: narrow operands, and scales after the product."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..base.dtypes import NUMPY
from .graph import Graph
from .narrow_weights import Source, channel_axis, hidden_functions, is_product
from .rewriting import Function, Row
from .scaled_weights import QuantizationScheme, ScaledWeights, ScaleInput, sixteen
from .tensor import Tensor


def site_of(row: Row) -> str:
    """Returns the name that identifies an activation in its function."""
    return str(row["name"])


def probabilities(function: Function, value: str) -> bool:
    """Whether a value is a softmax, seen through views, so that it always lies between 0 and 1."""
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


class Quantizer(ScaledWeights):
    """Writes a graph with narrow products."""

    def __init__(self, graph: Graph, scheme: QuantizationScheme, peaks: Mapping[str, float] | None) -> None:
        """Finds the weights that become narrow."""
        super().__init__(graph, scheme, peaks)
        self.count = 0
        self.kept: list[str] = []
        self.hidden = hidden_functions(self.core)
        self.codes: dict[tuple[str, str, str], Tensor] = {}  # activations that are quantized already

    def operation(self, function: Function, row: Row, operands: list[Tensor | None]) -> list[Tensor]:
        """Writes an operation; products get narrow operands if possible."""
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
            return self.unchanged(function, row, operands)
        sources = [self.narrow.source(function.name, x["name"]) for x in row["operands"][:2]]
        chosen = row["kind"] == "ragged_contract"  # products of experts do not support 8-bit floats
        if self.scheme.wide or (chosen and self.scheme.dtype[0] != "i"):
            return self._weight_alone(function, row, operands, sources)
        if self.peaks is not None and function.name in self.hidden:  # calibration does not observe loops and branches
            self.kept.append(row["name"])
            return self._weight_alone(function, row, operands, sources)
        return [self._product(function, row, operands, sources)]

    def _inverse(self, function: Function, value: Row) -> float | Tensor | None:
        """Returns the factor of an activation before rounding; None for 1."""
        if probabilities(function, value["name"]):
            return self.scheme.largest
        if self.peaks is None:
            return None
        return self.take(function, ScaleInput("inverse", (site_of(value),), None, site_of(value)), ())

    def _codes(self, function: Function, value: Row, x: Tensor) -> Tensor:
        """Quantizes an activation once for all operations that read it."""
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
        """Writes a product of narrow operands with sums in f32, followed by the scales."""
        b, result = function.b, row["results"][0]
        chosen = row["kind"] == "ragged_contract"
        bias = operands[2] if len(operands) > 2 and not chosen else None
        factor = self._factor(function, row, sources)
        sums = result["dtype"] if factor is None and bias is None else "f32"
        narrow: list[Tensor] = []
        for x, value, source in zip(operands, row["operands"][:2], sources, strict=False):
            assert x is not None
            codes = x if source is not None else self._codes(function, value, x)
            # Integer codes are as wide as the sums, because rounded products would not be integers.
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
        """Returns the factor of a product's sums, as a number or in the shape of the result; None for 1."""
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
        need = ScaleInput("factor", sites, weight, row["name"])
        alone = not sites and weight is None
        factor = function.b.scalar(1.0, "f32") if alone else self.take(function, need, shape)
        if known:
            factor = factor * self.scheme.largest ** -len(known)
        if axis is None:
            return factor
        rank = len(row["results"][0]["shape"])
        return factor.reshape(*[shape[0] if i == axis else 1 for i in range(rank)])

    def _result_axis(self, row: Row, number: int) -> int | None:
        """Returns the axis of a product's result that has the channels of a weight."""
        if channel_axis(row, number) is None:
            return None
        if row["kind"] == "convolution":
            return int(row["attributes"]["y_labels"].find("C"))
        rank = len(row["results"][0]["shape"])
        return rank - 1 if number == 1 else len(row["attributes"].get("a_batch", []))

    def _looked_up(self, function: Function, row: Row, source: Source, operands: list[Tensor | None]) -> Tensor:
        """Looks up rows of a table that is also the weight of a product."""
        (codes,) = self.unchanged(function, row, operands)
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
        """Writes a product of a dequantized weight with unquantized activations."""
        b, made = function.b, list(operands)
        if not any(sources):
            return self.unchanged(function, row, operands)
        for number, (value, source) in enumerate(zip(row["operands"][:2], sources, strict=True)):
            x = made[number]
            assert x is not None
            if self.scheme.wide:
                made[number] = x.convert(sixteen(value["dtype"]))
            elif source is not None:
                x = x.convert(value["dtype"])
                if self.peaks is not None:
                    scales = self.take(function, ScaleInput("factor", (), source, f"{row['name']}.weight"), ())
                    x = x * scales.convert(value["dtype"])
                made[number] = x
        self.count += 1
        attributes = dict(row["attributes"])
        result = row["results"][0]["dtype"]
        if row["kind"] != "ragged_contract":
            attributes["dtype"] = result
        y: Tensor = b.op(row["kind"], *made, name=row["name"], **attributes)
        return [y.convert(result)]
