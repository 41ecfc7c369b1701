"""docs/reference/machines.md lists the shipped machines, devices, clusters and parts, as their files describe them."""

from __future__ import annotations

import json
import re
import textwrap
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tilesim as ts
from tilesim.base.paths import configs_dir

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "machines.md"
HEADING = "## Simulated machines\n"
DOCUMENT = re.compile(r"\b(?:19|20)\d\d\b|\bdoi\b|documentation|datasheet|specification")
GUESS = ("assum", "design point")


def sources(value: Any) -> Iterator[str]:
    """Every source that a file states, wherever it stands."""
    if isinstance(value, dict):
        for key, part in value.items():
            if key == "source" and isinstance(part, str):
                yield part
            elif key == "sources" and isinstance(part, dict):
                yield from (text for text in part.values() if isinstance(text, str))
            else:
                yield from sources(part)
    elif isinstance(value, list):
        for part in value:
            yield from sources(part)


def documents(found: list[str]) -> str:
    """The two documents that most numbers of a file cite."""
    cited = Counter(
        re.sub(r"\s+", " ", part.strip())
        for text in found
        if not text.startswith(GUESS)
        for part in re.split(r"[;:]\s", text)
        if DOCUMENT.search(part)
    )
    return "; ".join(name for name, _ in cited.most_common(2))


def item(kind: str, name: str, figures: str = "") -> str:
    """A file as an item of a list."""
    data = json.loads((configs_dir() / kind / f"{name}.json").read_text(encoding="utf-8"))
    found = list(sources(data))
    guessed = sum(text.startswith(GUESS) for text in found)
    text = f"`{name}`: {data['description'].rstrip('.')}."
    if figures:
        text += f" {figures}."
    if documents(found):
        text += f" Sources: {documents(found)}."
    if guessed:
        text += f" Assumed: {guessed} of {len(found)}."
    return textwrap.fill(
        text, 118, initial_indent="- ", subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )


def names(kind: str) -> list[str]:
    return sorted(path.stem for path in (configs_dir() / kind).glob("*.json"))


def documentation() -> str:
    """All lists of the page."""
    lines = [HEADING]
    for name in ts.Machine.names():
        machine = ts.Machine.load(name)
        lines.append(item("machines", name, f"{machine.get('core.clock')}, {machine.get('memory.bandwidth')}"))
    lines += ["\n## Devices in closed form\n", *(item("devices", name) for name in ts.Device.names())]
    lines += ["\n## Clusters\n", *(item("clusters", name) for name in ts.Cluster.names())]
    lines += ["\n## Parts\n"]
    for title, kind in (("DRAM parts", "dram"), ("RISC-V cores", "cores"), ("Communication libraries", "libraries"),
                        ("Frameworks of training steps", "frameworks")):  # fmt: skip
        text = f"{title} (`configs/{kind}`): {', '.join(f'`{name}`' for name in names(kind))}."
        lines += [*textwrap.wrap(text, 118, break_long_words=False, break_on_hyphens=False), ""]
    systems = json.loads((configs_dir() / "systems.json").read_text(encoding="utf-8"))["systems"]
    text = f"Systems of measured steps (`configs/systems.json`): {', '.join(f'`{name}`' for name in systems)}."
    lines += textwrap.wrap(text, 118, break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines) + "\n"


def test_the_lists_of_machines() -> None:
    listed, text = documentation(), PAGE.read_text(encoding="utf-8")
    if not text.endswith(listed):
        PAGE.with_suffix(".md.new").write_text(text.split(HEADING)[0] + listed, encoding="utf-8")
        raise AssertionError(f"files changed: move {PAGE}.new over {PAGE}")


def test_documents_are_those_that_most_numbers_cite() -> None:
    """On a list written for this test: guesses do not count, a place within a document does not tell it apart."""
    stated = [
        "900 GB/s: A datasheet (2020)",
        "A datasheet (2020); boost clock",
        "B paper, 2019: 4 units",
        "C book, 2018",
    ]
    assert (
        documents([*stated, "C book, 2018", "C book, 2018", "assumption: D page, 2021"])
        == "C book, 2018; A datasheet (2020)"
    )
