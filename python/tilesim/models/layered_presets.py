"""Layered training steps by name: extents as published, batches as trained."""

from __future__ import annotations

import os

from ..base.errors import nearest, path_text, user_error
from .layered import Layered

__all__ = ["layered", "layered_names"]

#: arXiv 2205.05198 table 3 (22B, 175B, 530B, 1T); arXiv 2407.21783 table 3 (Llama 3)
_PRESETS = {
    "megatron-22b": Layered(48, 6144, 64, 51200, 2048, 4, dtype="f16", attention="unfused"),
    "gpt3-175b": Layered(96, 12288, 96, 51200, 2048, 64, dtype="f16", attention="unfused"),
    "turing-530b": Layered(105, 20480, 128, 51200, 2048, 280, dtype="f16", attention="unfused"),
    "megatron-1t": Layered(128, 25600, 160, 51200, 2048, 512, dtype="f16", attention="unfused"),
    "llama-3-8b": Layered(32, 4096, 32, 128256, 8192, 512, 14336, True, 8, tied=False),
    "llama-3-70b": Layered(80, 8192, 64, 128256, 8192, 2048, 28672, True, 8, tied=False),
    "llama-3-405b": Layered(126, 16384, 128, 128256, 8192, 2048, 53248, True, 8, tied=False),
}


def layered_names() -> list[str]:
    """Names that `layered` knows.

    Returns:
        The names.
    """
    return list(_PRESETS)


def layered(source: str | os.PathLike[str]) -> Layered:
    """A layered workload by name or from a file.

    Args:
        source: a name of `layered_names`, or the path of a JSON file.

    Returns:
        The workload.

    Raises:
        UserError: for an unknown name, or a file that cannot be read or holds something else.
    """
    text = path_text(source)
    if text in _PRESETS:
        found = _PRESETS[text].json()
        return Layered.from_json({**found, "name": text})
    if not text.endswith(".json") and not os.path.exists(text):
        raise user_error(
            "unknown layered workload", place="workload", value=f"'{text}'",
            allowed=f"{', '.join(_PRESETS)}, or a JSON file", suggestion=nearest(text, _PRESETS),
        )  # fmt: skip
    return Layered.load(text)
