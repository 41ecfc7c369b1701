"""docs/explanation/compute_and_fusion.md is what the core says of its rules."""

from pathlib import Path

import tilesim as ts

PAGE = Path(__file__).resolve().parents[2] / "docs" / "explanation" / "compute_and_fusion.md"


def test_the_table_of_rules() -> None:
    rows = ts.mapping.fusion_rules().table().rows
    lines = ["| rule | which operations | when | saves | rounding |", "|---|---|---|---|---|"]
    lines += [
        f"| `{row['rule']}` | {row['matches']} | {row['legal']} | {row['saves']} | {row['rounding']} |" for row in rows
    ]
    table = "\n".join(lines) + "\n"
    text = PAGE.read_text(encoding="utf-8")
    if not text.endswith(table):
        head = text[: text.index("| rule")] if "| rule" in text else text
        PAGE.with_suffix(".md.new").write_text(head + table, encoding="utf-8")
        raise AssertionError(f"rules changed: move {PAGE}.new over {PAGE}")
