"""No name is looked up while events run; `budgets.toml` holds the sizes of classes."""

from __future__ import annotations

import re
from pathlib import Path

ENGINE = Path(__file__).resolve().parents[2] / "cpp" / "tilesim" / "engine"
#: parts that work on every event
RUNNING = ("dispatch", "events", "kernels", "streams", "transfers")


def test_no_name_is_compared_while_events_run() -> None:
    for part in RUNNING:
        for path in (ENGINE / part).iterdir():
            text = path.read_text(encoding="utf-8")
            assert not re.search(r'[=!]= "|\.compare\(|map<std::string', text), path.name
