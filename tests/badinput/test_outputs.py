"""No command writes over what it reads, nor two outputs into one file: for each output of each command."""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from typing import Any

import pytest

import tilesim.isa as isa
from support.command import commands, tilesim

OUTPUTS = ("--json", "--csv", "--html", "--timeline", "--pipeline", "--output", "--save", "--plot")
MADE = "what was there\n"


def texts(command: Any) -> list[Any]:
    return [one for one in command.params if "str" in kind(one)]


def kind(param: Any) -> str:
    return str(param.type_descriptor.annotation)


def is_output(param: Any) -> bool:
    return any(name in OUTPUTS for name in param.opts)


CASES = [
    (words, command, output, other)
    for words, command in commands()
    for output, other in itertools.permutations(texts(command), 2)
    if is_output(output)
    and other.name not in ("args", "file")
    and (is_output(other) is False or output.name < other.name)
]


def test_there_are_such_commands() -> None:
    found = {" ".join(words) for words, *_ in CASES}
    assert {"run", "isa run", "isa asm", "isa kernel", "compare", "open", "levels", "why"} <= found and len(CASES) > 150


def arguments(words: tuple[str, ...], command: Any, chosen: dict[str, str]) -> list[str]:
    line = list(words)
    for param in command.params:
        value = chosen.get(
            param.name, "1" if param.required and ("int" in kind(param) or "float" in kind(param)) else None
        )
        if value is None and param.required:
            value = "other"
        if value is not None:
            line += [value] if param.param_type_name == "argument" else [max(param.opts, key=len), value]
    return line


@pytest.mark.parametrize("link", [False, True], ids=["the same name", "a link"])
def test_outputs_over_inputs(link: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for words, command, output, other in CASES:
        Path("k.json").write_text(MADE)
        if link and not os.path.lexists("l.json"):
            os.symlink("k.json", "l.json")
        line = arguments(words, command, {output.name: "l.json" if link else "./k.json", other.name: "k.json"})
        done = tilesim(*line)
        assert done.returncode == 2, (line, done)
        assert "two options write one file" in done.stderr or "would overwrite" in done.stderr, (line, done.stderr)
        assert Path("k.json").read_text() == MADE and sorted(os.listdir()) == ["k.json", *(["l.json"] if link else [])]


def test_other_files_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.s").write_text("_start: li a0, 0\nli a7, 93\necall\n")
    assert tilesim("isa", "asm", "a.s", "-o", "a.elf").returncode == 0
    assert Path("a.elf").read_bytes() == isa.assemble(Path("a.s").read_text())
    assert tilesim("isa", "run", "a.elf", "--json", "a.json", "--", "a.json").returncode == 0
    assert tilesim("isa", "run", "a.elf", "--json", "a.json", "--", "a.json").returncode == 0  # a word of the program's


@pytest.mark.parametrize("path", ["nowhere/k.out", "."])
def test_outputs_that_cannot_be_written(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for words, command in commands():
        monkeypatch.setattr(command, "callback", lambda **given: pytest.fail("the command began to work"))
        for output in filter(is_output, command.params):
            done = tilesim(*(line := arguments(words, command, {output.name: path})))
            assert done.returncode == 2 and f"{path}: the file cannot be written" in done.stderr, (line, done)


def test_every_output_is_known() -> None:
    for words, command in commands():
        for param in command.params:
            writes = any(one in (param.help or "") for one in ("Write ", "CSV to write", "ELF file to write"))
            assert is_output(param) or not writes, (words, param.opts)
