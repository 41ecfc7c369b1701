"""Profiles: constants fitted to your measurements, with their provenance and fitted rows."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ..base.checked import checked_class
from ..base.errors import path_text
from ..base.files import Saved, read_json
from ..base.kinds import as_kind
from ..base.paths import configs_dir
from ..graph import nearest, user_error
from ..results.result import Table
from .families import Entry, entry_from, pack_keys, protocol_names, row_key, unpack_keys

__all__ = ["Profile", "engine_named"]


@checked_class()
class Profile(Saved):
    """Constants by operation, source, engine, device and scheme; they apply only to calls that name the profile."""

    def __init__(
        self,
        name: str,
        entries: Iterable[Entry] = (),
        fitted_rows: Iterable[int] = (),
        held_out: Iterable[Mapping[str, Any]] = (),
        refused: Iterable[str] = (),
    ) -> None:
        """Stores the results of a calibration."""
        self.name = name
        self.entries = list(entries)
        self.fitted_rows = frozenset(fitted_rows)
        self.held_out = [dict(row) for row in held_out]
        self.refused = list(refused)

    @classmethod
    def open(cls, source: Profile | str | os.PathLike[str] | None) -> Profile | None:
        """Returns a profile unchanged, or loads one.

        Args:
            source: profile, name, file, or None.

        Returns:
            The profile, or None.

        Raises:
            UserError: as for `load`.
        """
        return source if source is None or isinstance(source, Profile) else cls.load(source)

    @classmethod
    def load(cls, source: str | os.PathLike[str] | Mapping[str, Any]) -> Profile:
        """Reads a profile.

        Args:
            source: a file from `save`, a dict from `to_dict`, or the name of a shipped profile.

        Returns:
            The profile.

        Raises:
            UserError: for a file of another type.
        """
        given_dict = isinstance(source, Mapping)
        path = Path("profile" if given_dict else path_text(source))
        shipped = configs_dir() / "profiles" / f"{path}.json"
        if not given_dict and not path.suffix and not os.path.isfile(path) and os.path.isfile(shipped):
            path = shipped
        data = read_json(source if given_dict else path, "tilesim.profile")
        kinds: dict[str, Any] = {
            "name": str,
            "entries": [dict],
            "held_out": [dict],
            "refused": [str],
            "fitted_rows": str,
        }
        given = {key: as_kind(data[key], kind, f"{path}: {key}") for key, kind in kinds.items() if key in data}
        return cls(
            given.get("name", path.stem),
            [entry_from(row, f"{path}: entries[{i}]") for i, row in enumerate(given.get("entries", []))],
            unpack_keys(given.get("fitted_rows", ""), f"{path}: fitted_rows"),
            given.get("held_out", []),
            given.get("refused", []),
        )

    def to_dict(self) -> dict[str, Any]:
        """Converts to the JSON form.

        Returns:
            A dict for JSON.
        """
        return {
            "schema": "tilesim.profile",
            "version": 1,
            "name": self.name,
            "entries": [entry.to_dict() for entry in self.entries],
            "held_out": self.held_out,
            "refused": self.refused,
            "fitted_rows": pack_keys(self.fitted_rows),
        }

    def find(self, operation: str, device: str, scheme: str, engine: str = "", source: str = "") -> Entry | None:
        """Finds the entry of an operation, device and scheme; prefers equal engine and source.

        Args:
            operation: "gemm", "attention", "conv" or "vector".
            device: name of the device file.
            scheme: name of the scheme.
            engine: engine as in the measured table.
            source: source as in the measured table.

        Returns:
            The entry, or None.
        """
        found = [e for e in self.entries if (e.operation, e.device, e.scheme) == (operation, device, scheme)]
        key = (engine.strip().lower(), source.strip().lower())
        exact = [e for e in found if (e.engine.lower(), e.source.lower()) == key]
        near = [e for e in found if key[0] == e.engine.lower() or (key[1] and key[1] == e.source.lower())]
        return next(iter(exact or near or (found if key == ("", "") else [])), None)

    def was_fitted(self, cells: Iterable[Any]) -> bool:
        """Whether the constants were fitted to a measured row.

        Args:
            cells: the row's cells in the column order of its table.

        Returns:
            True for a fitted row.
        """
        return row_key(cells) in self.fitted_rows

    def report(self) -> Table:
        """Tabulates all constants with value and provenance.

        Returns:
            One row per entry and constant.
        """
        return Table(
            [
                {
                    "operation": entry.operation,
                    "group": "|".join(
                        part for part in (entry.source, entry.engine, entry.device, entry.scheme) if part
                    ),
                    "constant": name,
                    "value": value,
                    "provenance": entry.provenance.get(name, "default"),
                }
                for entry in self.entries
                for name, value in entry.constants.items()
            ]
        )

    def __repr__(self) -> str:
        """Name, number of fits and number of rows."""
        return f"<Profile {self.name}: {len(self.entries)} fits on {len(self.fitted_rows)} rows>"


def engine_named(engine: str, profile: Profile | str | None = None) -> None:
    """Raises an error for an unknown engine name in a call; tables may contain other names."""
    opened = Profile.open(profile)
    own = [part for entry in (opened.entries if opened else []) for part in (entry.engine, entry.source) if part]
    known = list(dict.fromkeys([*protocol_names(), *own]))
    if engine and engine.strip().lower() not in [name.lower() for name in known]:
        similar = nearest(engine.lower(), [name.lower() for name in known])
        named = next((name for name in known if name.lower() == similar), "")
        raise user_error("unknown engine", value=f"'{engine}'", allowed=", ".join(known), suggestion=named)
