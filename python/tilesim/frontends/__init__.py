"""Front ends: models of other frameworks and formats as graphs. Their libraries are extras, imported when used."""

from .onnx_model import from_onnx
from .stablehlo import from_jax, from_stablehlo
from .torch_entry import from_torch

__all__ = ["from_jax", "from_onnx", "from_stablehlo", "from_torch"]
