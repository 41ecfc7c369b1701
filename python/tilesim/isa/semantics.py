"""Runs the semantics of custom instructions, a function on numpy arrays, on the registers of a hart."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base.errors import Error, nearest, shown, user_error
from .native import Native

_NATIVE = {"f64": "<f8", "f32": "<f4", "f16": "<f2"}
_NATIVE |= {f"{sign}{bits}": f"<{sign}{bits // 8}" for sign in "iu" for bits in (8, 16, 32, 64)}
_EXTENDED = {"bf16": "bfloat16", "f8e4m3fn": "float8_e4m3fn", "f8e5m2": "float8_e5m2"}
ELEMENTS = (*_NATIVE, *_EXTENDED)


def element_type(element: str) -> np.dtype[Any]:
    """The numpy dtype of an element; for another word, a `UserError` with the nearest name."""
    if element in _NATIVE:
        return np.dtype(_NATIVE[element])
    if element not in _EXTENDED:
        raise user_error(
            "unsupported type of elements",
            place="element",
            value=shown(element),
            allowed=", ".join(ELEMENTS),
            suggestion=nearest(element, ELEMENTS),
        )
    import ml_dtypes

    return np.dtype(getattr(ml_dtypes, _EXTENDED[element]))


def _is_float(kind: np.dtype[Any]) -> bool:
    return kind.kind == "f" or kind.name in _EXTENDED.values()


class Semantics:
    """Lets a hart call a function with raw operands; checks the returned values."""

    def __init__(self, of: Any) -> None:
        self.of = of
        self.kind = None if of.element is None else element_type(of.element)
        self.written = next((word for word in of.words if word in ("vd", "rd", "fd")), None)
        self.native = of.semantics.address if isinstance(of.semantics, Native) else None
        self.taken = [word for word in of.words if word != "vm" and (word != self.written or of.reads_old)]

    def __call__(self, raw: list[Any], count: int, width: int, pc: int) -> Any:
        """The written bytes or number, or None."""
        vector = np.dtype(f"<u{width // 8}") if self.kind is None and width else self.kind
        given = [self._operand(word, value, vector) for word, value in zip(self.taken, raw, strict=True)]
        try:
            with np.errstate(all="ignore"):  # processors give no warnings either
                made = self.of.semantics(*given)
        except Error:
            raise
        except Exception as error:
            raise self._wrong(f"the semantics of '{self.of.name}' failed", error, pc) from error
        if self.written is None:
            if made is not None:
                raise self._wrong(f"'{self.of.name}' writes nothing, its semantics return something", made, pc, "None")
            return None
        if self.written == "vd":
            assert vector is not None
            return self._vector(made, count, vector, pc)
        return self._integer(made, pc) if self.written == "rd" else self._real(made, pc)

    def _operand(self, word: str, value: Any, vector: np.dtype[Any] | None) -> Any:
        if word[0] == "v":
            return np.frombuffer(bytearray(value), vector)
        if word[0] == "f":
            kind = self._register()
            boxed = kind.itemsize == 8 or value >> 8 * kind.itemsize == (1 << 64 - 8 * kind.itemsize) - 1
            if not boxed:
                return float("nan")
            return float(np.frombuffer(value.to_bytes(8, "little")[: kind.itemsize], kind)[0])
        # in OP-V a scalar operand is as wide as an element
        if word in ("rs1", "rs2", "rd") and self.kind is not None and not _is_float(self.kind):
            low = (value & (1 << 64) - 1).to_bytes(8, "little")[: self.kind.itemsize]
            return int(np.frombuffer(low, self.kind)[0])
        return value

    def _register(self) -> np.dtype[Any]:
        return self.kind if self.kind is not None and _is_float(self.kind) else np.dtype("<f8")

    def _wrong(self, what: str, value: Any, pc: int, allowed: str = "") -> Exception:
        return user_error(what, place=f"'{self.of.text}' at {pc:#x}", value=shown(value), allowed=allowed)

    def _vector(self, result: Any, count: int, vector: np.dtype[Any], pc: int) -> bytes:
        name = self.of.name
        if not isinstance(result, np.ndarray):
            what = f"the semantics of '{name}' do not return an array"
            raise self._wrong(what, result, pc, f"{vector.name} of shape ({count},)")
        if result.shape != (count,):
            raise self._wrong(f"the semantics of '{name}' return a wrong shape", result.shape, pc, f"({count},)")
        if result.dtype != vector:
            what = f"the semantics of '{name}' return a wrong dtype"
            swapped = result.dtype == vector.newbyteorder(">")
            got = f"{result.dtype.str}, the other order of bytes" if swapped else result.dtype.name
            raise self._wrong(what, got, pc, vector.str if swapped else vector.name)
        return _canonical(result, vector)

    def _integer(self, result: Any, pc: int) -> int:
        if isinstance(result, (bool, int, np.integer, np.bool_)) or (
            isinstance(result, np.ndarray) and result.shape == () and result.dtype.kind in "iub"
        ):
            number = int(result)
            if -(1 << 63) <= number < 1 << 64:
                return number & (1 << 64) - 1
        what = f"the semantics of '{self.of.name}' do not return a number of 64 bits"
        raise self._wrong(what, result, pc, "a whole number from -2^63 to 2^64 - 1")

    def _real(self, made: Any, pc: int) -> int:
        kind = self._register()
        if isinstance(made, np.ndarray) and made.shape == ():
            made = made[()]
        if isinstance(made, (bool, str, bytes)) or np.ndim(made) != 0:
            raise self._wrong(f"the semantics of '{self.of.name}' do not return a number", made, pc, "a float")
        try:
            with np.errstate(all="ignore"):
                number = np.asarray(float(made)).astype(kind).reshape(1)
        except (TypeError, ValueError, OverflowError):
            raise self._wrong(
                f"the semantics of '{self.of.name}' do not return a number", made, pc, "a float"
            ) from None
        bits = int.from_bytes(_canonical(number, kind), "little")
        return bits | (1 << 64) - (1 << 8 * kind.itemsize) if kind.itemsize < 8 else bits


def _canonical(values: np.ndarray[Any, Any], kind: np.dtype[Any]) -> bytes:
    """The bytes of values, with NaN in RISC-V's form: positive, quiet, no payload."""
    if not _is_float(kind):
        return values.tobytes()
    missing = np.isnan(values)
    if not missing.any():
        return values.tobytes()
    quiet = {"float64": 0x7FF8 << 48, "float32": 0x7FC00000, "float16": 0x7E00, "bfloat16": 0x7FC0}
    bits = np.ascontiguousarray(values).view(f"<u{kind.itemsize}").copy()
    if kind.name in quiet:
        bits[missing] = quiet[kind.name]
    return bits.tobytes()
