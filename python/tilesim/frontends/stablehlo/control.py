"""Calls, branches, loops and custom calls of StableHLO."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..._core import Unsupported
from ...base.dtypes import FLOATS
from ...graph.tensor import Tensor
from .. import factors
from .bodies import producer, terminator
from .elementwise import from_total_order, total_order
from .scope import Scope, Value, flat, handles, named, rebuilt
from .types import Shaped, dense, integer, text


def run_functions(
    scope: Scope, kind: str, operands: Sequence[Tensor], names: Sequence[str], types: Sequence[Any], **attributes: Any
) -> list[Value]:
    """Builds an operation that runs functions; its results have the module's types."""
    values = scope.builder.core.op(kind, [x.value for x in operands], attributes, "", 0, list(names))
    return rebuilt(types, [Tensor(scope.builder, value) for value in values])


@handles("func.call", "stablehlo.call")
def call(scope: Scope, op: Any) -> Sequence[Value]:
    """Inlines functions that are small or called once; calls the others."""
    name = text(op, "callee")
    values = [scope.value(operand) for operand in op.operands]
    function = scope.module.function(name)
    if scope.module.in_place(name):
        return scope.module.inlined(scope, name, values)
    callee = scope.module.converted(name)
    types = [argument.type for argument in terminator(function.regions[0].blocks[0]).operands]
    return run_functions(scope, "call", flat(values), [callee], types)


@handles("stablehlo.composite")
def composite(scope: Scope, op: Any) -> Sequence[Value]:
    """Builds the decomposition of a composite operation."""
    name = text(op, "decomposition")
    return scope.module.inlined(scope, name, [scope.value(operand) for operand in op.operands])


def captured_by(blocks: Sequence[Any]) -> list[Any]:
    """Returns the outside values that blocks use, without duplicates, in order of first use."""
    found: list[Any] = []

    def visit(block: Any, inside: set[Any]) -> None:
        inside = inside | set(block.arguments)
        for op in block.operations:
            for operand in op.operands:
                if operand not in inside and operand not in found:
                    found.append(operand)
            for region in op.operation.regions:
                for inner in region.blocks:
                    visit(inner, inside)
            inside |= set(op.operation.results)

    for block in blocks:
        visit(block, set())
    return found


def split_captured(scope: Scope, blocks: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Splits captured values into operands to pass, and constants to create again inside."""
    passed: list[Any] = []
    remade: list[Any] = []
    for mlir in captured_by(blocks):
        value = scope.value(mlir)
        known = isinstance(value, Tensor) and scope.array(value) is not None
        (remade if known else passed).append(mlir)
    return passed, remade


@handles("stablehlo.if", "stablehlo.case")
def branch(scope: Scope, op: Any) -> Sequence[Value]:
    """Builds a branch; for a constant condition, builds only the selected body."""
    which = scope.real(op.operands[0])
    blocks = [region.blocks[0] for region in op.regions]
    known = scope.array(which)
    if known is not None:
        index = int(known)
        chosen = (1 - index) if named(op) == "stablehlo.if" else index if 0 <= index < len(blocks) else len(blocks) - 1
        return scope.inline(blocks[chosen], [])
    passed, remade = split_captured(scope, blocks)
    names = [scope.module.region_function(scope, block, "branch", passed, remade, []) for block in blocks]
    operands = [which, *flat([scope.value(mlir) for mlir in passed])]
    return run_functions(scope, "branch", operands, names, [result.type for result in op.results])


@handles("stablehlo.while")
def while_loop(scope: Scope, op: Any) -> Sequence[Value]:
    """Builds a loop; captured values become invariant state."""
    condition, body = (region.blocks[0] for region in op.regions)
    state = [scope.value(operand) for operand in op.operands]
    passed, remade = split_captured(scope, [condition, body])
    outer = [scope.value(mlir) for mlir in passed]
    test = scope.module.region_function(scope, condition, "condition", passed, remade, [])
    step = scope.module.region_function(scope, body, "body", passed, remade, passed)
    types = [*(result.type for result in op.results), *(mlir.type for mlir in passed)]
    trips = trip_count(scope, condition, body, state)
    found = run_functions(scope, "while", flat([*state, *outer]), [test, step], types, trips=trips)
    return found[: len(state)]


def constant_integer(scope: Scope, mlir: Any) -> int | None:
    """The integer value of a constant, or None."""
    op = producer(mlir)
    if op is not None and named(op) == "stablehlo.constant":
        shaped = Shaped(mlir.type, "a constant")
        if shaped.size == 1 and not shaped.complex:
            return int(dense(op.operation, shaped, "a constant")[0].reshape(())[()])
    if isinstance(scope.values.get(mlir), Tensor):
        array = scope.array(scope.values[mlir])
        return int(array) if array is not None and array.size == 1 and array.ndim == 0 else None
    return None


def trip_count(scope: Scope, condition: Any, body: Any, state: Sequence[Value]) -> int:
    """Returns the trip count of a loop whose counter has constant start, step and limit; 0 for other loops."""
    test = producer(terminator(condition).operands[0])
    if test is None or named(test) != "stablehlo.compare":
        return 0
    arguments = list(condition.arguments)
    counter, limit = list(test.operands)
    direction = text(test.operation, "comparison_direction")
    if counter not in arguments or direction not in ("LT", "LE", "NE"):
        return 0
    index = arguments.index(counter)
    step_op = producer(terminator(body).operands[index])
    if step_op is None or named(step_op) != "stablehlo.add" or not isinstance(state[index], Tensor):
        return 0
    first, second = list(step_op.operands)
    own = body.arguments[index]
    step = constant_integer(scope, second if first == own else first) if own in (first, second) else None
    start, end = scope.array(state[index]), constant_integer(scope, limit)
    if step is None or start is None or end is None or step <= 0:
        return 0
    span = end - int(start) + (1 if direction == "LE" else 0)
    return max(0, -(-span // step))


def ranked(scope: Scope, x: Tensor, k: int, dtype: str, largest: bool = True) -> list[Tensor]:
    """Finds the k largest or smallest elements along the last axis and their indices; ranks floats in total order."""
    keys = total_order(scope, x) if x.dtype in FLOATS else scope.convert(x, "u8") if x.dtype == "bool" else x
    values, places = scope.op("top_k", keys, results=2, dim=x.ndim - 1, k=k, dtype=dtype, largest=largest)
    if x.dtype in FLOATS:
        return [from_total_order(scope, values, x.dtype), places]
    return [scope.convert(values, x.dtype), places]


IDENTITIES = {
    "annotate_device_placement",
    "LayoutConstraint",
    "MoveToHost",
    "MoveToDevice",
}


def custom_call(scope: Scope, op: Any) -> Sequence[Value]:
    """Handles known targets; other targets raise an error."""
    target = text(op, "call_target_name")
    results = [Shaped(result.type, target) for result in op.results]
    if target in IDENTITIES:
        return [scope.value(op.operands[0])]
    if target in ("mhlo.topk", "TopK", "stablehlo.dynamic_top_k", "topk"):
        return ranked(scope, scope.real(op.operands[0]), results[0].shape[-1], results[1].dtype)
    if target in ("mhlo.erf", "mhlo.tan", "mhlo.asin", "mhlo.acos", "mhlo.sinh", "mhlo.cosh"):
        return [scope.apply(target[5:], scope.real(op.operands[0]))]
    if target.startswith(("lapack_s", "lapack_d")) and target[8:] in LAPACK:
        return LAPACK[target[8:]](scope, op)
    raise Unsupported(f"custom_call '{target}': unknown target")


def letter(op: Any, name: str) -> str:
    """Reads a LAPACK option, a letter that is stored as its character code."""
    return chr(int(op.attributes["mhlo.backend_config"][name].value))


def potrf(scope: Scope, op: Any) -> Sequence[Value]:
    """Computes LAPACK's Cholesky factor; the other triangle is unchanged. The status is the failing pivot's number."""
    a = scope.real(op.operands[0])
    lower = letter(op, "uplo") == "L"
    factor = scope.op("linear_solve", a, mode="cholesky", lower=lower)
    n = a.shape[-1]
    row, column = (scope.op("iota", shape=[n, n], dtype="i32", dim=dim) for dim in (0, 1))
    inside = scope.apply("greater_equal" if lower else "less_equal", row, column)
    diagonal = factors.diagonal(scope.builder, factor)
    bad = scope.apply("logical_not", scope.apply("greater", diagonal, scope.scalar(0, a.dtype)))
    return [scope.apply("select", inside, factor, a), factors.first_set(scope.builder, bad)]


def getrf(scope: Scope, op: Any) -> Sequence[Value]:
    """Computes LAPACK's LU factors; the status is the number of the first zero pivot."""
    packed, pivots, _ = factors.lu(scope.builder, scope.real(op.operands[0]))
    k = min(packed.shape[-2:])
    square = packed[(..., slice(0, k), slice(0, k))]
    bad = scope.apply("equal", factors.diagonal(scope.builder, square), scope.scalar(0, packed.dtype))
    return [packed, scope.apply("add", pivots, scope.scalar(1, "i32")), factors.first_set(scope.builder, bad)]


def geqrf(scope: Scope, op: Any) -> Sequence[Value]:
    """Computes LAPACK's Householder reflections."""
    return list(factors.reflectors(scope.builder, scope.real(op.operands[0])))


def orgqr(scope: Scope, op: Any) -> Sequence[Value]:
    """Computes LAPACK's product of reflections."""
    return [factors.qr(scope.builder, scope.real(op.operands[0]), scope.real(op.operands[1]))]


def trsm(scope: Scope, op: Any) -> Sequence[Value]:
    """Solves a triangular system as LAPACK does."""
    a, b = (scope.real(operand) for operand in list(op.operands)[:2])
    return [
        scope.op(
            "linear_solve",
            a,
            b,
            mode="triangular",
            lower=letter(op, "uplo") == "L",
            left_side=letter(op, "side") == "L",
            unit_diagonal=letter(op, "diag") == "U",
            transpose_a=letter(op, "trans_x") != "N",
        )
    ]


LAPACK = {"potrf_ffi": potrf, "trsm_ffi": trsm, "getrf_ffi": getrf, "geqrf_ffi": geqrf, "orgqr_ffi": orgqr}


def batch_shape(scope: Scope, x: Tensor, feature: int) -> list[int]:
    """Returns the axes over which a batch normalization averages."""
    return [axis for axis in range(x.ndim) if axis != feature]


@handles("stablehlo.batch_norm_inference")
def batch_norm(scope: Scope, op: Any) -> Sequence[Value]:
    """Normalizes a batch with given statistics."""
    epsilon = float(op.attributes["epsilon"].value)
    return [scope.op("batch_norm", *scope.operands(op), feature_dim=integer(op, "feature_index"), epsilon=epsilon)]


@handles("stablehlo.batch_norm_training")
def batch_norm_training(scope: Scope, op: Any) -> Sequence[Value]:
    """Normalizes a batch with its own mean and variance, and returns them too."""
    x, scale, offset = scope.operands(op)
    feature, epsilon = integer(op, "feature_index"), float(op.attributes["epsilon"].value)
    dims = batch_shape(scope, x, feature)
    mean = scope.op("reduce", x, dims=dims, combiner="mean")
    distance = x - scope.broadcast(mean, x.shape, [feature])
    variance = scope.op("reduce", distance * distance, dims=dims, combiner="mean")
    y = scope.op("batch_norm", x, scale, offset, mean, variance, feature_dim=feature, epsilon=epsilon)
    return [y, mean, variance]


@handles("stablehlo.batch_norm_grad")
def batch_norm_grad(scope: Scope, op: Any) -> Sequence[Value]:
    """Computes the gradients that the StableHLO specification defines for batch_norm_grad."""
    x, scale, mean, variance, gradient = scope.operands(op)
    feature, epsilon = integer(op, "feature_index"), float(op.attributes["epsilon"].value)
    dims = batch_shape(scope, x, feature)

    def wide(part: Tensor) -> Tensor:
        return scope.broadcast(part, x.shape, [feature])

    def total(part: Tensor) -> Tensor:
        result: Tensor = scope.op("reduce", part, dims=dims, combiner="add")
        return result

    count = 1
    for axis in dims:
        count *= x.shape[axis]
    centered = x - wide(mean)
    deviation = scope.apply("sqrt", variance + epsilon)
    offset_gradient = total(gradient)
    products = total(gradient * centered)
    inner = gradient * float(count) - wide(offset_gradient) - centered * wide(products / (variance + epsilon))
    return [wide(scale / deviation) * inner * (1.0 / count), products / deviation, offset_gradient]
