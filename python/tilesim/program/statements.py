"""How many statements a program executes."""

from __future__ import annotations

import math
import re
from typing import Any


def operations(document: dict[str, Any]) -> int:
    """Statements that a program executes: loops of unknown length count once, branches on data by what is typical.

    Args:
        document: JSON form of the program.

    Returns:
        The number, calls included.
    """
    return Counter(document).count(document["do"])


class Counter:
    """Counts statements of one program, which must not change meanwhile."""

    def __init__(self, document: dict[str, Any]) -> None:
        self._bodies = {function["name"]: function["do"] for function in document.get("functions", [])}
        self._known: dict[str, int] = {}
        #: share of elements that are not zero, of the tensors that branches read
        self._taken = {
            tensor["name"]: sum(value != 0 for value in tensor["typical"]["values"]) / len(tensor["typical"]["values"])
            for tensor in document.get("tensors", [])
            if "typical" in tensor
        }

    def count(self, block: list[dict[str, Any]]) -> int:
        """Of a list of statements."""
        total = 0
        for statement in block:
            inner = sum(self.count(statement[key]) for key in ("do", "then", "else") if key in statement)
            if "for" in statement:
                inner *= statement["extent"] if isinstance(statement["extent"], int) else 1
            elif "call" in statement:
                inner = self._called(statement["call"])
            elif "if" in statement and (read := re.search(r"read\(([\w.]+)", str(statement["if"]))):
                inner = math.ceil(inner * self._taken.get(read[1], 1))
            total += inner or 1
        return total

    def _called(self, name: str) -> int:
        if name not in self._known:
            self._known[name] = self.count(self._bodies.get(name, []))
        return self._known[name]
