"""Converts element types and elements of torch tensors without copies."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import torch

from ..base.errors import unsupported

_FLOAT8 = ("e4m3fn", "e5m2", "e4m3fnuz", "e5m2fnuz", "e8m0fnu")
_NAMES = {
    torch.bfloat16: "bf16",
    torch.bool: "bool",
    **{getattr(torch, f"float{bits}"): f"f{bits}" for bits in (64, 32, 16)},
    **{getattr(torch, f"float8_{form}"): f"f8{form}" for form in _FLOAT8},
    **{getattr(torch, f"{sign}int{bits}"): f"{sign or 'i'}{bits}" for sign in ("", "u") for bits in (64, 32, 16, 8)},
}

# numpy lacks these types, so their bits are passed as integers
_BITS = {torch.bfloat16: (torch.int16, ml_dtypes.bfloat16)} | {
    getattr(torch, f"float8_{form}"): (torch.int8, getattr(ml_dtypes, f"float8_{form}")) for form in _FLOAT8
}
_FROM_NUMPY = {np.dtype(scalar): (bits, dtype) for dtype, (bits, scalar) in _BITS.items()}


def dtype_name(dtype: Any, place: str = "") -> str:
    """Returns Tilesim's name of a torch dtype."""
    if dtype not in _NAMES:
        raise unsupported("unsupported dtype", place=place, value=str(dtype))
    return _NAMES[dtype]


def torch_dtype(name: str) -> Any:
    """Returns the torch dtype of one of Tilesim's names."""
    return next(dtype for dtype, known in _NAMES.items() if known == name)


def is_real(tensor: Any) -> bool:
    """Whether a tensor has elements (neither meta nor fake)."""
    fake = isinstance(tensor, torch._subclasses.FakeTensor)
    return isinstance(tensor, torch.Tensor) and tensor.device.type == "cpu" and not fake


def elements_of(tensor: Any) -> np.ndarray[Any, Any]:
    """Returns a tensor's elements as an array, without a copy if torch and numpy agree on the layout."""
    flat = tensor.detach().resolve_conj().resolve_neg()
    if flat.device.type != "cpu":
        flat = flat.cpu()
    if flat.dtype in _BITS:
        bits, scalar = _BITS[flat.dtype]
        array: np.ndarray[Any, Any] = flat.contiguous().view(bits).numpy().view(scalar)
        return array
    return np.asarray(flat.numpy())


def to_torch(array: np.ndarray[Any, Any]) -> Any:
    """Returns a torch tensor that shares the array's memory."""
    array = np.ascontiguousarray(array) if array.ndim else array
    if array.dtype in _FROM_NUMPY:
        bits, dtype = _FROM_NUMPY[array.dtype]
        return torch.from_numpy(array.view(np.int16 if bits == torch.int16 else np.int8)).view(dtype)
    return torch.from_numpy(array)
