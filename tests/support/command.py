"""The command line in this process: what a child process would print and return, without its start."""

from __future__ import annotations

import contextlib
import io
import subprocess
import sys
from unittest import mock

from tilesim.cli.main import main


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
