"""Semantics of instructions in a shared library: functions of C or C++."""

from __future__ import annotations

import ctypes
import os
from typing import Any

from ..base.errors import user_error

__all__ = ["Native", "native"]


class Native:
    """A function of a library, called by the core itself."""

    def __init__(self, path: str, symbol: str) -> None:
        """Loads the library, which stays loaded while this value exists."""
        self.path, self.symbol = path, symbol
        try:
            self._library = ctypes.CDLL(os.path.abspath(path))
        except OSError as error:
            raise user_error(
                "this library cannot be loaded",
                place="semantics",
                value=path,
                suggestion=str(error) if os.path.exists(path) else "The file does not exist",
            ) from None
        try:
            pointer = getattr(self._library, symbol)
        except AttributeError:
            raise user_error(
                "unknown symbol of the library",
                place=f"semantics: {path}",
                value=symbol,
                suggestion='In C++ a function needs extern "C"',
            ) from None
        self.address = ctypes.cast(pointer, ctypes.c_void_p).value

    def __call__(self, *operands: Any) -> Any:
        """Raises an error, because only the core calls the function."""
        raise user_error("only the core calls this function", value=f"{self.path}:{self.symbol}")

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles the names of library and symbol."""
        return Native, (self.path, self.symbol)

    def __repr__(self) -> str:
        """Library and symbol."""
        return f"<function {self.symbol} of {self.path}>"


class _Pointer(Native):
    """A function pointer of ctypes."""

    def __init__(self, pointer: Any) -> None:
        self.path, self.symbol = "ctypes", repr(pointer)
        self._library = pointer
        self.address = ctypes.cast(pointer, ctypes.c_void_p).value

    def __reduce__(self) -> tuple[Any, ...]:
        raise user_error("a function pointer cannot be pickled", value=self.symbol, allowed='"lib.so:symbol"')


_FUNCTION: Any = ctypes.CFUNCTYPE(None).__mro__[1]  # the base class of all function pointers


def native(semantics: Any) -> Any:
    """Resolves the semantics given to `define` if it names a library's function."""
    if isinstance(semantics, _FUNCTION):
        return _Pointer(semantics)
    if not isinstance(semantics, str):
        return semantics
    path, colon, symbol = semantics.rpartition(":")
    if not colon or not path or not symbol or "\0" in semantics:
        raise user_error(
            "the text does not name a library and a function",
            place="semantics",
            value=semantics,
            allowed="lib.so:symbol",
        )
    return Native(path, symbol)
