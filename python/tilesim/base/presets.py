"""Finds shipped configurations by name, or files in their place."""

from __future__ import annotations

import os
from collections.abc import Sequence

from .errors import nearest, path_text, shown, user_error
from .files import CONFIGS, check_length
from .paths import configs_dir


def is_shipped(text: str, folder: str, names: Sequence[str]) -> bool:
    """Whether a name denotes a preset; presets take precedence over files."""
    return text in names or ("/" not in text and os.path.isfile(configs_dir() / folder / f"{text}.json"))


#: folder of shipped configurations -> where a name of that kind belongs
_KINDS = {
    "machines": "{0} is a machine: write machine='{0}', or load it with ts.Machine.load('{0}')",
    "devices": "{0} is a device, which can only be estimated: use ts.estimate, ts.run or tilesim run",
    "clusters": "{0} is a cluster: use ts.cluster.step, tilesim cluster step",
}


def other_kind(text: str, *wanted: str) -> str:
    """Describes a name of another kind than the wanted ones; "" for unknown names."""
    name = text.partition(":")[0].partition("@")[0]
    hints = (said for folder, said in _KINDS.items() if folder not in wanted and is_shipped(name, folder, ()))
    return next(hints, "").format(text)


def preset_file(source: str | os.PathLike[str], folder: str, what: str, names: Sequence[str]) -> str:
    """Finds the file of a name or path; a `UserError` suggests the nearest name for an unknown one."""
    if not isinstance(source, (str, os.PathLike)):
        more = "Pass a file or a dict for your own"
        if type(source).__name__ == "Device":
            more = "A device can only be estimated: use ts.estimate, ts.run or tilesim run"
        elif isinstance(source, (list, tuple)):
            more = f"Give one {what} per call; ts.sweep and ts.compare take several"
        raise user_error(f"not a {what}", value=shown(source), allowed=", ".join(names), suggestion=more)
    text = path_text(source)
    path = configs_dir() / folder / f"{text}.json"
    shipped = is_shipped(text, folder, names)
    if not shipped and (text.endswith(CONFIGS) or os.path.isfile(text)):
        check_length(text)
        return text
    if not shipped:
        if os.path.isdir(text):
            raise user_error(f"a directory is not a {what}", place=text, allowed="a name, or a .json or .toml file")
        hint = other_kind(text, folder) or nearest(text, names)
        raise user_error(f"unknown {what}", value=f"'{text}'", allowed=", ".join(names), suggestion=hint)
    return str(path)
