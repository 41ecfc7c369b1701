"""Element types and elements of torch tensors, in the memory where they lie."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import torch

from ..base.errors import unsupported

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
