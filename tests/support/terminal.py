"""A pseudo-terminal of any width: what a user of the command line sees there."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from dataclasses import dataclass

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


@dataclass
class Seen:
    """What came out, with the times at which it came."""

    code: int
    text: str
    times: list[tuple[float, str]]

    @property
    def plain(self) -> str:
        """Without colours and movements of the cursor."""
        return ESCAPES.sub("", self.text).replace("\r\n", "\n")


def seen(words: list[str], width: int, stop_after: str = "", **environment: str) -> Seen:
    """Runs `tilesim WORDS` on a terminal; Ctrl-C is pressed when `stop_after` is seen."""
    mine, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
    variables = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "NO_COLOR", "TERM")}
    variables |= {"TERM": "xterm-256color", "PYTHONPATH": os.pathsep.join(sys.path), **environment}
    began = time.monotonic()
    command = [sys.executable, "-m", "tilesim", *words]
    process = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env=variables, start_new_session=True
    )
    os.close(theirs)
    times: list[tuple[float, str]] = []
    pressed = False
    while True:
        if stop_after and not pressed and any(stop_after in part for _, part in times):
            process.send_signal(signal.SIGINT)
            pressed = True
        if not select.select([mine], [], [], 0.02)[0]:
            if process.poll() is not None:
                break
            continue
        data = b""
        with contextlib.suppress(OSError):
            data = os.read(mine, 65536)
        if not data:
            break
        times.append((time.monotonic() - began, data.decode(errors="replace")))
    os.close(mine)
    return Seen(process.wait(), "".join(part for _, part in times), times)
