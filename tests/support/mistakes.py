"""How a mistake of the user has to be answered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

import tilesim as ts


def assert_refused(make: Callable[[], Any], words: Sequence[str]) -> None:
    """One line that holds all words, as a UserError."""
    with pytest.raises(ts.UserError) as caught:
        make()
    message = str(caught.value)
    for word in words:
        assert word in message, message
    assert "\n" not in message
