"""The command line in this process: what a child process would print and return, without its start."""

from __future__ import annotations

import contextlib
import io
import subprocess
import sys
from collections.abc import Iterator
from typing import Any
from unittest import mock

from tilesim.cli.commands import COMMANDS
from tilesim.cli.main import main, prepare


def tilesim(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs `tilesim ARGUMENTS`; an exception that would have been a traceback is raised."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    with (
        mock.patch.object(sys, "argv", ["tilesim", *arguments]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    return subprocess.CompletedProcess(["tilesim", *arguments], code, out.getvalue(), err.getvalue())


def commands() -> Iterator[tuple[tuple[str, ...], Any]]:
    """Words of every command, and the command as it is parsed."""
    for name in COMMANDS:
        words, found = tuple(name.split()), prepare()
        for word in words:
            found = found.load(word)
        yield words, found
