"""Instruction level: runs, calls, assembles and reads RISC-V programs (RV64GCV).

r = ts.isa.run("k.elf", "an argument")            # any static RV64GC Linux program
r = ts.isa.call("k.elf", "softmax", x, y, 1000)   # a C function on numpy arrays
ts.isa.disassemble(0x00A585B3)                    # 'add a1, a1, a0'
"""

from ..base.lazy import listed
from .assembly import assemble, disassemble, instructions
from .core import Core
from .custom import Instruction, Unit, define, unit
from .custom_kernels import use
from .header import header
from .kernel import kernel, kernel_text
from .operation import Operation, TensorType, operation
from .result import IsaResult
from .running import call, run

__all__ = [
    "Core",
    "Instruction",
    "IsaResult",
    "Operation",
    "TensorType",
    "Unit",
    "assemble",
    "call",
    "define",
    "disassemble",
    "header",
    "instructions",
    "kernel",
    "kernel_text",
    "operation",
    "run",
    "unit",
    "use",
]
__dir__ = listed(__all__)
