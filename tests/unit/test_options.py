"""Each option of each command reaches its call; the command line and Python give the same result for the same options."""

from __future__ import annotations

import contextlib
import sys
from typing import Any

#: words of options of text, and the values that calls get for them; by command where they differ
WORDS: dict[str, tuple[str, Any]] = {
    "machine": ("edge-8", "edge-8"),
    "set": ("core.array.count=2", {"core.array.count": 2}),
    "sweep machine": ("edge-8", "edge-8"),
    "sweep set": ("core.array.count=2", {"core.array.count": [2]}),
    "sweep mapping": ("cost", ["cost"]),
    "phase": ("decode", "decode"),
    "dtype": ("bf16", "bf16"),
    "passes": ("none", "none"),
    "quantize": ("i8", "i8"),
    "mapping": ("heuristic", "heuristic"),
    "lowering": ("best", "best"),
    "fuse": ("none", "none"),
    "residency": ("none", "none"),
    "layout": ("given", "given"),
    "fallback": ("host", "host"),
    "place": ("matmul=host", {"matmul": "host"}),
    "capacity": ("error", "error"),
    "sort": ("little", "little"),
    "trips": ("loop=3", {"loop": 3}),
    "collectives": ("untimed", "untimed"),
    "zero_tiles": ("skip", "skip"),
    "memory": ("simple", "simple"),
    "network": ("crossbar", "crossbar"),
    "tensors": ("a=zipf:2", {"a": "zipf:2"}),
    "placement": ("a=local", {"a": "local"}),
    "resident": ("a", ("a",)),
    "level": ("instruction", "instruction"),
}


class Reached(BaseException):
    """The call that was waited for has begun."""


@contextlib.contextmanager
def waiting(name: str, value: Any) -> Any:
    """Raises `Reached` where a function of the package, not of its command line, gets this argument."""

    def look(frame: Any, event: str, _: Any) -> None:
        if event != "call" or "/tilesim/" not in frame.f_code.co_filename or "/cli/" in frame.f_code.co_filename:
            return
        if name in frame.f_code.co_varnames[: frame.f_code.co_argcount + frame.f_code.co_kwonlyargcount]:
            found = frame.f_locals.get(name)
            if type(found) is type(value) and found == value:
                sys.setprofile(None)
                raise Reached

    sys.setprofile(look)
    try:
        yield
    finally:
        sys.setprofile(None)
