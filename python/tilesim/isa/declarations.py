"""Generates C macros for single instructions from the instruction table."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

__all__ = ["LMULS", "VECTORS", "declaration"]

LMULS = (1, 2, 4, 8)
#: suffix -> C type of an element, of vectors (without the LMUL), bits, required macro (empty: vectors)
VECTORS = {
    "f32": ("float", "vfloat32", 32, ""),
    "f64": ("double", "vfloat64", 64, ""),
    "f16": ("_Float16", "vfloat16", 16, "__riscv_zvfh"),
    "bf16": ("__bf16", "vbfloat16", 16, "__riscv_zvfbfmin"),
    **{f"i{bits}": (f"int{bits}_t", f"vint{bits}", bits, "") for bits in (8, 16, 32, 64)},
    **{f"u{bits}": (f"uint{bits}_t", f"vuint{bits}", bits, "") for bits in (8, 16, 32, 64)},
}
_SLOTS = {"rd": 7, "rs1": 15, "rs2": 20, "funct7": 25}
_CUSTOM_2 = 0x5B


def _c(word: str) -> str:
    """Converts an operand to a C name; drops the number of its place: array7 → array."""
    words = {"fnid": "id", "xlid": "code", "array7": "array", "array20": "array"}
    return words.get(word, re.sub(r"[^A-Za-z0-9_]", "_", word))


class _Code:
    """An instruction, split into the operands that `.insn r` and `.insn i` take."""

    def __init__(self, row: dict[str, Any]) -> None:
        self.name, self.match, self.keeps = _c(row["name"]), row["match"], row["reads_old"]
        self.apart = row["apart"]  # whether the destination registers are never read
        self.fields = {field[0]: field for field in row["fields"] if field[0] != "vm"}
        self.masked = len(self.fields) < len(row["fields"])
        #: the 12-bit operand of `.insn i`
        self.immediate = next((word for word, field in self.fields.items() if field[2][0] == (20, 0, 12)), "")
        #: type of the destination: "x", "f", "v"; empty: no destination
        self.written = next((word for word, field in self.fields.items() if field[3]), "")
        self.result = self.fields[self.written][1] if self.written else ""
        self.given = [word for word in self.fields if word != self.written]

    def registers(self) -> list[tuple[str, str]]:
        """The arguments of the macro: word and type."""
        return [(word, self.fields[word][1]) for word in self.given if self.fields[word][1] in ("x", "f", "v")]

    def in_slot(self, slot: str) -> list[tuple[str, str, int, int]]:
        """Returns the operands in a slot: word, type, first bit within the slot, width."""
        low, width = _SLOTS[slot], 7 if slot == "funct7" else 5
        fields = [(word, sort, pieces[0]) for word, sort, pieces, *_ in self.fields.values()]
        return [(word, sort, at - low, bits) for word, sort, (at, _, bits) in fields if low <= at < low + width]

    def number(self, slot: str) -> str | None:
        """Returns the value of a slot without register as a C expression."""
        fixed = self.match >> _SLOTS[slot] & (127 if slot == "funct7" else 31)
        parts = [str(fixed)] if fixed else []
        for word, sort, at, width in self.in_slot(slot):
            if sort in ("x", "f", "v"):
                return None
            parts.append(f"((unsigned)({_c(word)}) & {2**width - 1}u)" + (f" << {at}" if at else ""))
        return " | ".join(parts) or "0"


class _Asm:
    """The operands and the text of one asm statement."""

    def __init__(self, code: _Code) -> None:
        self.code, self.operands = code, list[str]()
        self.registers: dict[str, str] = {}

    def add(self, constraint: str, value: str) -> str:
        self.operands.append(f'"{constraint}"({value})')
        return f"%{len(self.operands) - 1}"

    def _slot(self, slot: str, prefix: str = "x") -> str:
        number = self.code.number(slot)
        if number is None:
            return self.registers[self.code.in_slot(slot)[0][0]]
        return prefix + (number if number.isdigit() else self.add("i", number))

    def text(self, funct7: str | None = None) -> str:
        """Writes the instruction; `registers` states how the register operands are written."""
        head = f"{self.code.match & 127:#x}, {self.code.match >> 12 & 7}"
        if self.code.immediate:
            registers = f"{self._slot('rd')}, {self._slot('rs1')}"
            return f".insn i {head}, {registers}, {self.add('i', f'(int)({_c(self.code.immediate)})')}"
        top = funct7 or self._slot("funct7", "")
        return f".insn r {head}, {top}, {self._slot('rd')}, {self._slot('rs1')}, {self._slot('rs2')}"

    def statement(self, text: list[str], clobbers: str) -> str:
        outputs = 1 if self.code.written and self.operands[0][1] in "=+" else 0
        parts = [", ".join(self.operands[:outputs]), ", ".join(self.operands[outputs:]), clobbers]
        return f"__asm__ volatile({' '.join(text)} : {' : '.join(parts)})"


def _macro(name: str, arguments: list[str], body: list[str]) -> Iterator[str]:
    yield f"#define {name}({', '.join(arguments)})" + " \\"
    for line in body[:-1]:
        yield f"  {line} \\"
    yield f"  {body[-1]}"


def _valued(result: str, old: bool, statement: str) -> list[str]:
    """Writes an expression whose value is the result of the statement."""
    start = f"{result} ts_result" + (f" = ({result})(old);" if old and result[0] != "T" else " = old;" if old else ";")
    return ["__extension__({", f"  {start}", f"  {statement};", "  ts_result; })"]


def _scalar(code: _Code, element: str | None) -> Iterator[str]:
    """Scalar forms: x registers are 64-bit numbers or pointers, f registers the instruction's element, else double."""
    real, asm = VECTORS[element or "f64"][0], _Asm(code)
    if code.written:
        kept = "+" if code.keeps else "="
        asm.registers[code.written] = asm.add(kept + ("r" if code.result == "x" else "f"), "ts_result")
    for word, sort in code.registers():
        asm.registers[word] = asm.add("r" if sort == "x" else "f", f"({'uint64_t' if sort == 'x' else real})({word})")
    statement = asm.statement([f'"{asm.text()}"'], '"memory"')
    arguments = [*(["old"] if code.keeps else []), *map(_c, code.given)]
    result = "uint64_t" if code.result == "x" else real
    yield from _macro(code.name, arguments, _valued(result, code.keeps, statement) if code.written else [statement])


def _by_number(code: _Code) -> Iterator[str]:
    """Returns macros with vector registers by number, for compilers without vector types."""
    asm = _Asm(code)
    for word, (_, sort, *_) in code.fields.items():
        if sort in ("x", "f", "v"):
            asm.registers[word] = (
                "x" + asm.add("i", word) if sort == "v" else asm.add("r" if sort == "x" else "f", word)
            )
    top = asm.add("i", f"{code.match >> 25 & 126} | ((unsigned)(vm) & 1u)") if code.masked else None
    arguments = [*map(_c, code.fields), *(["vm"] if code.masked else [])]
    yield from _macro(f"{code.name}_v", arguments, [asm.statement([f'"{asm.text(top)}"'], '"memory"')])


def _vcix(code: _Code) -> str | None:
    """Clang's intrinsic for an instruction in SiFive's encodings, on vectors of suffix S, or None."""
    sources, form, written = code.match >> 28, code.match >> 12 & 7, not code.match >> 25 & 1
    word = {(2, 3): "iv", (0, 3): "i", (2, 0): "vv", (10, 0): "vvv"}.get((sources, form))
    if word is None or code.match & 127 != _CUSTOM_2 or code.masked or code.keeps or code.apart:
        return None
    given = [str(code.match >> 26 & 3)]
    given += [str(code.number("rd"))] if not written else []
    given += [str(code.number("rs2"))] if word == "i" else []
    given += ["TS_UNSIGNED_##S(vs1)"] if word == "vvv" else []  # the old destination is an argument, but is not read
    given += ["TS_UNSIGNED_##S(vs2)"] if "v" in word else []
    given.append(f"TS_SIGNED5({code.number('rs1')})" if form == 3 else "TS_UNSIGNED_##S(vs1)")
    name = f"__riscv_sf_vc_{'v_' if written else ''}{word}_se"
    name = f"TS_JOIN({name}_, TS_PLAIN_##S)" if word == "i" else name
    call = f"{name}({', '.join(given)}, vl)"
    return f"TS_TYPED_##S({call})" if written else call


def _vector(code: _Code, masked: bool) -> list[str]:
    """Writes the statement or expression on vectors of suffix S."""
    asm = _Asm(code)
    old = code.keeps or (masked and bool(code.written))
    if code.written:
        letters = {"v": "vd" if masked else "vr", "x": "r", "f": "f"}[code.result]
        early = ("+" if old else "=") + ("&" if code.apart else "")
        asm.registers[code.written] = asm.add(early + letters, "ts_result")
    length = asm.add("r", "(size_t)(vl)")
    for word, sort in code.registers():
        value = {"x": f"(uint64_t)({word})", "f": f"(TS_ELEMENT_##S)({word})", "v": word}[sort]
        asm.registers[word] = asm.add({"x": "r", "f": "f", "v": "vr"}[sort], value)
    if masked:
        asm.add("vm", "mask")
    policy = "tu, mu" if old else "ta, ma"
    top = str(code.match >> 25 & 126 | (not masked)) if code.masked else None
    text = [f'"vsetvli zero, {length}, " TS_VTYPE_##S ", {policy}\\n\\t"', f'"{asm.text(top)}"']
    statement = asm.statement(text, '"memory", "vl", "vtype"')
    if not code.written:
        return [statement]
    result = {"v": "TS_VECTOR_##S", "x": "uint64_t", "f": "TS_ELEMENT_##S"}[code.result]
    return _valued(result, old, statement)


def _typed(code: _Code, suffixes: list[str]) -> Iterator[str]:
    call = _vcix(code)
    given = [_c(word) for word in code.given if word != "dtype"]
    for masked in (False, True) if code.masked else (False,):
        old = code.keeps or (masked and bool(code.written))
        arguments = [*(["mask"] if masked else []), *(["old"] if old else []), *given, "vl"]
        last = "_m" if masked else ""
        body = [line.replace("(dtype)", "(TS_DTYPE_##S)") for line in _vector(code, masked)]
        if call is not None:
            yield "#ifdef __riscv_xsfvcp"
            yield from _macro(f"ts_{code.name}_on", ["S", *arguments], [call.replace("(dtype)", "(TS_DTYPE_##S)")])
            yield "#else"
        yield from _macro(f"ts_{code.name}_on{last}", ["S", *arguments], body)
        yield from ["#endif"] if call is not None else []
        for suffix in suffixes:
            needed = VECTORS[suffix][3]
            yield from [f"#ifdef {needed}"] if needed else []
            for lmul in LMULS:
                name, listed = f"{code.name}_{suffix}m{lmul}{last}", ", ".join(arguments)
                yield f"#define {name}({listed}) ts_{code.name}_on{last}({suffix}m{lmul}, {listed})"
            yield from ["#endif"] if needed else []


def _suffixes(row: dict[str, Any], element: str | None) -> list[str]:
    """Lists the suffixes of the instruction's elements."""
    if element is not None:
        return [element] if element in VECTORS else [f"u{width}" for width in row["widths"]]
    floats = row["timing"] == "special" or row["timing"].startswith("float")
    own = row["extension"] == "custom"
    fitting = [suffix for suffix, (_, _, bits, _) in VECTORS.items() if bits in row["widths"]]
    return [s for s in fitting if (s[0] == "u" if own else not floats or s[0] in "fb")]


def declaration(row: dict[str, Any], element: str | None = None) -> list[str]:
    """Writes the macros of one instruction."""
    code = _Code(row)
    told = row["description"].replace("*/", "* /")
    lines = [f"/* {row['name']} {row['operands']}{': ' if told else ''}{told} */"]
    if not row["vector"]:
        return [*lines, *_scalar(code, element)]
    lines += _by_number(code)
    if not row["plain"]:  # operands with other widths than SEW have no common suffix
        return lines
    return [*lines, "#ifdef TS_VECTORS", *_typed(code, _suffixes(row, element)), "#endif"]
