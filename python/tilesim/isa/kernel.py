"""Writes instruction-level programs for tile computes."""

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
    """The kernel of a product or a permute on a machine's core, as a program that runs it once.

    Args:
        compute: a product as results and stores of tile latencies write it, "mma bf16 bf16 b1 m128 n128 k256 ko1"; or
            "permute bf16 e64,32 i32,1 o1,64", an element type, extents, and the strides of input
            and output in elements, outer to inner.
        machine: a preset's name, a file, or a Machine.

    Returns:
        A static ELF file: `_start` calls `kernel` and ends with 0. Of a product the symbols `moving`, `kept` and `sums`
        are the operands, zeros at first, in blocks as an array takes them: `moving` by batch, outer k, block of k, row;
        `kept` by batch, block of columns, outer k, block of k, row of the array; `sums` by batch, block of columns,
        row. A row is as long as the array, a number of `sums` has 32 bits. Of a permute they are `in` and `out`.

    Raises:
        UserError: for an invalid text, with the field that is missing, repeated or out of range, or a machine
            whose registers have no legal length.
        Unsupported: for a compute of another kind, a type or an array without kernel.
    """
    target = _loaded(machine).core
    start, labels = _core.isa_assemble(_START, BASE)
    operands = _core.isa_kernel(target, compute, [BASE] * 3)["operands"]
    # code grows with the length of address constants, so the addresses lie above any code
    places = [BASE + (1 << 26)]
    for _, size in operands:
        places.append(places[-1] + -(-size // _PAGE) * _PAGE)
    built = _core.isa_kernel(target, compute, places[:3])
    code = start + built["code"]
    labels = {**labels, **{name: place for (name, _), place in zip(operands, places, strict=False)}}
    return elf_of(code, labels, BASE, places[-1] - BASE - len(code))


@checked()
def kernel_text(compute: str, machine: str | Machine) -> str:
    """The kernel of a product or a permute as an assembly listing.

    Args:
        compute: as for `kernel`.
        machine: as for `kernel`.

    Returns:
        Lines of instructions; operands lie at addresses from 0x1000000 on.

    Raises:
        UserError: as `kernel`.
        Unsupported: as `kernel`.
    """
    text: str = _core.isa_kernel(_loaded(machine).core, compute, [1 << 24, 1 << 34, 1 << 38])["text"]
    return text
