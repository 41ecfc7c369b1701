"""docs/explanation/compute_and_fusion.md ends with the fusion rules of the core."""

import textwrap
from pathlib import Path

import tilesim as ts

PAGE = Path(__file__).resolve().parents[2] / "docs" / "explanation" / "compute_and_fusion.md"
HEADING = "### Fusion rules\n\n"
DTYPE = "each value is rounded to its dtype as if it were stored"


def wrapped(text: str, lead: str) -> str:
    return textwrap.fill(
        text,
        118,
        initial_indent=lead,
        subsequent_indent=" " * len(lead),
        break_long_words=False,
        break_on_hyphens=False,
    )


def item(row: dict[str, str]) -> str:
    """One rule as an item of a list, with its parts below."""
    parts = {"Condition": row["legal"], "Saved": row["saves"]}
    if not row["rounding"].endswith(DTYPE):
        parts["Rounding"] = row["rounding"]
    lines = [wrapped(f"`{row['rule']}` joins {row['matches']}.", "- ")]
    return "\n".join(lines + [wrapped(f"{name}: {text}.", "    - ") for name, text in parts.items()])


def test_the_list_of_rules() -> None:
    rules = HEADING + "\n".join(item(row) for row in ts.mapping.fusion_rules().table().rows) + "\n"
    text = PAGE.read_text(encoding="utf-8")
    if not text.endswith(rules):
        PAGE.with_suffix(".md.new").write_text(text.split(HEADING)[0] + rules, encoding="utf-8")
        raise AssertionError(f"rules changed: move {PAGE}.new over {PAGE}")
