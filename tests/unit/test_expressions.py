"""Quasi-affine expressions: values as Python's, simplification, ranges, errors."""

from __future__ import annotations

import ast

import hypothesis
import pytest
from hypothesis import strategies as st

from tilesim import _core

SYMBOLS = ["i", "j", "core.id", "n_1"]


def expressions():
    constant = st.integers(-50, 50).map(lambda value: f"({value})" if value < 0 else str(value))
    positive = st.integers(1, 12).map(str)

    def larger(inner):
        return st.one_of(
            st.tuples(inner, st.sampled_from(["+", "-", "==", "!=", "<", "<=", ">", ">=", "and", "or"]), inner).map(
                lambda parts: f"({parts[0]} {parts[1]} {parts[2]})"
            ),
            st.tuples(constant, inner).map(lambda parts: f"{parts[0]} * ({parts[1]})"),
            st.tuples(inner, st.sampled_from(["//", "%"]), positive).map(
                lambda parts: f"(({parts[0]}) {parts[1]} {parts[2]})"
            ),
            st.tuples(st.sampled_from(["min", "max"]), st.lists(inner, min_size=2, max_size=3)).map(
                lambda parts: f"{parts[0]}({', '.join(parts[1])})"
            ),
            st.tuples(inner, positive).map(lambda parts: f"ceildiv({parts[0]}, {parts[1]})"),
            inner.map(lambda part: f"(not {part})"),
            inner.map(lambda part: f"(-{part})"),
        )

    return st.recursive(constant | st.sampled_from(SYMBOLS), larger, max_leaves=12)


class Truth:
    """Python's `and`, `or` and `not` on integers, with 0 or 1 as result."""

    @staticmethod
    def value(text, symbols):
        tree = ast.parse(text.replace("core.id", "core_id"), mode="eval").body
        return Truth.walk(tree, {name.replace(".", "_"): value for name, value in symbols.items()})

    @staticmethod
    def walk(node, symbols):
        def inner(child):
            return Truth.walk(child, symbols)

        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            return symbols[node.id]
        if isinstance(node, ast.BoolOp):
            values = [inner(value) != 0 for value in node.values]
            return int(all(values) if isinstance(node.op, ast.And) else any(values))
        if isinstance(node, ast.UnaryOp):
            value = inner(node.operand)
            return int(value == 0) if isinstance(node.op, ast.Not) else -value
        if isinstance(node, ast.Call):
            values = [inner(value) for value in node.args]
            return {"min": min, "max": max, "ceildiv": lambda a, b: -(-a // b)}[node.func.id](*values)
        names = {"left": node.left, "right": node.right if isinstance(node, ast.BinOp) else node.comparators[0]}
        a, b = inner(names["left"]), inner(names["right"])
        operation = type(node.op if isinstance(node, ast.BinOp) else node.ops[0]).__name__
        table = {
            "Add": lambda: a + b, "Sub": lambda: a - b, "Mult": lambda: a * b, "FloorDiv": lambda: a // b,
            "Mod": lambda: a % b, "Eq": lambda: a == b, "NotEq": lambda: a != b, "Lt": lambda: a < b,
            "LtE": lambda: a <= b, "Gt": lambda: a > b, "GtE": lambda: a >= b,
        }  # fmt: skip
        return int(table[operation]())


@hypothesis.settings(deadline=None, max_examples=300)
@hypothesis.given(expressions(), st.lists(st.integers(-100, 100), min_size=4, max_size=4))
def test_expressions_as_python(text, values):
    symbols = dict(zip(SYMBOLS, values, strict=True))
    expected = Truth.value(text, symbols)
    assert _core.evaluate_expr(text, symbols) == expected
    assert _core.evaluate_expr(text, symbols, compiled=True) == expected
    normal = _core.normalize_expr(text)
    assert _core.normalize_expr(normal) == normal
    assert _core.evaluate_expr(normal, symbols) == expected
    around = {name: (value - 3, value + 5) for name, value in symbols.items()}
    for ranges in (around, {}, {name: (value, value) for name, value in symbols.items()}):
        low, high = _core.range_of_expr(text, ranges)
        assert low <= expected <= high


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("i + 0*j + 2 - 2", "i"),
        ("4*i + j - 3*i - i", "j"),
        ("2*(i + 3) - i", "i + 6"),
        ("(128*i + 127) // 128", "i"),
        ("(128*i + j) // 128", "i + j // 128"),
        ("(128*i + j) % 128", "j % 128"),
        ("(8*i + 7) // 16", "i // 2"),
        ("i // 4 // 8", "i // 32"),
        ("i % 8 // 8", "0"),
        ("i % 8 % 16", "i % 8"),
        ("i % 16 % 8", "i % 8"),
        ("min(i, i + 3)", "i"),
        ("max(min(i, 3), i)", "max(min(i, 3), i)"),
        ("min(min(i, 5), 3)", "min(i, 3)"),
        ("i < i + 1", "1"),
        ("not (i < j)", "(j <= i)"),
        ("i == j and 0", "((i == j) and 0)"),
        ("0 and i", "0"),
        ("1 or read(t, i)", "1"),
        ("read(t, i, j + 1) + 1", "read(t, i, j + 1) + 1"),
        ("-i - 3", "-1*i - 3"),
        ("-9223372036854775808", "-9223372036854775808"),
    ],
)
def test_expressions_are_simplified(text, normal):
    assert _core.normalize_expr(text) == normal


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("i * j", "constant factor"),
        ("i // 0", "positive constant"),
        ("i % -3", "positive constant"),
        ("i // j", "expected a constant"),
        ("i +", "expected a value at column 4"),
        ("(i", r"expected '\)' at column 3"),
        ("i j", "unexpected text at column 3"),
        ("i $ 2", "unexpected text"),
        ("2x", "after a number"),
        ("foo(i)", "unknown function 'foo'"),
        ("ceildiv(i)", "ceildiv takes"),
        ("99999999999999999999", "beyond 64 bits"),
        ("9223372036854775807 + 1", "range of 64-bit"),
        ("", "expected a value at column 1"),
        ("read()", "tensor's name"),
        ("not", "expected a value|unexpected"),
        ("(" * 5000 + "i", "nested too deeply"),
        ("not " * 5000 + "i", "nested too deeply"),
        ("- " * 5000 + "i", "nested too deeply"),
        ("i" + " % 7 // 2" * 5000, "nested too deeply"),
    ],
)
def test_expression_errors(text, message):
    with pytest.raises(_core.UserError, match=message):
        _core.normalize_expr(text)


def test_expression_values_out_of_range():
    with pytest.raises(_core.UserError, match="64-bit"):
        _core.evaluate_expr("4*i", {"i": 1 << 62})
    with pytest.raises(_core.UserError, match="unknown symbol"):
        _core.evaluate_expr("i", {})


@hypothesis.settings(deadline=None, max_examples=300)
@hypothesis.given(st.text("ij09+-*/%()<>=!, andortmiexcl.", max_size=40))
def test_any_text_is_an_expression_or_an_error(text):
    try:
        normal = _core.normalize_expr(text)
    except _core.UserError:
        return
    assert _core.normalize_expr(normal) == normal
