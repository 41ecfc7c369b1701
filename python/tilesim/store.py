"""Simulated cycles on disk, shared by several processes and kept across interruptions."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sqlite3
import time
from collections.abc import Iterable
from typing import Any

from . import _core
from ._errors import path_text, user_error

__all__ = ["Store"]

FORMAT = 1
TIMEOUT_SECONDS = 60


class Store:
    """A SQLite file of simulated values, keyed by what they depend on and by the version of Tilesim.

    Several processes may read and write at once; a killed one loses at most what it had not yet written.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Opens or creates a store.

        Args:
            path: file.

        Raises:
            UserError: for a file that is damaged, no store, of a newer format, or cannot be written.
        """
        self.path = path_text(path)
        try:
            self._open()
        except sqlite3.OperationalError as error:
            raise user_error("cannot open the store", place=self.path, value=str(error)) from None
        except sqlite3.DatabaseError as error:
            raise self._damaged(error) from None

    def _damaged(self, error: Exception) -> Exception:
        return user_error(
            "the store is damaged or no store",
            place=self.path,
            value=str(error),
            suggestion="Delete it: it only saves time",
        )

    def _open(self) -> None:
        self._connection = sqlite3.connect(self.path, timeout=TIMEOUT_SECONDS, check_same_thread=False)
        version = self._connection.execute("PRAGMA user_version").fetchone()[0]
        if version > FORMAT:
            self._connection.close()
            raise user_error(
                "the store was written by a newer version",
                place=self.path,
                value=f"format {version}",
                allowed=str(FORMAT),
            )
        self._use_write_ahead_log()
        self._connection.execute("PRAGMA synchronous=NORMAL")
        with self._connection:
            self._connection.execute("CREATE TABLE IF NOT EXISTS results (key TEXT PRIMARY KEY, value TEXT NOT NULL)")
            self._connection.execute(f"PRAGMA user_version={FORMAT}")

    def _use_write_ahead_log(self) -> None:
        """The switch is refused at once, without the connection's timeout, while another process makes it."""
        limit = time.monotonic() + TIMEOUT_SECONDS
        while True:
            try:
                self._connection.execute("PRAGMA journal_mode=WAL")
                return
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > limit:
                    raise
                time.sleep(0.01)

    @staticmethod
    def key(**parts: Any) -> str:
        """A key from everything that a value depends on; the version is added.

        Args:
            parts: JSON values.

        Returns:
            A hash as text.
        """
        return Store.key_of({**parts, "version": _core.__version__})

    @staticmethod
    def key_of(parts: dict[str, Any]) -> str:
        """A key without a version of its own.

        Args:
            parts: JSON values.

        Returns:
            A hash as text.
        """
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    def get(self, keys: Iterable[str]) -> dict[str, Any]:
        """Looks values up.

        Args:
            keys: from `key`.

        Returns:
            Values of those that are known.

        Raises:
            UserError: for a damaged file.
        """
        found: dict[str, Any] = {}
        try:
            for key in keys:
                row = self._connection.execute("SELECT value FROM results WHERE key = ?", (key,)).fetchone()
                if row is not None:
                    found[key] = json.loads(row[0])
        except (sqlite3.DatabaseError, ValueError) as error:
            raise self._damaged(error) from None
        return found

    def scan(self, prefix: str) -> dict[str, Any]:
        """Everything whose key starts with a text.

        Args:
            prefix: of keys, ASCII.

        Returns:
            Values by key.

        Raises:
            UserError: for a damaged file.
        """
        query = "SELECT key, value FROM results WHERE key >= ? AND key < ?"
        try:
            rows = self._connection.execute(query, (prefix, prefix + "\x7f")).fetchall()
            return {str(key): json.loads(value) for key, value in rows}
        except (sqlite3.DatabaseError, ValueError) as error:
            raise self._damaged(error) from None

    def put(self, values: dict[str, Any]) -> None:
        """Writes values, all or none.

        Args:
            values: by key.

        Raises:
            UserError: for a damaged file.
        """
        rows = [(key, json.dumps(value)) for key, value in values.items()]
        try:
            with self._connection:
                self._connection.executemany("INSERT OR REPLACE INTO results VALUES (?, ?)", rows)
        except sqlite3.DatabaseError as error:
            raise self._damaged(error) from None

    def __len__(self) -> int:
        """Number of values."""
        return int(self._connection.execute("SELECT COUNT(*) FROM results").fetchone()[0])

    def close(self) -> None:
        """Closes the file."""
        with contextlib.suppress(sqlite3.Error):
            self._connection.close()
