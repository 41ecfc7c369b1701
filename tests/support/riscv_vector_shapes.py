"""Which registers vector instructions take, and which of them may be used together.

Stated from RISC-V "V" 1.0 by the instructions' names, apart from the simulator's own rules.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass
class Operand:
    """How an operand takes registers: 'group' or 'element' (EEW = SEW << scale), 'fixed' (EEW = scale bits), 'mask',
    'whole' (scale registers).
    """

    kind: str
    scale: int = 0


@dataclass
class Shape:
    """The operands of an instruction, and what the specification says about their overlaps."""

    vd: Operand | None = None
    vs2: Operand | None = None
    vs1: Operand | None = None
    fields: int = 1
    never: bool = False  # vd overlaps no source
    reads_vd: bool = False
    scalar_vd: bool = False
    store: bool = False
    index: int = 0  # bits of an index
    access: int = 0  # bits of what is loaded or stored; 0: no access, or SEW if `index`


_MEMORY = re.compile(r"v(l|s)(s|ux|ox)?(?:seg(\d))?e(i?)(\d+)(ff)?\.v")
_WHOLE = re.compile(r"v(?:l(\d)re(\d+)|s(\d)r)\.v")


def _memory_shape(name: str) -> Shape | None:
    if name in ("vlm.v", "vsm.v"):
        return Shape(vd=Operand("mask"), store=name == "vsm.v", access=8)
    if whole := _WHOLE.fullmatch(name):
        count, bits = int(whole[1] or whole[3]), int(whole[2] or 8)
        return Shape(vd=Operand("whole", count), store=whole[3] is not None, access=bits)
    found = _MEMORY.fullmatch(name)
    if found is None:
        return None
    store, fields, bits = found[1] == "s", int(found[3] or 1), int(found[5])
    if found[4]:
        never = fields > 1 and not store
        return Shape(Operand("group"), Operand("fixed", bits), fields=fields, never=never, store=store, index=bits)
    return Shape(vd=Operand("fixed", bits), fields=fields, store=store, access=bits)


def shape(name: str) -> Shape:
    """The shape of an instruction, by its name."""
    if (memory := _memory_shape(name)) is not None:
        return memory
    stem, _, form = name.partition(".")
    one, wide, mask, element = Operand("group"), Operand("group", 1), Operand("mask"), Operand("element")
    if name.startswith("vmv") and name[4] == "r":
        return Shape(Operand("whole", int(name[3])), Operand("whole", int(name[3])))
    if name in ("vmv.x.s", "vfmv.f.s"):
        return Shape(vs2=element)
    if name in ("vmv.s.x", "vfmv.s.f"):
        return Shape(vd=element, scalar_vd=True)
    if form == "mm":
        return Shape(mask, mask, mask)
    if name in ("vcpop.m", "vfirst.m"):
        return Shape(vs2=mask)
    if name in ("vmsbf.m", "vmsif.m", "vmsof.m"):
        return Shape(mask, mask, never=True)
    if name == "viota.m":
        return Shape(one, mask, never=True)
    if name == "vid.v":
        return Shape(one)
    if name == "vcompress.vm":
        return Shape(one, one, mask, never=True)
    if form == "vs":
        scalar = Operand("element", 1) if stem.startswith(("vw", "vfw")) else element
        return Shape(scalar, one, scalar, scalar_vd=True)
    if stem in ("vzext", "vsext"):
        return Shape(one, Operand("group", -{"vf2": 1, "vf4": 2, "vf8": 3}[form]))
    if stem == "vrgatherei16":
        return Shape(one, one, Operand("fixed", 16), never=True)
    vs1 = one if form in ("vv", "wv", "vvm") else None
    if stem in ("vslideup", "vslide1up", "vfslide1up", "vrgather"):
        return Shape(one, one, vs1, never=True)
    if stem.startswith(("vms", "vmf", "vmadc")):
        return Shape(mask, one, vs1)
    macs = stem.lstrip("vwfn").startswith(("macc", "msac", "madd", "msub"))
    if stem.startswith(("vw", "vfw")):
        return Shape(wide, wide if form[0] == "w" else one, vs1, reads_vd=macs)
    if form.split(".")[-1].startswith("w"):
        return Shape(one, wide, vs1)
    if name.startswith(("vmv.v", "vfmv.v")):
        return Shape(vd=one, vs1=one if form == "v.v" else None)
    return Shape(one, one, vs1, reads_vd=macs)


def float_widths(name: str) -> tuple[int, ...] | None:
    """The SEW at which an instruction on floats exists without Zvfh; None: it is not one on floats."""
    if not name.startswith(("vf", "vmf")) or name == "vfirst.m":
        return None
    if "bf16" in name:
        return (16,)
    if name.startswith("vfwcvt.f.x"):
        return (16, 32)
    if name.startswith("vfncvt") and ".f.w" in name and "f.f" not in name:
        return (16, 32)
    return (32,) if name.startswith(("vfw", "vfn")) and not name.startswith("vfnm") else (32, 64)


def half_widths(name: str) -> tuple[int, ...]:
    """The SEW at which it needs Zvfh."""
    if float_widths(name) is None or "bf16" in name:
        return ()
    if name.startswith("vfwcvt.f.x") or (name.startswith("vfncvt") and ".f.w" in name and "f.f" not in name):
        return (8,)
    return (16,)


@dataclass
class Taken:
    """Registers of an operand."""

    first: int
    count: int
    width: int  # bits of an element; 1: mask
    fraction: bool = False

    def overlaps(self, other: Taken) -> bool:
        return self.first < other.first + other.count and other.first < self.first + self.count


def registers(operand: Operand, sew: int, lmul: int) -> tuple[int, int, bool] | None:
    """How many, the element width, and whether less than one is used; None: reserved. `lmul` is a power of two."""
    if operand.kind == "mask":
        return 1, 1, False
    if operand.kind == "whole":
        return operand.scale, 8, False
    width = operand.scale if operand.kind == "fixed" else int(sew * 2.0**operand.scale)
    if not 8 <= width <= 64:
        return None
    if operand.kind == "element":
        return 1, width, False
    emul = width.bit_length() - sew.bit_length() + lmul
    return None if not -3 <= emul <= 3 else (max(1, 1 << emul if emul > 0 else 1), width, emul < 0)


def legal(how: Shape, sew: int, lmul: int, masked: bool, regs: dict[str, int]) -> bool:
    """Whether the registers may be used together (RISC-V "V" 1.0, sections 3.4.2, 5.2, 5.3, 7.8)."""
    taken: dict[str, Taken] = {}
    for word, operand in (("vd", how.vd), ("vs2", how.vs2), ("vs1", how.vs1)):
        if operand is None:
            continue
        size = registers(operand, sew, lmul)
        if size is None or regs[word] % size[0]:
            return False
        count = size[0] * (how.fields if word == "vd" else 1)
        if count > 8 or regs[word] + count > 32:
            return False
        taken[word] = Taken(regs[word], count, size[1], size[2])
    mask = Taken(0, 1, 1)
    sources = [part for word, part in taken.items() if word != "vd" or how.store or how.reads_vd]
    if masked:
        sources.append(mask)
    for a in sources:
        for b in sources:
            if a.width != b.width and a.overlaps(b):
                return False
    vd = taken.get("vd")
    if vd is None or how.store:
        return True
    if masked and vd.overlaps(mask) and not how.scalar_vd and (vd.width != 1 or how.never):
        return False
    for word in ("vs2", "vs1"):
        source = taken.get(word)
        if source is None or not vd.overlaps(source) or how.scalar_vd:
            continue
        if how.never:
            return False
        if vd.width < source.width and vd.first != source.first:
            return False
        if vd.width > source.width and (source.fraction or source.first + source.count != vd.first + vd.count):
            return False
    return True
