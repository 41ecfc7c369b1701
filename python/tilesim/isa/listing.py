"""Lists code: addresses, bits, instructions, with symbols as labels."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from .assembly import disassemble, instructions
from .elf import Elf

__all__ = ["elf_lines", "raw_lines"]

_OFFSETS = ("b13", "j21", "c.b9", "c.j12")  # operand words that are distances


@lru_cache(maxsize=1)
def _jumps() -> frozenset[str]:
    """Names of the instructions whose last operand is a distance."""
    return frozenset(str(row["name"]) for row in instructions() if str(row["operands"]).endswith(_OFFSETS))


def raw_lines(data: bytes, address: int, labels: dict[int, list[str]] | None = None) -> Iterator[str]:
    """Lists bytes as instructions."""
    labels = labels or {}
    at = 0
    while at < len(data):
        here = address + at
        for label in labels.get(here, ()):
            yield f"{here:x} <{label}>:"
        bits = int.from_bytes(data[at : at + 4], "little")
        length = 4 if bits & 3 == 3 else 2
        if at + length > len(data):
            for offset, byte in enumerate(data[at:]):
                yield f"{here + offset:10x}:  {byte:02x}        .byte 0x{byte:x}"
            return
        bits &= (1 << 8 * length) - 1
        text = disassemble(bits, here)
        yield f"{here:10x}:  {bits:0{2 * length}x}{'' if length == 4 else '    '}  {text}{_target(text, here, labels)}"
        at += length


def _target(text: str, here: int, labels: dict[int, list[str]]) -> str:
    """The address to which a jump goes, and its names."""
    words = text.split()
    if words[0] not in _jumps():
        return ""
    to = here + int(words[-1])
    names = "".join(f" <{name}>" for name in labels.get(to, ()))
    return f"  # {to:x}{names}"


def elf_lines(elf: Elf) -> Iterator[str]:
    """Lists the code of a program."""
    labels = elf.labels()
    for address, data in elf.code():
        yield from raw_lines(data, address, labels)
