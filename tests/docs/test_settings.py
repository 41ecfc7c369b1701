"""docs/settings.md is what the core says of its settings."""

from pathlib import Path

from tilesim import _core

PAGE = Path(__file__).resolve().parents[2] / "docs" / "settings.md"


def test_the_table_of_settings() -> None:
    table = _core.machine_documentation().rstrip() + "\n"
    text = PAGE.read_text(encoding="utf-8")
    if not text.endswith(table):
        head = text[: text.index("| setting")]
        PAGE.with_suffix(".md.new").write_text(head + table, encoding="utf-8")
        raise AssertionError("settings changed: move docs/settings.md.new over docs/settings.md")
