"""Every public call with valid arguments, one of them replaced by junk; run as a program, it tries many, one by one.

`python -m support.junk SEED COUNT START [WORD]`: tries COUNT cases (0: all) from START on, those whose names hold WORD;
prints each before it is tried, and what came out where that is none of `ALLOWED`. A case that takes more than 5 s of
process time, or 60 s, ends the process.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import os
import random
import resource
import signal
import sys
import tempfile
import traceback
import types
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import tilesim as ts
from support.junk_arguments import RECEIVERS, VALUES, a_small_gpt2, of_call, prepare

ALLOWED = (ts.Error, TypeError, ValueError)
MODULES = (
    "", "mapping", "analytic", "cluster", "frontends", "graph", "isa", "machine", "memory", "models", "network",
    "views", "workloads",
)  # fmt: skip
OPERATORS = ("add", "radd", "sub", "mul", "truediv", "matmul", "getitem", "contains", "eq")
MEMORY = 6 << 30
LONGEST = 6000  # characters of a message: no value is told whole


class Hostile:
    """Whatever it is asked, it raises."""

    def _raise(self, *_args: Any, **_more: Any) -> Any:
        raise RuntimeError("asked a hostile object")

    __str__ = __repr__ = __index__ = __int__ = __float__ = __bool__ = __len__ = __iter__ = _raise
    __eq__ = __hash__ = __getitem__ = __fspath__ = __array__ = __lt__ = __contains__ = __format__ = _raise


class Graph:
    """Of another module, with the same name."""

    name = "graph"


def generator() -> Iterator[int]:
    yield 1


JUNK: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "True": lambda: True,
    "-1": lambda: -1,
    "0": lambda: 0,
    "1.5": lambda: 1.5,
    "2^63": lambda: 2**63,
    "2^200": lambda: 2**200,
    "nan": lambda: float("nan"),
    "inf": lambda: float("inf"),
    "complex": lambda: 1j,
    "no text": lambda: "",
    "zero byte": lambda: "\0",
    "text": lambda: "junk",
    "long text": lambda: "x" * 10**5,
    "surrogate": lambda: "\ud800",
    "bytes": lambda: b"",
    "list": lambda: [],
    "dict": lambda: {},
    "nested list": lambda: [[]],
    "list of nothing": lambda: [None],
    "dict of nothing": lambda: {None: None},
    "dict of text": lambda: {"junk": "junk"},
    "set": lambda: {1},
    "object": object,
    "function": lambda: lambda: None,
    "class": lambda: int,
    "module": lambda: types,
    "array of objects": lambda: np.array([None, {}], dtype=object),
    "array of dates": lambda: np.array(["2020-01-01"], dtype="datetime64[D]"),
    "empty array": lambda: np.zeros((0, 3), np.float32),
    "scalar array": lambda: np.array(1.5),
    "strided array": lambda: np.zeros((8, 8), np.float32)[::2, ::-3],
    "generator": generator,
    "hostile": Hostile,
    "foreign graph": Graph,
    "graph": lambda: ts.workloads.matmul(2, 2, 2),
    "machine": lambda: ts.Machine.load("edge-8"),
    "directory": lambda: Path("folder.json"),
    "no such file": lambda: Path("missing.json"),
}


@dataclass(frozen=True)
class Call:
    """One public callable: `make` gives the function, bound to a fresh receiver where it is a method."""

    name: str
    make: Callable[[], Callable[..., Any]]
    parameters: tuple[inspect.Parameter, ...]
    owner: str = ""

    def arguments(self) -> tuple[list[Any], dict[str, Any]]:
        """Those that it needs, by position and by name."""
        given = of_call(self.name)
        positional: list[Any] = []
        named: dict[str, Any] = {}
        for parameter in self.parameters:
            if parameter.name in given:
                value = given[parameter.name]()
            elif parameter.default is parameter.empty and parameter.kind not in (
                parameter.VAR_POSITIONAL,
                parameter.VAR_KEYWORD,
            ):
                value = VALUES[parameter.name]()
            else:
                continue
            if parameter.kind is parameter.VAR_POSITIONAL:
                positional += value
            elif parameter.kind is parameter.VAR_KEYWORD:
                named |= value
            elif parameter.kind is parameter.KEYWORD_ONLY or any(
                p.default is not p.empty and p.name not in given and p.kind is not p.KEYWORD_ONLY
                for p in self.parameters[: self.parameters.index(parameter)]
            ):
                named[parameter.name] = value
            else:
                positional.append(value)
        return positional, named

    def run(self, replaced: str = "", junk: Any = None) -> Any:
        """Calls it, with junk for one parameter."""
        positional, named = self.arguments()
        function = self.make()
        kinds = {p.name: p for p in self.parameters}
        if replaced:
            parameter = kinds[replaced]
            at = list(kinds).index(replaced)
            if parameter.kind is parameter.VAR_POSITIONAL:
                positional[at:] = [junk]
            elif parameter.kind is parameter.VAR_KEYWORD:
                given = of_call(self.name).get(replaced, lambda: {"junk": 0})()
                named |= {name: junk for name in given}
            elif at < len(positional) and parameter.kind is not parameter.KEYWORD_ONLY:
                positional[at] = junk
            else:
                named[replaced] = junk
        result = function(*positional, **named)
        if inspect.isgenerator(result):
            result = list(result)
        return result


def public_calls() -> Iterator[Call]:
    """All functions, constructors and methods that users reach by public names."""
    seen: set[int] = set()
    for part in MODULES:
        module = importlib.import_module(f"tilesim.{part}" if part else "tilesim")
        prefix = f"ts.{part}." if part else "ts."
        for name in getattr(module, "__all__", ()):
            value = getattr(module, name)
            if id(value) in seen or isinstance(value, types.ModuleType) or not callable(value):
                continue
            seen.add(id(value))
            if inspect.isclass(value):
                if not issubclass(value, BaseException) and part != "cluster":  # results of its calls
                    yield from _calls_of_class(value, prefix + name)
            else:
                yield Call(
                    prefix + name, lambda value=value: value, tuple(inspect.signature(value).parameters.values())
                )


def _calls_of_class(owner: type, name: str) -> Iterator[Call]:
    yield Call(name, lambda: owner, tuple(inspect.signature(owner).parameters.values()))
    for key in dir(owner):
        attribute = inspect.getattr_static(owner, key)
        if key.startswith("__") and dataclasses.is_dataclass(owner):
            continue
        operator = key.strip("_") in OPERATORS and key.startswith("__") and attribute is not getattr(object, key, None)
        if key.startswith("_") and not operator:
            continue
        if isinstance(attribute, (staticmethod, classmethod)):
            bound = getattr(owner, key)
            yield Call(f"{name}.{key}", lambda bound=bound: bound, tuple(inspect.signature(bound).parameters.values()))
        elif inspect.isfunction(attribute):
            parameters = tuple(inspect.signature(attribute).parameters.values())[1:]
            yield Call(
                f"{name}.{key}",
                lambda key=key: getattr(RECEIVERS.get(f"{name}.{key}", RECEIVERS[name])(), key),
                parameters,
                name,
            )


def cases() -> list[tuple[Call, str, str]]:
    """Call, parameter, name of the junk: all of them."""
    return [(call, p.name, junk) for call in public_calls() for p in call.parameters for junk in JUNK]


def attempt(call: Call, parameter: str, junk: str) -> str:
    """Empty, or the trace of what came out and should not."""
    try:
        call.run(parameter, JUNK[junk]())
    except ts.InternalError:
        return traceback.format_exc()
    except ALLOWED as error:
        return "" if len(str(error)) < LONGEST else traceback.format_exc()[:3000]
    except BaseException:  # an exit or an interrupt is as wrong as a bug
        return traceback.format_exc()
    return ""


def main() -> None:
    seed, count, start = (int(word) for word in sys.argv[1:4])
    chosen = [case for case in cases() if not sys.argv[4:] or sys.argv[4] in ": ".join([case[0].name, *case[1:]])]
    if count:  # without the library whose import alone takes longer than a hundred calls: test_transformers_given.py
        few = [case for case in chosen if case[0].name != "ts.from_transformers"]
        chosen = random.Random(seed).sample(few, min(count, len(few)))
    warnings.simplefilter("ignore")
    os.chdir(tempfile.mkdtemp())
    prepare()
    if not count:  # what is imported by need takes longer than a call may
        ts.from_transformers(a_small_gpt2(), phase="decode", context=4)
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    for number in (signal.SIGPROF, signal.SIGALRM):
        signal.signal(number, signal.SIG_DFL)
    for at, (call, parameter, junk) in enumerate(chosen[start:], start):
        print(f"{at} {call.name}({parameter}={junk})", flush=True)
        signal.setitimer(signal.ITIMER_PROF, 10)
        signal.setitimer(signal.ITIMER_REAL, 60)
        wrong = attempt(call, parameter, junk)
        if wrong:
            print(
                "\n".join(
                    "! " + line for line in wrong.encode("ascii", "backslashreplace").decode()[-3000:].split("\n")
                ),
                flush=True,
            )
    signal.setitimer(signal.ITIMER_PROF, 0)
    signal.setitimer(signal.ITIMER_REAL, 0)
    print("done")


if __name__ == "__main__":
    main()
