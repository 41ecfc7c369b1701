"""Quantizes graphs: products in 8 bits or fewer, with scales from data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..base.checked import checked
from ..base.dtypes import NUMPY
from ..base.errors import nearest, shown, user_error
from ..graph import Graph
from ..graph.cast import CASTS, Cast, multiplied_floats
from ..graph.narrow_weights import NarrowWeights, hidden_functions, is_product
from ..graph.quantized import Quantizer, probabilities, site_of
from ..graph.rewriting import Function, Rewriter, Row
from ..graph.scaled_weights import SCHEMES
from ..graph.tensor import Tensor
from ..loading import GraphLike, as_graph
from .execution import inputs_of, reference

__all__ = ["quantize"]

PRODUCTS = "linear layers, matrix products, convolutions of floats"
NARROW = {name for name, dtype in NUMPY.items() if np.dtype(dtype).itemsize == 1} - {"bool", "f8e8m0fnu"}
HALVES = {"bfloat16": "bf16", "float16": "f16", "fp16": "f16", "half": "f16"}
ALIASES = HALVES | {"int8": "i8", "w8a8": "i8", "f8e4m3fn": "fp8", "float8_e4m3fn": "fp8", "e4m3": "fp8"}


class _Observer(Rewriter):
    """A graph that also outputs the largest magnitude of every product's activation."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.narrow = NarrowWeights(graph, tables=True)
        self.hidden = hidden_functions(self.core)
        self.seen: set[tuple[str, str]] = set()

    def operation(self, function: Function, row: Row, operands: list[Tensor | None]) -> list[Tensor]:
        if is_product(row) and function.name not in self.hidden:
            for value, x in zip(row["operands"][:2], operands, strict=False):
                key = (function.name, value["name"])
                if self.narrow.source(*key) is None and key not in self.seen and x is not None:
                    self.seen.add(key)
                    if not probabilities(function, value["name"]):
                        function.given.append((site_of(value), self._peak(function, x)))
        return self.unchanged(function, row, operands)

    def _peak(self, function: Function, x: Tensor) -> Tensor:
        size = function.b.apply("abs", x.convert("f32"))
        return size.max() if size.ndim else size

    def returned(self, function: Function, row: Row, callee: Function, found: list[Tensor]) -> None:
        for (site, _), tensor in zip(callee.given, found, strict=True):
            function.given.append((f"{row['name']}/{site}", tensor))


def _peaks(graph: Graph, calibrate: Any) -> dict[str, float]:
    """Returns the largest magnitude of each activation over all sets of inputs."""
    sets = list(calibrate) if _several(calibrate) else [calibrate]
    if not sets:
        raise user_error("missing calibration data", place="calibrate", allowed="inputs, or a list of them")
    observer = _Observer(graph)
    observed = observer.run()
    sites = [site for site, _ in observer.written[str(graph.core.main)].given]
    peaks = dict.fromkeys(sites, 0.0)
    for inputs in sets:
        found = list(reference(observed, inputs).values())
        for site, value in zip(sites, found[len(graph.outputs) :], strict=True):
            number = float(np.asarray(value))
            if number == -np.inf:  # this is the maximum of an empty tensor
                continue
            if not np.isfinite(number):
                what = "calibration data give values that are not finite"
                raise user_error(what, place=f"the operand '{site}' of a product", value=str(number))
            peaks[site] = max(peaks[site], number)
    return peaks


def _several(calibrate: Any) -> bool:
    """Whether calibration data consist of several sets of inputs."""
    if isinstance(calibrate, Mapping) or not isinstance(calibrate, Sequence):
        return False
    return all(isinstance(one, (Mapping, list, tuple)) for one in calibrate)


@checked("calibrate")
def quantize(graph: GraphLike, dtype: str = "i8", calibrate: Any = None) -> Graph:
    """Quantizes the products of a graph (linear layers, matrix products, convolutions).

    "i8": weights and activations in i8; attention is split, and its two products use i8. "fp8": both in f8e4m3fn, with
    unchanged attention. "w4a16": weights in i4 with a scale per 128 elements of the contracted axis, activations in 16
    bits. Routed experts keep wide activations in fp8. Operations between products (norms, softmax, activations, sums)
    keep the graph's dtypes; a weight with other uses stays wide, except an embedding tied to the head. "bf16", "f16":
    the complete graph in 16-bit floats (weights, inputs, arithmetic, outputs) wherever it has the products' dtype;
    products marked exact and their operands, integers, and floats computed from integers (positions, counts) stay
    unchanged.

    Narrow integers cannot represent NaN: NaN in calibration data or weights is an error. At run time a NaN activation
    of an i8 product becomes 0, as in every conversion to integers, and values beyond the calibrated range saturate.

    Args:
        graph: a workload; it is not changed.
        dtype: "i8", "fp8", "w4a16", "bf16" or "f16".
        calibrate: inputs as for `ts.reference`, or a list of them: the largest magnitude of each activation, and of
            each output channel of a weight, maps to the largest narrow number. Default: scales of 1, which suffice for
            timing; random weights then have random codes. "w4a16", "bf16" and "f16" need no calibration.

    Returns:
        The quantized graph; `assumptions` lists changes, including inputs with a new dtype. Random weights and their
        codes stay lazy.

    Raises:
        UserError: for an unknown dtype, a graph without float products, or wrong inputs.
    """
    name = ALIASES.get(dtype, dtype)
    if name not in SCHEMES and name not in CASTS:
        allowed = ", ".join([*SCHEMES, *CASTS])
        near = nearest(str(dtype), [*SCHEMES, *CASTS, *ALIASES])
        near = "w4a16" if "4" in str(dtype) else ALIASES.get(near, near)
        raise user_error("unknown quantization", place="dtype", value=shown(dtype), allowed=allowed, suggestion=near)
    if name in CASTS:
        return _cast(as_graph(graph), name, calibrate)
    scheme, plain = SCHEMES[name], as_graph(graph)
    if name == "i8":
        plain.expand(["attention"])
    _check_products(plain)
    peaks = None if calibrate is None or scheme.wide else _peaks(plain, calibrate)
    if calibrate is not None and scheme.wide:
        reference(plain, calibrate[0] if _several(calibrate) else calibrate)  # raises errors for invalid data
    quantizer = Quantizer(plain, scheme, peaks)
    made = quantizer.run()
    made.remove_dead_code()
    if not quantizer.count:
        raise user_error("the graph has no products to quantize", place=plain.name, value="no product has a weight")
    made.assumptions.append(_note(quantizer, calibrate))
    made.setting = f"{made.setting}, quantized to {name}" if made.setting else f"quantized to {name}"
    return made


def _cast(graph: Graph, dtype: str, calibrate: Any) -> Graph:
    """Converts a graph to 16-bit floats."""
    cast = Cast(graph, dtype)
    if not cast.cast:
        known = multiplied_floats(graph)
        what = f"the graph has no float products wider than {dtype}"
        value = f"its products use {dtype} already" if known else "it has no float products"
        raise user_error(what, place=graph.name, value=value, allowed=PRODUCTS)
    if calibrate is not None:
        reference(graph, calibrate[0] if _several(calibrate) else calibrate)  # raises errors for invalid data
    made = cast.run()
    made.remove_dead_code()
    made.assumptions.append(cast.note(made))
    made.setting = f"{made.setting}, cast to {dtype}" if made.setting else f"cast to {dtype}"
    return made


def _check_products(graph: Graph) -> None:
    """Raises an error for a graph without float products, or with quantized products."""
    found = False
    for function in graph.functions:
        rows = graph.operations(function)
        made = {row["results"][0]["name"]: row for row in rows if row["results"] and row["results"][0]}
        for row in rows:
            if is_product(row):
                found = True
                if any(_is_narrow(made, x) for x in row["operands"][:2]):
                    what = "the graph's products are quantized already"
                    raise user_error(what, place=graph.name, value=f"'{row['name']}'", allowed=PRODUCTS)
    if not found:
        raise user_error("the graph has no products to quantize", place=graph.name, value="none", allowed=PRODUCTS)


def _is_narrow(made: Mapping[str, Row], value: Row) -> bool:
    """Whether a value is dequantized from narrow codes."""
    for _ in range(8):
        if value["dtype"] in NARROW:
            return True
        row = made.get(value["name"])
        scaled = row is not None and row["attributes"].get("function") in ("multiply", "subtract")
        if row is None or not (scaled or row["kind"] in ("convert", "reshape", "transpose", "slice")):
            return False
        value = row["operands"][0]
    return False


def sample(graph: GraphLike, inputs: Any = None, seed: int = 0) -> list[Any]:
    """Returns one set of calibration inputs."""
    return [inputs_of(as_graph(graph), inputs, seed)]


def _note(quantizer: Quantizer, calibrate: Any) -> str:
    scheme = quantizer.scheme
    count = len({source for source, row in quantizer.narrow_values.values() if not source.function})
    text = f"quantized to {scheme.name}: {count} weight{'s' if count != 1 else ''}"
    if scheme.wide:
        text += ", a scale per 128 elements; activations in 16 bits"
    elif calibrate is None:
        text += " and activations of products, with scales of 1 (valid for times, not for values)"
    else:
        text += " and activations of products, with scales from calibration data"
    if quantizer.kept:
        text += f"; in loops and branches only weights: {', '.join(quantizer.kept[:3])}"
        text += f" and {len(quantizer.kept) - 3} more" if len(quantizer.kept) > 3 else ""
    return text
