"""A cache of simulated cycles on disk, shared by processes and safe against interruptions."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from .. import _core
from .checked import checked_class
from .errors import path_text, shown, user_error
from .files import parse_json
from .locks import Lock

__all__ = ["Store"]

FORMAT = 1
TIMEOUT_SECONDS = 60
POLL_SECONDS = 0.1  # time that SQLite waits for another process; meanwhile it ignores Ctrl-C
_DAMAGED = "the store is damaged, or not a store"
_DELETE = "Name another file; a store only saves time and may be deleted"
_TROUBLES = [
    (("disk is full", "disk I/O error"), "the disk of the store is full or fails", "Make room, or name another file"),
    (("locked", "busy"), "the store is in use by another process", "Wait for it, or name another file"),
    (
        ("readonly", "read-only", "unable to open", "permission"),
        "the store cannot be written",
        "Name a file in a directory that takes files",
    ),
    (
        ("malformed", "not a database", "no such table", "no such column", "corrupt"),
        _DAMAGED,
        _DELETE,
    ),
    (("closed",), "the store is closed", "Open it again"),
]


def _text(key: Any) -> str:
    if not isinstance(key, str):
        raise user_error("a key of a store must be a string", value=shown(key)[:100])
    return key


def _native(value: Any) -> Any:
    """Converts numbers of numpy and torch to Python numbers."""
    with contextlib.suppress(Exception):  # an object may raise errors of any type
        if getattr(value, "ndim", None) == 0 and hasattr(value, "item"):
            return value.item()
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


@checked_class()
class Store:
    """A SQLite file of simulated values; keys cover all inputs of a value and the version of Tilesim.

    Several processes and threads may read and write at once; a killed process loses at most its unwritten values.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Opens or creates a store."""
        self.path = path_text(path)
        self._lock = Lock()  # a connection serves one thread at a time
        self._patient(lambda connection: None, fresh=True)

    def __repr__(self) -> str:
        """The path."""
        return f"<Store {self.path}>"

    @contextlib.contextmanager
    def _telling(self) -> Iterator[None]:
        """Serializes threads and converts errors of SQLite to `UserError`."""
        with self._lock:
            try:
                yield
            except (sqlite3.Error, sqlite3.Warning) as error:
                raise self._error(error) from None
            except UnicodeError as error:  # the file has a damaged text
                raise user_error(_DAMAGED, place=self.path, value=str(error)[:100], suggestion=_DELETE) from None

    def _error(self, error: Exception) -> Exception:
        """Returns the error for SQLite's message, because Python before 3.11 has no error codes."""
        text = str(error)
        for words, what, suggestion in _TROUBLES:
            if any(word in text for word in words):
                return user_error(what, place=self.path, value=text, suggestion=suggestion)
        return user_error("the store cannot be used", place=self.path, value=text)

    def _open(self) -> None:
        if os.path.exists(self.path) and not os.path.isfile(self.path):
            raise user_error(
                "the store is not a regular file", place=self.path, allowed="the path of a file, as plans.db"
            )
        self._connection = sqlite3.connect(self.path, timeout=POLL_SECONDS, check_same_thread=False)
        self._process = os.getpid()
        version = self._connection.execute("PRAGMA user_version").fetchone()[0]
        if version > FORMAT:
            self._connection.close()
            raise user_error(
                "the store was written by a newer version",
                place=self.path,
                value=f"format {version}",
                allowed=str(FORMAT),
                suggestion="Update tilesim, or name another file",
            )
        self._use_write_ahead_log()
        self._connection.execute("PRAGMA synchronous=NORMAL")
        with self._connection:
            self._connection.execute("CREATE TABLE IF NOT EXISTS results (key TEXT PRIMARY KEY, value TEXT NOT NULL)")
            self._connection.execute(f"PRAGMA user_version={FORMAT}")

    def _own_connection(self) -> sqlite3.Connection:
        """The connection, reopened in a forked process because SQLite requires it."""
        if self._process != os.getpid():
            self._open()
        return self._connection

    def _use_write_ahead_log(self) -> None:
        """Switches the journal mode; this fails at once (without timeout) while another process does the same."""
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
        """Returns a key from all inputs of a value and the version.

        Args:
            parts: JSON values.

        Returns:
            A hash as text.
        """
        return Store.key_of({**parts, "version": _core.__version__})

    @staticmethod
    def key_of(parts: dict[str, Any]) -> str:
        """A key without the version.

        Args:
            parts: JSON values.

        Returns:
            A hash as text.
        """
        return hashlib.sha256(json.dumps(parts, sort_keys=True, default=_native).encode()).hexdigest()

    def get(self, keys: Iterable[str], fits: Callable[[Any], bool] | None = None) -> dict[str, Any]:
        """Looks up values.

        Args:
            keys: keys that `key` returned.
            fits: whether a value has the expected form; default: every value.

        Returns:
            Values by key, without the missing ones.

        Raises:
            UserError: for a file that is damaged (or whose values do not fit), full, in use, or not writable.
        """
        found: dict[str, Any] = {}
        query = "SELECT value FROM results WHERE key = ?"
        for key in keys:
            rows = self._rows(query, (_text(key),))
            if rows:
                found[key] = self._value(rows[0][0], fits)
        return found

    def _rows(self, query: str, values: tuple[str, ...] = ()) -> list[Any]:
        return self._patient(lambda connection: connection.execute(query, values).fetchall())

    def _patient(self, action: Callable[[sqlite3.Connection], Any], fresh: bool = False) -> Any:
        """Runs an action, and repeats it while another process locks the file; if `fresh`, opens the file first."""
        limit = time.monotonic() + TIMEOUT_SECONDS
        while True:
            with self._telling():
                try:
                    if fresh:
                        self._open()
                        fresh = False
                    return action(self._own_connection())
                except sqlite3.OperationalError as error:
                    if "locked" not in str(error) or time.monotonic() > limit:
                        raise

    def _value(self, text: str, fits: Callable[[Any], bool] | None) -> Any:
        try:
            value = parse_json(text, "a value")
            if fits is None or fits(value):
                return value
            why = f"an unexpected value, {text[:60]}"
        except Exception as error:
            why = str(error)[:200]
        raise user_error(_DAMAGED, place=self.path, value=why, suggestion=_DELETE)

    def scan(self, prefix: str, fits: Callable[[Any], bool] | None = None) -> dict[str, Any]:
        """Returns all values whose key starts with a prefix.

        Args:
            prefix: ASCII prefix of keys.
            fits: as for `get`.

        Returns:
            Values by key.

        Raises:
            UserError: for a file that is damaged, full, in use, or not writable.
        """
        query = "SELECT key, value FROM results WHERE key >= ? AND key < ?"
        rows = self._rows(query, (_text(prefix), prefix + "\x7f"))
        return {str(key): self._value(value, fits) for key, value in rows}

    def put(self, values: dict[str, Any]) -> None:
        """Writes values, all or none.

        Args:
            values: JSON values by key.

        Raises:
            UserError: for a file that is damaged, full, in use, or not writable.
        """
        try:
            written = {key: json.dumps(value, allow_nan=False, default=_native) for key, value in dict(values).items()}
            rows = [(_text(key), text) for key, text in written.items()]
        except (TypeError, ValueError, RecursionError) as error:
            raise user_error("a value is not JSON", place=self.path, value=str(error)[:100]) from None

        def write(connection: sqlite3.Connection) -> None:
            with connection:
                connection.executemany("INSERT OR REPLACE INTO results VALUES (?, ?)", rows)

        self._patient(write)

    def __len__(self) -> int:
        """Number of values."""
        return int(self._rows("SELECT COUNT(*) FROM results")[0][0])

    def close(self) -> None:
        """Closes the file."""
        with self._lock, contextlib.suppress(sqlite3.Error):
            self._connection.close()
