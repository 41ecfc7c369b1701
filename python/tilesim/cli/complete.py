"""What a shell offers after Tab: names of machines, devices and networks, and paths of settings; what slips meant."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from .. import _core, models
from ..base.errors import nearest, user_error
from ..machine.device import Device
from ..machine.machine import Machine

__all__ = ["App", "devices", "machines", "models_", "settings", "simulated"]


def _from(names: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


def simulated(incomplete: str) -> list[str]:
    """Machines.

    Args:
        incomplete: what is written so far.

    Returns:
        Those that begin so.
    """
    return _from(Machine.names(), incomplete)


def devices(incomplete: str) -> list[str]:
    """Devices.

    Args:
        incomplete: what is written so far.

    Returns:
        Those that begin so.
    """
    return _from(Device.names(), incomplete)


def machines(incomplete: str) -> list[str]:
    """Machines and devices.

    Args:
        incomplete: what is written so far.

    Returns:
        Those that begin so.
    """
    return [*simulated(incomplete), *devices(incomplete)]


def models_(incomplete: str) -> list[str]:
    """Networks.

    Args:
        incomplete: what is written so far.

    Returns:
        Those that begin so.
    """
    return _from(models.names(), incomplete)


def settings(incomplete: str) -> list[tuple[str, str]]:
    """Settings of a machine, before their value.

    Args:
        incomplete: what is written so far.

    Returns:
        Paths with "=" behind, and what each means.
    """
    if "=" in incomplete:
        return []
    return [
        (f"{path}=", f"{unit}: {meaning}")
        for path, unit, meaning in _core.machine_settings()
        if path.startswith(incomplete) and path != "core.isa.functions"  # a meaning in Python: ts.isa.use
    ]


#: Parameters that name a file to write, and those whose words are none of the command's own files.
_OUTPUTS = frozenset(("json_", "json", "html", "report", "timeline", "pipeline", "trace", "output", "save", "plot"))
_NO_FILES = frozenset(("args", "file"))

#: What others call commands.
_ELSEWHERE = {
    "simulate": "tilesim run simulates",
    "compile": "tilesim run compiles and simulates",
    "estimate": "tilesim roofline and tilesim run --machine DEVICE estimate",
    "bench": "tilesim profile measures",
    "explain": "tilesim why explains an operation, tilesim run --explain a workload",
    "diff": "tilesim compare shows what differs, tilesim machine diff settings of machines",
    "report": "tilesim run --report makes a page, tilesim open that of a saved result",
    "page": "tilesim run --report makes a page, tilesim open that of a saved result",
    "show": "tilesim machine show, tilesim model show, tilesim device show",
    "list": "tilesim machine list, tilesim model list, tilesim device list",
    "sweep": "a sweep is a call in Python: ts.sweep(graph, machine, {...})",
    "play": "play is a call in a notebook: ts.study.play(graph, machine)",
    "quantize": "tilesim run --quantize i8 quantizes",
    "verify": "tilesim run --verify verifies",
}


def _is_target(word: str) -> bool:
    return word in Machine.names() or word.partition("@")[0] in Device.names()


def _positional(command: Any, args: Sequence[str], extra: str) -> str:
    """What was meant by words where none belong; empty: unknown."""
    options = [name for param in command.params for name in getattr(param, "opts", ())]
    option = next((one for one in options if one in ("--machine", "--device")), "")
    targets = [word for word in args if _is_target(word)]
    if not option or not targets:
        return ""
    words = [word for word in args if word not in targets]
    written = [part for target in targets for part in (option, target)]
    known = [f"{one} is a {'machine' if one in Machine.names() else 'device'}" for one in targets]
    return f"{', '.join(known)}. Write: tilesim {command.name} {' '.join([*words, *written])}" if extra else ""


def _say(error: Any, hint: str) -> None:
    if hint:
        error.message = f"{error.message.rstrip('.')}. {hint}"


def _refuse_empty(command: Any, ctx: Any) -> None:
    """No option has an empty value: what a script's unset variable leaves would be dropped without a word."""
    for param in command.params:
        value = ctx.params.get(param.name)
        empty = value == "" or (isinstance(value, (list, tuple)) and "" in value)
        source = ctx.get_parameter_source(param.name)
        if empty and param.param_type_name == "option" and source and source.name == "COMMANDLINE":
            named = max(param.opts, key=len)
            hint = "Give it a value, or leave it out: is a variable of the shell unset?"
            raise user_error("an option with an empty value", place=named, value="''", suggestion=hint)


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
                raise user_error(what, place=f"{_called(other)}, {_called(param)}", value=path, allowed=allowed)


def _texts(value: Any) -> list[str]:
    return (
        [one for one in ([value] if isinstance(value, str) else value or ()) if isinstance(one, str)]
        if isinstance(value, (str, list, tuple))
        else []
    )


def _called(param: Any) -> str:
    return max(param.opts, key=len) if param.param_type_name == "option" else str(param.name).upper()


def _one_file(a: str, b: str) -> bool:
    try:
        return os.path.realpath(a) == os.path.realpath(b) or os.path.samefile(a, b)
    except (OSError, ValueError):  # of the two one is no file, or no path
        return False


def _slip(word: str, near: str) -> bool:
    """Whether a short word is near enough: its beginning is right, or a slip of one letter there."""
    return len(word) > 5 or word[:1] == near[:1] or word in near or near in word or word[1::-1] == near[:2]


class _Command(TyperCommand):
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        given = list(args)
        try:
            rest = super().parse_args(ctx, args)
        except Exception as error:
            text = str(getattr(error, "message", ""))
            if "extra argument" in text:
                _say(error, _positional(self, given, text))
            raise
        _refuse_empty(self, ctx)
        _refuse_overwriting(self, ctx)
        return rest


class _Group(TyperGroup):
    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        try:
            return super().resolve_command(ctx, args)
        except Exception as error:
            text = str(getattr(error, "message", ""))
            if args and text.startswith("No such command"):
                error.message = f"No such command '{args[0]}'."  # type: ignore[attr-defined]
                near = nearest(args[0], self.list_commands(ctx))
                near = near if _slip(args[0].lower(), near) else ""
                elsewhere = _ELSEWHERE.get(args[0].lower(), "") if ctx.parent is None else ""
                _say(
                    error,
                    elsewhere + "." if elsewhere else f"Did you mean '{near}'?" if near else "",
                )
            raise


class App(typer.Typer):
    """Commands that tell what was meant."""

    def __init__(self, **options: Any) -> None:
        """Takes what typer takes."""
        super().__init__(cls=_Group, **options)

    def command(self, name: str | None = None, **options: Any) -> Any:
        """Adds a command, as typer does."""
        return super().command(name, cls=_Command, **options)
