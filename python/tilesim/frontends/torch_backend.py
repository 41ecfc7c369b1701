"""The backend of `torch.compile` under the name by which users import it; see `tilesim.torch_compile`."""

from ..torch_compile import CompiledGraph, backend, records, register, report, reset, results

__all__ = ["CompiledGraph", "backend", "records", "register", "report", "reset", "results"]
