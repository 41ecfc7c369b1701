"""Reads and writes files: atomic writes; reads as bytes, text, JSON, YAML."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Any

from .. import _core
from .errors import path_text, shown, user_error

MAX_JSON_BYTES = 1 << 30
MAX_YAML_BYTES = 16 << 20
YAML = (".yaml", ".yml")
CONFIGS = (".json", ".toml", ".cfg", *YAML)  # endings of files of machines, devices and parts


@contextmanager
def writing(path: str | os.PathLike[str], mode: str = "w", newline: str | None = None) -> Iterator[IO[Any]]:
    """Opens a file for writing (text in UTF-8, or bytes), which replaces the old one when the block ends well.

    The old file stays if the block raises. A `UserError` has the system's reason where the file cannot be written.
    """
    name = path_text(path)
    replaced = _core.ReplacedFile(name)
    try:
        with open(replaced.temporary, mode, encoding=None if "b" in mode else "utf-8", newline=newline) as file:
            yield file
        replaced.commit()
    except OSError as error:
        raise user_error("the file cannot be written", place=name, value=error.strerror or str(error)) from None
    finally:
        replaced.discard()


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raises a `UserError` if a file cannot be written, before long work. Skips pipes, whose readers would end."""
    name = path_text(path)
    if not (os.path.exists(name) and stat.S_ISFIFO(os.stat(name).st_mode)):
        _core.ReplacedFile(name).discard()


def unreadable(name: str, error: OSError) -> Exception:
    """Returns the error for a file that the system cannot read."""
    if isinstance(error, FileNotFoundError):
        return user_error("no such file", place=name)
    return user_error("the file cannot be read", place=name, value=error.strerror or str(error))


def check_regular(path: str | os.PathLike[str], missing: bool = False) -> None:
    """A `UserError` for a directory, pipe or device: a pipe would wait, a device never ends; if `missing`, also where
    the file is missing."""
    text = path_text(path)
    if missing and not os.path.exists(text):
        raise user_error("no such file", place=text)
    if os.path.exists(text) and not os.path.isfile(text):
        kind = "a directory" if os.path.isdir(text) else "a pipe or a device"
        raise user_error("the file cannot be read", place=text, value=kind, allowed="a regular file")


def check_no_device(path: str | os.PathLike[str]) -> None:
    """Raises a `UserError` for a device; accepts pipes."""
    text = path_text(path)
    try:
        mode = os.stat(text).st_mode
    except OSError:
        return
    if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
        raise user_error("the file cannot be read", place=text, value="a device", allowed="a regular file, a pipe")


def check_length(path: str | os.PathLike[str], limit: int = MAX_JSON_BYTES) -> None:
    """Raises a `UserError` for a file beyond a size limit, before it is read."""
    name = path_text(path)
    try:
        size = os.path.getsize(name)
    except OSError:
        return
    if size > limit:
        raise user_error("the file is too long", place=name, value=f"{size} bytes", allowed=f"{limit} bytes")


def read_bytes(path: str | os.PathLike[str], limit: int | None = None) -> bytes:
    """Reads a regular file; raises a `UserError` if it cannot be read or has more than `limit` bytes."""
    name = path_text(path)
    if limit is not None:
        check_length(name, limit)
    return bytes(_core.read_file(name))


def read_text(path: str | os.PathLike[str], limit: int | None = None) -> str:
    """Reads a UTF-8 file without its byte-order mark; raises a `UserError` for other bytes."""
    try:
        return read_bytes(path, limit).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise user_error(
            "the file is not text", place=path_text(path), value=f"byte {error.start}", allowed="UTF-8"
        ) from None


def loads(text: str) -> Any:
    """Parses a JSON text that Tilesim wrote. The hook lets Ctrl-C end the call between two objects."""
    return json.loads(text, object_hook=_unchanged)


def _unchanged(value: dict[str, Any]) -> dict[str, Any]:
    return value


def parse_json(text: str | bytes, place: str) -> Any:
    """The value of a JSON text: at most 200 levels, no key twice, no number that is not finite, no integer of more than
    20 digits; a `UserError` with its line for anything else."""
    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise user_error("not text", place=place, value=f"byte {error.start}", allowed="UTF-8") from None

    def whole(digits: str) -> int:
        if len(digits) > 20:
            raise user_error("an integer has more than 64 bits", place=place, value=digits[:40])
        return int(digits)

    return json.loads(_core.parse_json(text, place), object_hook=_unchanged, parse_int=whole)


def read_json(path: str | os.PathLike[str] | Mapping[str, Any], schema: str = "", limit: int = MAX_JSON_BYTES) -> Any:
    """Reads a JSON file, or takes a dict, of the schema if one is named; raises a `UserError` for any other."""
    place = "dict" if isinstance(path, Mapping) else path_text(path)
    data = dict(path) if isinstance(path, Mapping) else parse_json(read_text(path, limit), place)
    if schema:
        found = data.get("schema") if isinstance(data, dict) else None
        if found != schema:
            raise user_error("the file has another schema", place=place, value=shown(found), allowed=schema)
    return data


def read_yaml(path: str | os.PathLike[str]) -> Any:
    """The value of a YAML file; a mapping's tag (`!Component`) is under the key "!". A `UserError` without pyyaml, and
    for invalid YAML."""
    name = path_text(path)
    text = read_text(path, MAX_YAML_BYTES)
    try:
        import yaml
    except ImportError:
        raise user_error(
            "pyyaml is not installed", place=name, suggestion="Install it: pip install 'tilesim[mapping]'"
        ) from None

    class Plain(yaml.SafeLoader):
        """A loader without merge keys, because a few lines of them can expand to billions of nodes."""

        def flatten_mapping(self, node: Any) -> None:
            if any(key.tag == "tag:yaml.org,2002:merge" for key, _ in node.value):
                raise yaml.YAMLError("merge keys (<<) are not supported")

    def tagged(loader: Any, tag: str, node: Any) -> Any:
        if not isinstance(node, yaml.MappingNode):
            raise yaml.YAMLError(f"the tag !{tag} must belong to a mapping")
        return {"!": tag, **loader.construct_mapping(node, deep=True)}

    Plain.add_multi_constructor("!", tagged)
    try:
        return yaml.load(text, Loader=Plain)  # a SafeLoader creates no Python objects
    except Exception as error:  # the parser may raise errors of any type
        hint = "Give the file that pytimeloop generated from its templates" if "{{" in text or "<<<" in text else ""
        what = " ".join(str(error).split())[:120]
        raise user_error("invalid YAML", place=name, value=what, suggestion=hint) from None


class Saved:
    """A value that a file stores as a dict; values with equal dicts are equal."""

    def __eq__(self, other: object) -> bool:
        """Whether both have the same class and the same dict."""
        return type(self) is type(other) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        """Hashes the name, because dicts have no hash."""
        return hash(getattr(self, "name", ""))

    def to_dict(self) -> dict[str, Any]:
        """The value.

        Returns:
            A dict for JSON.
        """
        raise NotImplementedError

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Any:
        """Reads the dict of `to_dict`.

        Args:
            value: the dict.

        Returns:
            An equal value.

        Raises:
            UserError: for a dict with another schema.
        """
        return cls.load(value)  # type: ignore[attr-defined]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the dict of `to_dict` as JSON.

        Args:
            path: file to write, JSON.

        Raises:
            UserError: when it cannot be written.
        """
        with writing(path) as file:
            json.dump(self.to_dict(), file, indent=1)
            file.write("\n")
