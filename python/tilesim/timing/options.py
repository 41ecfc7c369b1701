"""The options of one call as one value: what is simulated again takes them along whole, and the result names them."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any

from ..base.arguments import is_size
from ..base.declared import Stage, option, pairs
from ..base.errors import nearest, of_workload, shown, user_error
from ..loading import Sizes

if TYPE_CHECKING:
    from .latencies import TileLatencies

__all__ = ["CompileOptions", "SimulateOptions", "WorkloadOptions", "divided", "said"]


MACHINE, COMPILE = "Machine", "Compile"


@dataclass(frozen=True)
class WorkloadOptions(Sizes):
    """What a workload is built with, and what is made of it before it is compiled."""

    passes: str | None = option(None, "Patterns to recognise in a model: all, none, or names of passes with commas.")
    quantize: str | None = option(
        None, "Products in i8, fp8 or w4a16 (scales are 1, or calibrated with --accuracy); or all in bf16, f16."
    )


def _off(_: bool) -> bool:
    """The value of a flag that turns something off."""
    return False


def _residency(words: list[str]) -> str | dict[str, str]:
    """A word, or levels by tensor."""
    if len(words) == 1 and "=" not in words[0]:
        return words[0]
    return pairs(words, "--residency", "a residency has no level", "auto or none alone, or any number of tensor=level")


def _trips(texts: list[str]) -> dict[str, int]:
    what, allowed = "a loop needs its number of trips", "name=number"
    found = pairs(texts, "--trips", what, allowed)
    for name, count in found.items():
        if not is_size(count):
            raise user_error(what, place="--trips", value=f"'{name}={count}'", allowed=allowed)
    return {name: int(count) for name, count in found.items()}


def _places(texts: list[str]) -> dict[str, str]:
    return pairs(texts, "--place", "an operation needs a place", "name=host, name=machine")


def _regions(texts: list[str]) -> dict[str, str]:
    return pairs(texts, "--placement", "a tensor needs a memory region", "name=interleaved, name=local, name=number")


def _tensors(given: list[str]) -> dict[str, Any]:
    """Of a .npz file and `name=distribution`."""
    from ..program.data_sources import opened

    files = [one for one in given if "=" not in one or os.path.exists(one)]
    if len(files) > 1:
        raise user_error("one file has all arrays", place="--tensors", value=shown(files), allowed="one .npz file")
    found = opened(files[0]) if files else {}
    for text in given:
        if text not in files:
            name, _, distribution = text.partition("=")
            found[name] = distribution
    return found


@dataclass(frozen=True)
class CompileOptions(Stage):
    """What `compile` takes beside graph and machine; its arguments say what each means."""

    panel = COMPILE

    mapping: Any = option("profile", "profile, cost, heuristic, tuned, gemmini, pytorchsim; a .json file.", words=str)
    lowering: str | None = option(
        None, "native: as the chip's own compiler, where the machine's file says how; or best. `run` also takes both."
    )
    fuse: Any = option("all", "all, none, or names of rules with commas between (a wrong one lists them).", words=str)
    residency: Any = option(
        None,
        "What stays in scratchpads: auto, none; or tensor=scratchpad, tensor=memory.",
        words=list[str],
        read=_residency,
    )
    layout: str = option("auto", "Order of axes in padded memory: auto, or as given.")
    fallback: str = option("error", "What the machine cannot run: an error, or on the host, at its cost.")
    place: Any = option(None, "Run an operation there: name=host or name=machine.", words=list[str], read=_places)
    cores: int | None = option(None, "Cores of the machine that share the work; all by default.", panel=MACHINE)
    capacity: str = option("report", "Tensors that exceed the memory: report, or error.")
    sort: str | None = option(None, "Core type that runs it, of a machine with several.", panel=MACHINE)
    contexts: int | None = option(None, "Of a core, that share every kernel.", least=1)
    integer_products: bool = option(
        True, "Leave products of dequantized operands in floats.", "--no-integer-products", words=bool, read=_off
    )
    trips: Any = option(
        None, "How often a loop runs that data end: name=number.", words=list[str], read=_trips, panel="Workload"
    )
    collectives: str = option("error", "Operations between devices: error, or untimed as on one of alike devices.")
    zero_tiles: str = option("off", "skip: tiles of weights that are all zero; test: of activations too; off: none.")


@dataclass(frozen=True)
class SimulateOptions(Stage):
    """What `simulate` takes beside program and machine; its arguments say what each means."""

    panel = MACHINE

    memory: str | None = option(None, "ideal, simple or bank; the machine's if none is given.")
    network: str | None = option(
        None, "simple, crossbar, mesh, mesh_4x8, ..., a .json file; the machine's if none.", panel=MACHINE
    )
    timeline: bool = False
    tensors: Mapping[str, Any] = option(
        {},
        "What timing reads: a .npz file of arrays by name, or name=uniform, balanced, zipf:1.1.",
        panel="Workload",
        words=list[str],
        read=_tensors,
    )
    seed: int = option(0, "Of everything that is drawn at random.", least=0, panel="Workload")
    replay: bool = option(
        True, "Simulate each trip of steady loops, also of long programs.", "--no-replay", words=bool, read=_off
    )
    placement: Mapping[str, str | int] = option(
        {}, "Memory region of a tensor: name=interleaved, local, a number.", words=list[str], read=_regions
    )
    latencies: TileLatencies | None = None
    resident: tuple[str, ...] | str = option(
        (),
        "A tensor that stays in the machine's cache; 'auto': what is used most.",
        words=list[str],
        read=lambda names: "auto" if names == ["auto"] else tuple(names),
    )
    level: str = option("tile", "tile (closed forms), instruction (kernels, each timed alone), live (side by side).")

    def again(self) -> SimulateOptions:
        """The options of a run that is compared with this one: all of them, without recording."""
        return replace(self, timeline=False, replay=self.replay and not self.timeline)

    def recording(self) -> SimulateOptions:
        """The options of the same run with a timeline."""
        return replace(self, timeline=True)

    def of_part(self, tensors: Mapping[str, Any]) -> SimulateOptions:
        """The options of one part of a program."""
        return replace(self, tensors=tensors)

    def given(self) -> dict[str, Any]:
        """Those that are not what a call without them has; recording changes no result."""
        return {name: value for name, value in super().given().items() if name != "timeline"}


def said(options: Mapping[str, Any]) -> dict[str, str]:
    """Options as a result names them."""
    empty = (type(None), str, tuple, dict)
    return {name: _text(value) for name, value in options.items() if value or not isinstance(value, empty)}


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {_text(one)}" for name, one in value.items())[:1000]
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_text, value))[:1000]
    if hasattr(value, "shape"):
        return f"{value.dtype}{list(value.shape)}"
    return str(getattr(value, "source", None) or shown(value))


def divided(
    options: Mapping[str, Any], *stages: type | Callable[..., Any], own: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """Options for several calls at once, each to the first call that takes it; `own`: names that the caller takes."""
    taken = [_names(stage) for stage in stages]
    parts: list[dict[str, Any]] = [{} for _ in stages]
    for name, value in options.items():
        for names, part in zip(taken, parts, strict=True):
            if name in names:
                part[name] = value
                break
        else:
            known = [*own, *(one for names in taken for one in names)]
            hint = of_workload(name, value) or nearest(name, known)
            raise user_error("unknown option", value=f"'{name}'", allowed=", ".join(known), suggestion=hint)
    return parts


def _names(stage: Any) -> list[str]:
    if is_dataclass(stage):
        return [one.name for one in fields(stage)]
    return [p.name for p in inspect.signature(stage).parameters.values() if p.kind == p.KEYWORD_ONLY]
