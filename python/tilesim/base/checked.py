"""Checks arguments of public calls against their annotations.

A marked call raises an error, before it does anything, for an argument that its annotation excludes. The message has
the call, the parameter, the value, the allowed types and the parameter's description. The call itself checks ranges,
names and shapes.
"""

from __future__ import annotations

import builtins
import collections.abc
import functools
import inspect
import itertools
import operator
import os
import re
import sys
import types
import typing
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from .errors import NoAttribute, WrongCall, as_number, nearest, shown, user_error, workload_hint

F = TypeVar("F", bound=Callable[..., Any])
C = TypeVar("C", bound=type)
Test = Callable[[Any], bool]

LARGEST = 2**63 - 1
#: call -> suggestion (a sentence or "") for an unknown argument; "Class.": for an unknown attribute
MEANT: dict[str, Callable[[str, Any], str]] = {}
#: attribute of another library -> Tilesim's attribute with the same meaning
_ALSO = {
    "latency": ("milliseconds", "seconds"), "time": ("milliseconds", "seconds"), "runtime": ("milliseconds",),
    "T": ("transpose",), "permute": ("transpose",), "view": ("reshape",), "astype": ("convert",), "to": ("convert",),
    "plot": ("to_html",), "set": ("replace",), "update": ("replace",), "nodes": ("operations",),
}  # fmt: skip
#: (type of the value, wanted type) -> the missing step
_STEPS = {
    ("Graph", "Program"): "Compile it first: ts.compile(graph, machine)",
    ("str", "Program"): "Compile it first: ts.compile({}, machine)",
    ("Program", "Result"): "Simulate it first: ts.simulate(program)",
    ("Graph", "Result"): "Simulate it first: ts.run(graph, machine)",
    ("str", "Result"): "Load it with ts.Result.load(path), or simulate: ts.run(model, machine)",
    ("GraphBuilder", "Graph"): "Call builder.build() first",
    ("Tensor", "Graph"): "Call builder.output(tensor), then builder.build()",
    ("OrderedDict", "Graph"): "A state_dict holds weights without operations: pass the module",
}
#: types with many forms, each read and checked by a function: `Machine.load`, `as_graph`, `dtype_name`, ...
_OWN_TYPES = re.compile(r"\b(MachineLike|GraphLike|DeviceLike|TraceLike|ArrayLike)\b")
_OWN_NAMES = ("dtype",)
_SAME = (("context", "sequence"), ("sequence", "context"))  # pairs of names for the same size of a language model
_LEAST = {"seed": 0, "jobs": 1}  # parameter -> smallest value
MOST_ELEMENTS = 1 << 24  # longer lists are accepted without a check of their elements
_WORDS = {
    str: "a string",
    int: "a whole number",
    float: "a number",
    bool: "True, False",
    bytes: "bytes",
    type(None): "None",
    Any: "any",
}
_UNCHECKED = ("__eq__", "__new__", "__reduce__", "__setattr__", "__delattr__", "__getattr__")
_SEVERAL = {"a string": "strings", "a whole number": "whole numbers", "a number": "numbers"}
_FROM = {
    "Graph": "a ts.Graph, as ts.models.build(name) and ts.Graph.load(path) return",
    "Program": "a ts.Program, as ts.compile(model, machine) returns",
    "Result": "a ts.Result, as ts.simulate and ts.run return",
    "Machine": "a ts.Machine, as ts.Machine.load(name) returns",
    "Tensor": "a tensor of this builder",
}


def step(value: Any, wanted: str) -> str:
    """Returns the call that converts a value to the wanted type; "" if none is known."""
    return _STEPS.get((type(value).__name__, wanted), "").format(shown(value))


def is_text(value: Any) -> bool:
    """Whether a value is a text that UTF-8 can encode, because it has no lone surrogates."""
    if not isinstance(value, str):
        return False
    return value.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in value)


def is_integer(value: Any) -> bool:
    """Whether a value is a 64-bit integer (of Python, numpy, torch, ...); True and False do not count."""
    if type(value) is int:
        return -LARGEST <= value <= LARGEST
    if isinstance(value, bool):
        return False
    try:
        return -LARGEST <= operator.index(value) <= LARGEST
    except Exception:  # an object may raise errors of any type
        return False


def is_number(value: Any) -> bool:
    """Whether a value is a real number that a double represents, NaN or an infinity."""
    if type(value) is float:
        return True
    if isinstance(value, (bool, str, bytes)):
        return False
    try:
        return isinstance(float(value), float) and getattr(value, "ndim", 0) == 0
    except Exception:  # an object may raise errors of any type
        return False


def is_bool(value: Any) -> bool:
    return value is True or value is False or type(value).__name__ in ("bool_", "bool")


def is_iterable(value: Any) -> bool:
    """Whether a value is an iterable other than a text."""
    if isinstance(value, (str, bytes)):
        return False
    try:
        iter(value)
    except Exception:  # an object may raise errors of any type
        return False
    return True


def _is_sequence(value: Any) -> bool:
    """Whether a value is a sequence, or an array with axes."""
    try:
        named = isinstance(value, collections.abc.Sequence) and not isinstance(value, (str, bytes))
        return bool(named or getattr(value, "ndim", 0) >= 1)
    except Exception:  # an object may raise errors of any type
        return False


def _test_of_items(test: Test, values: Callable[[Any], Iterable[Any]]) -> Test:
    def check(value: Any) -> bool:
        try:
            if isinstance(value, collections.abc.Sized) and len(value) > MOST_ELEMENTS:
                return False
            return all(test(one) for one in values(value))
        except Exception:  # a container may raise errors of any type
            return False

    return check


def _conjunction(first: Test, second: Test) -> Test:
    return lambda value: first(value) and second(value)


def _container(origin: type, arguments: tuple[Any, ...]) -> Test | None:
    if issubclass(origin, collections.abc.Mapping):
        inner = [_test(one) for one in arguments[:2]]
        test: Test = lambda value: isinstance(value, collections.abc.Mapping)  # noqa: E731
        for one, values in zip(inner, (lambda v: v.keys(), lambda v: v.values()), strict=False):
            if one is not None:
                test = _conjunction(test, _test_of_items(one, values))
        return test
    if origin is tuple and arguments and arguments[-1] is not Ellipsis:
        inner = [_test(one) for one in arguments]
        return lambda value: (
            _is_sequence(value)
            and len(value) == len(inner)
            and all(one is None or one(part) for one, part in zip(inner, value, strict=True))
        )
    element = _test(arguments[0]) if arguments else None
    if issubclass(origin, (list, tuple, collections.abc.Sequence)):
        return _conjunction(_is_sequence, _test_of_items(element, iter)) if element else _is_sequence
    if issubclass(origin, (set, frozenset)):
        return lambda value: isinstance(value, collections.abc.Set)
    if origin is collections.abc.Iterable:  # elements are checked only if the value can be iterated again
        again = (collections.abc.Sequence, collections.abc.Set, collections.abc.Mapping)
        if element is None:
            return is_iterable
        inside = _test_of_items(element, iter)
        return lambda value: is_iterable(value) and (not isinstance(value, again) or inside(value))
    return lambda value: isinstance(value, origin)


def _test(hint: Any) -> Test | None:
    """Returns the test of an annotation; None if every value passes."""
    simple: dict[Any, Test] = {str: is_text, int: is_integer, float: is_number, bool: is_bool}
    if hint is Any or isinstance(hint, (TypeVar, str)):
        return None
    if hint in simple:
        return simple[hint]
    if hint is None or hint is type(None):
        return lambda value: value is None
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        tests = [_test(one) for one in arguments]
        if any(test is None for test in tests):
            return None
        return lambda value: any(test(value) for test in tests if test)
    if origin is typing.Literal:
        return lambda value: isinstance(value, type(arguments[0])) and value in arguments
    if (origin or hint) is collections.abc.Callable:
        return callable
    kind = origin or hint
    if not isinstance(kind, type):
        return None
    if issubclass(kind, os.PathLike):
        return lambda value: isinstance(value, (str, os.PathLike))
    if issubclass(kind, (bytes, bytearray)):
        return lambda value: isinstance(value, kind)
    if issubclass(kind, (collections.abc.Mapping, collections.abc.Iterable)) and kind.__module__ in (
        "collections.abc",
        "builtins",
    ):
        return _container(kind, arguments)
    return lambda value: isinstance(value, kind)


def _annotation_text(hint: Any) -> str:
    """Describes an annotation in words."""
    if hint in _WORDS:
        return _WORDS[hint]
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return ", ".join(dict.fromkeys(_annotation_text(one) for one in arguments if one is not type(None)))
    kind = origin or hint
    if not isinstance(kind, type):
        return str(kind)
    if issubclass(kind, os.PathLike):
        return "a path"
    if kind is collections.abc.Callable:
        return "a function"
    if issubclass(kind, collections.abc.Mapping) and kind.__module__ != "tilesim":
        return "a dict by name" if arguments and arguments[0] is str else "a dict"
    if issubclass(kind, collections.abc.Iterable) and arguments:
        inner = _annotation_text(arguments[0])
        return f"a list of {_SEVERAL[inner]}" if inner in _SEVERAL else f"a list, each element {inner}"
    return _FROM.get(kind.__name__, f"a {kind.__name__}")


def _name(hint: Any) -> str:
    kind = typing.get_origin(hint) or hint
    if not isinstance(kind, type):
        return ""
    if issubclass(kind, collections.abc.Iterable) and kind.__module__ in ("collections.abc", "builtins"):
        return "dict" if issubclass(kind, collections.abc.Mapping) else "string" if kind is str else "list"
    called = {float: "number", bool: "bool", int: "whole number", collections.abc.Callable: "function"}
    return called.get(kind, kind.__name__.lower())


def _not(parts: Iterable[Any]) -> str:
    """Lists the allowed types that a value does not have."""
    names = list(dict.fromkeys(map(_name, parts)))
    if not all(names) or len(names) > 3:
        return "a wrong argument"
    return "not " + " or ".join(f"{'an' if name[0] in 'aeiou' else 'a'} {name}" for name in names)


def _described(text: str, name: str) -> str:
    """Returns a parameter's description from a docstring, as one line."""
    section = re.search(r"^\s*Args:\n(.*?)(?=^\s*(?:Returns|Raises|Yields):|\Z)", text, re.DOTALL | re.MULTILINE)
    found = re.search(
        rf"^(\s*)\*{{0,2}}{name}\b[^:\n]*:(.*?)(?=^\1\S|\Z)", section[1] if section else "", re.DOTALL | re.MULTILINE
    )
    return " ".join(found[2].split()) if found else ""


def _named(word: str, module: types.ModuleType) -> Any:
    """The class that a name in an annotation denotes; a class imported only for type checking is in another module."""
    others = (
        found for name, found in list(sys.modules.items()) if name.startswith("tilesim.") and name != "tilesim._core"
    )
    every = itertools.chain((module, builtins, sys.modules["tilesim"]), others)
    return next((vars(found)[word] for found in every if word in vars(found)), None)


def _wrong_entry(hint: Any, value: Any) -> tuple[str, Any, Any] | None:
    """Returns a dict's first wrong entry: place, value (or key) and annotation."""
    for one in (hint, *typing.get_args(hint)):
        arguments = typing.get_args(one)
        kind = typing.get_origin(one)
        if not (isinstance(kind, type) and issubclass(kind, collections.abc.Mapping) and len(arguments) == 2):
            continue
        if not isinstance(value, collections.abc.Mapping):
            continue
        of_key, of_value = map(_test, arguments)
        try:
            for key, entry in value.items():
                if of_key is not None and not of_key(key):
                    return ", a key", key, arguments[0]
                if of_value is not None and not of_value(entry):
                    return f"[{shown(key)}]", entry, arguments[1]
        except Exception:  # the object may raise errors of any type
            return None
    return None


def _is_long(value: Any) -> bool:
    try:
        return _is_sequence(value) and len(value) > MOST_ELEMENTS
    except Exception:  # the object may raise errors of any type
        return False


class _CallChecks:
    """The tests for the parameters of one function."""

    def __init__(self, function: Callable[..., Any], where: str, own: tuple[str, ...]) -> None:
        self.function, self.where = function, where
        self.positional: list[tuple[str, Test | None]] = []
        self.named: dict[str, Test] = {}
        self.rest: tuple[str, Test | None] = ("", None)
        self.hints: dict[str, Any] = {}
        self.known: list[str] = []
        self.takes_more = self.takes_graph = False
        self.required: list[tuple[int, str]] = []
        for name, parameter in inspect.signature(function).parameters.items():
            self.takes_graph |= "GraphLike" in str(parameter.annotation)
            test = None if name in own or name in _OWN_NAMES else self._test_of(name, parameter)
            if parameter.kind is parameter.VAR_POSITIONAL:
                self.rest = (name, test)
            elif parameter.kind is parameter.VAR_KEYWORD:
                self.takes_more = True
            else:
                if parameter.kind is not parameter.POSITIONAL_ONLY:
                    self.known.append(name)
                    if parameter.default is parameter.empty:
                        place = len(self.positional) if parameter.kind is not parameter.KEYWORD_ONLY else LARGEST
                        self.required.append((place, name))
                if parameter.kind is not parameter.KEYWORD_ONLY:
                    self.positional.append((name, test))
                if test is not None:
                    self.named[name] = test

    def _test_of(self, name: str, parameter: inspect.Parameter) -> Test | None:
        annotation = parameter.annotation
        if annotation is parameter.empty or (isinstance(annotation, str) and _OWN_TYPES.search(annotation)):
            return None
        own = sys.modules[self.function.__module__]
        scope = {word: _named(word, own) for word in re.findall(r"[A-Za-z_]\w*", str(annotation))}
        hint = typing.get_type_hints(types.SimpleNamespace(__annotations__={name: annotation}), scope)[name]
        self.hints[name] = hint
        test = _test(hint)
        least = _LEAST.get(name, -LARGEST)
        if test is None:
            return None
        if int in (hint, *typing.get_args(hint)) and least > -LARGEST:
            test = _conjunction(test, lambda value: value is None or operator.index(value) >= least)
        return (lambda value: value is None or test(value)) if parameter.default is None else test

    def check(self, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        """Raises an error for the first argument that does not fit."""
        for (name, test), value in zip(self.positional, args, strict=False):
            if test is not None and not test(value):
                self.reject(name, value)
        if len(args) > len(self.positional) and not self.rest[0]:
            extra = args[len(self.positional)]
            fields = self.takes_more and isinstance(extra, collections.abc.Mapping) and all(map(is_text, extra))
            pairs = ", ".join(f"{key}={shown(one)}" for key, one in extra.items()) if fields else ""
            names = ", ".join(name for name, _ in self.positional if name not in ("self", "cls"))
            raise user_error("too many positional arguments", place=self.where, value=shown(extra),
                             allowed="" if fields else names,
                             suggestion=f"Write keywords: {pairs}" if fields else "", sort=WrongCall)  # fmt: skip
        if len(args) > len(self.positional) and self.rest[1] is not None:
            for value in args[len(self.positional) :]:
                if not self.rest[1](value):
                    self.reject(self.rest[0], value)
        for name, value in named.items():
            if name not in self.known and not self.takes_more:
                known = [one for one in self.known if not one.startswith("_") and one not in ("self", "cls")]
                hint = next((other for one, other in _SAME if name == one and other in known), "")
                if not hint and self.where in MEANT:
                    hint = MEANT[self.where](name, value)
                if not hint and self.takes_graph:
                    hint = workload_hint(name, value, args[0] if args else None)
                raise user_error("unknown argument", place=self.where, value=shown(name), allowed=", ".join(known),
                                 suggestion=hint or nearest(name[:100], known), sort=WrongCall)  # fmt: skip
            test = self.named.get(name)
            if test is not None and not test(value):
                self.reject(name, value)
        self.check_required(len(args), named)

    def check_required(self, given: int, named: dict[str, Any]) -> None:
        """Raises an error for missing arguments."""
        lacking = [name for place, name in self.required if place >= given and name not in named]
        if not lacking:
            return
        many = "arguments are missing" if len(lacking) > 1 else "an argument is missing"
        said = _described(inspect.getdoc(self.function) or "", lacking[0])
        hint = self.loaded() or (f"`{lacking[0]}`: {said}" if said else "")
        raise user_error(many, place=f"{self.where}: {', '.join(lacking)}", suggestion=hint, sort=WrongCall)

    def reject(self, name: str, value: Any) -> None:
        hint = self.hints[name]
        place = f"{self.where}: {name}"
        inner = _wrong_entry(hint, value)
        if inner is not None:
            where, value, hint = inner
            place += where
        of_union = typing.get_origin(hint) in (typing.Union, types.UnionType)
        parts = {part: None for part in (typing.get_args(hint) if of_union else (hint,)) if part is not type(None)}
        whole = list(parts) == [int]
        what = _not(parts) if inner is None else "a wrong entry"
        what = "not a path" if any(typing.get_origin(part) is os.PathLike for part in parts) else what
        what = ("out of range" if type(value) is int else "not a whole number") if whole else what
        what = "a wrong element" if what == "not a list" and _is_sequence(value) else what
        what = "too many elements" if _is_long(value) else what
        least = _LEAST.get(name, -LARGEST)
        allowed = _annotation_text(hint) + (f" from {least} on" if whole and name in _LEAST else "")
        if what == "out of range":
            allowed = f"a whole number from {least} on" if value < least else "at most 2^63 - 1"
        said = _described(inspect.getdoc(self.function) or "", name)
        word = "all" if value is True else "none" if value is False else ""
        hint = f'Write {name}="{word}"' if word and f'"{word}"' in said and str in parts else ""
        hint = hint or next(filter(None, (step(value, str(getattr(part, "__name__", ""))) for part in parts)), "")
        hint = hint or (as_number(value) if {int, float} & {*parts} else "") or self.loaded(value)
        raise user_error(what, place=place, value=shown(value), allowed=allowed,
                         suggestion=hint or (f"`{name}`: {said}" if said else ""))  # fmt: skip

    def loaded(self, value: Any = ...) -> str:
        """Suggests the call that loads a class, for an error of its constructor."""
        owner = _named(self.where, sys.modules[self.function.__module__])
        if self.function.__name__ != "__init__" or not hasattr(owner, "load"):
            return ""
        given = shown(value) if isinstance(value, (str, os.PathLike)) else "name"
        return f"Load one: ts.{self.where}.load({given})" if self.where in sys.modules["tilesim"].__all__ else ""


def no_attribute(self: Any, name: str) -> Any:
    """Returns the error for an unknown attribute of a class."""
    owner = type(self)
    if name.startswith("_") or hasattr(owner, name):  # of a protocol; of a property that raised an AttributeError
        return object.__getattribute__(self, name)
    known = sorted(one for one in {*dir(owner), *getattr(self, "__dict__", ())} if not one.startswith("_"))
    hints = (MEANT[f"{one.__name__}."](name, None) for one in owner.__mro__ if f"{one.__name__}." in MEANT)
    hint = next((one for one in _ALSO.get(name, ()) if one in known), "") or next(hints, "") or nearest(name, known)
    raise user_error(f"{owner.__name__} has no attribute '{name}'", allowed="" if hint else ", ".join(known),
                     suggestion=hint, sort=NoAttribute)  # fmt: skip


def _no_assignment(self: Any, name: str, value: Any) -> None:
    """Returns the error for an assignment to an attribute, which would have no effect."""
    owner = type(self)
    caller = str(sys._getframe(1).f_globals.get("__name__", ""))
    frozen = getattr(getattr(owner, "__dataclass_params__", None), "frozen", False)
    there = getattr(owner, name, None)
    writable = name in getattr(self, "__dict__", ()) or getattr(there, "fset", None) is not None
    if name.startswith("_") or (not frozen and (writable or caller.startswith("tilesim."))):
        return object.__setattr__(self, name, value)
    hint = MEANT[f"{owner.__name__}="](name, value) if f"{owner.__name__}=" in MEANT else ""
    if not hint and hasattr(owner, "replace"):
        names = list(getattr(owner, "__dataclass_fields__", ()))
        hint = f"replace({name}={shown(value)})" if name in names else f"replace(...) of {', '.join(names)}"
    elif not hint and hasattr(owner, "from_dict"):
        hint = f"{owner.__name__}.from_dict({{**x.to_dict(), {name!r}: {shown(value)}}})"
    raise user_error("this attribute cannot be assigned", place=f"{owner.__name__}.{name}", value=shown(value),
                     suggestion=f"Change a copy: {hint}" if hint else "", sort=NoAttribute)  # fmt: skip


def checked(*own: str, inside: bool = True) -> Callable[[F], F]:
    """Marks a public function or method whose arguments must match its annotations.

    `own`: parameters that the function checks itself. `inside`: check calls from this package too; without, graphs of
    models are built in two thirds of the time."""

    def mark(function: F) -> F:
        plan: _CallChecks | None = None

        @functools.wraps(function)
        def call(*args: Any, **named: Any) -> Any:
            nonlocal plan
            caller = "" if inside else sys._getframe(1).f_globals.get("__name__", "")
            if caller.startswith("tilesim.") and not caller.startswith("tilesim.cli."):
                return function(*args, **named)
            if plan is None:
                plan = _CallChecks(function, function.__qualname__.removesuffix(".__init__"), own)
            plan.check(args, named)
            return function(*args, **named)

        return typing.cast(F, call)

    return mark


def checked_class(*own: str, inside: bool = True) -> Callable[[C], C]:
    """Marks a public class: its constructor, operators and public methods, as `checked` does, and its attributes:
    unknown ones get a suggestion, and new ones cannot be assigned."""

    def mark(owner: C) -> C:
        for key, value in list(vars(owner).items()):
            special = key.startswith("__") and key.endswith("__") and key not in _UNCHECKED
            if key.startswith("_") and not special:
                continue
            if isinstance(value, (staticmethod, classmethod)) and key != "__class_getitem__":
                setattr(owner, key, type(value)(checked(*own, inside=inside)(value.__func__)))
            elif inspect.isfunction(value) and len(inspect.signature(value).parameters) > 1:
                setattr(owner, key, checked(*own, inside=inside)(value))
        owner.__getattr__ = no_attribute  # type: ignore[attr-defined]
        if inside:
            owner.__setattr__ = _no_assignment  # type: ignore[method-assign,assignment]
        return owner

    return mark
