"""Front ends: models of other frameworks and formats as graphs. Their libraries are extras, imported when used."""

from typing import TYPE_CHECKING

from .._lazy import lazy

if TYPE_CHECKING:
    from .onnx_entry import from_onnx, symbolic_sizes
    from .pytorch_ir import from_pytorch_ir, is_pytorch_ir
    from .pytorch_ir_writer import to_pytorch_ir
    from .stablehlo import from_jax, from_stablehlo
    from .torch_entry import from_torch

__all__ = [
    "from_jax",
    "from_onnx",
    "from_pytorch_ir",
    "from_stablehlo",
    "from_torch",
    "is_pytorch_ir",
    "symbolic_sizes",
    "to_pytorch_ir",
]

__getattr__ = lazy(
    __name__,
    {
        "from_jax": ".stablehlo",
        "from_onnx": ".onnx_entry",
        "from_pytorch_ir": ".pytorch_ir",
        "from_stablehlo": ".stablehlo",
        "from_torch": ".torch_entry",
        "is_pytorch_ir": ".pytorch_ir",
        "symbolic_sizes": ".onnx_entry",
        "to_pytorch_ir": ".pytorch_ir_writer",
    },
)
