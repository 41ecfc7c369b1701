"""Kernels of tile computes as programs."""

from __future__ import annotations

from .. import _core
from ..base.checked import checked
from ..machine.machine import Machine
from .assembly import BASE, elf_of

__all__ = ["kernel", "kernel_text"]

_PAGE = 0x1000
_START = "_start: call kernel\nli a0, 0\nli a7, 93\necall\nkernel:\n"


def _loaded(machine: str | Machine) -> Machine:
    return machine if isinstance(machine, Machine) else Machine.load(machine)


@checked()
def kernel(compute: str, machine: str | Machine) -> bytes:
    """The kernel of a product on a machine's core, as a program that runs it once.

    Args:
        compute: as results and stores of tile latencies write it: "mma bf16 bf16 b1 m128 n128 k256 ko1".
        machine: a preset's name, a file, or a Machine.

    Returns:
        A static ELF file: `_start` calls `kernel` and ends with 0. The symbols `moving`, `kept` and `sums` are the
        operands, zeros at first, in blocks as an array takes them: `moving` by batch, outer k, block of k, row; `kept`
        by batch, block of columns, outer k, block of k, row of the array; `sums` by batch, block of columns, row. A row
        is as long as the array, a number of `sums` has 32 bits.

    Raises:
        UserError: for another text, or a machine whose registers have no legal length.
        Unsupported: for a compute of another kind, a type or an array without kernel.
    """
    target = _loaded(machine).core
    start, labels = _core.isa_assemble(_START, BASE)
    sizes = _core.isa_kernel(target, compute, BASE, BASE, BASE)["bytes"]
    # code grows with the length of constants: addresses are chosen above any
    first = BASE + (1 << 26)
    places = [first]
    for size in sizes:
        places.append(places[-1] + -(-size // _PAGE) * _PAGE)
    built = _core.isa_kernel(target, compute, *places[:3])
    code = start + built["code"]
    labels = {**labels, "moving": places[0], "kept": places[1], "sums": places[2]}
    return elf_of(code, labels, BASE, places[3] - BASE - len(code))


@checked()
def kernel_text(compute: str, machine: str | Machine) -> str:
    """The kernel of a product as an assembly listing.

    Args:
        compute: as for `kernel`.
        machine: as for `kernel`.

    Returns:
        Lines of instructions; operands lie at addresses from 0x1000000 on.

    Raises:
        UserError: as `kernel`.
        Unsupported: as `kernel`.
    """
    text: str = _core.isa_kernel(_loaded(machine).core, compute, 1 << 24, 1 << 34, 1 << 38)["text"]
    return text
