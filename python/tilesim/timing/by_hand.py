"""Tile programs without a graph, where a workload is asked for: they are simulated as they are."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ..base.errors import path_text, user_error
from ..loading import names_program
from ..machine.device import Device
from ..machine.machine import MachineLike
from ..machine.target import load as load_target
from ..program.program import Program

__all__ = ["machine_of", "program_of"]

USUAL = "tpu-v3"


def program_of(model: Any) -> Program | None:
    """The program, where nothing is to be compiled."""
    if isinstance(model, (str, os.PathLike)):
        name = path_text(model)
        if not name.lower().endswith(".json") or not os.path.isfile(name) or not names_program(name):
            return None
        model = Program.load(name)
    return model if isinstance(model, Program) and model.workload is None else None


def machine_of(program: Program, machine: MachineLike | Device, options: Mapping[str, Any]) -> MachineLike | None:
    """What it is simulated on: the machine that is asked for; else the program's own."""
    given = [name for name, value in options.items() if value is not None and value is not False and value != ()]
    if given:
        what = "a tile program without its graph is simulated as it is"
        raise user_error(what, place=program.core.name, value=", ".join(given), allowed="options of ts.simulate")
    target = load_target(machine)
    if isinstance(target, Device):
        what = "a device is estimated from a graph, and this program has none"
        raise user_error(what, place="machine", value=target.name, allowed="a machine")
    usual = isinstance(machine, str) and machine == USUAL  # as good as not said
    return None if usual and program.machine is not None else target
