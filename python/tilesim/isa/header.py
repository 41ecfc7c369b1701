"""Generates a C header with the instructions of an NPU core from their table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .. import _core
from ..base.checked import checked
from ..machine.machine import Machine
from .core import Core
from .custom import Instruction, set_of
from .declarations import LMULS, VECTORS, declaration

__all__ = ["header"]

_START = """\
/* Instructions of an NPU core for C and C++, made by `tilesim isa header`: do not edit.
 *
 * NAME_f32m1(...) and the like work on vectors of riscv_vector.h (clang; -march=rv64gcv, with _xsfvcp by the
 * intrinsics of sifive_vector.h); their last argument is how many elements. NAME_v(...) takes registers by number,
 * for any compiler, with vl and vtype as the code around it set them. Arguments that are numbers are constants. */
#ifndef TILESIM_ISA_H
#define TILESIM_ISA_H

#include <stddef.h>
#include <stdint.h>
#if defined(__clang__) && defined(__riscv_v_intrinsic)
#define TS_VECTORS 1
#ifdef __riscv_xsfvcp
#include <sifive_vector.h>
#else
#include <riscv_vector.h>
#endif
#endif

#define TS_JOIN2(a, b) a##b
#define TS_JOIN(a, b) TS_JOIN2(a, b)
/* five bits as compilers want them of an immediate: 16 to 31 are -16 to -1 */
#define TS_SIGNED5(n) ((int)((n) & 31u) - ((n) & 16u ? 32 : 0))
"""


def _types(dtypes: dict[str, tuple[int, int]]) -> Iterable[str]:
    """Writes macros for suffixes such as f32m1, which the instructions' macros use."""
    yield "#ifdef TS_VECTORS"
    for suffix, (element, vector, bits, needed) in VECTORS.items():
        yield from [f"#ifdef {needed}"] if needed else []
        for lmul in LMULS:
            s, u = f"{suffix}m{lmul}", f"u{bits}m{lmul}"
            yield f"#define TS_VECTOR_{s} {vector}m{lmul}_t"
            yield f"#define TS_ELEMENT_{s} {element}"
            yield f'#define TS_VTYPE_{s} "e{bits}, m{lmul}"'
            yield f"#define TS_DTYPE_{s} {dtypes[suffix][0]}"
            yield f"#define TS_PLAIN_{s} {u}"
            for name, before, after in (("UNSIGNED", s, u), ("TYPED", u, s)):
                same = before == after
                yield f"#define TS_{name}_{s}(v) " + ("(v)" if same else f"__riscv_vreinterpret_v_{before}_{after}(v)")
        yield from ["#endif"] if needed else []
    yield "#endif"


def _numbers(description: dict[str, Any]) -> Iterable[str]:
    yield "/* element types */"
    for name, (number, bits) in description["dtypes"].items():
        if bits in (8, 16, 32):
            yield f"#define TS_{name.upper()} {number}"
    yield ""
    yield "/* functions of fn */"
    for number, name in enumerate(description["functions"]):
        yield f"#define TS_FN_{name.upper()} {number}"
    yield ""
    yield "/* what software may ask of a core */"
    for name, number in description["registers"].items():
        plain = name.replace(".", "_")
        yield f"static inline uint64_t {plain}(void) {{"
        yield f'  uint64_t value; __asm__("csrr %0, {number:#x}" : "=r"(value)); return value;'
        yield "}"


def _descriptor(told: dict[str, Any]) -> Iterable[str]:
    """Writes the descriptor of a transfer, in the core's layout."""

    def fields(rows: list[tuple[str, str, str]]) -> Iterable[str]:
        for kind, name, description in rows:
            yield f"  {kind} {name}; /* {description} */"

    yield "/* A step has index first + step (in row_dim first + rows[step]); it lies outside_step * index bytes from"
    yield " * the outside base and inside_step * step bytes from the inside base. Elements whose index lies outside"
    yield " * 0 to bound - 1 take the fill, a store leaves them out; without TS_HAS_FILL they trap. */"
    for name, value in told["flags"].items():
        yield f"#define TS_{name} {value}u"
    yield "struct ts_transfer_dim {"
    yield from fields(told["dim"])
    yield "};"
    yield "struct ts_transfer {"
    yield from fields(told["descriptor"])
    yield f"  struct ts_transfer_dim dim[{told['descriptor_dims']}];"
    yield "};"
    yield "#ifdef __cplusplus"
    yield f'static_assert(sizeof(struct ts_transfer) == {told["descriptor_bytes"]}, "as the core reads it");'
    yield "#else"
    yield f'_Static_assert(sizeof(struct ts_transfer) == {told["descriptor_bytes"]}, "as the core reads it");'
    yield "#endif"
    yield ""
    yield "/* where memories lie */"
    for name, value in told["places"].items():
        yield f"#define TS_{name}_BASE {value:#x}ull"


def _machine(core: Core) -> Iterable[str]:
    """Writes the constants of one machine."""
    machine = core.machine
    assert machine is not None
    settings = machine.to_dict()["core"]
    yield f"/* {machine.name} */"
    yield f"#define TS_VLEN {core.vlen}"
    for name, value in (
        ("LANES", settings["vector"]["lanes"]),
        ("ARRAYS", settings["array"]["count"]),
        ("ARRAY_ROWS", settings["array"]["rows"]),
        ("ARRAY_COLUMNS", settings["array"]["columns"]),
        ("LOAD_QUEUES", settings["dma"]["load_queues"]),
        ("STORE_QUEUES", settings["dma"]["store_queues"]),
    ):
        yield f"#define TS_{name} {value}"


@checked()
def header(instructions: Iterable[Instruction] = (), machine: str | Machine | None = None) -> str:
    """The C header of an NPU core: macros for its instructions, numbers, control registers, the transfer descriptor.

    Args:
        instructions: custom instructions from `define`, beside the standard ones.
        machine: adds its constants; by default a program reads them at run time.

    Returns:
        The text, C11 and C++. Macros such as `mx_push_f32m1(vs2, array, vl)` work on the types of clang's
        `riscv_vector.h`; `mx_push_v(8, array, TS_F32)` takes registers by number, for compilers without them.

    Raises:
        UserError: for an unknown machine or a value that is not an instruction.
    """
    added = tuple(instructions)
    held = set_of(added)
    own = {one.name: one for one in added}
    told = _core.isa_numbers()
    parts = [_START, *_numbers(told), ""]
    if machine is not None:
        parts += [*_machine(Core.from_machine(machine)), ""]
    parts += [*_descriptor(told), "", *_types(told["dtypes"]), ""]
    for row in held.coded():
        of = own.get(row["name"])
        parts += declaration(row) if of is None else declaration({**row, "reads_old": of.reads_old}, of.element)
        parts.append("")
    return "\n".join([*parts, "#endif", ""])
