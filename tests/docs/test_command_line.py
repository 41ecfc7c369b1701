"""docs/reference/command_line.md lists the commands and their options, as declared."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tilesim.cli.commands import COMMANDS, GROUPS
from tilesim.cli.main import prepare

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "command_line.md"
HEADING = "## Shared options\n"
SHARED = 3  # commands that take an option before it is described once for all
FOLDED = ("validate",)  # groups whose commands differ in their table alone
PANELS = ("Workload", "Machine", "Compile", "Output")


def loaded() -> dict[str, Any]:
    """Every command by its name."""
    group = prepare()
    groups = {name: group.get_command(None, name) for name in GROUPS}
    found = {}
    for name in COMMANDS:
        first, _, last = name.partition(" ")
        found[name] = groups[first].load(last) if last else group.load(first)
    return found


def options(command: Any) -> Iterator[Any]:
    return (param for param in command.params if param.param_type_name == "option" and param.name != "help")


def item(names: str, text: str, lead: str = "- ") -> str:
    end = " ..." if text.endswith(",") else "" if text.endswith(("?", ".")) else "."
    return textwrap.fill(
        f"{names}: {text}{end}", 118, initial_indent=lead, subsequent_indent=" " * len(lead),
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip


def told(param: Any) -> tuple[str, str]:
    """Spellings and help of an option, the same whether a command takes it once or several times."""
    help = str(param.help or "").removesuffix("; repeatable.").replace("\n", " ").rstrip(". ")
    return ", ".join(f"`{one}`" for one in param.opts if one.startswith("-")), help


def folded(name: str) -> str:
    """The group of a command that is described with its whole group."""
    group = name.partition(" ")[0]
    return group if group in FOLDED else ""


def documentation() -> str:
    """Shared options by panel, then the commands with the others."""
    commands = loaded()
    taken = Counter(told(param) for name, one in commands.items() if not folded(name) for param in options(one))
    common = {option for option, number in taken.items() if number >= SHARED}
    panels: dict[str, dict[tuple[str, str], None]] = {panel: {} for panel in PANELS}
    for command in commands.values():
        for param in options(command):
            if told(param) in common:
                panels[param.rich_help_panel if param.rich_help_panel in panels else PANELS[-1]][told(param)] = None
    lines = [HEADING]
    for panel, listed in panels.items():
        lines += [f"### {panel}\n", *(item(*one) for one in listed), ""]
    lines += ["## Commands\n"]
    groups: dict[str, dict[str, dict[str, str]]] = {}
    for name, command in commands.items():
        own = dict(told(param) for param in options(command) if told(param) not in common)
        if folded(name):
            groups.setdefault(folded(name), {})[name.partition(" ")[2]] = own
            continue
        words = [str(param.name).upper() for param in command.params if param.param_type_name == "argument"]
        lines.append(item(f"`{' '.join(['tilesim', name, *words])}`", COMMANDS[name].help.partition("\n")[0]))
        lines += [item(*one, "    - ") for one in own.items()]
    for group, tables in groups.items():
        names = ", ".join(f"`{table}`" for table in tables)
        lines.append(item(f"`tilesim {group} TABLE`", f"{GROUPS[group]} Tables are {names}"))
        for option in dict.fromkeys(option for own in tables.values() for option in own):
            helps = {own[option] for own in tables.values() if option in own}
            lines.append(item(option, helps.pop() if len(helps) == 1 else "see `--help` of the table", "    - "))
    return "\n".join(lines) + "\n"


def test_the_list_of_commands() -> None:
    listed, text = documentation(), PAGE.read_text(encoding="utf-8")
    if not text.endswith(listed):
        PAGE.with_suffix(".md.new").write_text(text.split(HEADING)[0] + listed, encoding="utf-8")
        raise AssertionError(f"commands changed: move {PAGE}.new over {PAGE}")
    assert all(f"tilesim {name}" in listed for name in COMMANDS if not folded(name))
