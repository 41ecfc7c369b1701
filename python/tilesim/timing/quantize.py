"""Quantized graphs: products in 8 bits or fewer, with scales from data."""

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
    """The graph with the largest magnitude of every activation of a product as a further output."""

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
        return self.plain(function, row, operands)

    def _peak(self, function: Function, x: Tensor) -> Tensor:
        size = function.b.apply("abs", x.convert("f32"))
        return size.max() if size.ndim else size

    def returned(self, function: Function, row: Row, callee: Function, found: list[Tensor]) -> None:
        for (site, _), tensor in zip(callee.given, found, strict=True):
            function.given.append((f"{row['name']}/{site}", tensor))


def _peaks(graph: Graph, calibrate: Any) -> dict[str, float]:
    """Largest magnitude of each activation over all sets of inputs."""
    sets = list(calibrate) if _several(calibrate) else [calibrate]
    if not sets:
        raise user_error("there are no calibration data", place="calibrate", allowed="inputs, or a list of them")
    observer = _Observer(graph)
    observed = observer.run()
    sites = [site for site, _ in observer.written[str(graph.core.main)].given]
    peaks = dict.fromkeys(sites, 0.0)
    for inputs in sets:
        found = list(reference(observed, inputs).values())
        for site, value in zip(sites, found[len(graph.outputs) :], strict=True):
            number = float(np.asarray(value))
            if number == -np.inf:  # the largest of no numbers
                continue
            if not np.isfinite(number):
                what = "calibration data give numbers that are not finite"
                raise user_error(what, place=f"the operand '{site}' of a product", value=str(number))
            peaks[site] = max(peaks[site], number)
    return peaks


def _several(calibrate: Any) -> bool:
    """Whether these are several sets of inputs: a list of dictionaries or of lists."""
    if isinstance(calibrate, Mapping) or not isinstance(calibrate, Sequence):
        return False
    return all(isinstance(one, (Mapping, list, tuple)) for one in calibrate)


@checked("calibrate")
def quantize(graph: GraphLike, dtype: str = "i8", calibrate: Any = None) -> Graph:
    """A graph whose products (linear layers, matrix products, convolutions) multiply narrow numbers.

    "i8": weights and activations in i8; attention is taken apart, and its two products become ones of i8. "fp8": both
    in f8e4m3fn; attention stays. "w4a16": weights in i4, in groups of 128 of the axis that is summed over with a scale
    each, activations in 16 bits. Products of experts that rows choose keep wide activations in fp8. What
    is between products (norms, softmax, activations, sums) keeps the graph's dtypes; a weight that something else reads
    too, other than an embedding tied to the head, stays wide. "bf16", "f16": no products of narrow numbers, but the
    whole graph in floats of 16 bits: weights, inputs, arithmetic and outputs, wherever they have the dtype that
    products multiply; what asks for exact products stays as it is with its operands, integers do, and floats that come
    from integers (positions, counts) until they meet a value of the network.

    No narrow integer stands for NaN: calibration data that lead to one, and weights that have one, are errors; when the
    quantized graph runs, an activation that is NaN becomes 0 where a product of i8 reads it, as in every conversion to
    integers, and one beyond the calibrated range the outermost number.

    Args:
        graph: stays as it is; or what names one.
        dtype: "i8", "fp8", "w4a16", "bf16" or "f16".
        calibrate: inputs as for `ts.reference`, or a list of them: the largest magnitude of each activation in all of
            them, and of each output channel of a weight, becomes the largest narrow number. None: the scales of
            activations and weights are 1, which is enough for times; random weights then have random codes. The
            scales of w4a16 follow from the weights: it needs none, and neither do bf16 and f16.

    Returns:
        The quantized graph; `assumptions` says what changed, with the inputs that have another dtype now. Random
        weights stay recipes, and so do their codes.

    Raises:
        UserError: for an unknown dtype, a graph without products of floats, or inputs that do not fit.
    """
    name = ALIASES.get(dtype, dtype)
    if name not in SCHEMES and name not in CASTS:
        allowed = ", ".join([*SCHEMES, *CASTS])
        near = nearest(str(dtype), [*SCHEMES, *CASTS, *ALIASES])
        raise user_error("unknown quantization", place="dtype", value=shown(dtype), allowed=allowed, suggestion=near)
    if name in CASTS:
        return _cast(as_graph(graph), name, calibrate)
    scheme, plain = SCHEMES[name], as_graph(graph)
    if name == "i8":
        plain.expand(["attention"])
    _check_products(plain)
    peaks = None if calibrate is None or scheme.wide else _peaks(plain, calibrate)
    if calibrate is not None and scheme.wide:
        reference(plain, calibrate[0] if _several(calibrate) else calibrate)  # or wrong data would pass unnoticed
    quantizer = Quantizer(plain, scheme, peaks)
    made = quantizer.run()
    made.remove_dead_code()
    if not quantizer.count:
        raise user_error("the graph has no products to quantize", place=plain.name, value="none has a weight")
    made.assumptions.append(_said(quantizer, calibrate))
    made.setting = f"{made.setting}, quantized to {name}" if made.setting else f"quantized to {name}"
    return made


def _cast(graph: Graph, dtype: str, calibrate: Any) -> Graph:
    """A graph in floats of 16 bits."""
    cast = Cast(graph, dtype)
    if not cast.cast:
        known = multiplied_floats(graph)
        what = f"the graph has no products of floats that are wider than {dtype}"
        value = f"its products are of {dtype} already" if known else "it multiplies no floats"
        raise user_error(what, place=graph.name, value=value, allowed=PRODUCTS)
    if calibrate is not None:
        reference(graph, calibrate[0] if _several(calibrate) else calibrate)  # or wrong data would pass unnoticed
    made = cast.run()
    made.remove_dead_code()
    made.assumptions.append(cast.said(made))
    made.setting = f"{made.setting}, cast to {dtype}" if made.setting else f"cast to {dtype}"
    return made


def _check_products(graph: Graph) -> None:
    """Refuses a graph without products of floats, or whose products are narrow already."""
    found = False
    for function in graph.functions:
        rows = graph.operations(function)
        made = {row["results"][0]["name"]: row for row in rows if row["results"] and row["results"][0]}
        for row in rows:
            if is_product(row):
                found = True
                if any(_is_narrow(made, x) for x in row["operands"][:2]):
                    what = "the graph has no products to quantize: they are of narrow numbers already"
                    raise user_error(what, place=graph.name, value=f"'{row['name']}'", allowed=PRODUCTS)
    if not found:
        raise user_error("the graph has no products to quantize", place=graph.name, value="none", allowed=PRODUCTS)


def _is_narrow(made: Mapping[str, Row], value: Row) -> bool:
    """Whether a value is what narrow codes stand for."""
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
    """One set of inputs to calibrate with."""
    return [inputs_of(as_graph(graph), inputs, seed)]


def _said(quantizer: Quantizer, calibrate: Any) -> str:
    scheme = quantizer.scheme
    count = len({source for source, row in quantizer.narrow_values.values() if not source.function})
    text = f"quantized to {scheme.name}: {count} weight{'s' if count != 1 else ''}"
    if scheme.wide:
        text += ", a scale for each 128 elements; activations in 16 bits"
    elif calibrate is None:
        text += " and activations of products, with scales of 1: times hold, values do not"
    else:
        text += " and activations of products, with scales from calibration data"
    if quantizer.kept:
        text += f"; in loops and branches weights alone: {', '.join(quantizer.kept[:3])}"
        text += f" and {len(quantizer.kept) - 3} more" if len(quantizer.kept) > 3 else ""
    return text
