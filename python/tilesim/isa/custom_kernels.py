"""Machines whose kernels use a custom instruction for a function."""

from __future__ import annotations

from .. import _core
from ..base.checked import checked
from ..base.errors import nearest, user_error
from ..machine.machine import Machine, MachineLike
from .custom import Instruction
from .semantics import Semantics

__all__ = ["use"]


@checked()
def use(machine: MachineLike, function: str, instruction: Instruction) -> Machine:
    """Returns a machine whose kernels compute a function with a custom instruction.

    At level "instruction" generated kernels contain it, the pipeline times it, `execute` and `verify` run
    it. At tile level closed forms take its cycles, latency and unit, as far as they are stated, in place of the
    function's class; the tuner prices tiles by the class as before. Results list it among their approximations, and
    `explain` compares the time without it.

    The machine's file has the declaration (`core.isa.functions`), not the semantics: a machine that was loaded from it
    is timed as this one, and executes at level "instruction" once `use` was called for it again.

    Args:
        machine: preset name, file, dict or Machine, which is not modified.
        function: an elementwise one, by its name in graphs: "exp", "exp2", "tanh", "add", ...
        instruction: from `define`: a destination vd and as many vector operands as the function has ("vd+" is one
            of them), in the function's order; elements "f32", "f16", "bf16" or "i32". Its unit comes with it.

    Returns:
        The machine.

    Raises:
        UserError: for an unknown function (with the nearest) or one of conditions, unsuitable operands or elements,
            an encoding or name of another instruction of the machine (the same value for several
            functions is one instruction).
    """
    loaded = Machine.load(machine)
    if function not in _core.function_names():
        raise user_error(
            "unknown function",
            place="function",
            value=function,
            allowed=", ".join(_core.function_names()),
            suggestion=nearest(function, _core.function_names()),
        )
    changed = Machine(_core.isa_use(loaded.core, function, instruction.declared, Semantics(instruction)))
    changed.given = None if loaded.given is None else loaded.given | {"core.isa.functions"}
    return changed
