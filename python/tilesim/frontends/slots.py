"""A static cache of keys and values for models of transformers."""

from __future__ import annotations

from typing import Any

import torch
from transformers import cache_utils

__all__ = ["Slot", "empty", "leaves_of", "results_of", "slots"]


def empty(shape: tuple[int, ...], dtype: Any, mode: Any) -> Any:
    """Returns a tensor of zeros; under a fake-tensor mode, it has no elements."""
    return torch.zeros(shape, dtype=dtype) if mode is None else mode.from_tensor(torch.empty(shape, dtype=dtype))


def slots(shapes: list[tuple[Any, Any]], mode: Any) -> torch.nn.ModuleList:
    """Creates a module per layer with buffers for keys and values of these shapes and dtypes."""
    layers = torch.nn.ModuleList()
    for pair in shapes:
        layers.append(torch.nn.Module())
        for name, (shape, dtype) in zip(("keys", "values"), pair, strict=True):
            layers[-1].register_buffer(name, empty(shape, dtype, mode))
    return layers


def leaves_of(program: Any) -> list[Any]:
    """Returns the results of an exported program as a flat list, without elements."""
    (last,) = [node for node in program.graph.nodes if node.op == "output"]
    count = program.call_spec.out_spec.num_leaves
    given = last.args[0][len(last.args[0]) - count :]
    return [node.meta["val"] if isinstance(node, torch.fx.Node) else node for node in given]


def results_of(program: Any) -> Any:
    """Returns the results of an exported program, without elements, in the module's structure."""
    return torch.utils._pytree.tree_unflatten(leaves_of(program), program.call_spec.out_spec)


class Slot(cache_utils.CacheLayerMixin):
    """Keys and values of one layer in fixed memory, filled except for the last tokens."""

    is_compileable = True
    is_sliding = False
    keys: Any
    values: Any

    def __init__(self, keys: Any, values: Any, filled: int) -> None:
        super().__init__()
        self.keys, self.values, self.filled = keys, values, filled
        self.is_initialized = True

    def lazy_initialization(self, *given: Any, **named: Any) -> None:
        """Does nothing, because the cache exists already."""

    def update(self, key_states: Any, value_states: Any, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
        """Writes the new keys and values, and returns all keys and values."""
        place = torch.arange(self.filled, self.filled + key_states.shape[-2], device=key_states.device)
        self.keys.index_copy_(2, place, key_states)
        self.values.index_copy_(2, place, value_states)
        return self.keys, self.values

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Returns the number of keys that a mask covers, and the index of the first key."""
        return self.filled + int(query_length), 0

    def get_seq_length(self) -> int:
        """Number of tokens in the cache."""
        return self.filled

    def get_max_length(self) -> int:
        """Number of tokens that the cache can hold."""
        return int(self.keys.shape[2])

    get_max_cache_shape = get_max_length
