"""Programs and functions on a hart."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from .. import _core
from ..base.arguments import whole
from ..base.checked import checked, checked_class
from ..base.errors import path_text, shown, user_error
from ..machine.machine import Machine
from .core import Core, core_of
from .elf import Elf, read_elf

__all__ = ["IsaResult", "call", "run"]

ElfLike = str | os.PathLike[str] | bytes
_MOST = 2**63 - 1
_FLOATS = {"f16": 16, "f32": 32, "f64": 64}
_INTEGERS = {f"{sign}{bits}": bits for sign in "iu" for bits in (8, 16, 32, 64)}


@checked_class()
class IsaResult:
    """What a run of instructions did."""

    def __init__(self, data: dict[str, Any], value: Any = None, output: bytes = b"", errors: bytes = b"") -> None:
        """Made by `run` and `call`.

        Args:
            data: the JSON form.
            value: what a called function returned.
            output: bytes written to standard output.
            errors: bytes written to standard error.
        """
        self.data, self.value, self.output, self.errors = data, value, output, errors

    @property
    def exit_status(self) -> int | None:
        """A number from 0 to 255, the program's; none where it trapped or reached the limit."""
        return self.data["exit_status"]

    @property
    def trap(self) -> dict[str, Any] | None:
        """Cause, detail, pc, address, instruction, symbol and line; none where it ended by itself."""
        return self.data["trap"]

    @property
    def instructions(self) -> int:
        """Number of instructions carried out."""
        return int(self.data["instructions"])

    @property
    def vector_instructions(self) -> int:
        """Number of those among them that work on vector registers."""
        return int(self.data["vector_instructions"])

    @property
    def element_operations(self) -> int:
        """Number of elements (vl) of all vector instructions."""
        return int(self.data["element_operations"])

    @property
    def cycles(self) -> int | None:
        """Cycles of a timed run; none: it was functional."""
        return self.data["cycles"]

    @property
    def stalls(self) -> dict[str, dict[str, float]]:
        """Cycles of each unit by state, of a timed run; a unit's states add up to `cycles`."""
        return {unit: dict(states) for unit, states in self.data["units"].items()}

    def to_dict(self) -> dict[str, Any]:
        """The JSON form, `tilesim.isa_run` version 1.

        Returns:
            A dict of plain values.
        """
        return dict(self.data)

    def __repr__(self) -> str:
        """The headline."""
        if self.trap is not None:
            return f"<{trap_text(self.trap)}, after {self.instructions:,} instructions>"
        ended = f"exit {self.exit_status}" if self.value is None else f"value {self.value!r}"
        return f"<{ended}, {self.instructions:,} instructions, {self.vector_instructions:,} of them vector>"


def trap_text(trap: dict[str, Any]) -> str:
    """A trap in one line: cause, why, address, instruction, place."""
    text = trap["cause"] + (f": {trap['detail']}" if trap["detail"] else "")
    if trap["address"] is not None:
        text += f", address {trap['address']:#x}"
    text += f" at {trap['pc']:#x}"
    place = ", ".join(part for part in (trap["symbol"], trap["line"]) if part)
    text += f" ({place})" if place else ""
    return text + (f", in '{trap['instruction']}'" if trap["instruction"] else "")


def _trap(told: dict[str, Any], elf: Elf) -> dict[str, Any] | None:
    if told["kind"] in ("exited", "returned"):
        return None
    pc = told["pc"]
    trap = {
        "cause": told.get("cause", "instruction limit"),
        "detail": told.get("detail", ""),
        "pc": pc,
        "address": told["value"]
        if "address" in told.get("cause", "") or "misaligned" in told.get("cause", "")
        else None,
        "instruction": told.get("text", ""),
        "symbol": elf.symbol(pc),
        "line": elf.line(pc),
    }
    if not trap["instruction"] and told.get("instruction"):
        trap["instruction"] = f"{told['instruction']:#x}"
    return trap


def _result(program: Any, told: dict[str, Any], elf: Elf, core: Core, value: Any = None) -> IsaResult:
    data = {
        "schema": "tilesim.isa_run",
        "version": 1,
        "core": core.name,
        "vlen": core.vlen,
        "exit_status": told["status"] if told["kind"] == "exited" else 0 if told["kind"] == "returned" else None,
        "trap": _trap(told, elf),
        "instructions": program.instructions,
        "vector_instructions": program.vector_instructions,
        "element_operations": program.element_operations,
        "cycles": program.cycles,
        "units": program.units,
        "functions": [],
    }
    return IsaResult(data, value, program.output, program.errors)


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
) -> IsaResult:
    """Runs a static RV64GCV Linux program; it is deterministic.

    Args:
        elf: path or bytes of the program, or of one object file.
        args: command-line arguments after the program's name.
        core: name, file or Core; none: `generic`.
        machine: instead of a core: the core of a machine.
        vlen: bits of a vector register instead of the core's.
        max_instructions: ends the run after so many; none: no limit.
        root: directory whose files the program may open; none: none.
        seed: of what the program gets as random bytes.
        input: standard input.
        pass_through: standard streams are those of this process instead of bytes of the result.
        agnostic: "undisturbed" (tails and masked-off elements stay) or "ones" (a test mode).
        bare: no Linux: the program begins in machine mode, traps go through mtvec, a store of status * 2 + 1 to the
            symbol `tohost` ends it.
        timed: the core's pipeline is timed beside: `cycles`, `stalls`.

    Returns:
        Exit status, trap, counts, output.

    Raises:
        UserError: for what is no such program, an unknown core, a vlen that is no power of two.
    """
    target = core_of(core, machine, vlen)
    program, image = _program(elf, target, root, seed, pass_through, input, agnostic)
    name = "program" if isinstance(elf, bytes) else os.path.basename(os.fspath(elf))
    program.start([name, *args])
    if bare:
        program.make_bare(image.address("tohost", 0))
    if timed:
        program.time(target.timing)
    told = program.run(_limit(max_instructions))
    return _result(program, told, image, target)


def _limit(instructions: int | None) -> int:
    return _MOST if instructions is None else whole("max_instructions", instructions, 0, _MOST)


def _program(
    elf: ElfLike, core: Core, root: Any, seed: int, pass_through: bool, given: bytes, agnostic: str
) -> tuple[Any, Elf]:
    if agnostic not in ("undisturbed", "ones"):
        raise user_error("unknown policy", place="agnostic", value=agnostic, allowed="undisturbed, ones")
    image = read_elf(elf)
    folder = "" if root is None else path_text(root)
    if folder and not os.path.isdir(folder):
        raise user_error("there is no such directory", place="root", value=folder)
    seed = whole("seed", seed, 0, 2**64 - 1)
    program = _core.IsaProgram(image.image, core.vlen, folder, seed, pass_through, given, core._held)
    program.set_ones(agnostic == "ones")
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
                raise user_error("a number is too large", place=f"argument {index}", value=shown(value))
            self.integer(int(value) % 2**64)
        else:
            raise user_error(
                "this cannot be an argument of a C function",
                place=f"argument {index}",
                value=shown(value),
                allowed="numpy arrays, integers, floats",
            )

    def array(self, index: int, value: np.ndarray) -> int:
        if value.dtype.hasobject or not value.dtype.itemsize:
            raise user_error("an array of objects has no bytes", place=f"argument {index}", value=str(value.dtype))
        for at, known, _ in self.arrays:
            if known is value:
                return at
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
) -> IsaResult:
    """Calls one function of a program or object file by the C ABI; start-up code does not run.

    Args:
        elf: path or bytes.
        symbol: the function.
        args: numpy arrays go by pointer (contents are copied in, and back into those that can be written), integers
            and floats by register; np.float32(x) is a float, a Python float a double.
        core: name, file or Core; none: `generic`.
        machine: instead of a core: the core of a machine.
        vlen: bits of a vector register instead of the core's.
        returns: what the function returns: "i8" to "u64", "f16", "f32", "f64"; none: nothing.
        max_instructions: ends the run after so many; none: no limit.
        agnostic: "undisturbed" or "ones", as in `run`.
        timed: as in `run`.

    Returns:
        The value, trap, counts. Arrays are only copied back if the function returned.

    Raises:
        UserError: for an unknown symbol (with the nearest), an argument that C does not know.
    """
    if returns is not None and returns not in _FLOATS and returns not in _INTEGERS:
        raise user_error("unknown type", place="returns", value=returns, allowed=", ".join([*_INTEGERS, *_FLOATS]))
    target = core_of(core, machine, vlen)
    program, image = _program(elf, target, None, 0, False, b"", agnostic)
    function = image.address(symbol)
    arguments = _Arguments(program)
    for index, value in enumerate(args):
        arguments.add(index, value)
    arguments.place_stack()
    if timed:
        program.time(target.timing)
    told = program.call(function, _limit(max_instructions))
    value = None
    if told["kind"] == "returned":
        arguments.take_back()
        value = _value(program, returns)
    return _result(program, told, image, target, value)
