"""Checks of arguments before they reach the core; messages use the names that the user wrote."""

from __future__ import annotations

import json
import operator
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .checked import is_iterable, is_text
from .errors import as_number, nearest, shown, user_error

LARGEST = 2**62
MOST_AXES = 2**16


def integer(name: str, value: Any, least: int = 1, most: int = LARGEST, none: str = "") -> int:
    """Checks an integer (of Python, numpy, torch, ...) between `least` and `most`; `none` is the meaning of None."""
    try:
        number = None if isinstance(value, bool) else operator.index(value)
    except Exception:  # an error inside the object itself also ends here
        number = None
    if number is None or not least <= number <= most:
        allowed = f"{least} to {most}" if most > least else str(most)
        allowed = f"a whole number from {least} on" if most == LARGEST else allowed
        what = "out of range" if number is not None else "not a whole number"
        hint = f"Leave it out for {none}" if none else as_number(value) if number is None else ""
        raise user_error(what, place=name, value=shown(value), allowed=allowed, suggestion=hint)
    return number


def one_of(what: str, place: str, value: Any, *allowed: str) -> None:
    """Raises a `UserError` that begins with `what`, unless the argument is an allowed word."""
    if not isinstance(value, str) or value not in allowed:
        near = nearest(value, allowed) if isinstance(value, str) else ""
        raise user_error(what, place=place, value=shown(value), allowed=", ".join(allowed), suggestion=near)


def unused(what: str, allowed: str, **given: tuple[Any, Any]) -> None:
    """Raises a `UserError` that begins with `what` if an ignored argument, name=(value, default), was given."""
    for name, (value, default) in given.items():
        if value is not default and not (type(value) is type(default) and value == default):
            raise user_error(what, place=name, value=shown(value), allowed=allowed)


def numbers_of(*values: Any) -> list[NDArray[np.float64]]:
    """Converts extents to arrays of one shape; raises a `UserError` for anything but numbers and arrays of numbers."""
    arrays = []
    for value in values:
        try:
            arrays.append(np.asarray(value, dtype=np.float64))
        except (TypeError, ValueError, OverflowError):
            raise user_error(
                "an extent is not a number", value=shown(value), allowed="numbers, arrays of numbers"
            ) from None
        except MemoryError:
            raise user_error("more extents than memory holds", value=shown(value)) from None
    try:
        return list(np.broadcast_arrays(*arrays))
    except ValueError:
        shapes = ", ".join(str(array.shape) for array in arrays)
        raise user_error("extents have shapes that do not broadcast", value=shapes) from None


def is_size(text: str) -> bool:
    """Whether a text is a nonnegative integer of at most 18 digits."""
    return len(text) <= 18 and text.isascii() and text.isdecimal()


def extents(shape: Any, place: str) -> list[int]:
    """Reads the extents of a shape; a `UserError` names the axis whose extent is invalid."""
    if not is_iterable(shape):
        raise user_error(
            "a shape is a sequence of extents", place=place, value=shown(shape), allowed="as (8,) or (8, 64)"
        )
    axes = list(islice(shape, MOST_AXES + 1))
    if len(axes) > MOST_AXES:
        raise user_error("a shape has too many axes", place=place, value=shown(shape), allowed=f"at most {MOST_AXES}")
    return [integer(f"{place}: extent of axis {axis}", extent, 0) for axis, extent in enumerate(axes)]


def as_array(value: Any, place: str) -> Any:
    """Converts a value to a numpy array; a `UserError` has the place of a value that numpy cannot convert."""
    import numpy

    try:
        return numpy.asarray(value)
    except MemoryError:
        raise
    except Exception:  # an error inside the object itself also ends here
        raise user_error("not an array", place=place, value=shown(value)) from None


def json_text(value: Any, place: str) -> str:
    """Writes a setting's value as JSON; numpy scalars become numbers."""
    try:
        return json.dumps(value, allow_nan=False, default=operator.methodcaller("item"))
    except Exception:  # an error inside the object itself also ends here
        what, allowed = "not a value of a setting", 'finite numbers, texts as "1 GHz", lists, dicts'
        raise user_error(what, place=place, value=shown(value), allowed=allowed) from None


def dtype_name(dtype: Any) -> str:
    """Tilesim's name of a dtype, from a name, an alias, or a dtype of numpy, ml_dtypes, torch or JAX."""
    if is_text(dtype):
        return str(_core.parse_dtype(dtype))
    if type(dtype).__module__ == "torch":
        return str(_core.parse_dtype(str(dtype).removeprefix("torch.")))
    try:
        import numpy

        return str(_core.parse_dtype(numpy.dtype(dtype).name if dtype is not None else "None"))
    except _core.UserError:
        raise
    except Exception:  # an error inside the object itself also ends here
        allowed = 'a name such as "f32", "bf16" or "fp8", or numpy.float32'
        raise user_error("not a dtype", value=shown(dtype), allowed=allowed) from None
