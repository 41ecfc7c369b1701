"""Fits the constants of whole networks in configs/families on measured ones: `fit_networks.py TABLE [--write]`.

Of each device with rows in inference the energy per operation, the memory's share in streams, and where rows of both
engines show it the rate of products with a bias. Says the error as fitted, with each model left out, with nothing
fitted, and with the device left out (geometric means of the others' constants). With --write the families'
files are written.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from tilesim.analytic import families
from tilesim.analytic.families import Entry, pack_keys, row_key, unpack_keys
from tilesim.analytic.fit import fit, label
from tilesim.analytic.gpu.compiled import CONSTANTS
from tilesim.base.validation import MeasuredCase
from tilesim.machine.device import Device
from tilesim.validation.network import ROW_COLUMNS, cases_of, seconds_of

FOLDER = Path(__file__).resolve().parents[1] / "configs" / "families"
FREE = ("energy", "memory_share", "bias_share")


def fitted(cases: list[MeasuredCase], free: list[str]) -> Any:
    """Constants of one device from its rows."""
    start = {name: float(info["default"]) for name, info in CONSTANTS.items()}
    measured = np.array([case.measured_ms * 1e-3 for case in cases])

    def predict(constants: dict[str, float]) -> Any:
        return np.array([seconds_of(case, constants) for case in cases])

    return fit(predict, measured, start, free, CONSTANTS, tries=1, evaluations=15)


def error(cases: list[MeasuredCase], constants: dict[str, float]) -> float:
    """Mean absolute error."""
    return float(np.mean([abs(seconds_of(case, constants) / (case.measured_ms * 1e-3) - 1) for case in cases]))


def main() -> int:
    """Fits, says, writes."""
    table = Path(sys.argv[1])
    rows = [case for case in cases_of(table) if case.status == "ok" and case.row["mode"] == "inference"]
    plain = {name: float(info["default"]) for name, info in CONSTANTS.items()}
    every: dict[str, dict[str, float]] = {}
    for device in dict.fromkeys(case.row["device"] for case in rows):
        own = [case for case in rows if case.row["device"] == device]
        free = [name for name in FREE if name != "bias_share" or len({case.row["engine"] for case in own}) > 1]
        found = fitted(own, free)
        text = ", ".join(f"{name} {found.constants[name]:.4g}" for name in free if found.determined[name])
        print(f"{device:<16} fitted {error(own, found.constants):.1%} ({text}); nothing fitted {error(own, plain):.1%}")
        for model in dict.fromkeys(case.row["model"] for case in own):
            rest = [case for case in own if case.row["model"] != model]
            out = [case for case in own if case.row["model"] == model]
            if rest:
                print(f"{'':<16} {model} left out: {error(out, fitted(rest, free).constants):.1%}", flush=True)
        every[device] = {name: found.constants[name] for name in free}
        if "--write" in sys.argv:
            write(Device.named(device).family, device, table.name, own, found, free)
    for device in every:
        own = [case for case in rows if case.row["device"] == device]
        others = [constants for other, constants in every.items() if other != device]
        mean = {name: float(np.exp(np.mean([np.log(one[name]) for one in others if name in one]))) for name in FREE}
        print(f"{device:<16} left out, means of the other devices: {error(own, {**plain, **mean}):.1%}", flush=True)
    return 0


def write(name: str, device: str, table: str, own: list[MeasuredCase], found: Any, free: list[str]) -> None:
    """The entry of a family."""
    path = FOLDER / f"{name}.json"
    data = json.loads(path.read_text(encoding="utf-8"))
    which = f"{len(own)} rows of {table}: {device}"
    entry = Entry(
        "network", "fp32", "torch",
        constants={key: float(f"{found.constants[key]:.4g}") for key in free},
        provenance={key: label(found, key, which) for key in free},
        kernels="simt", rows=len(own), fit_error={key: float(f"{value:.4g}") for key, value in found.error.items()},
    )  # fmt: skip
    kept = [row for row in data["entries"] if row["operation"] != "network"]
    data["entries"] = [*kept, entry.to_dict()]
    keys = unpack_keys(data.get("fitted_rows", ""))
    data["fitted_rows"] = pack_keys({*keys, *(row_key(case.row[key] for key in ROW_COLUMNS) for case in own)})
    path.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    families.family.cache_clear()


if __name__ == "__main__":
    sys.exit(main())
