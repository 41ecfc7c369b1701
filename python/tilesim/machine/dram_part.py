"""DRAM parts: one channel's organisation, timing, constraints and controller."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from .. import _core
from ..base.checked import checked_class
from ..base.paths import configs_dir
from ..base.presets import preset_file
from .dram_reference import is_reference_form, part_from_reference

__all__ = ["Part"]


@checked_class("source")
class Part:
    """A DRAM part: organisation, timing, constraints and controller of one channel, with sources."""

    def __init__(self, core: _core.DramPart) -> None:
        """Stores a part of the core; use `load`."""
        self.core = core

    @classmethod
    def names(cls) -> list[str]:
        """Lists the shipped parts.

        Returns:
            Their names, sorted.
        """
        return sorted(path.stem for path in (configs_dir() / "dram").glob("*.json"))

    @classmethod
    def load(cls, source: str | os.PathLike[str] | Mapping[str, Any] | Part) -> Part:
        """Loads a part by shipped name, or from a file or dict.

        Args:
            source: name, path of a `.json` file, or the file's content as a dict.

        Returns:
            The part, checked.

        Raises:
            UserError: for an unknown name or key, a missing or contradictory constraint, with its place.
        """
        if isinstance(source, Part):
            return source
        if isinstance(source, Mapping):
            content = part_from_reference(source) if is_reference_form(source) else dict(source)
            return cls(_core.DramPart.from_json(json.dumps(content), "dict"))
        return cls(_core.DramPart.read_file(preset_file(source, "dram", "DRAM part", cls.names())))

    @property
    def name(self) -> str:
        """Name of the part."""
        return self.core.name

    @property
    def standard(self) -> str:
        """The standard's short name."""
        return self.core.standard

    @property
    def description(self) -> str:
        """Description in one line."""
        return self.core.description

    @property
    def burst_bytes(self) -> int:
        """Bytes of a burst, the smallest transfer."""
        return self.core.burst_bytes

    @property
    def clock_ps(self) -> int:
        """Picoseconds of a controller cycle."""
        return self.core.clock_ps

    @property
    def capacity_bytes(self) -> int:
        """Bytes of one channel."""
        return self.core.capacity_bytes

    @property
    def peak_bandwidth(self) -> float:
        """Bytes per second of one channel's data bus."""
        return self.core.bytes_per_second

    @property
    def sources(self) -> dict[str, str]:
        """Sources of the numbers by section of the file."""
        return dict(self.core.sources)

    def replace(self, controller: Mapping[str, Any]) -> Part:
        """Returns a copy with a changed controller.

        Args:
            controller: settings as in a part's file: read_queue, write_queue (entries), write_high_watermark,
                write_low_watermark, page ("open", "closed", "timeout"), page_timeout (cycles), refresh ("all_bank",
                "per_bank", "none").

        Returns:
            The changed part.

        Raises:
            UserError: for an unknown setting or a value out of range.
        """
        return Part(self.core.with_controller(json.dumps(dict(controller))))

    def to_dict(self) -> dict[str, Any]:
        """Converts the resolved part to a dict.

        Returns:
            The JSON form, which `load` reads back; every time is a number of cycles.
        """
        result: dict[str, Any] = json.loads(self.core.to_json())
        return result

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles the JSON form."""
        return Part.load, (self.to_dict(),)

    def __repr__(self) -> str:
        """Name and description."""
        return f"<Part {self.name}: {self.description}>"
