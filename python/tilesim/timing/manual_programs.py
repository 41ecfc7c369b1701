"""Tile programs without a graph, which run without compilation."""

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
    """Returns a program that needs no compilation, or None."""
    if isinstance(model, (str, os.PathLike)):
        name = path_text(model)
        if not name.lower().endswith(".json") or not os.path.isfile(name) or not names_program(name):
            return None
        model = Program.load(name)
    return model if isinstance(model, Program) and model.workload is None else None


def machine_of(program: Program, machine: MachineLike | Device, options: Mapping[str, Any]) -> MachineLike | None:
    """Returns the machine for a simulation: the requested one, or None for the program's machine."""
    given = [name for name, value in options.items() if value is not None and value is not False and value != ()]
    if given:
        what = "a tile program without its graph cannot be compiled"
        raise user_error(what, place=program.core.name, value=", ".join(given), allowed="options of ts.simulate")
    target = load_target(machine)
    if isinstance(target, Device):
        what = "a device needs a graph, which this program does not have"
        raise user_error(what, place="machine", value=target.name, allowed="a machine")
    usual = isinstance(machine, str) and machine == USUAL  # the caller did not choose a machine
    return None if usual and program.machine is not None else target
