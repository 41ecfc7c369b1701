"""Nodes of an exported program: source lines, names, and which of them reading ignores or evaluates."""

from __future__ import annotations

from typing import Any

import torch

from ...graph.tensor import Tensor
from ...graph.torch_arrays import is_real

#: Overloads that check or annotate and have no result.
_IGNORED = """
    _assert_tensor_metadata.default _assert_async.msg _assert_scalar.default sym_constrain_range_for_size.default
    _log_api_usage_once.default _linalg_check_errors.default
"""
IGNORED = {f"aten.{name}" for name in _IGNORED.split()}

#: Most elements of a value that reading evaluates.
FOLD_LIMIT = 1 << 24

_FOLDED = """
    _to_copy add.Scalar add.Tensor alias arange arange.start arange.start_step bitwise_and.Tensor bitwise_not cat
    ceil clamp clone cos cumsum detach div.Scalar div.Tensor eq.Scalar eq.Tensor exp expand flatten.using_ints
    flip floor full full_like ge.Scalar ge.Tensor gt.Scalar gt.Tensor le.Scalar le.Tensor lift_fresh_copy
    logical_and logical_not logical_or lt.Scalar lt.Tensor masked_fill.Scalar maximum minimum mul.Scalar
    mul.Tensor ne.Scalar ne.Tensor neg ones ones_like permute pow.Tensor_Scalar reciprocal repeat reshape round
    rsqrt scalar_tensor select.int sin slice.Tensor split.Tensor split_with_sizes sqrt squeeze squeeze.dim stack
    sub.Scalar sub.Tensor t transpose.int tril triu unbind.int unsqueeze view where.self zeros zeros_like
"""
#: Overloads that are safe to evaluate for untrusted files: their time is proportional to their results, and they check
#: their arguments (some of torch's overloads write to unchecked addresses).
FOLDED = {f"aten.{name}" if "." in name else f"aten.{name}.default" for name in _FOLDED.split()}

#: Number of elements up to which evaluated results are always stored.
MAX_CONSTANT = 4096
_BITS = ("bitwise_", "__and__", "__rshift__", "__lshift__", "__or__")
_VIEWS = ("unsqueeze", "view", "reshape", "permute", "aten.t.", "transpose")

#: Random overloads, which are never evaluated while reading.
_RANDOM = ("rand", "normal", "bernoulli", "multinomial", "dropout", "exponential", "uniform")


class UnreadWeight:
    """A parameter that no operation has read yet, so that the graph has no weight for it."""

    def __init__(self, name: str) -> None:
        self.name = name


def place_of(node: Any) -> str:
    """Returns a node's innermost source line outside torch, as "file:line: text"."""
    lines = (node.meta.get("stack_trace") or "").strip().splitlines()
    found = ""
    for i, line in enumerate(lines):
        text = line.strip()
        if not text.startswith('File "'):
            continue
        file, _, rest = text[6:].partition('"')
        number = rest.split("line ")[1].split(",")[0] if "line " in rest else "?"
        code = lines[i + 1].strip() if i + 1 < len(lines) and not lines[i + 1].strip().startswith("File") else ""
        place = f"{file}:{number}" + (f": {code}" if code else "")
        if "/torch/" not in file.replace("\\", "/") or not found:
            found = place
    return found


def path_of(node: Any) -> str:
    """Returns the path of a node's innermost module."""
    paths = [str(path) for path, _ in (node.meta.get("nn_module_stack") or {}).values() if path]
    return paths[-1].removeprefix("L['self'].").removeprefix("L__self___") if paths else ""


def name_of(node: Any) -> str:
    """Returns the path of the innermost module, followed by the operation if the module has several."""
    stack = node.meta.get("nn_module_stack") or {}
    path = path_of(node)
    operation = str(node.target).split(".")[1] if str(node.target).startswith("aten.") else node.name
    kind = str(list(stack.values())[-1][1]).rpartition(".")[2].lower().rstrip("123d") if stack else ""
    plain = operation.strip("_").replace("_", "")
    if path and (plain in kind or kind in plain):
        return path
    return f"{path}.{operation}" if path else operation


def is_of_bits(overload: str) -> bool:
    """Whether an overload extracts bits of integers."""
    return any(word in overload for word in _BITS)


def is_view(overload: str) -> bool:
    """Whether an overload only changes shape or order of its operand."""
    return any(word in overload for word in _VIEWS)


def is_random(overload: str) -> bool:
    """Whether an overload draws random numbers."""
    return any(word in overload for word in _RANDOM)


def is_constant(value: Any) -> bool:
    """Whether torch can evaluate calls with the value, because it contains no tensor of the graph."""
    if isinstance(value, (list, tuple)):
        return all(is_constant(item) for item in value)
    if isinstance(value, torch.Tensor):
        return is_real(value)
    return not isinstance(value, (Tensor, UnreadWeight)) and not hasattr(value, "im")
