"""Reads and writes machine files for people: JSON with notes, and TOML with comments."""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from .. import _core
from ..base.errors import nearest, shown, user_error
from ..base.files import MAX_JSON_BYTES, YAML, parse_json, read_bytes, read_text
from .foreign import scale_sim
from .settings import all_settings, find_setting, shown_value
from .timeloop import timeloop

__all__ = ["read_machine", "settings_in", "written"]

_LONG = 1 << 20  # a file with more bytes is not read twice
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')


def read_machine(path: str) -> tuple[_core.Machine, frozenset[str] | None]:
    """Reads a machine's file."""
    if path.endswith(".toml"):
        entries = _without_notes(_toml(path), path)
        try:
            text = json.dumps(entries, allow_nan=False, default=_no_value)
        except ValueError as error:
            raise user_error("invalid value of a setting", place=path, value=str(error)) from None
        try:
            return _core.Machine.from_json(text, path), settings_in(entries)
        except _core.UserError as error:
            raise _toml_error(error, path) from None
    if path.endswith((".cfg", *YAML)):
        entries = scale_sim(path) if path.endswith(".cfg") else timeloop(path)
        return _core.Machine.from_json(json.dumps(entries), path), settings_in(entries)
    content = read_bytes(path, MAX_JSON_BYTES)
    if b'"notes"' not in content:
        machine = _core.Machine.read_file(path)
        return machine, settings_in(json.loads(content.decode("utf-8-sig"))) if len(content) < _LONG else None
    text = read_text(path, MAX_JSON_BYTES)
    entries = parse_json(text, path)
    if isinstance(entries, dict):
        _check_notes(entries, path)
        text = _blanked(text)
    return _core.Machine.from_json(text, path), settings_in(entries)


def _toml(path: str) -> dict[str, Any]:
    try:
        toml = importlib.import_module("tomllib")
    except ImportError:
        raise user_error(
            "TOML is read by Python 3.11 and later", place=path, suggestion="Write the machine as a .json file"
        ) from None
    text = read_text(path, 1 << 24)
    try:
        return dict(toml.loads(text))
    except (toml.TOMLDecodeError, RecursionError, ValueError) as error:
        hint = "A text needs quotes" if "value" in str(error) or "newline" in str(error) else ""
        raise user_error("invalid TOML", place=path, value=str(error), suggestion=hint) from None


def _no_value(value: Any) -> Any:
    raise user_error("invalid value of a setting", value=shown(value), allowed="numbers, texts, lists, tables")


def _toml_error(error: Exception, path: str) -> Exception:
    """Converts an error of the JSON form; drops its line numbers, which the TOML file does not have."""
    place = re.sub(r":\d+\b", "", str(getattr(error, "place", ""))) or path
    parts = [str(getattr(error, key, "")) for key in ("what", "value", "allowed", "suggestion")]
    return user_error(parts[0], place=place, value=parts[1], allowed=parts[2], suggestion=parts[3])


def _check_notes(entries: Mapping[str, Any], place: str) -> None:
    """Checks that notes are texts for existing settings, so that no value is lost."""
    notes = entries.get("notes", {})
    if not isinstance(notes, (str, Mapping)):
        raise user_error("notes must be texts", place=f"{place}: notes", value=shown(notes), allowed="{path: text}")
    for path, text in notes.items() if isinstance(notes, Mapping) else ():
        if not isinstance(text, str):
            raise user_error("a note must be a text", place=f"{place}: notes: {path}", value=shown(text))
        if path not in all_settings() and path != "cores" and not path.startswith("cores."):
            hint = nearest(path, all_settings())
            raise user_error("a note for an unknown setting", place=place, value=shown(path), suggestion=hint)
    for path, value in _values(entries):
        if isinstance(value, Mapping) and not isinstance(value.get("notes", ""), str):
            raise user_error("a note must be a text", place=f"{place}: {path}", value=shown(value["notes"]))


def _values(entries: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in entries.items():
        path = f"{prefix}{key}"
        if isinstance(value, Mapping) and "value" not in value and path not in ("sources", "notes"):
            yield from _values(value, path + ".")
        else:
            yield path, value


def _without_notes(entries: dict[str, Any], place: str) -> dict[str, Any]:
    _check_notes(entries, place)

    def cleaned(value: Any, top: bool = False) -> Any:
        if isinstance(value, dict):
            taken = top or "value" in value
            return {key: cleaned(one) for key, one in value.items() if not (taken and key == "notes")}
        return [cleaned(one) for one in value] if isinstance(value, list) else value

    result: dict[str, Any] = cleaned(entries, True)
    return result


def _blanked(text: str) -> str:
    """Replaces the notes of a JSON text by blanks, so that lines and columns stay."""
    tokens = list(_TOKEN.finditer(text))
    words = [token[0] for token in tokens]
    pieces, kept, index = [], 0, 0
    opened: list[str] = []  # the key of each open container
    while index < len(words):
        word = words[index]
        is_key = index + 1 < len(words) and words[index + 1] == ":"
        # "notes" of the file, or next to the "value" of a setting; not a key below "sources".
        if is_key and word == '"notes"' and (len(opened) == 1 or (opened and opened[-1] != '"sources"')):
            last = _end(words, index + 2)
            first = index
            if last + 1 < len(words) and words[last + 1] == ",":
                last += 1
            elif words[index - 1] == ",":
                first -= 1
            start, end = tokens[first].start(), tokens[last].end()
            pieces += [text[kept:start], re.sub(r"[^\n]", " ", text[start:end])]
            kept, index = end, last + 1
            continue
        if word in "{[":
            opened.append(words[index - 2] if index > 1 and words[index - 1] == ":" else "")
        elif word in "}]":
            opened.pop()
        index += 1
    return "".join([*pieces, text[kept:]])


def _end(words: list[str], index: int) -> int:
    """Index of the last token of the value that begins at a token."""
    depth = 0
    while True:
        depth += (words[index] in "{[") - (words[index] in "}]")
        if depth == 0:
            return index
        index += 1


def settings_in(entries: Mapping[str, Any]) -> frozenset[str]:
    """Finds the settings in a file's content."""
    known, found = all_settings(), set()

    def walk(value: Any, path: str) -> None:
        if path in known or not isinstance(value, Mapping):
            found.add(path)
            return
        for key, one in value.items():
            walk(one, f"{path}.{key}" if path else str(key))

    walk(entries, "")
    for sort in entries.get("cores", []) if isinstance(entries.get("cores"), list) else []:
        if isinstance(sort, Mapping) and "sort" in sort:
            own = settings_in({"core": sort.get("core", {})}) if sort.get("core") else frozenset()
            found |= {f"cores.{sort['sort']}.{path}" for path in own} | {f"cores.{sort['sort']}.count"}
    return frozenset(path for path in found if path in known or path.startswith("cores."))


# --- writing ---


def written(entries: Mapping[str, Any], path: str, base: str = "") -> str:
    """Writes the text of a machine's file, with the meaning of each setting."""
    base = _flattened(base)
    if path.endswith(".toml"):
        return _as_toml(entries, base)
    sources = entries.get("sources", {})
    notes = {}
    for name in _paths(entries):
        origin = sources.get(name, "")
        said = f" {base}: {shown_value(_at(entries, name))} ({_flattened(origin)})" if base and origin else ""
        notes[name] = find_setting(name).note() + "." + said
    content = {**{key: value for key, value in entries.items() if key != "sources"}, "notes": notes, "sources": sources}
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def _paths(entries: Mapping[str, Any]) -> list[str]:
    """Paths of a machine's settings; those of a section follow each other."""
    stated = settings_in(entries)
    paths = [path for path in all_settings() if path in stated]
    sections = list(dict.fromkeys(path.rpartition(".")[0] for path in paths))
    return sorted(paths, key=lambda path: sections.index(path.rpartition(".")[0]))


def _at(entries: Mapping[str, Any], path: str) -> Any:
    value: Any = entries
    for key in path.split("."):
        value = value[key]
    return value


def _as_toml(entries: Mapping[str, Any], base: str) -> str:
    lines = [
        f"# A machine{f', from {base}' if base else ''}. Missing settings have their defaults; tilesim machine settings"
    ]
    lines += ["# lists all settings, tilesim run MODEL --machine FILE simulates it.", ""]
    head = [key for key, value in entries.items() if not isinstance(value, (dict, list))]
    lines += [f"{key} = {_toml_value(entries[key])}" for key in head]
    sources, section = entries.get("sources", {}), ""
    for path in _paths(entries):
        own, _, key = path.rpartition(".")
        if own != section:
            lines += ["", f"[{own}]"]
            section = own
        lines += [f"# {find_setting(path).note()}."]
        if base and sources.get(path):
            lines += [f"# {base}: {shown_value(_at(entries, path))} ({_flattened(sources[path])})"]
        lines += [f"{key} = {_toml_value(_at(entries, path))}"]
    for sort in entries.get("cores", []):
        lines += ["", "# a type of cores: its differences from [core]", "[[cores]]"]
        lines += [f"{key} = {_toml_value(value)}" for key, value in sort.items()]
    if sources:
        lines += ["", "# sources of the values: change each with its value", "[sources]"]
        lines += [f"{_toml_value(path)} = {_toml_value(text)}" for path, text in sources.items()]
    return "\n".join(lines) + "\n"


def _flattened(text: str) -> str:
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def _toml_value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):  # a basic string of TOML has the escapes of JSON, but no surrogate pairs
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, Mapping):
        inner = ", ".join(f"{_toml_value(str(key))} = {_toml_value(one)}" for key, one in value.items())
        return "{ " + inner + " }" if inner else "{}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_toml_value(one) for one in value) + "]"
    return repr(value)
