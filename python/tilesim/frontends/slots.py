"""A static cache of keys and values for models of transformers."""

from __future__ import annotations

from typing import Any

import torch
from transformers import cache_utils

__all__ = ["Slot", "empty"]


def empty(shape: tuple[int, ...], dtype: Any, mode: Any) -> Any:
    """A tensor of zeros; without elements in a mode of fake tensors."""
    return torch.zeros(shape, dtype=dtype) if mode is None else mode.from_tensor(torch.empty(shape, dtype=dtype))


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
        """Does nothing: the cache exists already."""

    def update(self, key_states: Any, value_states: Any, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
        """Writes the new keys and values and returns all."""
        place = torch.arange(self.filled, self.filled + key_states.shape[-2], device=key_states.device)
        self.keys.index_copy_(2, place, key_states)
        self.values.index_copy_(2, place, value_states)
        return self.keys, self.values

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Keys that a mask covers, and the first of them."""
        return self.filled + int(query_length), 0

    def get_seq_length(self) -> int:
        """Number of tokens in the cache."""
        return self.filled

    def get_max_length(self) -> int:
        """Number of tokens that the cache can hold."""
        return int(self.keys.shape[2])

    get_max_cache_shape = get_max_length
