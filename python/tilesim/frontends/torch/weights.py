"""Adds parameters, buffers and constants of a torch program as weights without copies; ties shared storage."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ...base.dtypes import NUMPY
from ...graph import GraphBuilder, Tensor
from ...graph.torch_arrays import dtype_name, elements_of, is_real


class WeightStore:
    """Passes stored tensors to the builder when an operation first reads them."""

    def __init__(self, builder: GraphBuilder) -> None:
        self.builder = builder
        self._values: dict[str, tuple[Any, bool]] = {}
        self._first: dict[Any, str] = {}
        self._constants: dict[Any, tuple[str, Any, np.ndarray[Any, Any]]] = {}
        self._taken: set[str] = set()
        self.ties: dict[str, str] = {}

    def register(self, name: str, value: Any, trainable: bool) -> None:
        """Registers a parameter or buffer under its path in the module; tensors that share memory are tied."""
        self._values[name] = (value, trainable)
        if not is_real(value) or value.numel() == 0:
            return
        key = (value.data_ptr(), value.dtype, tuple(value.shape), tuple(value.stride()))
        first = self._first.setdefault(key, name)
        if first != name:
            self.ties[name] = first

    def tensor(self, name: str) -> Tensor:
        """Returns the weight registered under a path."""
        name = self.ties.get(name, name)
        value, trainable = self._values[name]
        dtype = dtype_name(value.dtype, name)
        core = self.builder.core
        if not is_real(value) and value.device.type in ("meta", "cpu"):
            if value.is_floating_point() or value.is_complex() or trainable:
                return self.builder.weight(name, list(value.shape), dtype, trainable=trainable)
            value = torch.zeros(value.shape, dtype=value.dtype)  # 0 is a valid position or mask
        array = elements_of(value)
        return Tensor(self.builder, core.weight(name, data=array, trainable=trainable, share=True))

    def constant(self, value: Any, name: str, codes: bool = False) -> Tensor:
        """Adds a constant as weight; equal views of memory share one. Stores 4-bit codes in 4 bits."""
        key = (value.data_ptr(), value.dtype, tuple(value.shape), tuple(value.stride()))
        if key not in self._constants:
            stem = f"{name}.constant" if name else "constant"
            unique, number = stem, 0
            while unique in self._taken or unique in self._values:
                number += 1
                unique = f"{stem}.{number}"
            self._taken.add(unique)
            array = np.array(elements_of(value))
            narrow = _narrow(array) if codes else None
            self._constants[key] = (unique, value, array if narrow is None else array.astype(NUMPY[narrow]))
        unique, _, array = self._constants[key]
        made = Tensor(self.builder, self.builder.core.weight(unique, data=array, trainable=False, share=True))
        return made.convert(dtype_name(value.dtype, name))


def _narrow(array: np.ndarray[Any, Any]) -> str | None:
    """Returns the 4-bit type that can hold all elements of a large integer array, or None."""
    few = 4096  # arrays of at most this many elements keep their dtype
    if array.size <= few or array.dtype == np.bool_:
        return None
    low, high = int(array.min()), int(array.max())
    return "u4" if low >= 0 and high <= 15 else "i4" if low >= -8 and high <= 7 else None
