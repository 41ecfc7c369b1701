"""Recognises the bodies of reductions, scatters and sorts by structure and by their results on special values."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from ... import _core
from ...base.dtypes import FLOATS, NUMPY
from ...graph.builder import GraphBuilder
from .scope import Scope, Value, each, named
from .types import Shaped, dense, text

COMBINERS = {
    "stablehlo.add": "add",
    "stablehlo.multiply": "multiply",
    "stablehlo.maximum": "maximum",
    "stablehlo.minimum": "minimum",
    "stablehlo.and": "logical_and",
    "stablehlo.or": "logical_or",
}
CHOOSING = {"stablehlo.compare", "stablehlo.select", "stablehlo.or", "stablehlo.and", "stablehlo.not"}


def terminator(block: Any) -> Any:
    """The last operation of a block."""
    return block.operations[len(block.operations) - 1]


def producer(value: Any) -> Any:
    """Returns the operation that computes a value; None for a block argument."""
    owner = value.owner
    return owner if hasattr(owner, "opview") or hasattr(owner, "results") else None


def unmarked(value: Any) -> Any:
    """Returns the value before annotations and copies."""
    op = producer(value)
    while op is not None and (
        named(op) in ("sdy.sharding_constraint", "sdy.reshard", "mhlo.copy")
        or (named(op) == "stablehlo.custom_call" and text(op.operation, "call_target_name") == "Sharding")
    ):
        value = op.operands[0]
        op = producer(value)
    return value


def combiner_of(block: Any, index: int, count: int, replace: bool = False) -> str | None:
    """Returns the combiner of result `index` of a body with 2 * count arguments; None for an unknown combiner."""
    value = unmarked(terminator(block).operands[index])
    first, second = block.arguments[index], block.arguments[count + index]
    if replace and value == second:
        return "set"
    op = producer(value)
    if op is None or len(op.operands) != 2:
        return None
    operands = [unmarked(operand) for operand in op.operands]
    if replace and named(op) == "stablehlo.subtract" and operands == [first, second]:
        return "subtract"
    if operands not in ([first, second], [second, first]):
        return None
    combiner = COMBINERS.get(named(op))
    boolean = Shaped(first.type, "a body").dtype == "bool"
    if boolean and combiner in ("add", "maximum"):
        return "logical_or"
    if boolean and combiner in ("multiply", "minimum"):
        return "logical_and"
    if combiner in ("logical_and", "logical_or") and not boolean:
        return None
    return combiner


def promoted(scope: Scope, block: Any, values: Sequence[Value]) -> list[Value]:
    """Converts operands to the element types of a body's arguments, which may be wider (StableHLO, is_promotable)."""
    types = [Shaped(argument.type, "a body").dtype for argument in block.arguments]
    return [
        each(lambda part, dtype=dtype: scope.convert(part, dtype), value)
        for value, dtype in zip(values, itertools.cycle(types), strict=False)
    ]


def choosing(block: Any, constants: Sequence[float] = ()) -> bool:
    """Whether a body only compares and selects its arguments and `constants`."""
    for op in list(block.operations)[:-1]:
        if named(op) == "stablehlo.constant":
            array, _ = dense(op.operation, Shaped(op.operation.results[0].type, "a body"), "a body")
            number = float(np.asarray(array, dtype=np.float64).reshape(-1)[0])
            if not any(number == known or (number != number and known != known) for known in constants):
                return False
        elif named(op) not in CHOOSING:
            return False
    return True


def evaluated(module: Any, block: Any, columns: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    """Computes an elementwise body on columns of scalars."""
    builder = GraphBuilder("body")
    scope = Scope(module, builder)
    arguments = []
    for i, (argument, column) in enumerate(zip(block.arguments, columns, strict=True)):
        arguments.append(builder.input(f"a{i}", column.shape, Shaped(argument.type, "a body").dtype))
    for i, result in enumerate(scope.inline(block, arguments)):
        builder.output(scope.op("copy", scope.broadcast(result, columns[0].shape)), f"r{i}")
    return [np.asarray(array) for array in _core.evaluate(builder.build().core, list(columns))]


def special(dtype: str, nan: bool) -> list[Any]:
    """Returns values on which different sort orders give different results."""
    if dtype == "bool":
        return [False, True]
    if dtype in FLOATS:
        return [-np.inf, -1.5, -0.0, 0.0, 2.0, np.inf, *([np.nan, -np.nan] if nan else [])]
    info = ml_dtypes.iinfo(NUMPY[dtype])
    return [int(info.min), 0, 1, 5, int(info.max)]


def arg_combiner(module: Any, block: Any) -> str | None:
    """Returns "argmax" or "argmin" if a body of two (value, index) pairs computes it (first index, NaN wins)."""
    if len(block.arguments) != 4 or not choosing(block):
        return None
    dtypes = [Shaped(argument.type, "a body").dtype for argument in block.arguments]
    if dtypes[1] in FLOATS or dtypes[1] == "bool":
        return None
    cases = list(itertools.product(special(dtypes[0], True), (0, 1, 7), special(dtypes[0], True), (0, 1, 7)))
    cases = [case for case in cases if case[1] != case[3]]
    columns = [np.array([case[i] for case in cases]).astype(NUMPY[dtype]) for i, dtype in enumerate(dtypes)]
    value, index = evaluated(module, block, columns)
    a, i, b, j = (np.array(column, dtype=np.float64) for column in columns)
    for name, wins in (("argmax", a > b), ("argmin", a < b)):
        left_nan, right_nan = np.isnan(a), np.isnan(b)
        tie = (a == b) | (left_nan & right_nan)
        left = np.where(tie, i < j, np.where(left_nan | right_nan, left_nan, wins))
        wanted = np.where(left, a, b)
        same = np.array(value, dtype=np.float64)
        if np.array_equal(np.where(left, i, j), index) and np.array_equal(wanted, same, equal_nan=True):
            return name
        # JAX keeps the first of two NaN arguments, which has the lower index if indices increase
        left = np.where(left_nan & right_nan, True, left)
        if np.array_equal(np.where(left, i, j), index) and np.array_equal(np.where(left, a, b), same, equal_nan=True):
            return name
    return None


def sort_order(module: Any, block: Any) -> tuple[int, bool, bool] | None:
    """Returns (number of leading keys, descending, total order) of a sort comparator, else None. A total order ranks
    NaN and zeros by sign too."""
    if not choosing(block, (0.0, np.nan)):
        return None
    count = len(block.arguments) // 2
    dtypes = [Shaped(argument.type, "a body").dtype for argument in block.arguments]
    total = any(
        text(op.operation, "compare_type") == "TOTALORDER"
        for op in block.operations
        if named(op) == "stablehlo.compare"
    )
    for keys in range(1, min(count, 3) + 1):
        values = [special(dtypes[2 * k], total) if k == 0 or keys < 3 else [0, 1] for k in range(keys)]
        rows = list(itertools.product(*values))
        pairs = [(a, b) for a in rows for b in rows for _ in range(3)][:60000]
        columns = []
        for i, dtype in enumerate(dtypes):
            column = [
                pair[i % 2][i // 2] if i // 2 < keys else (index % 3 if i % 2 else 1)
                for index, pair in enumerate(pairs)
            ]
            columns.append(np.array(column).astype(NUMPY[dtype]))
        (before,) = evaluated(module, block, columns)
        for descending, signed in itertools.product((False, True), (False, True) if total else (False,)):
            wanted = np.zeros(len(pairs), bool)
            for key in reversed(range(keys)):
                a, b = _ranks(columns[2 * key], columns[2 * key + 1], signed)
                wanted = np.where(a == b, wanted, a > b if descending else a < b)
            if np.array_equal(wanted, before):
                return keys, descending, signed
    return None


def _ranks(a: NDArray[Any], b: NDArray[Any], signed: bool) -> NDArray[Any]:
    """Ranks the elements of both arrays; NaN ranks after all numbers, or by sign bits if `signed`."""
    both = np.concatenate([a, b])
    if both.dtype.kind not in "iub" and both.dtype not in (NUMPY["i4"], NUMPY["u4"], NUMPY["i2"], NUMPY["u2"]):
        both = both.astype(np.float64)
        if signed:
            bits = both.view(np.int64)
            both = bits ^ ((bits >> 63) & np.iinfo(np.int64).max)
    places = np.unique(both if both.dtype.kind in "iubf" else both.astype(np.int64), return_inverse=True)[1]
    return np.asarray(places).reshape(2, len(a))
