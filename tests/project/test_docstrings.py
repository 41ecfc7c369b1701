"""Every public name has a docstring that states shapes, units, errors.

Public: names of `tilesim` and its namespaces, classes that public calls return, and their public members
(`tests/support/public_api.py`). The rule for a function or method written in Python:
- parameters are listed under `Args:`, a value returned under `Returns:` (or `Yields:`), errors raised under `Raises:`;
- a parameter or result annotated as an array says "shape"; a numeric result (also of a property) names its unit.
"""

import ast
import inspect
import re
import textwrap
from typing import Any

import tilesim
from support.public_api import function_of, members, public

ARRAY = re.compile(r"\b(ndarray|NDArray|ArrayLike)\b")
NUMBER = re.compile(r"^(int|float)( \| None)?$")
UNIT = re.compile(
    r"\b(cycles?|(milli|micro|nano|pico)?seconds?|ms|us|ns|(kilo|mega|giga)?bytes?|GB|bits?|[MG]?Hz|hertz|joules?|watts?|"
    r"FLOPs?|operations?|number|count|fraction|ratio|percent|elements?|parameters?|index|code)\b",
    re.IGNORECASE,
)


def faults(value: Any) -> list[str]:
    """What the docstring of one object lacks."""
    text = inspect.getdoc(value) or ""
    if isinstance(value, property):
        value = value.fget
        text = inspect.getdoc(value) or text
        is_property = True
    else:
        is_property = False
    if not text.strip():
        return ["has no docstring"]
    if not inspect.isfunction(value):
        return []  # a class, a module, or compiled: the text is enough
    wrong = []
    signature = inspect.signature(value)
    parameters = [p for p in signature.parameters.values() if p.name not in {"self", "cls"}]
    returned = (
        "" if signature.return_annotation in (inspect.Signature.empty, None) else str_of(signature.return_annotation)
    )
    for parameter in parameters:
        if not re.search(rf"^\s*\*{{0,2}}`?{parameter.name}\b.*?:", section(text, "Args"), re.MULTILINE):
            wrong.append(f"does not describe `{parameter.name}` under Args:")
    if (
        not is_property
        and returned not in {"", "None", "NoReturn"}
        and not section(text, "Returns") + section(text, "Yields")
    ):
        wrong.append("has no Returns:")
    if not is_property and raises(value) and not section(text, "Raises"):
        wrong.append("raises and has no Raises:")
    annotations = [str_of(p.annotation) for p in parameters] + [returned]
    if any(ARRAY.search(annotation) for annotation in annotations) and "shape" not in text.lower():
        wrong.append("takes or gives arrays and says no shape")
    if NUMBER.match(returned) and not UNIT.search(text):
        wrong.append("gives a number and names no unit")
    return wrong


def str_of(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))


def section(text: str, title: str) -> str:
    """The indented lines below `title:`."""
    match = re.search(rf"^{title}:[^\n]*\n((?:[ \t]+[^\n]*\n?|\n)+)", text + "\n", re.MULTILINE)
    return match[1] if match else ""


def raises(function: Any) -> bool:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, SyntaxError):
        return False
    return any(isinstance(node, ast.Raise) and node.exc is not None for node in ast.walk(tree))


PUBLIC = {
    name if key is None else f"{name}.{key}": value
    for name, owner in sorted(public().items())
    for key, value in [(None, owner), *(members(owner).items() if inspect.isclass(owner) else ())]
    if key is None or isinstance(value, property) or function_of(value)
}


def test_the_package_says_what_it_is() -> None:
    assert tilesim.__doc__
    assert tilesim.__all__ and all(hasattr(tilesim, name) for name in tilesim.__all__)


def test_docstrings() -> None:
    found = {name: faults(value) for name, value in PUBLIC.items()}
    assert not {name: wrong for name, wrong in found.items() if wrong}


def _bare(count: int) -> float:
    """Does a thing."""
    if count < 0:
        raise ValueError(count)
    return 1.0


def _full(count: int) -> float:
    """Does a thing.

    Args:
        count: How many.

    Returns:
        The time in seconds.

    Raises:
        ValueError: Negative.
    """
    if count < 0:
        raise ValueError(count)
    return 1.0


def test_the_rule_itself() -> None:
    assert len(faults(_bare)) == 4
    assert not faults(_full)
