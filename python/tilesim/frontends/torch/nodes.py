"""Nodes of an exported program: where they stand, what they are called, what passes without a meaning."""

from __future__ import annotations

from typing import Any

#: Overloads that check or annotate and give nothing.
IGNORED = {
    "aten._assert_tensor_metadata.default",
    "aten._assert_async.msg",
    "aten._assert_scalar.default",
    "aten.sym_constrain_range_for_size.default",
    "aten._log_api_usage_once.default",
    "aten._linalg_check_errors.default",
}


class Stored:
    """A weight that no operation has asked for yet."""

    def __init__(self, name: str) -> None:
        self.name = name


def place_of(node: Any) -> str:
    """The user's line that made a node: the innermost one outside torch, as "file:line: text"."""
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
    """Path of the innermost module that a node stands in."""
    paths = [str(path) for path, _ in (node.meta.get("nn_module_stack") or {}).values() if path]
    return paths[-1].removeprefix("L['self'].").removeprefix("L__self___") if paths else ""


def name_of(node: Any) -> str:
    """Path of the innermost module, and the operation where the module does more than one."""
    stack = node.meta.get("nn_module_stack") or {}
    path = path_of(node)
    operation = str(node.target).split(".")[1] if str(node.target).startswith("aten.") else node.name
    kind = str(list(stack.values())[-1][1]).rpartition(".")[2].lower() if stack else ""
    plain = operation.strip("_").replace("_", "")
    if path and (plain in kind or kind in plain):
        return path
    return f"{path}.{operation}" if path else operation
