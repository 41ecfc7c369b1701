"""Options of calls as values, which repeated simulations and results reuse."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any

from ..base.arguments import is_size
from ..base.declared import Stage, option, pairs
from ..base.errors import nearest, shown, user_error, workload_hint
from ..loading import Sizes

if TYPE_CHECKING:
    from .latencies import TileLatencies

__all__ = ["CompileOptions", "SimulateOptions", "WorkloadOptions", "by_call", "options_text"]


MACHINE, COMPILE = "Machine", "Compile"


@dataclass(frozen=True)
class WorkloadOptions(Sizes):
    """Options that build a workload and change it before compilation."""

    passes: str | None = option(
        None, "Patterns to recognise in a model: all, none, or names of passes separated by commas."
    )
    quantize: str | None = option(
        None,
        "Quantize products to i8, fp8 or w4a16 (scales 1, or calibrated with --accuracy), or all floats to bf16, f16.",
    )


def _off(_: bool) -> bool:
    """Returns the value of a flag that turns a feature off."""
    return False


def _residency(texts: list[str]) -> str | dict[str, str]:
    """Reads a strategy, or levels by tensor."""
    if len(texts) == 1 and "=" not in texts[0]:
        return texts[0]
    return pairs(texts, "--residency", "missing level of a tensor", "auto, none, or several tensor=level")


def _trips(texts: list[str]) -> dict[str, int]:
    found = pairs(texts, "--trips", "missing trip count of a loop", "name=number")
    for name, count in found.items():
        if not is_size(count):
            raise user_error("the trip count of a loop is out of range", place=f"--trips {name}", value=f"'{count}'",
                             allowed="a whole number from 0 on, of at most 18 digits")  # fmt: skip
    return {name: int(count) for name, count in found.items()}


def _places(texts: list[str]) -> dict[str, str]:
    return pairs(texts, "--place", "missing place of an operation", "name=host, name=machine")


def _regions(texts: list[str]) -> dict[str, str]:
    return pairs(texts, "--placement", "missing memory region of a tensor", "name=interleaved, name=local, name=number")


def _tensors(given: list[str]) -> dict[str, Any]:
    """Reads arrays of a .npz file, and distributions as `name=distribution`."""
    from ..program.data_sources import opened

    files = [one for one in given if "=" not in one or os.path.exists(one)]
    if len(files) > 1:
        raise user_error("several files of arrays", place="--tensors", value=shown(files), allowed="one .npz file")
    found = opened(files[0]) if files else {}
    for text in given:
        if text not in files:
            name, _, distribution = text.partition("=")
            found[name] = distribution
    return found


@dataclass(frozen=True)
class CompileOptions(Stage):
    """Options of `compile`; see its arguments."""

    panel = COMPILE

    mapping: Any = option(
        "profile", "Mapping: profile, cost, heuristic, tuned, gemmini, pytorchsim, or a .json file.", words=str
    )
    lowering: str | None = option(
        None,
        "native (as the chip's own compiler, if the machine has a lowering profile) or best; `run` also accepts both.",
    )
    fuse: Any = option("all", "Fusion rules: all, none, or names separated by commas.", words=str)
    residency: Any = option(
        None,
        "Tensors kept in scratchpads: auto, none, or tensor=scratchpad, tensor=memory.",
        words=list[str],
        read=_residency,
    )
    layout: str = option("auto", "Order of axes in padded memory: auto or given.")
    fallback: str = option("error", "Unsupported operations: error, or host (run on the host).")
    place: Any = option(None, "Place an operation: name=host or name=machine.", words=list[str], read=_places)
    cores: int | None = option(None, "Number of cores that share the work; default: all.", panel=MACHINE)
    capacity: str = option("report", "If tensors exceed the memory: report it, or raise an error.")
    sort: str | None = option(None, "Core type that runs the program.", panel=MACHINE)
    contexts: int | None = option(None, "Contexts of a core that share every kernel.", least=1)
    integer_products: bool = option(
        True, "Keep products of dequantized operands in floats.", "--no-integer-products", words=bool, read=_off
    )
    trips: Any = option(
        None, "Trip count of a data-dependent loop: name=number.", words=list[str], read=_trips, panel="Workload"
    )
    collectives: str = option("error", "Collective operations: error, or untimed.")
    zero_tiles: str = option("off", "Zero tiles: skip (of weights), test (of activations too) or off.")


@dataclass(frozen=True)
class SimulateOptions(Stage):
    """Options of `simulate`; see its arguments."""

    panel = MACHINE

    memory: str | None = option(None, "Memory model: ideal, simple or bank; default: the machine's.")
    network: str | None = option(
        None,
        "On-chip network: simple, crossbar, mesh, mesh_4x8, ..., or a .json file; default: the machine's.",
        panel=MACHINE,
    )
    timeline: bool = False
    tensors: Mapping[str, Any] = option(
        {},
        "Tensor values for timing: a .npz file, or name=uniform, balanced, zipf:1.1.",
        panel="Workload",
        words=list[str],
        read=_tensors,
    )
    seed: int = option(0, "Seed of all random values.", least=0, panel="Workload")
    replay: bool = option(
        True, "Simulate every trip of steady loops, also in long programs.", "--no-replay", words=bool, read=_off
    )
    placement: Mapping[str, str | int] = option(
        {}, "Memory region of a tensor: name=interleaved, local or a number.", words=list[str], read=_regions
    )
    latencies: TileLatencies | None = None
    resident: tuple[str, ...] | str = option(
        (),
        "A tensor to keep in the machine's cache, or 'auto' (the most used ones).",
        words=list[str],
        read=lambda names: "auto" if names == ["auto"] else tuple(names),
    )
    level: str = option("tile", "tile (closed forms), instruction (standalone kernels) or live (concurrent kernels).")

    def without_recording(self) -> SimulateOptions:
        """Returns the options without recording."""
        return replace(self, timeline=False, replay=self.replay and not self.timeline)

    def recording(self) -> SimulateOptions:
        """Returns the options with a recorded timeline."""
        return replace(self, timeline=True)

    def of_part(self, tensors: Mapping[str, Any]) -> SimulateOptions:
        """Returns the options for one part of a program, with its tensors."""
        return replace(self, tensors=tensors)

    def given(self) -> dict[str, Any]:
        """Returns options that differ from their defaults, except recording, which changes no result."""
        return {name: value for name, value in super().given().items() if name != "timeline"}


def options_text(options: Mapping[str, Any]) -> dict[str, str]:
    """Converts options to text for a result."""
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


def by_call(
    options: Mapping[str, Any], *stages: type | Callable[..., Any], own: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """Splits options over several calls: each goes to the first call that accepts it; `own`: options of the caller."""
    taken = [_names(stage) for stage in stages]
    parts: list[dict[str, Any]] = [{} for _ in stages]
    for name, value in options.items():
        for names, part in zip(taken, parts, strict=True):
            if name in names:
                part[name] = value
                break
        else:
            known = list(dict.fromkeys([*own, *(one for names in taken for one in names)]))
            hint = workload_hint(name, value) or nearest(name, known)
            raise user_error("unknown option", value=f"'{name}'", allowed=", ".join(known), suggestion=hint)
    return parts


def _names(stage: Any) -> list[str]:
    if is_dataclass(stage):
        return [one.name for one in fields(stage)]
    return [p.name for p in inspect.signature(stage).parameters.values() if p.kind == p.KEYWORD_ONLY]
