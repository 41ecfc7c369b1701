"""The functions of libc that compilers call implicitly, for object files linked without libc.

GCC and LLVM need memcpy, memmove, memset and memcmp of every environment, a freestanding one too (GCC manual, 2.1).
Each is a loop of vector instructions over as many bytes as eight registers hold.
"""

from __future__ import annotations

from .. import _core
from .custom import set_of

__all__ = ["FUNCTIONS", "code_of"]

_TAKE = "vsetvli t0, a2, e8, m8, ta, ma"
_COPY = f"""
    mv a3, a0
    {{name}}.next:
    {_TAKE}
    vle8.v v0, (a1)
    add a1, a1, t0
    sub a2, a2, t0
    vse8.v v0, (a3)
    add a3, a3, t0
    bnez a2, {{name}}.next
    ret
"""

#: name -> assembly; a0, a1 and a2 hold the arguments
FUNCTIONS = {
    "memcpy": _COPY.format(name="memcpy"),
    "memmove": "bltu a1, a0, memmove.back"
    + _COPY.format(name="memmove")
    + f"""
    memmove.back:
    add a3, a0, a2
    add a1, a1, a2
    memmove.last:
    {_TAKE}
    sub a1, a1, t0
    sub a3, a3, t0
    vle8.v v0, (a1)
    sub a2, a2, t0
    vse8.v v0, (a3)
    bnez a2, memmove.last
    ret
    """,
    "memset": f"""
    mv a3, a0
    memset.next:
    {_TAKE}
    vmv.v.x v0, a1
    sub a2, a2, t0
    vse8.v v0, (a3)
    add a3, a3, t0
    bnez a2, memset.next
    ret
    """,
    "memcmp": f"""
    memcmp.next:
    {_TAKE}
    vle8.v v0, (a0)
    vle8.v v8, (a1)
    vmsne.vv v16, v0, v8
    vfirst.m t1, v16
    bgez t1, memcmp.differs
    add a0, a0, t0
    add a1, a1, t0
    sub a2, a2, t0
    bnez a2, memcmp.next
    li a0, 0
    ret
    memcmp.differs:
    add a0, a0, t1
    add a1, a1, t1
    lbu a0, 0(a0)
    lbu a1, 0(a1)
    sub a0, a0, a1
    ret
    """,
}


def code_of(names: list[str], address: int) -> tuple[bytes, list[tuple[int, int, str]]]:
    """Assembles the machine code of some of the functions."""
    text = "".join(f"{name}:\n{FUNCTIONS[name]}\n" for name in names)
    code, labels = _core.isa_assemble(text, address, set_of(()))
    ends = [*(labels[name] for name in names[1:]), address + len(code)]
    return code, [(labels[name], end - labels[name], name) for name, end in zip(names, ends, strict=True)]
