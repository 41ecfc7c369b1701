"""Runs programs and functions on a hart."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .. import _core
from ..base.arguments import integer
from ..base.checked import checked
from ..base.errors import path_text, shown, user_error
from ..machine.machine import Machine
from .core import Core, core_of, time_on
from .elf import Elf, read_elf
from .result import IsaResult
from .views import INTERVALS, MOST_LOGGED, Log, functions_of, marks_of, roofline_of, trace_of

__all__ = ["call", "run"]

ElfLike = str | os.PathLike[str] | bytes
_MOST = 2**63 - 1
_MEMORY = "4 GiB"
_ADDRESSED = ("address", "misaligned", "memory is used up")  # traps whose value is an address
_FLOATS = {"f16": 16, "f32": 32, "f64": 64}
_INTEGERS = {f"{sign}{bits}": bits for sign in "iu" for bits in (8, 16, 32, 64)}


def _trap(record: dict[str, Any], elf: Elf) -> dict[str, Any] | None:
    if record["kind"] in ("exited", "returned"):
        return None
    pc = record["pc"]
    trap = {
        "cause": record.get("cause", "instruction limit"),
        "detail": record.get("detail", ""),
        "pc": pc,
        "address": record["value"] if any(word in record.get("cause", "") for word in _ADDRESSED) else None,
        "instruction": record.get("text", ""),
        "symbol": elf.symbol(pc),
        "line": elf.line(pc),
    }
    if not trap["instruction"] and record.get("instruction"):
        trap["instruction"] = f"{record['instruction']:#x}"
    return trap


class Streams(NamedTuple):
    """Targets of the standard streams: "k" stores the text in the result, "o" passes it through, "c" closes."""

    input: str = "k"
    output: str = "k"
    errors: str = "k"


class _Views:
    """The records that a timed run keeps in addition to its cycles."""

    def __init__(self, program: Any, elf: Elf, core: Core, timed: bool, pipeline: int, timeline: bool) -> None:
        self.program, self.elf, self.timed, self.held = program, elf, timed, core._held
        self.pipeline = integer("pipeline", pipeline, 0, MOST_LOGGED)
        self.starts = elf.starts() if timeline else None
        if not timed:
            if pipeline or timeline:
                raise user_error("only timed runs can be recorded", place="pipeline, timeline", allowed="timed=True")
            return
        time_on(core, program)
        if self.pipeline:
            program.keep_log(self.pipeline)
        if self.starts is not None:
            program.keep_intervals(INTERVALS, self.starts)

    def functions(self) -> list[dict[str, Any]]:
        return functions_of(self.program, self.elf) if self.timed else []

    def recorded(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if self.pipeline:
            found["log"] = Log(self.program, self.elf, self.held)
        if self.starts is not None:
            found["trace"] = trace_of(self.program, self.elf, self.starts)
        return found


def _result(program: Any, record: dict[str, Any], elf: Elf, core: Core, views: _Views, value: Any = None) -> IsaResult:
    data = {
        "schema": "tilesim.isa_run",
        "version": 1,
        "core": core.name,
        "vlen": core.vlen,
        "exit_status": record["status"] if record["kind"] == "exited" else 0 if record["kind"] == "returned" else None,
        "trap": _trap(record, elf),
        "instructions": program.instructions,
        "vector_instructions": program.vector_instructions,
        "element_operations": program.element_operations,
        "cycles": program.cycles,
        "units": program.units,
        "functions": views.functions(),
        "marks": marks_of(program),
        "roofline": roofline_of(program) if views.timed else None,
    }
    return IsaResult(data, value, program.output, program.errors, views.recorded())


@checked("elf")
def run(
    elf: ElfLike,
    *args: str,
    core: str | os.PathLike[str] | Core | None = None,
    machine: str | Machine | None = None,
    vlen: int | None = None,
    max_instructions: int | None = None,
    root: str | os.PathLike[str] | None = None,
    seed: int = 0,
    input: bytes = b"",
    pass_through: bool = False,
    agnostic: str = "undisturbed",
    bare: bool = False,
    timed: bool = False,
    pipeline: int = 0,
    timeline: bool = False,
    max_memory: int | str = _MEMORY,
) -> IsaResult:
    """Runs a static RV64GCV Linux program; it is deterministic.

    Args:
        elf: path or bytes of the program, or of one object file.
        args: command-line arguments after the program's name.
        core: name, file or Core; `generic` by default.
        machine: instead of a core: the core of a machine.
        vlen: bits of a vector register instead of the core's.
        max_instructions: ends the run after so many; no limit by default.
        root: directory whose files the program may open; no files by default.
        seed: seed of the program's random bytes.
        input: standard input.
        pass_through: standard streams are those of this process instead of bytes of the result.
        agnostic: "undisturbed" (tails and masked-off elements stay) or "ones" (a test mode).
        bare: no Linux: the program begins in machine mode, traps go through mtvec, a store of status * 2 + 1 to the
            symbol `tohost` ends it.
        timed: times the core's pipeline: `cycles`, `stalls`, `functions`, `roofline`.
        pipeline: number of instructions that a timed run keeps for `pipeline` and `write_pipeline`, at most 1,000,000.
        timeline: whether a timed run records intervals for `timeline`.
        max_memory: bytes that the program may use, or text as "8 GiB". Heap and mappings beyond it fail with
            ENOMEM as on Linux; any other page beyond it traps, and so does output in the result.

    Returns:
        Exit status, trap, counts, output.

    Raises:
        UserError: for an invalid program, an unknown core, a vlen other than a power of two, a program larger than
            `max_memory`.
    """
    streams = Streams("o", "o", "o") if pass_through else Streams()
    asked = RunArguments(core, machine, vlen, max_instructions, root, seed, input, agnostic, bare, timed, pipeline,
                         timeline, max_memory)  # fmt: skip
    return run_with(streams, elf, args, asked)


@dataclass(frozen=True)
class RunArguments:
    """Arguments of a run, by the names of `run`."""

    core: str | os.PathLike[str] | Core | None = None
    machine: str | Machine | None = None
    vlen: int | None = None
    max_instructions: int | None = None
    root: str | os.PathLike[str] | None = None
    seed: int = 0
    input: bytes = b""
    agnostic: str = "undisturbed"
    bare: bool = False
    timed: bool = False
    pipeline: int = 0
    timeline: bool = False
    max_memory: int | str = _MEMORY


def run_with(streams: Streams, elf: ElfLike, args: Sequence[str], asked: RunArguments) -> IsaResult:
    """Runs a program as `run` does, with a separate setting for each standard stream."""
    target = core_of(asked.core, asked.machine, asked.vlen)
    program, image = _program(elf, target, asked, streams)
    image.check_entry()
    name = "program" if isinstance(elf, bytes) else os.path.basename(os.fspath(elf))
    program.start([name, *args])
    if asked.bare:
        program.make_bare(image.address("tohost", 0))
    views = _Views(program, image, target, asked.timed, asked.pipeline, asked.timeline)
    told = program.run(_limit(asked.max_instructions))
    return _result(program, told, image, target, views)


def _limit(instructions: int | None) -> int:
    return _MOST if instructions is None else integer("max_instructions", instructions, 0, _MOST)


def _program(elf: ElfLike, core: Core, asked: RunArguments, streams: Streams) -> tuple[Any, Elf]:
    agnostic, most = asked.agnostic, asked.max_memory
    if agnostic not in ("undisturbed", "ones"):
        raise user_error("unknown policy", place="agnostic", value=agnostic, allowed="undisturbed, ones")
    image = read_elf(elf)
    folder = "" if asked.root is None else path_text(asked.root)
    if folder and not os.path.isdir(folder):
        raise user_error("the directory does not exist", place="root", value=folder)
    seed = integer("seed", asked.seed, 0, 2**64 - 1)
    most = integer("max_memory", _core.parse_bytes(most) if isinstance(most, str) else most, 4096, _MOST)
    program = _core.IsaProgram(image.image, core.vlen, folder, seed, "".join(streams), asked.input, core._held, most)
    program.set_ones(agnostic == "ones")
    if core.machine is not None:
        program.be(core.machine.core)
    return program, image


class _Arguments:
    """Arguments of a call by the C ABI (RISC-V calling convention 1.0): a0-a7, fa0-fa7, then the stack."""

    def __init__(self, program: Any) -> None:
        self.program = program
        self.integers = self.floats = 0
        self.stack: list[int] = []
        self.arrays: list[tuple[int, np.ndarray, bool]] = []

    def add(self, index: int, value: Any) -> None:
        if isinstance(value, np.ndarray):
            self.integer(self.array(index, value))
        elif isinstance(value, (np.floating, float)):
            width = value.dtype.itemsize * 8 if isinstance(value, np.floating) else 64
            raw = np.asarray(value, f"f{width // 8}").view(f"u{width // 8}")
            self.float(int(raw) | (~0 << width & 2**64 - 1))
        elif isinstance(value, (bool, np.bool_, int, np.integer)):
            if not -(2**63) <= int(value) < 2**64:
                raise user_error("the number does not fit into 64 bits", place=f"argument {index}", value=shown(value))
            number = int(value)
            if isinstance(value, np.uint32):  # 32-bit numbers are sign-extended, also unsigned ones
                number -= (number >> 31) << 32
            self.integer(number % 2**64)
        else:
            raise user_error(
                "not an argument of a C function",
                place=f"argument {index}",
                value=shown(value),
                allowed="numpy arrays, integers, floats",
            )

    def array(self, index: int, value: np.ndarray) -> int:
        if value.dtype.hasobject or not value.dtype.itemsize:
            raise user_error("an array of Python objects", place=f"argument {index}", value=str(value.dtype))
        if value.dtype.byteorder == ">" or (value.dtype.byteorder == "=" and sys.byteorder == "big"):
            raise user_error(
                "an array with foreign byte order",
                place=f"argument {index}",
                value=value.dtype.str,
                suggestion="value.astype(value.dtype.newbyteorder('<'))",
            )
        for at, known, writeable in self.arrays:
            if known is value:
                return at
            if (writeable or value.flags.writeable) and np.may_share_memory(known, value):
                # each array is copied in and back, so one copy would overwrite the other
                raise user_error(
                    "arrays that share memory",
                    place=f"argument {index}",
                    allowed="the same array again, or a copy",
                    suggestion="pass the whole array, and the first index as a number",
                )
        at = int(self.program.allocate(value.nbytes))
        self.program.place(at, np.ascontiguousarray(value).tobytes())
        self.arrays.append((at, value, value.flags.writeable))
        return at

    def integer(self, value: int) -> None:
        if self.integers < 8:
            self.program.set_x(10 + self.integers, value)
            self.integers += 1
        else:
            self.stack.append(value)

    def float(self, value: int) -> None:
        if self.floats < 8:
            self.program.set_f(10 + self.floats, value)
            self.floats += 1
        else:
            self.integer(value)

    def place_stack(self) -> None:
        self.program.set_stack(8 * len(self.stack))
        for index, value in enumerate(self.stack):
            self.program.place(self.program.x(2) + 8 * index, value.to_bytes(8, "little"))

    def take_back(self) -> None:
        for at, array, writeable in self.arrays:
            if writeable:
                raw = self.program.read(at, array.nbytes)
                array[...] = np.frombuffer(raw, array.dtype).reshape(array.shape)


def _value(program: Any, returns: str | None) -> Any:
    if returns is None:
        return None
    if returns in _FLOATS:
        width = _FLOATS[returns] // 8
        return np.frombuffer(program.f(10).to_bytes(8, "little")[:width], f"<f{width}")[0]
    bits = _INTEGERS[returns]
    value = program.x(10) & (1 << bits) - 1
    return value - (1 << bits) if returns[0] == "i" and value >> (bits - 1) else value


@checked("elf", "args")
def call(
    elf: ElfLike,
    symbol: str,
    *args: Any,
    core: str | os.PathLike[str] | Core | None = None,
    machine: str | Machine | None = None,
    vlen: int | None = None,
    returns: str | None = None,
    max_instructions: int | None = None,
    agnostic: str = "undisturbed",
    timed: bool = False,
    pipeline: int = 0,
    timeline: bool = False,
    max_memory: int | str = _MEMORY,
) -> IsaResult:
    """Calls one function of a program or object file by the C ABI; start-up code does not run.

    Args:
        elf: path or bytes.
        symbol: the function.
        args: numpy arrays go by pointer (contents are copied in, and back into those that can be written), integers
            and floats by register; np.float32(x) is a float, a Python float a double.
        core: name, file or Core; `generic` by default.
        machine: instead of a core: the core of a machine.
        vlen: bits of a vector register instead of the core's.
        returns: what the function returns: "i8" to "u64", "f16", "f32", "f64"; nothing by default.
        max_instructions: ends the run after so many; no limit by default.
        agnostic: "undisturbed" or "ones", as in `run`.
        timed: as in `run`.
        pipeline: as in `run`.
        timeline: as in `run`.
        max_memory: as in `run`; arguments count.

    Returns:
        The value, trap, counts. Arrays are copied back only if the function returned.

    Raises:
        UserError: for an unknown symbol (with the nearest), an argument without a C type, arguments that do not fit
            into `max_memory`.
    """
    if returns is not None and returns not in _FLOATS and returns not in _INTEGERS:
        raise user_error("unknown type", place="returns", value=returns, allowed=", ".join([*_INTEGERS, *_FLOATS]))
    target = core_of(core, machine, vlen)
    program, image = _program(elf, target, RunArguments(agnostic=agnostic, max_memory=max_memory), Streams())
    function = image.address(symbol)
    arguments = _Arguments(program)
    for index, value in enumerate(args):
        arguments.add(index, value)
    arguments.place_stack()
    views = _Views(program, image, target, timed, pipeline, timeline)
    told = program.call(function, _limit(max_instructions))
    value = None
    if told["kind"] == "returned":
        arguments.take_back()
        value = _value(program, returns)
    return _result(program, told, image, target, views, value)
