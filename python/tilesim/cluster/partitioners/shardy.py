"""Propagates shardings by Shardy, with Tilesim's sharding rules of operation kinds."""

from __future__ import annotations

import re
from typing import Any

from ... import _core
from ...base.extras import need

__all__ = ["spread_by_shardy"]

PIPELINE = "builtin.module(sdy-propagation-pipeline)"
SHARDING = re.compile(r"<@[^,<>]*, (\[[^\]]*\][^<>]*)>")


def spread_by_shardy(core: _core.Graph) -> _core.Graph:
    """Runs Shardy's propagation on a graph.

    Each operation becomes an unknown operation with an explicit sharding rule, so graphs from any source work.
    """
    mlir, ir = need("jax.interpreters.mlir", "jax"), need("jaxlib.mlir.ir", "jax")
    passes = need("jaxlib.mlir.passmanager", "jax")
    opened, text = _core.shardy_module(core)
    with mlir.make_ir_context(), ir.Location.unknown():
        try:
            module = ir.Module.parse(text)
            passes.PassManager.parse(PIPELINE).run(module.operation)
        except Exception as error:
            raise _core.Unsupported(f"Shardy rejects the graph: {' '.join(str(error).split())[:300]}") from None
        main = next(op for op in module.body.operations if op.operation.name == "func.func")
        inputs = [_first(str(part)) for part in main.attributes["arg_attrs"]] if "arg_attrs" in main.attributes else []
        found: list[tuple[int, int, list[str]]] = []
        _collect(main.regions[0], found)
    _core.annotate_results(opened, inputs, found)
    return opened


def _first(text: str) -> str:
    """Returns the first sharding in a text, with closed axes because propagation has ended."""
    shardings = _closed_shardings(text)
    return shardings[0] if shardings else ""


def _closed_shardings(text: str) -> list[str]:
    return [re.sub(r"(?:, )?\?", "", re.sub(r"\}p\d+", "}", sharding)) for sharding in SHARDING.findall(text)]


def _collect(region: Any, found: list[tuple[int, int, list[str]]]) -> None:
    """Appends (function, operation, result shardings) of each operation, including nested ones."""
    for block in region.blocks:
        for op in block.operations:
            attributes = op.operation.attributes
            place = ""
            if "backend_config" in attributes:
                place = str(attributes["backend_config"]).strip('"')
            elif "mhlo.frontend_attributes" in attributes:
                place = re.findall(r'place = "([^"]*)"', str(attributes["mhlo.frontend_attributes"]))[0]
            if place:
                function, index = place.split()
                said = _closed_shardings(str(attributes["sdy.sharding"])) if "sdy.sharding" in attributes else []
                found.append((int(function), int(index), said))
            for inner in op.operation.regions:
                _collect(inner, found)
