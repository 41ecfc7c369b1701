"""Each option of each command reaches its call; Python gives the same result for the same options."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import json
import shlex
import sys
import webbrowser
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tilesim as ts
from support.command import commands, tilesim
from support.junk_arguments import prepare
from support.junk_cli import line
from tilesim.base.paths import sample
from tilesim.cli.commands import COMMANDS
from tilesim.lowering.compiling import compile
from tilesim.timing.options import CompileOptions, SimulateOptions
from tilesim.timing.simulate import simulate

#: Short lines on which options are tried, of commands that need more than one argument of its usual name.
BASES = {
    "why": "why matmul:4,4,4 matmul",
    "compare": "compare matmul:4,4,4 matmul:8,8,8",
    "check": "check result.json --against result.json",
    "suite": "suite scaling --device t4",
    "open": "open result.json",
    "sweep": "sweep matmul:4,4,4",
    "crossover": "crossover h100 fp8",
    "machine new": "machine new made.json --from tpu-v3",
    "isa run": "isa run k.elf",
    "isa asm": "isa asm k.s",
    "isa dis": "isa dis k.elf",
    "isa kernel": "isa kernel 'mma i8 i8 b1 m4 n8 k8 ko1' --machine edge-8",
    "cluster show": "cluster show dgx-h100:8",
    "cluster collective": "cluster collective all_reduce 1MiB --cluster dgx-h100:8",
    "cluster step": "cluster step llama-3-8b --cluster dgx-h100:1 --phase decode",
    "cluster search": "cluster search llama-3-8b --cluster dgx-h100:1 --phase decode",
    "cluster compare": "cluster compare llama-3-8b --cluster dgx-h100:1 --cluster dgx-a100:1 --phase decode",
    "cluster partition": "cluster partition halves.json",
    "cluster replay": "cluster replay traces --cluster dgx-h100:8",
}
#: Words of an option, and what its call gets for them; a number, flag or other text gives itself.
WORDS: dict[str, tuple[str, Any]] = {
    "set": ("core.array.count=2", {"core.array.count": 2}),
    "sweep set": ("core.array.count=2", {"core.array.count": [2]}),
    "sweep machine": ("edge-8", "edge-8"),
    "sweep mapping": ("cost", ["cost"]),
    "metrics": ("cycles", ["cycles"]),
    "pareto": ("cycles", ["cycles"]),
    "place": ("a=host", {"a": "host"}),
    "trips": ("a=3", {"a": 3}),
    "tensors": ("a=zipf:2", {"a": "zipf:2"}),
    "placement": ("a=local", {"a": "local"}),
    "resident": ("a", ("a",)),
    "residency": ("none", "none"),
    "lowering": ("best", "best"),
    "quantize": ("i8", "i8"),
    "network": ("crossbar", "crossbar"),
    "shape": ("8,8,8", [(8.0, 8.0, 8.0)]),
    "cluster step devices": ("1,2", "1,2"),
    "cluster collective devices": ("2", 2),
    "shardings": ("up=-,d", {"up": (None, ("d",))}),
    "cluster step network_model": ("flows", "flows"),
    "explain": ("bounds", None),
    "tiles": ("m=2", None),
    "tolerance": ("3%", "3%"),
    "threshold": ("0.0001", None),
}
#: What functions of the command line call the option --all.
INSIDE = ("everything",)
#: Names under which calls take an option.
CALLED = {
    "machine": ("source", "machine"), "device": ("source", "device", "devices"), "set": ("changes",),
    "sweep mapping": ("mappings",), "network": ("network", "topology", "fabric"), "pareto": ("metrics",),
    "base": ("against",), "shape": ("shapes",), "verify_against": ("against",), "accuracy": ("what",),
    "against": ("path",), "model": ("what",), "from_": ("source",), "all": INSIDE, "pipeline_limit": ("pipeline",),
    "sweep jobs": ("n",), "best": ("keep",), "table": ("path",), "tolerance": ("text", "tolerance", "value"),
}  # fmt: skip
#: What an option needs beside it.
BESIDE = {
    "verify_against": "--verify", "accuracy": "--quantize i8", "order": "--table table.json",
    "form": "--table table.json", "run against": "--html page.html", "roofline set": "--machine tpu-v3",
    "crossover all": "--model mlp", "map budget": "--show", "address": "--raw", "crossover batch": "--model gpt2",
    "crossover context": "--model gpt2", "crossover phase": "--model gpt2", "pipeline_limit": "--pipeline p.txt",
    "shardings": "--mesh d=2",
}  # fmt: skip
#: Options that change what is printed, or the exit code, and reach no call of their own.
SAID = (
    *("quiet", "verify", "advice", "explain", "alternatives", "browser", "show", "tiles", "form", "history", "errors"),
    *("threshold", "force", "raw", "map_"),
)
FILES = ("json", "csv", "html", "timeline", "save", "plot", "output", "pipeline")
ENDINGS = {"plot": "png", "html": "html", "csv": "csv"}


class Reached(BaseException):
    """The call that was waited for has begun."""


@contextlib.contextmanager
def waiting(names: tuple[str, ...], value: Any) -> Iterator[None]:
    """Raises `Reached` where a function of the package, outside of its command line, gets this argument."""
    values, others = (value, [value], (value,)), dict[int, Any]()

    def look(frame: Any, _event: str, _: Any) -> None:
        code = frame.f_code
        if id(code) in others:
            return
        if "/tilesim/" not in code.co_filename or ("/cli/" in code.co_filename) != (names == INSIDE):
            others[id(code)] = code
            return
        count = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & inspect.CO_VARARGS)
        given = {name: frame.f_locals[name] for name in code.co_varnames[:count]}
        for one in list(given.values()):
            given |= vars(one) if dataclasses.is_dataclass(one) and hasattr(one, "__dict__") else {}
        given |= frame.f_locals[code.co_varnames[count]] if code.co_flags & inspect.CO_VARKEYWORDS else {}
        found = [given[name] for name in names if name in given]
        if any(type(one) is type(other) and one == other for one in found for other in values):
            sys.settrace(before)
            raise Reached

    before = sys.gettrace()
    sys.settrace(look)
    try:
        yield
    finally:
        sys.settrace(before)


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A directory with files to read: three rows of every table of `validate`."""
    folder = tmp_path_factory.mktemp("options")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        prepare()
        for name in COMMANDS:
            if name.startswith("validate "):
                rows = sample(name.split()[1]).read_text(encoding="utf-8").splitlines()[:4]
                Path(f"{name.split()[1]}.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
        Path("k.s").write_text("_start: li a0, 0; li a7, 93; ecall", encoding="utf-8")
        Path("k.elf").write_bytes(ts.isa.assemble(Path("k.s").read_text(encoding="utf-8")))
        b = ts.GraphBuilder("halves")
        b.output(b.input("x", (4, 8)) @ b.input("up", (8, 32)), "y")
        halves = b.build()
        halves.annotate(mesh={"i": 2}, shardings={"x": '[{}, {"i"}]'})
        halves.save("halves.json")
        trace = ts.cluster.fsdp_trace(8, 2, layer_bytes=1 << 20, forward_ps=10**9, backward_ps=2 * 10**9)
        ts.cluster.to_chakra(trace, "dgx-h100:8", "traces")
        yield folder


def base(command: str) -> list[str]:
    words = tuple(command.split())
    found = shlex.split(BASES[command]) if command in BASES else line(words, dict(commands())[words])
    return [*found, "--cases", f"{words[1]}.csv"] if words[0] == "validate" else found


OPTIONS = [
    (" ".join(words), param)
    for words, command in commands()
    for param in command.params
    if param.param_type_name == "option" and words[0] != "measure"
]


def case(command: str, param: Any) -> tuple[list[str], Any]:
    """An option's words, another value than its default, and the value that its call gets."""
    if param.is_flag and param.opts[0].startswith("--no-"):
        return [param.opts[0]], False
    if param.is_flag:
        return [(param.secondary_opts if param.default is not False else param.opts)[0]], not param.default
    words, value = WORDS.get(f"{command} {param.name}", WORDS.get(param.name, ("", None)))
    if not words:
        annotation = str(param.type_descriptor.annotation)
        number = 3 if param.default != 3 else 2
        value = number if "int" in annotation else 2.5 if "float" in annotation else "given"
        words = str(value)
    return [param.opts[0], words], value


@pytest.mark.parametrize(("command", "param"), OPTIONS, ids=[f"{command} {param.name}" for command, param in OPTIONS])
def test_an_option_reaches_its_call(command: str, param: Any, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webbrowser, "open", lambda _: False)
    name, key = param.name, f"{command} {param.name}"
    beside = shlex.split(BESIDE.get(key, BESIDE.get(name, "")))
    if name in FILES:
        path = here / f"{key.replace(' ', '_')}.{ENDINGS.get(name, 'json')}"
        done = tilesim(*base(command), param.opts[0], str(path), *beside)
        assert path.stat().st_size, done.stderr
        return
    given, value = case(command, param)
    if name in SAID:
        told, other = (tilesim(*base(command), *words, *beside) for words in (given, []))
        assert (told.returncode, told.stdout, told.stderr) != (other.returncode, other.stdout, other.stderr)
        return
    with pytest.raises(Reached), waiting(CALLED.get(key, CALLED.get(name, (name,))), value):
        print(tilesim(*base(command), *given, *beside))


def test_an_option_means_one_thing() -> None:
    for name in ("--quiet", "--seed", "--against", "--store", "--resume", "--html", "--report", "--timeline", "--json"):
        assert len({param.help.partition(";")[0].rstrip(".") for _, param in OPTIONS if name in param.opts}) == 1


@pytest.mark.parametrize(("call", "stage"), [(compile, CompileOptions), (simulate, SimulateOptions)])
def test_options_are_those_of_the_call(call: Any, stage: Any) -> None:
    """Names and defaults; a mapping that nothing is in stands for none."""
    keywords = [one for one in inspect.signature(call).parameters.values() if one.kind is one.KEYWORD_ONLY]
    plain = stage()
    assert {one.name: one.default for one in keywords} == {
        one.name: getattr(plain, one.name) or one.default if one.default is not dataclasses.MISSING else None
        for one in dataclasses.fields(stage)
    }


@pytest.mark.parametrize(
    ("words", "options"),
    [
        ("mlp --batch 2 --dtype bf16", {"batch": 2, "dtype": "bf16"}),
        ("mlp --machine edge-8 --quantize i8", {"machine": "edge-8", "quantize": "i8"}),
        ("mlp --mapping heuristic --fuse none --cores 1", {"mapping": "heuristic", "fuse": "none", "cores": 1}),
        ("mlp --lowering best --residency none", {"lowering": "best", "residency": "none"}),
        ("mlp --memory bank --no-replay", {"memory": "bank", "replay": False}),
        ("mlp --machine h100", {"machine": "h100"}),
        ("mlp --machine mesh-16 --network crossbar", {"machine": "mesh-16", "network": "crossbar"}),
        ("gpt2 --phase decode --context 8", {"phase": "decode", "context": 8}),
    ],
)
def test_python_gives_the_same_result(words: str, options: dict[str, Any]) -> None:
    model, *given = words.split()
    wanted = ts.run(model, **options).data
    assert json.loads(tilesim("run", model, *given, "--no-advice", "--json", "-").stdout) == json.loads(
        json.dumps(wanted)
    )
