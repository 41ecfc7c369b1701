"""Options of commands: a parameter whose type is a stage expands to the options of that stage."""

from __future__ import annotations

import functools
import inspect
import itertools
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Annotated, Any, get_args

import typer

from ..base.declared import CliOption, Stage, option
from ..base.errors import user_error
from . import complete

CHECK, MACHINE, OUTPUT, WORKLOAD = "Check", "Machine", "Output", "Workload"
WHAT = "A network's name, matmul:M,N,K[,dtype], or a file (.json, .tsim, .onnx, .mlir, .csv, .yaml)."
Model = Annotated[str, typer.Argument(help=WHAT, autocompletion=complete.models_)]


def settings_of(settings: list[str]) -> dict[str, Any]:
    """Parses `--set PATH=VALUE` texts into values by path; a repeated path is an error."""
    changes: dict[str, Any] = {}
    for setting in settings:
        path, equals, value = setting.partition("=")
        if path in changes:
            raise user_error("a setting is given twice", place=path, value=f"'{setting}'", allowed="one value")
        if re.search(r",\s*[a-z_.]+=", value):
            raise user_error("one --set has several settings", place=path, value=f"'{setting}'",
                             suggestion="Give --set once for each")  # fmt: skip
        if not equals:
            hint = f"Write --set {path}='value', with a unit where it has one" if path else ""
            raise user_error("a setting needs a value", place="--set", value=f"'{setting}'", allowed="path=value",
                             suggestion=hint)  # fmt: skip
        try:
            changes[path] = json.loads(value)
        except (ValueError, RecursionError):  # not JSON, or too many digits or brackets
            changes[path] = value
    return changes


@dataclass(frozen=True)
class Target(Stage):
    """The machine or device that runs a workload."""

    panel = MACHINE

    machine: str | None = option(
        None,
        "Machine (simulated) or device (estimated), by name or file; default: the program's machine, or tpu-v3.",
        "--machine",
        "--device",
        complete="machines",
    )
    set: Mapping[str, Any] = option(
        {}, "Change a setting: path=value.", "--set", words=list[str], read=settings_of, complete="settings"
    )


@dataclass(frozen=True)
class Output(Stage):
    """Destinations of a result."""

    panel = OUTPUT

    json: str | None = option(None, "Write the result as JSON; - is standard output.", "--json")
    csv: str | None = option(None, "Write the rows as CSV; - is standard output.", "--csv")
    html: str | None = option(None, "Write an HTML page with charts and tables.", "--html", "--report")
    timeline: str | None = option(None, "Write a trace for Perfetto: .pftrace or .json.", "--timeline", "--trace")
    against: str | None = option(None, "The saved result to compare with.", "--against", "--baseline")
    store: str | None = option(
        None, "Keep results in this file, from which an interrupted call resumes.", "--store", "--resume"
    )
    quiet: bool = option(False, "Print the headline only.", "--quiet")
    all: bool = option(False, "Print every row without folding repeated layers.", "--all")

    @property
    def silent(self) -> bool:
        """Whether standard output must hold only JSON or CSV."""
        return "-" in (self.json, self.csv)


@dataclass(frozen=True)
class Only:
    """Selects options of a stage: `Annotated[Stage, Only("batch")]`."""

    names: tuple[str, ...]

    def __init__(self, *names: str) -> None:
        object.__setattr__(self, "names", names)


class ExcludedOptions(Only):
    """Excludes options of a stage."""


#: annotation of a stage with repeatable options: the command gets a dict from name to list of values
SEVERAL = "several"
#: key in a click context's `meta` for the command line's words, without "=value"
WORDS = "tilesim.words"

Json = Annotated[Output, Only("json")]
Shared = Annotated[Output, Only("json", "all")]
Quiet = Annotated[Output, Only("json", "quiet")]


def options_of(stage: type, *marks: Any) -> Iterator[tuple[str, CliOption, Any, Any]]:
    """Yields name, `CliOption`, command-line type and default of each option of a stage."""
    for one in fields(stage):
        shown = one.metadata.get("shown")
        chosen = all(
            (one.name in mark.names) != isinstance(mark, ExcludedOptions) for mark in marks if isinstance(mark, Only)
        )
        if shown is None or not chosen:
            continue
        kind = shown.words or eval(str(one.type), vars(sys.modules[stage.__module__]))
        if SEVERAL in marks and kind is not bool and list not in (kind, getattr(kind, "__origin__", None)):
            kind = list[get_args(kind)[0] if get_args(kind) else kind]  # type: ignore[misc]
        plain: Any = one.default if isinstance(one.default, (str, int)) else None
        if shown.required:
            plain = inspect.Parameter.empty
        elif kind is bool and shown.read:  # a flag that turns a feature off
            plain = False
        elif SEVERAL in marks and kind is not bool:
            plain = None
        yield one.name, shown, kind if plain is not None or type(None) in get_args(kind) else kind | None, plain


def _parameter(stage: type, name: str, shown: CliOption, kind: Any, default: Any, several: bool) -> inspect.Parameter:
    help = f"{shown.help.rstrip('.')}; repeatable." if several else shown.help
    told = typer.Option(
        *shown.spellings,
        help=help,
        min=shown.least,
        max=shown.most,
        rich_help_panel=shown.panel or stage.panel,  # type: ignore[attr-defined]
        autocompletion=getattr(complete, shown.complete) if shown.complete else None,
    )
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, told])


def staged(function: Callable[..., None]) -> Callable[..., None]:
    """Wraps a command so that typer sees the options of its stages as parameters."""
    signature, expanded, stages = inspect.signature(function, eval_str=True), [], {}
    for parameter in signature.parameters.values():
        stage, *marks = get_args(parameter.annotation) or (parameter.annotation,)
        if not is_dataclass(stage):
            expanded.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))
            continue
        listed = list(options_of(stage, *marks))  # type: ignore[arg-type]
        stages[parameter.name] = stage, marks, listed
        for name, shown, kind, default in listed:
            several = SEVERAL in marks and kind is not bool and shown.words in (None, str)
            expanded.append(_parameter(stage, name, shown, kind, default, several))  # type: ignore[arg-type]
    context = inspect.Parameter("_click", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)

    @functools.wraps(function)
    def call(_click: typer.Context, **given: Any) -> None:
        for name, (stage, marks, listed) in stages.items():
            own = {one: (given.pop(one), shown) for one, shown, _, _ in listed}
            given[name] = _stage(stage, SEVERAL in marks, own, _click)
        function(**given)

    call.__signature__ = inspect.Signature([*expanded, context])  # type: ignore[attr-defined]
    call.__annotations__ = {one.name: one.annotation for one in (*expanded, context)}
    del call.__wrapped__
    return call


def spelled(param: Any, context: typer.Context) -> str:
    """Returns an option as the user wrote it; its first name if the user shortened or omitted it."""
    words = context.meta.get(WORDS, ())
    return next((one for one in param.opts if one in words and one.startswith("--")), param.opts[0])


def _stage(stage: Any, several: bool, own: dict[str, tuple[Any, CliOption]], context: typer.Context) -> Any:
    """Builds a command's argument for a stage: an instance, or lists of values by name if `several`."""
    found, asked = {}, []
    for param in context.command.params:
        source = context.get_parameter_source(str(param.name))
        if param.name in own and source is not None and source.name == "COMMANDLINE":
            value, shown = own[str(param.name)]
            asked.append(spelled(param, context))
            each = several and isinstance(value, list) and shown.words in (None, str)
            read = shown.read or (lambda words: words)
            found[param.name] = [read(one) for one in value] if each else read(value)
    if several:
        return found
    made = stage(**found)
    object.__setattr__(made, "asked", tuple(asked))
    return made


def combinations(varied: Mapping[str, list[Any]]) -> list[dict[str, Any]]:
    """Returns one dictionary per combination of values; the last name varies fastest."""
    return [dict(zip(varied, values, strict=True)) for values in itertools.product(*varied.values())]
