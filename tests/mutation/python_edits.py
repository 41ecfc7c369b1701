"""Edits of Python: comparisons, signs, constants, conditions, statements left out, arguments exchanged or dropped."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mutation.mutants import Edit

COMPARE = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
TURNED = {ast.Lt: ast.Gt, ast.LtE: ast.GtE, ast.Gt: ast.Lt, ast.GtE: ast.LtE}
ARITHMETIC = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
}  # fmt: skip
LEFT_OUT = (ast.Expr, ast.AugAssign, ast.Continue, ast.Break, ast.Raise)


class _Edits:
    def __init__(self, source: str) -> None:
        self.source = source
        self.starts = [0]
        for line in source.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))
        self.found: list[Edit] = []

    def offset(self, line: int, column: int) -> int:
        """Of a position as `ast` counts it: columns in bytes of UTF-8."""
        start = self.starts[line - 1]
        text = self.source[start : self.starts[line]].encode()[:column].decode()
        return start + len(text)

    def replace(self, node: ast.AST, text: str, kind: str) -> None:
        start = self.offset(node.lineno, node.col_offset)  # type: ignore[attr-defined]
        end = self.offset(node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]
        self.found.append(Edit(start, end, text, kind))

    def visit(self, node: ast.AST) -> None:
        if isinstance(node, ast.JoinedStr) or _for_types_only(node):
            return
        if isinstance(node, ast.expr):
            for new, kind in _expressions(node):
                self.replace(node, f"({ast.unparse(ast.fix_missing_locations(new))})", kind)
        self.statement(node)
        for child in _children(node):
            self.visit(child)

    def statement(self, node: ast.AST) -> None:
        if isinstance(node, LEFT_OUT) and not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            self.replace(node, "pass", "statement left out")
        elif isinstance(node, ast.Return) and node.value is not None and ast.unparse(node.value) != "None":
            self.replace(node, "return None", "nothing returned")
        if isinstance(node, ast.If | ast.While | ast.IfExp):
            self.replace(node.test, f"(not ({ast.unparse(node.test)}))", "condition negated")


def _for_types_only(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def _children(node: ast.AST) -> Iterator[ast.AST]:
    """All but annotations and the texts of errors."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns") or isinstance(node, ast.Raise):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield child


def _expressions(node: ast.expr) -> Iterator[tuple[ast.expr, str]]:
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        for table in (COMPARE, TURNED):
            if other := table.get(type(node.ops[0])):
                yield ast.Compare(node.left, [other()], node.comparators), "comparison"
    elif isinstance(node, ast.BinOp) and not _is_text(node.left) and not _is_text(node.right):
        if other := ARITHMETIC.get(type(node.op)):
            yield ast.BinOp(node.left, other(), node.right), "arithmetic"
    elif isinstance(node, ast.BoolOp):
        yield ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values), "and, or"
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
        yield node.operand, "sign dropped"
    elif isinstance(node, ast.Constant):
        yield from _constants(node.value)
    elif isinstance(node, ast.Call):
        yield from _calls(node)


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _constants(value: object) -> Iterator[tuple[ast.expr, str]]:
    if isinstance(value, bool):
        yield ast.Constant(not value), "constant"
    elif isinstance(value, int):
        yield ast.Constant(value + 1), "constant"
        yield ast.Constant(value - 1), "constant"
    elif isinstance(value, float):
        yield ast.Constant(value * 1.5 + (value == 0)), "constant"


def _calls(node: ast.Call) -> Iterator[tuple[ast.expr, str]]:
    plain = [not isinstance(argument, ast.Starred) for argument in node.args]
    for index in range(len(node.args) - 1):
        if plain[index] and plain[index + 1] and ast.dump(node.args[index]) != ast.dump(node.args[index + 1]):
            args = list(node.args)
            args[index], args[index + 1] = args[index + 1], args[index]
            yield ast.Call(node.func, args, node.keywords), "arguments exchanged"
    for index, keyword in enumerate(node.keywords):
        if keyword.arg is not None:
            kept = node.keywords[:index] + node.keywords[index + 1 :]
            yield ast.Call(node.func, node.args, kept), "keyword dropped"


def python_edits(source: str) -> list[Edit]:
    """Every edit of a Python source; a few give what Python does not read."""
    edits = _Edits(source)
    edits.visit(ast.parse(source))
    return edits.found


def is_python(source: str) -> bool:
    """Whether Python reads it."""
    try:
        ast.parse(source)
    except SyntaxError:
        return False
    return True


def scope_lines(source: str, line: int) -> range:
    """The lines of the innermost function around a line; the whole file outside of all."""
    found = range(1, source.count("\n") + 2)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.lineno <= line <= (node.end_lineno or 0):
            lines = range(node.lineno, (node.end_lineno or 0) + 1)
            found = lines if len(lines) < len(found) else found
    return found


def in_signature(source: str, line: int) -> bool:
    """Whether a line lies between a function's name and its body: defaults, which tests of signatures see."""
    functions = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef))
    return any(node.lineno <= line < node.body[0].lineno for node in functions)
