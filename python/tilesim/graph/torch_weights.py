"""Parameters, buffers and constants of a torch program as weights of the graph: by reference, ties by storage."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import torch

from .._errors import unsupported
from .._tensor import Tensor
from ..graph import GraphBuilder

_NAMES = {
    torch.float64: "f64",
    torch.float32: "f32",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.float8_e4m3fn: "f8e4m3fn",
    torch.float8_e5m2: "f8e5m2",
    torch.float8_e4m3fnuz: "f8e4m3fnuz",
    torch.float8_e5m2fnuz: "f8e5m2fnuz",
    torch.float8_e8m0fnu: "f8e8m0fnu",
    torch.int64: "i64",
    torch.int32: "i32",
    torch.int16: "i16",
    torch.int8: "i8",
    torch.uint64: "u64",
    torch.uint32: "u32",
    torch.uint16: "u16",
    torch.uint8: "u8",
    torch.bool: "bool",
}

# numpy has no name for these: their bits pass as integers
_BITS = {
    torch.bfloat16: (torch.int16, ml_dtypes.bfloat16),
    torch.float8_e4m3fn: (torch.int8, ml_dtypes.float8_e4m3fn),
    torch.float8_e5m2: (torch.int8, ml_dtypes.float8_e5m2),
    torch.float8_e4m3fnuz: (torch.int8, ml_dtypes.float8_e4m3fnuz),
    torch.float8_e5m2fnuz: (torch.int8, ml_dtypes.float8_e5m2fnuz),
    torch.float8_e8m0fnu: (torch.int8, ml_dtypes.float8_e8m0fnu),
}
_FROM_NUMPY = {np.dtype(scalar): (bits, dtype) for dtype, (bits, scalar) in _BITS.items()}


def dtype_name(dtype: Any, place: str = "") -> str:
    """Our name of a torch dtype."""
    if dtype not in _NAMES:
        raise unsupported("this dtype has no meaning here", place=place, value=str(dtype))
    return _NAMES[dtype]


def torch_dtype(name: str) -> Any:
    """The torch dtype of one of our names."""
    return next(dtype for dtype, known in _NAMES.items() if known == name)


def is_real(tensor: Any) -> bool:
    """Whether a tensor has elements (neither meta nor fake)."""
    fake = isinstance(tensor, torch._subclasses.FakeTensor)
    return isinstance(tensor, torch.Tensor) and tensor.device.type == "cpu" and not fake


def elements_of(tensor: Any) -> np.ndarray[Any, Any]:
    """The elements, in the same memory where torch and numpy agree on the layout."""
    flat = tensor.detach().resolve_conj().resolve_neg()
    if flat.device.type != "cpu":
        flat = flat.cpu()
    if flat.dtype in _BITS:
        bits, scalar = _BITS[flat.dtype]
        array: np.ndarray[Any, Any] = flat.contiguous().view(bits).numpy().view(scalar)
        return array
    return np.asarray(flat.numpy())


def to_torch(array: np.ndarray[Any, Any]) -> Any:
    """A torch tensor in the array's memory."""
    array = np.ascontiguousarray(array) if array.ndim else array
    if array.dtype in _FROM_NUMPY:
        bits, dtype = _FROM_NUMPY[array.dtype]
        return torch.from_numpy(array.view(np.int16 if bits == torch.int16 else np.int8)).view(dtype)
    return torch.from_numpy(array)


class WeightStore:
    """Hands stored tensors to the builder when an operation first asks for them."""

    def __init__(self, builder: GraphBuilder) -> None:
        self.builder = builder
        self._values: dict[str, tuple[Any, bool]] = {}
        self._first: dict[Any, str] = {}
        self._constants: dict[Any, tuple[str, Any, np.ndarray[Any, Any]]] = {}
        self._taken: set[str] = set()
        self.ties: dict[str, str] = {}

    def register(self, name: str, value: Any, trainable: bool) -> None:
        """Notes a parameter or buffer under its path in the module; one that shares memory is an alias of the first."""
        self._values[name] = (value, trainable)
        if not is_real(value) or value.numel() == 0:
            return
        key = (value.data_ptr(), value.dtype, tuple(value.shape), tuple(value.stride()))
        first = self._first.setdefault(key, name)
        if first != name:
            self.ties[name] = first

    def tensor(self, name: str) -> Tensor:
        """The weight of that path."""
        name = self.ties.get(name, name)
        value, trainable = self._values[name]
        dtype = dtype_name(value.dtype, name)
        if not is_real(value) and value.device.type in ("meta", "cpu"):
            return self.builder.weight(name, list(value.shape), dtype, trainable=trainable)
        core = self.builder.core
        array = elements_of(value)
        return Tensor(self.builder, core.weight(name, data=array, trainable=trainable, share=True))

    def constant(self, value: Any, name: str) -> Tensor:
        """A tensor that depends on no input; views of the same memory are one weight."""
        key = (value.data_ptr(), value.dtype, tuple(value.shape), tuple(value.stride()))
        if key not in self._constants:
            stem = f"{name}.constant" if name else "constant"
            unique, number = stem, 0
            while unique in self._taken or unique in self._values:
                number += 1
                unique = f"{stem}.{number}"
            self._taken.add(unique)
            self._constants[key] = (unique, value, np.array(elements_of(value)))
        unique, _, array = self._constants[key]
        return Tensor(self.builder, self.builder.core.weight(unique, data=array, trainable=False, share=True))
