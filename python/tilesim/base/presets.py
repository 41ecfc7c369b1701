"""Shipped configurations by name, or a file in their place."""

from __future__ import annotations

import os
from collections.abc import Sequence

from .errors import nearest, path_text, shown, user_error
from .files import CONFIGS, check_length
from .paths import configs_dir


def is_shipped(text: str, folder: str, names: Sequence[str]) -> bool:
    """Whether a name is a preset's; presets take precedence over files."""
    return text in names or ("/" not in text and os.path.isfile(configs_dir() / folder / f"{text}.json"))


def preset_file(source: str | os.PathLike[str], folder: str, what: str, names: Sequence[str]) -> str:
    """The file of a name or path; a `UserError` with the nearest name for an unknown one."""
    if not isinstance(source, (str, os.PathLike)):
        more = "Pass a file or a dict for your own"
        raise user_error(f"not a {what}", value=shown(source), allowed=", ".join(names), suggestion=more)
    text = path_text(source)
    path = configs_dir() / folder / f"{text}.json"
    shipped = is_shipped(text, folder, names)
    if not shipped and (text.endswith(CONFIGS) or os.path.isfile(text)):
        check_length(text)
        return text
    if not shipped:
        if os.path.isdir(text):
            raise user_error(
                f"a {what} must be a file", place=text, value="a directory", allowed="a name, or a .json file"
            )
        hint = nearest(text, names)
        if folder == "machines" and is_shipped(text, "devices", ()):
            hint = f"{text} is a device, which can only be estimated: use ts.estimate, ts.run or tilesim run"
        raise user_error(f"unknown {what}", value=f"'{text}'", allowed=", ".join(names), suggestion=hint)
    return str(path)
