"""Parses commands, imports only the called one, and adds suggestions to errors."""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Sequence
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from ..base.errors import nearest, user_error
from ..base.files import check_writable
from .commands import COMMANDS, GROUPS
from .options import WORDS, spelled, staged

__all__ = ["CommandGroup"]

#: Parameters that name an output file, and parameters whose values Tilesim does not open as files.
_OUTPUTS = frozenset(("json", "html", "csv", "timeline", "pipeline", "output", "save", "plot"))
_NO_FILES = frozenset(("args", "file"))

#: Hints for command names that other tools use.
_ELSEWHERE = {
    "simulate": "Use tilesim run",
    "compile": "Use tilesim run, which compiles and simulates",
    "estimate": "Use tilesim run --machine DEVICE, or tilesim roofline",
    "bench": "Use tilesim profile",
    "explain": "Use tilesim why for an operation, tilesim run --explain for a workload",
    "diff": "Use tilesim compare for results, tilesim machine diff for machines",
    "report": "Use tilesim run --html, or tilesim open for a saved result",
    "page": "Use tilesim run --html, or tilesim open for a saved result",
    "show": "Use tilesim machine show, tilesim model show or tilesim device show",
    "list": "Use tilesim machine list, tilesim model list or tilesim device list",
    "play": "Call ts.study.play(graph, machine) in a notebook",
    "quantize": "Use tilesim run --quantize i8",
    "help": "Use tilesim --help, or --help after a command",
    "verify": "Use tilesim run --verify",
}


#: Tilesim's option for option names of other tools
_OPTIONS = {"over": "--set", "vary": "--set", "param": "--set", "arch": "--machine", "hardware": "--machine",
            "output": "--json", "o": "--json"}  # fmt: skip
#: error texts of pydantic, as patterns, and their replacements
_TEXTS = (
    (r"Input should be a valid integer.*", "not a whole number"),
    (r"Input should be a valid number.*", "not a number"),
    (r"Input should be greater than or equal to (\S+)", r"must be \1 or more"),
    (r"Input should be less than or equal to (\S+)", r"must be at most \1"),
)


def _explain(command: Any, args: Sequence[str], error: Any) -> None:
    """Adds the given value and a suggestion to a parser error."""
    text, param = str(getattr(error, "message", "")), getattr(error, "param", None)
    if "extra argument" in text:
        hint = _positional(command, args, text)
        takes = ", ".join(str(one.name) for one in command.params if one.param_type_name == "argument")
        _say(error, hint or f"Arguments of tilesim {command.name}: {takes or 'none'}")
    elif name := getattr(error, "option_name", ""):
        options = [one for each in command.params for one in each.opts if one.startswith("--")]
        bare = name.lstrip("-").lower()
        near = _OPTIONS.get(bare, "") if _OPTIONS.get(bare) in options else ""
        near = near or next((one for one in options if one[2:].startswith(bare)), "") or nearest(name, options)
        error.possibilities = [near] if near else []
    elif "Input should" in text and param is not None:
        for pattern, ours in _TEXTS:
            text = re.sub(pattern, ours, text)
        given = _given(param, args)
        error.message = f"{text.rstrip('.')}{f' (got {given!r})' if given else ''}. {param.help or ''}".rstrip()
    elif not text and param is not None and getattr(param, "help", None):
        error.message = param.help


def _given(param: Any, args: Sequence[str]) -> str:
    """Returns the value that the command line gives to an option; "" if it is absent."""
    for at, word in enumerate(args):
        option, equals, value = word.partition("=")
        if option in param.opts:
            return value if equals else "".join(args[at + 1 : at + 2])
    return ""


def _positional(command: Any, args: Sequence[str], extra: str) -> str:
    """Returns a corrected command line for an extra argument; "" if there is no suggestion."""
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


def _reject_two_names(command: Any, words: list[str]) -> None:
    """Rejects an option that is given under two of its names, because the parser would ignore the first."""
    for param in command.params:
        named = [one for one in param.opts if one in words]
        if len(named) > 1 and param.param_type_name == "option" and not param.multiple:
            raise user_error("one option is given twice", place=", ".join(named), allowed="one of them")


def _reject_empty(command: Any, ctx: Any) -> None:
    """Rejects empty option values: an unset shell variable causes them, and the command would ignore them."""
    for param in command.params:
        value = ctx.params.get(param.name)
        empty = value == "" or (isinstance(value, (list, tuple)) and "" in value)
        source = ctx.get_parameter_source(param.name)
        if empty and param.param_type_name == "option" and source and source.name == "COMMANDLINE":
            hint = "Give it a value, or leave it out. Is a shell variable unset?"
            raise user_error("an option has an empty value", place=spelled(param, ctx), value="''", suggestion=hint)


def _check_outputs(command: Any, ctx: Any) -> None:
    """Rejects before any work an output that would overwrite an input or another output, or cannot be written."""
    words = [(param, text) for param in command.params for text in _texts(ctx.params.get(param.name)) if text != "-"]
    outputs = [(param, text) for param, text in words if param.name in _OUTPUTS]
    read = [(param, text) for param, text in words if param.name not in _OUTPUTS | _NO_FILES and os.path.isfile(text)]
    for index, (param, path) in enumerate(outputs):
        for other, text in (*read, *outputs[:index]):
            if _is_same_file(path, text):
                twice = other.name in _OUTPUTS
                what = "two options write one file" if twice else "the output would overwrite an input"
                allowed = "a file each" if twice else "another file"
                raise user_error(
                    what, place=f"{_called(other, ctx)}, {_called(param, ctx)}", value=path, allowed=allowed
                )
        check_writable(path)
        if param.name == "timeline":
            from ..results.perfetto import check_ending

            check_ending(path, events=" cluster " in ctx.command_path)


def _texts(value: Any) -> list[str]:
    several = [value] if isinstance(value, str) else value if isinstance(value, (list, tuple)) else []
    return [one for one in several if isinstance(one, str)]


def _called(param: Any, ctx: Any) -> str:
    return spelled(param, ctx) if param.param_type_name == "option" else str(param.name).upper()


def _is_same_file(a: str, b: str) -> bool:
    try:
        return os.path.realpath(a) == os.path.realpath(b) or os.path.samefile(a, b)
    except (OSError, ValueError):  # one of the two is not a file, or not a path
        return False


def _slip(word: str, near: str) -> bool:
    """Whether `near` is a plausible correction of `word`; words of up to 5 letters must agree at the start."""
    return len(word) > 5 or word[:1] == near[:1] or word in near or near in word or word[1::-1] == near[:2]


class _Text:
    """Converts strings and defaults without pydantic, whose import takes longer than a simulation."""

    def coerce(self, value: Any, *, param: Any, ctx: Any) -> Any:
        if value is None or (param.type_descriptor.annotation is str and isinstance(value, str)):
            return value
        if value is param.default:
            return value
        param._runtime_param = None
        return param.get_runtime_param().coerce(value, param=param, ctx=ctx)


def _light(command: Any, ctx: Any) -> None:
    for param in command.get_params(ctx):
        if getattr(param, "_runtime_param", 0) is None:  # typer versions that convert values with pydantic
            param._runtime_param = _Text()


class _Command(TyperCommand):
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        _light(self, ctx)
        given = list(args)
        ctx.meta[WORDS] = words = [word.partition("=")[0] for word in args]
        try:
            rest = super().parse_args(ctx, args)
        except Exception as error:
            _explain(self, given, error)
            raise
        _reject_two_names(self, words)
        _reject_empty(self, ctx)
        _check_outputs(self, ctx)
        return rest


class CommandGroup(TyperGroup):
    """A group of commands with a common first word; imports a command's module when the command is called."""

    words = ""  # prefix of a nested group

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parses like typer, after removing its slow value conversion."""
        _light(self, ctx)
        words = list(args)
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            at = next((at for at, word in enumerate(words) if word in self.list_commands(ctx)), 0)
            if at and getattr(error, "option_name", None):
                written = " ".join([*words[at:], *words[:at]])
                _say(error, f"Options follow the command: tilesim {self.words}{written}")
                error.possibilities = []  # type: ignore[attr-defined]
            raise

    def list_commands(self, ctx: Any) -> list[str]:
        """Returns the names in the table's order: commands first, then groups."""
        own = [name.removeprefix(self.words) for name in COMMANDS if name.startswith(self.words)]
        return list(dict.fromkeys([name for name in own if " " not in name] + [name.split()[0] for name in own]))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Returns a stub with name and help, without importing the command."""
        if cmd_name not in self.list_commands(ctx):
            return None
        entry = COMMANDS.get(self.words + cmd_name)
        if entry is None:
            group = CommandGroup(name=cmd_name, help=GROUPS[cmd_name], no_args_is_help=True)
            group.words = f"{cmd_name} "
            return group
        return _Command(name=cmd_name, help=entry.help)

    def load(self, name: str) -> Any:
        """Imports and returns a command."""
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
        """Returns the command; for an unknown name, raises an error with the nearest name."""
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
