"""Declares options of a stage as dataclass fields with type, default and help."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

from .errors import user_error

__all__ = ["CliOption", "Stage", "option", "pairs"]


@dataclass(frozen=True)
class CliOption:
    """The form of an option on the command line."""

    help: str
    spellings: tuple[str, ...] = ()  # spellings; by default from the field's name
    panel: str = ""  # panel of the help; by default the stage's
    least: int | None = None
    most: int | None = None
    complete: str = ""  # what the shell completes: "machines", "settings", ...
    words: Any = None  # type on the command line; by default the field's
    read: Callable[[Any], Any] | None = None  # converts the words to the value
    required: bool = False  # whether a command line must have it


def option(default: Any, help: str, *spellings: str, **shown: Any) -> Any:
    """Declares a field that is also an option of the command line."""
    metadata = {"shown": CliOption(help, spellings, **shown)}
    if isinstance(default, dict):
        return field(default_factory=dict, metadata=metadata)
    return field(default=default, metadata=metadata)


class Stage:
    """The options of one stage; a dataclass derives from it."""

    panel: ClassVar[str] = ""
    #: spellings of the options that the command line has, also those with default values
    asked: ClassVar[tuple[str, ...]] = ()

    def given(self) -> dict[str, Any]:
        """Options that differ from their defaults, by name."""
        found = {}
        for one in fields(self):  # type: ignore[arg-type]
            value = getattr(self, one.name)
            plain = {} if one.default_factory is dict else one.default
            if value is not plain and not (isinstance(value, (str, int, tuple, dict)) and value == plain):
                found[one.name] = value
        return found


def pairs(texts: list[str], place: str, what: str, allowed: str) -> dict[str, str]:
    """Reads texts "name=value" to values by name (the last "=" counts)."""
    found = {}
    for text in texts:
        name, equals, value = text.rpartition("=")
        if not equals:
            raise user_error(what, place=place, value=f"'{text}'", allowed=allowed)
        found[name] = value
    return found
