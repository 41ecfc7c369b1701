"""Custom operations of graphs: semantics in numpy, a kernel for the machine's core."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import _core
from ..base.arguments import as_array, dtype_name, extents
from ..base.checked import checked, checked_class
from ..base.errors import Error, shown, user_error
from ..graph.tensor import Tensor
from ..machine.machine import Machine, MachineLike
from .custom import Instruction, Unit, set_of
from .elf import Elf, read_elf

__all__ = ["Operation", "TensorType", "operation"]


@dataclass(frozen=True)
class TensorType:
    """Element type and extents of a tensor."""

    dtype: str
    shape: tuple[int, ...]

    def __str__(self) -> str:
        """The text form, such as "f32[2, 3]"."""
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"


@checked_class()
class Operation:
    """A custom operation; `operation` creates it, and a call adds it to a builder."""

    def __init__(self, name: str, shape: Callable[..., Any], reference: Callable[..., Any], roundings: float) -> None:
        """Stores the parts of an operation; use `operation`."""
        self.name, self.shape, self.reference, self.roundings = name, shape, reference, roundings

    def results(self, *operands: Any) -> tuple[TensorType, ...]:
        """Types of the results.

        Args:
            operands: with `dtype` and `shape`: tensors of a builder, or TensorType.

        Returns:
            As the operation's `shape` says.

        Raises:
            UserError: where it fails, or returns no types.
        """
        for index, one in enumerate(operands):
            if not hasattr(one, "dtype") or not hasattr(one, "shape"):
                raise user_error(
                    "the operand has no type",
                    place=f"operand {index} of {self.name}",
                    value=shown(one),
                    allowed="a tensor of a builder, a TensorType",
                )
        types = [TensorType(str(one.dtype), tuple(one.shape)) for one in operands]
        try:
            made = self.shape(*types)
        except Error:
            raise
        except Exception as error:
            raise self._wrong("the shape function failed", error) from error
        several = isinstance(made, (list, tuple)) and not _is_pair(made)
        found = tuple(self._type(one) for one in (made if several else [made]))
        if not found:
            raise self._wrong("the operation has no result", made)
        return found

    def __call__(self, *operands: Tensor, name: str = "") -> Any:
        """Adds the operation to the graph of its operands."""
        if not operands or not all(isinstance(one, Tensor) for one in operands):
            raise user_error(
                "not a tensor of a builder", place=f"'{self.name}'", value=shown(operands), allowed="Tensor"
            )
        types = [str(one) for one in self.results(*operands)]
        builder = operands[0].builder
        attributes = {"target": self.name, "results": types, "roundings": float(self.roundings)}
        made = builder.core.op(
            "opaque", [builder._value(one) for one in operands], attributes, name or builder.stem, len(types)
        )
        tensors = tuple(Tensor(builder, value) for value in made)
        return tensors[0] if len(tensors) == 1 else tensors

    def measure(self, machine: MachineLike, *operands: Any) -> tuple[Any, int]:
        """Runs only the kernel on an idle core of a machine.

        Args:
            machine: preset name, file, dict or Machine.
            operands: numpy arrays.

        Returns:
            The result (several: a tuple), and cycles.

        Raises:
            UserError: where the kernel traps (symbol and line).
        """
        arrays = [np.asarray(as_array(one, f"operands[{index}]"), order="C") for index, one in enumerate(operands)]
        types = self.results(*(TensorType(_core_dtype(one), one.shape) for one in arrays))
        zeros = [np.zeros(one.shape, _numpy(one.dtype)) for one in types]
        made, cycles = _core.isa_run_operation(self.name, Machine.load(machine).core, arrays, zeros)
        return (made[0] if len(made) == 1 else tuple(made)), int(cycles)

    def _type(self, result: Any) -> TensorType:
        dtype, shape = (
            (result.dtype, result.shape) if hasattr(result, "dtype") else result if _is_pair(result) else (None, None)
        )
        if dtype is None:
            raise self._wrong("the shape function does not return a type", result)
        return TensorType(dtype_name(str(dtype)), tuple(extents(shape, f"result of '{self.name}'")))

    def _wrong(self, what: str, value: Any) -> Exception:
        allowed = "a TensorType, a pair of dtype and shape, or a tuple of them"
        return user_error(what, place=f"'{self.name}': shape", value=shown(value), allowed=allowed)

    def __repr__(self) -> str:
        """The name."""
        return f"<operation {self.name}>"


def _is_pair(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and len(value) == 2 and isinstance(value[0], (str, np.dtype))


def _core_dtype(array: np.ndarray[Any, Any]) -> str:
    name = array.dtype.name
    return {"bool": "bool", "bfloat16": "bf16"}.get(name) or name.replace("uint", "u").replace("int", "i").replace(
        "float", "f"
    )


def _numpy(dtype: str) -> np.dtype[Any]:
    if dtype == "bool":
        return np.dtype(bool)
    from .semantics import element_type

    return element_type(dtype)


class _Reference:
    """Lets the core call the reference with arrays; checks the returned values."""

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self.name, self.function = name, function

    def __call__(self, operands: Sequence[Any], results: Sequence[Any]) -> list[Any]:
        try:
            with np.errstate(all="ignore"):
                made = self.function(*operands)
        except Error:
            raise
        except Exception as error:
            raise user_error(
                "the reference of an operation failed", place=f"'{self.name}'", value=shown(error)
            ) from error
        found = list(made) if isinstance(made, (list, tuple)) else [made]
        if len(found) != len(results):
            raise user_error(
                "the reference returns a wrong number of results",
                place=f"'{self.name}'",
                value=str(len(found)),
                allowed=str(len(results)),
            )
        return [
            self._checked(one, wanted, index) for index, (one, wanted) in enumerate(zip(found, results, strict=True))
        ]

    def _checked(self, made: Any, wanted: Any, index: int) -> Any:
        if isinstance(made, np.generic):
            made = np.asarray(made)
        if not isinstance(made, np.ndarray) or made.shape != wanted.shape or made.dtype != wanted.dtype:
            got = f"{made.dtype.name}{list(made.shape)}" if isinstance(made, np.ndarray) else shown(made)
            raise user_error(
                "the reference returns a wrong shape or dtype",
                place=f"'{self.name}': result {index}",
                value=got,
                allowed=f"{wanted.dtype.name}{list(wanted.shape)}",
            )
        return np.asarray(made, order="C")


class _Place:
    """The symbol and the source line of an address."""

    def __init__(self, elf: Elf) -> None:
        self.elf = elf

    def __call__(self, address: int) -> str:
        parts = (self.elf.symbol(address), self.elf.line(address), f"at {address:#x}")
        return ", ".join(part for part in parts if part)


def _kernel(kernel: Any, name: str) -> tuple[Elf, int]:
    """Loads the program, and finds the address of its function."""
    program, symbol = kernel if isinstance(kernel, tuple) and len(kernel) == 2 else (kernel, "kernel")
    if not isinstance(symbol, str):
        raise user_error("the symbol is not a text", place="kernel", value=shown(symbol))
    if not isinstance(program, (bytes, str)) and not hasattr(program, "__fspath__"):
        raise user_error(
            "the kernel is neither a program nor a program and a symbol",
            place="kernel",
            value=shown(program),
            allowed="path or bytes of an ELF file",
        )
    elf = read_elf(program)
    return elf, elf.address(symbol)


@checked("kernel")
def operation(
    name: str,
    shape: Callable[..., Any],
    reference: Callable[..., Any],
    kernel: Any,
    *,
    instructions: Iterable[Instruction] = (),
    unit: Unit | None = None,
    roundings: float = 16,
) -> Operation:
    """Declares a custom operation of graphs with its semantics and the kernel for a machine's core.

    The kernel is a C function: pointers to the operands, then to the results (dense, row-major, 64-byte aligned), then
    the extents of all operands, axis after axis, as 64-bit integers. Tile level and `ts.reference` use
    `reference`; at level "instruction" `execute` and `verify` run the kernel. Its time is measured on an otherwise
    idle core when the graph is compiled, on numbers between -1 and 1 (integers: 0 and 1).

    A graph's file holds the name. A later declaration of a name replaces the earlier one; a program that loads the
    graph declares the operation before it executes or compiles it.

    Args:
        name: such as "my.norm", with a dot in it.
        shape: gets a TensorType (`dtype`, `shape`) of each operand; returns one, or (dtype, shape), or a tuple of them.
        reference: gets arrays, returns one or a tuple of them, with those types.
        kernel: (program, symbol): path or bytes of an ELF file or object file, as `assemble` makes; a program alone has
            the symbol "kernel".
        instructions: custom instructions of the kernel; their units come with them.
        unit: with a separate queue, which runs this operation's kernels beside the vector unit's; by default the
            vector unit runs them.
        roundings: allowed difference between kernel and `reference` in `verify`, in roundings of a result's type.

    Returns:
        The operation: `y = norm(x)` puts it into the graph of `x`.

    Raises:
        UserError: for a name without a dot, a kernel that is not a program, an unknown symbol (with the nearest), or
            an encoding in use.
    """
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z0-9_]+)+", name):
        raise user_error("an operation's name consists of words separated by dots", place="name", value=shown(name))
    for place, one in (("shape", shape), ("reference", reference)):
        if not callable(one):
            raise user_error("not a function", place=place, value=shown(one))
    if unit is not None and not isinstance(unit, Unit):
        raise user_error("not a unit", place="unit", value=shown(unit), allowed="results of ts.isa.unit")
    try:
        within = 0 <= float(roundings) <= 1e9
    except (TypeError, ValueError):
        within = False
    if not within:
        raise user_error("out of range", place="roundings", value=shown(roundings), allowed="0 to 1e9")
    own = tuple(instructions)
    elf, address = _kernel(kernel, name)
    units = {one.unit for one in own if isinstance(one.unit, Unit)} | ({unit} if unit else set())
    rows = sorted((one.name, one.queue, one.pipes) for one in units)
    queue = "vector" if unit is None else unit.name
    held = _Reference(name, reference)
    _core.isa_declare_operation(name, elf.image, address, set_of(own), rows, queue, held, _Place(elf))
    return Operation(name, shape, reference, float(roundings))
