"""Inputs of an exported program that become constants of the graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, TypeAlias

import torch

from ...base.errors import user_error
from ...graph.torch_arrays import is_real

Fixed: TypeAlias = Mapping[str, Any] | Sequence[str]


def fixed_values(program: Any, fixed: Fixed) -> dict[str, Any]:
    """Returns the tensors of a program's fixed inputs by name."""
    wanted = fixed if isinstance(fixed, Mapping) else dict.fromkeys([fixed] if isinstance(fixed, str) else fixed)
    if not wanted:
        return {}
    known = _present_values(program)
    found = {}
    for pattern, value in wanted.items():
        names = [name for name in known if fnmatchcase(name, pattern)]
        if not names:
            allowed = ", ".join(known)
            raise user_error("no tensor input has this name", place="fixed", value=f"'{pattern}'", allowed=allowed)
        for name in names:
            found[name] = _value(name, *known[name], value)
    return found


def _present_values(program: Any) -> dict[str, tuple[Any, Any]]:
    """Returns fake tensor and current value of every tensor argument and changed buffer by name."""
    signature = program.graph_signature
    metas = {node.name: node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"}
    given = torch.utils._pytree.tree_leaves(program.example_inputs)
    examples = given if len(given) == len(signature.user_inputs) else [None] * len(signature.user_inputs)
    known = {
        name: (metas[name], example)
        for name, example in zip(signature.user_inputs, examples, strict=True)
        if isinstance(metas.get(name), torch.Tensor)
    }
    changed = set(signature.buffers_to_mutate.values())
    for name, target in signature.inputs_to_buffers.items():
        if target in changed:
            table = program.constants if target in program.constants else program.state_dict
            known[target] = (metas[name], table.get(target))
    return known


def _value(name: str, meta: Any, example: Any, value: Any) -> Any:
    if value is None:
        if not isinstance(example, torch.Tensor) or not is_real(example):
            raise user_error("this input was exported without a value", place=f"fixed, {name}",
                             suggestion="Give the value: fixed={name: value}")  # fmt: skip
        return example.detach().clone()
    try:
        return torch.as_tensor(value).to(meta.dtype).expand(tuple(map(int, meta.shape))).contiguous()
    except (TypeError, ValueError, RuntimeError) as error:
        shape = f"{meta.dtype}{list(meta.shape)}"
        raise user_error(
            "the value does not fit this input", place=f"fixed, {name}", value=str(value), allowed=shape
        ) from error
