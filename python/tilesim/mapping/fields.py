"""Declares each field of a mapping once, for parser, schema, documentation and search of tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

from ..base.errors import shown, user_error


@dataclass(frozen=True)
class Field:
    """The declaration of an entry's field."""

    name: str
    of: tuple[str, ...]  # forms of entries that have the field: "sizes", "product", "vector"
    form: str  # integer, integers, tiles (a list, or by loop), order (loop names or numbers), loop (one), unit
    lowest: int  # least value of every number
    default: str
    description: str
    required: bool = False
    space: str = ""  # field of `MappingSpace` with its choices in a search

    def check(self, value: Any, place: str) -> Any:
        """Checks and returns the value; a `UserError` states its place."""
        if self.form == "integer":
            return self._number(value, place)
        if self.form == "unit":
            if value not in UNITS:
                raise user_error("unknown unit", place=place, value=shown(value), allowed=", ".join(UNITS))
            return value
        if self.form == "loop":
            return value if isinstance(value, str) else self._number(value, place)
        if self.form == "tiles":
            pairs = value.items() if isinstance(value, Mapping) else enumerate(self._list(value, place))
            for name, size in pairs:
                self._number(size, f"{place}: {name}")
        elif self.form == "order":
            for loop in self._list(value, place):
                if not isinstance(loop, str):
                    self._number(loop, place)
        else:
            for number in self._list(value, place):
                self._number(number, place)
        return value

    def _list(self, value: Any, place: str) -> list[Any]:
        if not isinstance(value, (list, tuple)):
            raise user_error(f"'{self.name}' is not a list", place=place, value=shown(value))
        return list(value)

    def _number(self, value: Any, place: str) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or value < self.lowest:
            what = "a tile size" if self.form == "tiles" or self.name.isupper() else f"'{self.name}'"
            raise user_error(f"{what} is not an integer of at least {self.lowest}", place=place, value=shown(value))
        return value

    def schema(self) -> dict[str, Any]:
        """The JSON schema of the field's value."""
        number = {"type": "integer", "minimum": self.lowest}
        forms: dict[str, dict[str, Any]] = {
            "integer": number,
            "integers": {"type": "array", "items": number},
            "unit": {"enum": list(UNITS)},
            "loop": {"anyOf": [number, {"type": "string"}]},
            "order": {"type": "array", "items": {"anyOf": [number, {"type": "string"}]}},
            "tiles": {
                "anyOf": [{"type": "array", "items": number}, {"type": "object", "additionalProperties": number}]
            },
        }
        return {**forms[self.form], "description": self.description}


UNITS = ("array", "vector")
FIELDS = (
    Field("TILE_M", ("sizes",), "integer", 1, "", "rows of a tile, in elements", required=True),
    Field("TILE_N", ("sizes",), "integer", 1, "", "columns of a tile, in elements", required=True),
    Field("TILE_K", ("sizes",), "integer", 1, "", "contracted extent of a tile, in elements", required=True),
    Field("SUB_M", ("sizes",), "integer", 1, "TILE_M", "rows of the pieces in which a tile moves"),
    Field("SUB_N", ("sizes",), "integer", 1, "TILE_N", "columns of the pieces"),
    Field("SUB_K", ("sizes",), "integer", 1, "TILE_K", "contracted extent of the pieces"),
    Field(
        "tiles",
        ("product", "vector"),
        "tiles",
        1,
        "loops left out stay whole",
        "tile size per loop (vector kernels: per axis), in elements; a list, or by name",
        required=True,
        space="tiles",
    ),
    Field(
        "order",
        ("product",),
        "order",
        0,
        "the compiler's",
        "loops from outer to inner, by name or number",
        space="orders",
    ),
    Field("depths", ("product",), "integers", 1, "2, 2, 2", "buffers of a, b and the result", space="depths"),
    Field(
        "sub",
        ("product", "vector"),
        "tiles",
        1,
        "whole tiles",
        "size per loop (axis) of the pieces in which a tile is loaded, computed on and stored; a list, or by name",
        space="pieces",
    ),
    Field(
        "pack",
        ("product",),
        "loop",
        0,
        "none: its positions follow each other",
        "a contracted loop (of a kernel's width) over the array's rows together with the innermost one (channels)",
        space="packs",
    ),
    Field(
        "unfold",
        ("product",),
        "integer",
        0,
        "0: none",
        "number of the innermost contracted loops (kernel positions, channels) that the cross-lane unit unfolds "
        "over the array's rows",
    ),
    Field(
        "contexts",
        ("product", "vector"),
        "integer",
        1,
        "1",
        "contexts of a core that share the kernel; sizes are those of one context's part",
    ),
    Field("unit", ("product",), "unit", 0, "the compiler's", "the unit that computes it: array or vector"),
    Field("lane", ("vector",), "integer", 0, "the compiler's", "axis over the lanes"),
    Field("depth", ("vector",), "integer", 1, "2", "buffers of every operand"),
)


def fields_of(*forms: str) -> dict[str, Field]:
    """Maps names to the fields of entries of these forms."""
    return {field.name: field for field in FIELDS if set(forms) & set(field.of)}


def schema_of(form: str) -> dict[str, Any]:
    """The JSON schema of an entry of this form."""
    fields = fields_of(form)
    return {
        "type": "object",
        "properties": {name: field.schema() for name, field in fields.items()},
        "required": [name for name, field in fields.items() if field.required],
        "additionalProperties": False,
    }


def documentation() -> str:
    """Lists all fields in Markdown."""
    lines = []
    names = {"sizes": "size", "product": "product", "vector": "vector kernel"}
    for field in FIELDS:
        of = " or ".join(names[form] for form in field.of)
        numbers = "" if field.form == "unit" else f"at least {field.lowest}, "
        default = "required" if field.required else f"default {field.default}"
        text = f"- `{field.name}` (by {of}; {numbers}{default}): {field.description}."
        lines += wrap(text, 118, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines)


def pieces_text(nest: Mapping[str, Any], names: list[str]) -> str:
    """Formats sub-tiles, which follow the tile in a text; "" without sub-tiles."""
    if "sub" not in nest:
        return ""
    cut = [
        f"{name} by {size}" for name, size, tile in zip(names, nest["sub"], nest["tiles"], strict=True) if size < tile
    ]
    return f" | pieces {', '.join(cut)}" if cut else ""
