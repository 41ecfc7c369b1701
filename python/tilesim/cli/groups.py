"""Commands as they are parsed: read when they are called, and what slips meant."""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from ..base.errors import nearest, user_error
from .commands import COMMANDS, GROUPS
from .options import WORDS, spelled, staged

__all__ = ["Group"]

#: Parameters that name a file to write, and those whose values never name a file of the command.
_OUTPUTS = frozenset(("json", "html", "csv", "timeline", "pipeline", "output", "save", "plot"))
_NO_FILES = frozenset(("args", "file"))

#: What others call commands.
_ELSEWHERE = {
    "simulate": "tilesim run simulates",
    "compile": "tilesim run compiles and simulates",
    "estimate": "tilesim roofline and tilesim run --machine DEVICE estimate",
    "bench": "tilesim profile measures",
    "explain": "tilesim why explains an operation, tilesim run --explain a workload",
    "diff": "tilesim compare shows what differs, tilesim machine diff settings of machines",
    "report": "tilesim run --html makes a page, tilesim open that of a saved result",
    "page": "tilesim run --html makes a page, tilesim open that of a saved result",
    "show": "tilesim machine show, tilesim model show, tilesim device show",
    "list": "tilesim machine list, tilesim model list, tilesim device list",
    "play": "play is a call in a notebook: ts.study.play(graph, machine)",
    "quantize": "tilesim run --quantize i8 quantizes",
    "verify": "tilesim run --verify verifies",
}


def _positional(command: Any, args: Sequence[str], extra: str) -> str:
    """What was meant by words where none belong; empty: unknown."""
    from ..machine.device import Device
    from ..machine.machine import Machine

    options = [name for param in command.params for name in getattr(param, "opts", ())]
    option = next((one for one in options if one in ("--machine", "--device")), "")
    targets = [one for one in args if one in Machine.names() or one.partition("@")[0] in Device.names()]
    if not option or not targets:
        return ""
    words = [word for word in args if word not in targets]
    kinds = {target: "machine" if target in Machine.names() else "device" for target in targets}
    written = [part for one, kind in kinds.items() for part in (f"--{kind}" if f"--{kind}" in options else option, one)]
    known = [f"{one} is a {kind}" for one, kind in kinds.items()]
    return f"{', '.join(known)}. Write: tilesim {command.name} {' '.join([*words, *written])}" if extra else ""


def _say(error: Any, hint: str) -> None:
    if hint:
        error.message = f"{error.message.rstrip('.')}. {hint}"


def _refuse_two_names(command: Any, words: list[str]) -> None:
    """An option under two of its names: the first would be dropped without a word."""
    for param in command.params:
        named = [one for one in param.opts if one in words]
        if len(named) > 1 and param.param_type_name == "option" and not param.multiple:
            raise user_error("two names for one option", place=", ".join(named), allowed="one of them")


def _refuse_empty(command: Any, ctx: Any) -> None:
    """No option has an empty value: what a script's unset variable leaves would be dropped without a word."""
    for param in command.params:
        value = ctx.params.get(param.name)
        empty = value == "" or (isinstance(value, (list, tuple)) and "" in value)
        source = ctx.get_parameter_source(param.name)
        if empty and param.param_type_name == "option" and source and source.name == "COMMANDLINE":
            hint = "Give it a value, or leave it out: is a variable of the shell unset?"
            raise user_error("an option with an empty value", place=spelled(param, ctx), value="''", suggestion=hint)


def _refuse_overwriting(command: Any, ctx: Any) -> None:
    """No output is written over what the command reads, nor over another output: either would be lost unsaid."""
    words = [(param, text) for param in command.params for text in _texts(ctx.params.get(param.name)) if text != "-"]
    outputs = [(param, text) for param, text in words if param.name in _OUTPUTS]
    read = [(param, text) for param, text in words if param.name not in _OUTPUTS | _NO_FILES and os.path.isfile(text)]
    for index, (param, path) in enumerate(outputs):
        for other, text in (*read, *outputs[:index]):
            if _one_file(path, text):
                twice = other.name in _OUTPUTS
                what = "one file is to be written twice" if twice else "the output would replace what is read"
                allowed = "a file each" if twice else "another file"
                raise user_error(
                    what, place=f"{_called(other, ctx)}, {_called(param, ctx)}", value=path, allowed=allowed
                )


def _texts(value: Any) -> list[str]:
    several = [value] if isinstance(value, str) else value if isinstance(value, (list, tuple)) else []
    return [one for one in several if isinstance(one, str)]


def _called(param: Any, ctx: Any) -> str:
    return spelled(param, ctx) if param.param_type_name == "option" else str(param.name).upper()


def _one_file(a: str, b: str) -> bool:
    try:
        return os.path.realpath(a) == os.path.realpath(b) or os.path.samefile(a, b)
    except (OSError, ValueError):  # one of the two is not a file, or not a path
        return False


def _slip(word: str, near: str) -> bool:
    """Whether a short word is near enough: its beginning is right, or a slip of one letter there."""
    return len(word) > 5 or word[:1] == near[:1] or word in near or near in word or word[1::-1] == near[:2]


class _Text:
    """Reads texts and defaults: typer takes a library for that whose import takes longer than a simulation."""

    def coerce(self, value: Any, *, param: Any, ctx: Any) -> Any:
        if value is None or (param.type_descriptor.annotation is str and isinstance(value, str)):
            return value
        if value is param.default:
            return value
        param._runtime_param = None
        return param.get_runtime_param().coerce(value, param=param, ctx=ctx)


def _light(command: Any, ctx: Any) -> None:
    for param in command.get_params(ctx):
        if getattr(param, "_runtime_param", 0) is None:  # of typer versions that read values by pydantic
            param._runtime_param = _Text()


class _Command(TyperCommand):
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        _light(self, ctx)
        given = list(args)
        ctx.meta[WORDS] = words = [word.partition("=")[0] for word in args]
        try:
            rest = super().parse_args(ctx, args)
        except Exception as error:
            text = str(getattr(error, "message", ""))
            if "extra argument" in text:
                _say(error, _positional(self, given, text))
            raise
        _refuse_two_names(self, words)
        _refuse_empty(self, ctx)
        _refuse_overwriting(self, ctx)
        return rest


class Group(TyperGroup):
    """Commands of the table whose names begin alike; a command's module is read when it is called."""

    words = ""  # of a group inside another: its name

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As typer does."""
        _light(self, ctx)
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: Any) -> list[str]:
        """Names, in the table's order; groups behind commands."""
        own = [name.removeprefix(self.words) for name in COMMANDS if name.startswith(self.words)]
        return list(dict.fromkeys([name for name in own if " " not in name] + [name.split()[0] for name in own]))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """What help shows of a command: it is not read for that."""
        if cmd_name not in self.list_commands(ctx):
            return None
        entry = COMMANDS.get(self.words + cmd_name)
        if entry is None:
            group = Group(name=cmd_name, help=GROUPS[cmd_name], no_args_is_help=True)
            group.words = f"{cmd_name} "
            return group
        return _Command(name=cmd_name, help=entry.help)

    def load(self, name: str) -> Any:
        """The command itself."""
        entry = COMMANDS.get(self.words + name)
        if entry is None:
            return self.get_command(None, name)
        if name not in self.commands:
            module, _, function = entry.place.partition(":")
            called = getattr(importlib.import_module(f"..{module}", __name__), function)
            app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
            epilog = entry.epilog(self.words + name)
            app.command(name, cls=_Command, help=entry.help, epilog=epilog)(staged(called))
            self.commands[name] = typer.main.get_command(app)
        return self.commands[name]

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that was meant, or an error that says what was."""
        try:
            name, _, rest = super().resolve_command(ctx, args)
        except Exception as error:
            if args and str(getattr(error, "message", "")).startswith("No such command"):
                error.message = f"No such command '{args[0]}'."  # type: ignore[attr-defined]
                near = nearest(args[0], self.list_commands(ctx))
                near = near if _slip(args[0].lower(), near) else ""
                elsewhere = _ELSEWHERE.get(args[0].lower(), "") if ctx.parent is None else ""
                _say(error, elsewhere + "." if elsewhere else f"Did you mean '{near}'?" if near else "")
            raise
        return name, self.load(str(name)), rest
