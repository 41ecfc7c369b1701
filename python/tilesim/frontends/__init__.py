"""Front ends: models of other frameworks and formats as graphs. Their libraries are extras, imported when used."""

from typing import TYPE_CHECKING

from ..base.lazy import lazy, listed

if TYPE_CHECKING:
    from .onnx.entry import from_onnx, symbolic_sizes
    from .pytorch_ir.reader import from_pytorch_ir, is_pytorch_ir
    from .pytorch_ir.writer import to_pytorch_ir
    from .scale_sim import from_scale_sim
    from .stablehlo.entry import from_jax, from_stablehlo
    from .timeloop import from_timeloop_problem
    from .torch.entry import from_torch, from_transformers

__all__ = [
    "from_jax",
    "from_onnx",
    "from_pytorch_ir",
    "from_scale_sim",
    "from_stablehlo",
    "from_timeloop_problem",
    "from_torch",
    "from_transformers",
    "is_pytorch_ir",
    "symbolic_sizes",
    "to_pytorch_ir",
]

__getattr__ = lazy(
    __name__,
    {
        "from_jax": ".stablehlo.entry",
        "from_onnx": ".onnx.entry",
        "from_pytorch_ir": ".pytorch_ir.reader",
        "from_scale_sim": ".scale_sim",
        "from_stablehlo": ".stablehlo.entry",
        "from_timeloop_problem": ".timeloop",
        "from_torch": ".torch.entry",
        "from_transformers": ".torch.entry",
        "is_pytorch_ir": ".pytorch_ir.reader",
        "symbolic_sizes": ".onnx.entry",
        "to_pytorch_ir": ".pytorch_ir.writer",
    },
)
__dir__ = listed(__all__)
