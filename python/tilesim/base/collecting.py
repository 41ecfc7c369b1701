"""The cycle collector, while many objects are made that all stay."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["uncollected"]

_LOCK = threading.Lock()
_inside = 0
_enabled = False


@contextmanager
def uncollected() -> Iterator[None]:
    """Within it nothing looks for cycles: a million rows that stay would be walked through again and again.

    Calls may nest, also in several threads; the last to leave turns the collector on again, where it was on.
    """
    global _inside, _enabled
    with _LOCK:
        if _inside == 0:
            _enabled = gc.isenabled()
            gc.disable()
        _inside += 1
    try:
        yield
    finally:
        with _LOCK:
            _inside -= 1
            if _inside == 0 and _enabled:
                gc.enable()
