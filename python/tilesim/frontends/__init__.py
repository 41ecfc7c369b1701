"""Front ends: convert models of other frameworks and formats to graphs. Their libraries are optional extras."""

from typing import TYPE_CHECKING

from ..base.lazy import lazy, listed

if TYPE_CHECKING:
    from .onnx.entry import from_onnx as from_onnx
    from .onnx.entry import symbolic_sizes as symbolic_sizes
    from .pytorch_ir.reader import from_pytorch_ir as from_pytorch_ir
    from .pytorch_ir.reader import is_pytorch_ir as is_pytorch_ir
    from .pytorch_ir.writer import to_pytorch_ir as to_pytorch_ir
    from .scale_sim import from_scale_sim as from_scale_sim
    from .stablehlo.entry import from_jax as from_jax
    from .stablehlo.entry import from_stablehlo as from_stablehlo
    from .timeloop import from_timeloop_problem as from_timeloop_problem
    from .torch.entry import from_torch as from_torch
    from .torch.entry import from_transformers as from_transformers

_NAMES = {
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
}
__all__ = sorted(_NAMES)
__getattr__ = lazy(__name__, _NAMES)
__dir__ = listed(__all__)
