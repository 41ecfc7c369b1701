"""Public name of the `torch.compile` backend; see `tilesim.torch_compile`."""

from ..torch_compile import CompiledGraph, backend, records, register, report, reset, results

__all__ = ["CompiledGraph", "backend", "records", "register", "report", "reset", "results"]
