"""Runs MLIR passes that expand operations into simpler ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..._core import Unsupported
from .scope import Scope, Value, place_of, placed

QUANTIZED = "func.func(stablehlo-legalize-quant-to-math)"


def run(module: Any, pipeline: str) -> None:
    """Runs passes on a module in its context."""
    from jaxlib.mlir import passmanager
    from jaxlib.mlir.dialects import stablehlo

    stablehlo.register_stablehlo_passes()
    with module.context:
        passmanager.PassManager.parse(f"builtin.module({pipeline})").run(module.operation)


def know_quantized(context: Any) -> None:
    """Loads the dialect of quantized types into a context by running a pass that depends on it."""
    from jaxlib.mlir import ir

    with context, ir.Location.unknown():
        run(ir.Module.create(), "vhlo-legalize-to-stablehlo")


def expanded(scope: Scope, op: Any) -> Sequence[Value]:
    """Runs the dialect's expansion on a module with only this operation, and builds the result."""
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import func

    with op.context, ir.Location.unknown():
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            types = ([operand.type for operand in op.operands], [result.type for result in op.results])
            function: Any = func.FuncOp("main", types)
            block = function.add_entry_block()
        with ir.InsertionPoint(block):
            clone = op.clone()
            for i, argument in enumerate(block.arguments):
                clone.operands[i] = argument
            func.ReturnOp(list(clone.results))
        try:
            run(module, "func.func(chlo-legalize-to-stablehlo)")
        except Exception as error:
            raise placed(Unsupported(f"{place_of(op)}: unsupported operation '{op.name}'")) from error
    body = next(iter(module.body.operations)).operation.regions[0].blocks[0]
    if any(str(inner.operation.name) == str(op.name) for inner in body.operations):
        raise placed(Unsupported(f"{place_of(op)}: unsupported operation '{op.name}'"))
    scope.module.keep.append(module)
    return scope.inline(body, [scope.value(operand) for operand in op.operands])
