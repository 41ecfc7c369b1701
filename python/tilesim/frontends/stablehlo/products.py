"""Products, convolutions, transforms and solvers of StableHLO."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..._core import Unsupported
from ...base.dtypes import FLOATS
from ...graph.tensor import Tensor
from .blocks import adjoint, by_blocks, complex_solve, from_blocks, hermitian
from .scope import Complex, Scope, Value, handles
from .types import Shaped, flag, integer, integers, text

LETTERS = "DHWXYZ"


def common(scope: Scope, a: Tensor, b: Tensor, dtype: str) -> tuple[Tensor, Tensor]:
    """Converts operands of a product to two floats or two integers."""
    if (a.dtype in FLOATS) != (b.dtype in FLOATS) or "bool" in (a.dtype, b.dtype):
        wide = dtype if dtype != "bool" else "i32"
        return scope.convert(a, wide), scope.convert(b, wide)
    return a, b


def contract(scope: Scope, a: Tensor, b: Tensor, dtype: str, axes: dict[str, list[int]]) -> Tensor:
    """Builds one real product."""
    a, b = common(scope, a, b, dtype)
    result: Tensor = scope.op("contract", a, b, dtype="i32" if dtype == "bool" else dtype, **axes)
    return scope.convert(result, dtype)


def bilinear(scope: Scope, op: Any, product: Callable[[Tensor, Tensor], Tensor]) -> Sequence[Value]:
    """Builds a product of tensors; a complex product consists of four real ones."""
    a, b = (scope.value(operand) for operand in list(op.operands)[:2])
    if not isinstance(a, Complex):
        return [product(a, b)]
    crossed = scope.apply("negate", product(a.im, b.im))
    return [Complex(product(a.re, b.re) + crossed, product(a.re, b.im) + product(a.im, b.re))]


def dot(scope: Scope, op: Any, axes: dict[str, list[int]]) -> Sequence[Value]:
    """Builds a product that contracts axes."""
    dtype = Shaped(op.results[0].type, "dot").dtype
    return bilinear(scope, op, lambda a, b: contract(scope, a, b, dtype, axes))


@handles("stablehlo.dot_general")
def dot_general(scope: Scope, op: Any) -> Sequence[Value]:
    """Multiplies over named axes; the result has batch axes, free axes of a, free axes of b."""
    from jaxlib.mlir.dialects import stablehlo

    numbers = stablehlo.DotDimensionNumbers(op.attributes["dot_dimension_numbers"])
    return dot(
        scope,
        op,
        {
            "a_batch": list(numbers.lhs_batching_dimensions),
            "b_batch": list(numbers.rhs_batching_dimensions),
            "a_contract": list(numbers.lhs_contracting_dimensions),
            "b_contract": list(numbers.rhs_contracting_dimensions),
        },
    )


@handles("stablehlo.dot")
def dot_of_matrices(scope: Scope, op: Any) -> Sequence[Value]:
    """Contracts the last axis of a with the first of b."""
    rank = len(Shaped(op.operands[0].type, "dot").shape)
    return dot(scope, op, {"a_contract": [rank - 1], "b_contract": [0]})


def labels(lead: dict[int, str], spatial: Sequence[int]) -> str:
    """Returns one letter per axis of a convolution operand."""
    names = dict(lead)
    names.update({axis: LETTERS[-len(spatial) :][i] for i, axis in enumerate(spatial)})
    return "".join(names[axis] for axis in range(len(names)))


@handles("stablehlo.convolution", "stablehlo.dynamic_conv")
def convolution(scope: Scope, op: Any) -> Sequence[Value]:
    """Builds a convolution; reorders window settings from spatial axis numbers to the axis order of x."""
    from jaxlib.mlir.dialects import stablehlo

    n = stablehlo.ConvDimensionNumbers(op.attributes["dimension_numbers"])
    count = len(n.input_spatial_dimensions)
    if count > len(LETTERS):
        raise Unsupported(f"a convolution over {count} axes")
    order = sorted(range(count), key=lambda i: n.input_spatial_dimensions[i])

    def ordered(name: str, fallback: int) -> list[int]:
        values = integers(op, name, [fallback] * count)
        return [values[i] for i in order]

    pads = scope.sizes(op.operands[2]) if len(op.operands) > 2 else integers(op, "padding", [0] * (2 * count))
    reversal = [bool(value) for value in op.attributes["window_reversal"]] if "window_reversal" in op.attributes else []
    flipped = [n.kernel_spatial_dimensions[i] for i, turned in enumerate(reversal) if turned]
    dtype = Shaped(op.results[0].type, "convolution").dtype
    attributes: dict[str, Any] = dict(
        x_labels=labels({n.input_batch_dimension: "N", n.input_feature_dimension: "C"}, n.input_spatial_dimensions),
        w_labels=labels(
            {n.kernel_output_feature_dimension: "O", n.kernel_input_feature_dimension: "I"}, n.kernel_spatial_dimensions
        ),
        y_labels=labels({n.output_batch_dimension: "N", n.output_feature_dimension: "C"}, n.output_spatial_dimensions),
        strides=ordered("window_strides", 1),
        pads=[pads[2 * i + side] for i in order for side in (0, 1)],
        input_dilation=ordered("lhs_dilation", 1),
        window_dilation=ordered("rhs_dilation", 1),
        groups=integer(op, "feature_group_count", 1),
        batch_groups=integer(op, "batch_group_count", 1),
        dtype="i32" if dtype == "bool" else dtype,
    )

    def product(x: Tensor, w: Tensor) -> Tensor:
        x, w = common(scope, x, w, dtype)
        window = scope.op("reverse", w, dims=flipped) if flipped else w
        return scope.convert(scope.op("convolution", x, window, **attributes), dtype)

    return bilinear(scope, op, product)


@handles("stablehlo.cholesky")
def cholesky(scope: Scope, op: Any) -> Sequence[Value]:
    """Computes the Cholesky factor; the other triangle is zero."""
    a = scope.value(op.operands[0])
    if not isinstance(a, Complex):
        return [scope.op("linear_solve", a, mode="cholesky", lower=flag(op, "lower"))]
    lower = a if flag(op, "lower") else adjoint(scope, a)
    whole = by_blocks(scope, hermitian(scope, lower))
    factor = from_blocks(scope, scope.op("linear_solve", whole, mode="cholesky", lower=True))
    return [factor if flag(op, "lower") else adjoint(scope, factor)]


@handles("stablehlo.triangular_solve")
def triangular_solve(scope: Scope, op: Any) -> Sequence[Value]:
    """Solves a system with one triangle of a."""
    a, b = (scope.value(operand) for operand in op.operands)
    settings = {"lower": flag(op, "lower"), "left_side": flag(op, "left_side"), "mode": "triangular"}
    settings |= {"unit_diagonal": flag(op, "unit_diagonal"), "transpose_a": text(op, "transpose_a") != "NO_TRANSPOSE"}
    if not isinstance(a, Complex):
        return [scope.op("linear_solve", a, b, **settings)]
    if text(op, "transpose_a") == "ADJOINT":
        a = Complex(a.re, scope.apply("negate", a.im))
    return [complex_solve(scope, a, b, settings)]


@handles("stablehlo.fft")
def fft(scope: Scope, op: Any) -> Sequence[Value]:
    """Transforms the last axes; RFFT returns half of the last axis, and IRFFT reads half of it."""
    x, kind, lengths = scope.value(op.operands[0]), text(op, "fft_type"), integers(op, "fft_length")
    re, im = (x.re, x.im) if isinstance(x, Complex) else (x, None)  # type: Tensor, Any
    dims = list(range(re.ndim - len(lengths), re.ndim))
    if kind == "IRFFT":
        for dim in dims[:-1]:
            re, im = scope.op("fft", re, im, results=2, dim=dim, inverse=True)
        re, im = _hermitian(scope, re, im, dims[-1], lengths[-1])
        return [scope.op("fft", re, im, results=2, dim=dims[-1], inverse=True)[0]]
    if kind == "RFFT":
        re, im = scope.op("fft", re, results=2, dim=dims[-1])
        half = lengths[-1] // 2 + 1
        re, im = (scope.along(part, dims[-1], 0, half) for part in (re, im))
        dims = dims[:-1]
    for dim in reversed(dims):
        re, im = scope.op("fft", re, im, results=2, dim=dim, inverse=kind == "IFFT")
    return [Complex(re, im)]


def _hermitian(scope: Scope, re: Tensor, im: Tensor | None, dim: int, extent: int) -> tuple[Tensor, Tensor]:
    """Builds the full spectrum of a real signal from its first half; zero and highest frequency are real."""
    if im is None:
        im = scope.apply("subtract", re, re)
    half = re.shape[dim]
    count = extent - half
    keep = [scope.along(part, dim, 0, half) for part in (re, im)]
    mirrored = []
    for part in keep:
        tail = scope.along(
            part, dim, half - count if extent % 2 else half - 1 - count, half if extent % 2 else half - 1
        )
        mirrored.append(scope.op("reverse", tail, dims=[dim]))
    ends = [0] if extent % 2 else [0, half - 1]
    pieces = []
    for position in range(half):  # imaginary parts of both ends are ignored
        one = scope.along(keep[1], dim, position, position + 1)
        pieces.append(scope.apply("multiply", one, scope.scalar(0, one.dtype)) if position in ends else one)
    middle = [scope.concat(pieces, dim), scope.apply("negate", mirrored[1])]
    return scope.concat([keep[0], mirrored[0]], dim), scope.concat(middle, dim)
