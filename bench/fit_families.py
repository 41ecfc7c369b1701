"""Fits the constants of configs/families on measured tables, and writes them with provenance.

    python bench/fit_families.py REFERENCE_FOLDER [FAMILY ...] [--table gemm]
    python bench/fit_families.py REFERENCE_FOLDER --left-out

The tables are those of the reference folder (its README says where they are from). A family's file names the kernels of
each scheme and engine, and where its constants come from: "rows" (fitted here) or "carried" (other entries' constants,
with the reason; CARRIED below). Nothing is fitted on the rows of more than one device.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from tilesim.analytic import calibration, families
from tilesim.analytic.constants import standard
from tilesim.analytic.families import Entry, pack_keys, row_key, unpack_keys
from tilesim.analytic.fit import fit, label
from tilesim.analytic.measured.tables import MeasuredRow, cells_of, read
from tilesim.analytic.predict import PREDICTORS, Batch
from tilesim.analytic.schemes import scheme
from tilesim.machine.device import Device
from tilesim.validation import analytic as validation

FOLDER = Path(__file__).resolve().parents[1] / "configs" / "families"
TABLES = {
    "gpu_gemm_latency.csv": "gemm",
    "t4_gemm_latency.csv": "gemm",
    "gpu_attention_latency.csv": "attention",
    "t4_conv_latency.csv": "conv",
    "t4_vector_latency.csv": "vector",
}


def rows_of(folder: Path, family: str) -> list[tuple[str, str, list[MeasuredRow]]]:
    """Groups of rows of the family's devices: table, file, rows."""
    found = []
    for file, table in TABLES.items():
        if table not in PREDICTORS or not (folder / file).is_file():
            continue
        groups: dict[Any, list[MeasuredRow]] = {}
        for row in read(table, folder / file):
            if Device.load(row.text("device")).family == family:
                groups.setdefault(PREDICTORS[table].key(row), []).append(row)
        found += [(table, file, rows) for rows in groups.values()]
    return found


def rounded(values: dict[str, float]) -> dict[str, float]:
    """Four digits are more than the rows show."""
    return {name: float(f"{value:.4g}") for name, value in values.items()}


Start = tuple[dict[str, float], dict[str, str]]


def starts(table: str, batch: Batch, donor: Entry | None) -> list[Start]:
    """Where fits start, with words for each constant: the defaults of device and scheme; for products with a second
    value of `alone`, for few rows with what an entry of the same family was fitted to."""
    standard = PREDICTORS[table].standard(batch)
    plain: Start = (standard, dict.fromkeys(standard, "default"))
    if table == "gemm" and len(batch.rows) >= 1000:
        return [({**standard, "alone": alone}, {**plain[1], "alone": f"start {alone:g}"}) for alone in (0.95, 0.5)]
    if donor is None:
        return [plain]
    whose = f"as {donor.scheme} of {donor.engine or donor.source}, {donor.rows} rows"
    taken = {
        name: value
        for name, value in donor.constants.items()
        if donor.provenance[name].startswith("fitted") and name not in OF_SCHEME
    }
    return [plain, ({**standard, **taken}, {**plain[1], **dict.fromkeys(taken, whose)})]


# Constants that differ between schemes of one device: nothing to start another scheme from.
OF_SCHEME = ("efficiency", "epilogue", "half_tile", "feed", "energy", "alone")


def present(table: str, batch: Batch, at: Entry) -> Start:
    """To start from what an earlier fit showed; all else from its default."""
    standard = PREDICTORS[table].standard(batch)
    fitted = {name: value for name, value in at.constants.items() if at.provenance[name].startswith("fitted")}
    words = {name: at.provenance[name] if name in fitted else "default" for name in standard}
    return {**standard, **fitted}, words


def fit_rows(
    table: str, file: str, rows: list[MeasuredRow], at: Entry, donor: Entry | None, refine: bool = False
) -> Entry:
    """One entry from one group of rows; `refine`: from the constants that it has, in fewer steps."""
    predictor = PREDICTORS[table]
    batch = Batch(rows)
    free = predictor.free(batch)
    if len(rows) < 3 * len(free):
        free = [name for name in free if name in predictor.first]
    measured = np.array([row.seconds for row in rows])
    model = predictor.model(batch)
    steps = (1, 30) if refine else (3, 60)
    tried = [
        (fit(model, measured, start, free, predictor.infos, tries=steps[0], evaluations=steps[1]), words)
        for start, words in ([present(table, batch, at)] if refine else starts(table, batch, donor))
    ]
    found, words = min(tried, key=lambda pair: pair[0].error["mean"])
    whose = batch.text("engine") or batch.text("source")
    which = f"{len(rows)} rows of {file}: {batch.text('device')} {whose}".strip()
    kept = {
        name: value
        for name, value in found.constants.items()
        if name in free or words.get(name, "default") != "default"
    }
    return replace(
        at,
        constants=rounded(kept),
        provenance={
            name: label(found, name, which, words.get(name, "default")) if name in free else words[name]
            for name in kept
        },
        rows=len(rows),
        fit_error=rounded(found.error),
    )


# Entries without rows of their own: what is taken from which entry (family, scheme, engine, names; none: all but CAST),
# what is stated in place of it with its reason, and the bits of an operand where the source has 16.
Stated = Mapping[str, tuple[float, str]]


class Plan(NamedTuple):
    """How an entry without rows is made; without sources, from the defaults of `device`."""

    sources: tuple[tuple[str, str, str, tuple[str, ...]], ...] = ()
    stated: Stated = MappingProxyType({})
    bits: int = 16
    device: str = ""


# One fit decides launch and cast together: only their sum is seen, so they are carried together.
CAST = ("cast", "cast_row", "cast_share")
CALL = ("launch", *CAST)
HOPPER, ADA = ("hopper", "bf16", "vLLM", ()), ("ada", "bf16", "TensorRT-LLM", ())
ONE_KERNEL = ("hopper", "fp8", "vLLM", CALL)  # a known scale: one kernel
# CUTLASS's kernels, as those of block-scaled floats and of vLLM's fp8 are: no second tile on a unit, whole rounds. So
# are all of B200, whose sums lie in tensor memory: the next product is issued while a tile is stored.
CUTLASS = ("hopper", "fp8", "vLLM", ("alone", "wave_smoothing"))
TILES = ("hopper", "fp8", "vLLM", ("alone", "wave_smoothing", "half_tile", "epilogue"))
THREE_KERNELS = ("ada", "fp8", "TensorRT-LLM", CALL)  # the scale is found at run time: three kernels
# Best rates reached over peak rates are 0.754 on B200 and 0.806 on H100 (torch-performance-test-data). With the
# efficiency of Hopper's kernels, the difference is the power limit: 1000 W at 2250 TFLOP/s.
B200: Stated = {"energy": (0.523, "best rate over peak rate, B200 and H100 (torch-performance-test-data)")}
RTX: Stated = {
    "efficiency": (
        0.86,
        "read off 608 bf16 rows of llm_step_times/rtxpro6000: products of llama-3.1-8b, 1 to 2048 tokens",
    )
}
# 64 of the 8217 operations per cycle and SM of bf16: what a tile of 128 by 64 takes per k-step, and one of 128 by 256.
FEED: Stated = {
    "feed": (0.007789, "read off 25 kernel times (vLLM PR 20578, flashinfer PR 2540): 64 bytes per cycle and SM"),
    "cast_row": (150.0, "default: the grid of the cast walks over rows"),
}
SERVER: Stated = {
    "efficiency": (0.93, "as H100's CUTLASS kernels, 1.0; 2430 of 2617 MHz on the Server Edition (aiconfigurator)")
}
QUEUE = (12000.0, "assumption: one queue in order, and two events of 60 us (torch-xpu-ops 3227) over 36 calls")
XE2: Stated = {
    "launch": QUEUE,
    "vector_launch": QUEUE,
    "alone": (1.0, "assumption: 64 threads of a core hide the widening of weights"),
}


CARRIED: dict[tuple[str, str, str], Plan] = {
    ("hopper", "fp8", "TensorRT-LLM"): Plan((HOPPER, THREE_KERNELS), bits=8),
    ("blackwell", "bf16", "TensorRT-LLM"): Plan((HOPPER, CUTLASS), B200),
    ("blackwell", "fp8", "TensorRT-LLM"): Plan((HOPPER, CUTLASS, THREE_KERNELS), B200, 8),
    ("blackwell", "nvfp4", "TensorRT-LLM"): Plan((HOPPER, CUTLASS, ONE_KERNEL), {**B200, **FEED}, 4),
    ("blackwell", "nvfp4", ""): Plan((HOPPER, CUTLASS, ONE_KERNEL), {**B200, **FEED}, 4),
    ("blackwell-rtx", "bf16", "vLLM"): Plan((ADA,), RTX),
    ("blackwell-rtx", "fp8", "vLLM"): Plan((ADA, TILES, ONE_KERNEL), SERVER, 8),
    ("blackwell-rtx", "nvfp4", "vLLM"): Plan((ADA, CUTLASS, ONE_KERNEL), RTX, 4),
    ("xe2", "bf16", "vLLM"): Plan((), XE2, device="b60"),
    ("xe2", "fp8", "vLLM"): Plan((), XE2, device="b60"),
}


def carry(known: dict[tuple[str, str, str], Entry], at: Entry, plan: Plan) -> Entry:
    """One entry from those of others."""
    values: dict[str, float] = {}
    origin: dict[str, str] = {}
    if plan.device:
        device = Device.load(plan.device)
        values = standard(device, scheme(at.scheme, device))
        origin = dict.fromkeys(values, "default: no rows of this family")
    for name, scheme_, engine, names in plan.sources:
        source = known[name, scheme_, engine]
        for key, value in source.constants.items():
            if (names and key not in names) or (not names and key in CAST):
                continue
            values[key], origin[key] = value, f"carried: {name} {scheme_}, {engine}"
    for key, (value, reason) in plan.stated.items():
        values[key], origin[key] = value, reason
    if plan.bits < 16:
        values["energy"] *= plan.bits / 16
        origin["energy"] += f"; {plan.bits} of the 16 bits of bf16 move per operand"
        values["feed"] *= plan.bits / 16
        origin["feed"] += "; as many bytes per cycle, which are fewer per operation"
    return replace(at, constants=rounded(values), provenance=origin)


def carry_all() -> None:
    """Rewrites every carried entry from the fitted ones."""
    files = {path: json.loads(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.json"))}
    known = {
        (path.stem, row["scheme"], row.get("engine", "")): families.entry_from(row, str(path))
        for path, data in files.items()
        for row in data["entries"]
        if row["operation"] == "gemm"
    }
    for path, data in files.items():
        for index, row in enumerate(data["entries"]):
            plan = CARRIED.get((path.stem, row["scheme"], row.get("engine", "")))
            if plan is not None and row["operation"] == "gemm":
                data["entries"][index] = carry(known, families.entry_from(row, str(path)), plan).to_dict()
        path.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


def left_out(reference: Path) -> None:
    """Errors and decisions of products on rows whose like was not used: halves, other devices, nothing fitted."""
    path = reference / "gpu_gemm_latency.csv"
    for way in ("rows", "device", "specification"):
        rows = read("gemm", path)
        found, predicted = calibration.left_out("gemm", rows, way)
        for row in found:
            print(f"{way:<14} {row['group']:<42} mean {row['mean']:.1%} median {row['median']:.1%}", flush=True)
        for key, row in validation.decisions({"rows": validation.judged(rows, predicted)}).items():
            print(
                f"{way:<14} {key:<42} right {row['right']:.1%} clear {row['right_clear']:.1%} "
                f"majority {row['majority']:.1%}",
                flush=True,
            )


def main() -> None:
    """Fits every family named, or all with rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("reference", type=Path, help="the folder with the tables")
    parser.add_argument("family", nargs="*", help="families; none: all with rows")
    parser.add_argument("--table", action="append", help="kinds of table; none: all")
    parser.add_argument("--refine", action="store_true", help="start from the constants that are there")
    parser.add_argument("--carry", action="store_true", help="fit nothing: only entries without measured rows")
    parser.add_argument("--left-out", action="store_true", help="write nothing; errors and decisions on rows left out")
    options = parser.parse_args()
    if options.left_out:
        return left_out(options.reference)
    if options.carry:
        return carry_all()
    reference, names = options.reference, options.family
    for path in sorted(FOLDER.glob("*.json")):
        if names and path.stem not in names:
            continue
        data = json.loads(path.read_text(encoding="utf-8"))
        entries = [families.entry_from(row, str(path)) for row in data["entries"]]
        keys = set() if not names else set(unpack_keys(data.get("fitted_rows", "")))
        first: dict[str, Entry] = {}
        for table, file, rows in rows_of(reference, path.stem):
            batch = Batch(rows)
            own = PREDICTORS[table].entry(batch)
            for index, entry in enumerate(entries):
                tag = (entry.operation, entry.scheme, entry.engine)
                if tag != (own.operation, own.scheme, batch.text("engine") or batch.text("source")):
                    continue
                carried = (path.stem, entry.scheme, entry.engine) in CARRIED or entry.engine == "mlsim"  # held back
                if carried and entry.operation == "gemm":
                    continue
                if options.table and table not in options.table:
                    continue
                entries[index] = fit_rows(table, file, rows, entry, first.get(entry.operation), options.refine)
                first.setdefault(entry.operation, entries[index])
                keys.update(row_key(cells_of(table, row)) for row in rows)
                print(path.stem, tag, entries[index].fit_error, flush=True)
        data["entries"] = [entry.to_dict() for entry in entries]
        data["fitted_rows"] = pack_keys(keys)
        path.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
        families.family.cache_clear()
    carry_all()


if __name__ == "__main__":
    main()
