"""Fits the constants of configs/families on measured tables, and writes them with provenance.

    python bench/fit_families.py REFERENCE_FOLDER [FAMILY ...]

The tables are those of the reference folder (its README says where they are from). A family's file names the kernels of
each scheme and engine, and where its constants come from: "rows" (fitted here) or "carried" (other entries' constants,
with the reason). Nothing is fitted on the rows of more than one device.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tilesim.analytic import families
from tilesim.analytic.families import Entry, pack_keys, row_key, unpack_keys
from tilesim.analytic.fit import fit
from tilesim.analytic.predict import PREDICTORS, Batch
from tilesim.analytic.tables import Measured, cells_of, read
from tilesim.device import Device

FOLDER = Path(__file__).resolve().parents[1] / "configs" / "families"
TABLES = {
    "gpu_gemm_latency.csv": "gemm",
    "t4_gemm_latency.csv": "gemm",
    "gpu_attention_latency.csv": "attention",
    "t4_conv_latency.csv": "conv",
    "t4_vector_latency.csv": "vector",
}


def rows_of(folder: Path, family: str) -> list[tuple[str, str, list[Measured]]]:
    """Groups of rows of the family's devices: table, file, rows."""
    found = []
    for file, table in TABLES.items():
        if table not in PREDICTORS or not (folder / file).is_file():
            continue
        groups: dict[Any, list[Measured]] = {}
        for row in read(table, folder / file):
            if Device.load(row.text("device")).family == family:
                groups.setdefault(PREDICTORS[table].key(row), []).append(row)
        found += [(table, file, rows) for rows in groups.values()]
    return found


def rounded(values: dict[str, float]) -> dict[str, float]:
    """Four digits are more than the rows show."""
    return {name: float(f"{value:.4g}") for name, value in values.items()}


def fit_rows(table: str, file: str, rows: list[Measured], start: dict[str, float], at: Entry) -> Entry:
    """One entry from one group of rows."""
    predictor = PREDICTORS[table]
    batch = Batch(rows)
    entry = predictor.entry(batch)
    free = predictor.free(batch)
    if len(rows) < 3 * len(free):
        free = [name for name in free if name in predictor.first]
    origin = {**entry.constants, **start}
    measured = np.array([row.seconds for row in rows])
    found = fit(predictor.model(batch), measured, origin, free, predictor.infos, tries=3, evaluations=60)
    where = (
        f"fitted on {len(rows)} rows of {file}: {batch.text('device')} {batch.text('engine') or batch.text('source')}"
    )
    return replace(
        at,
        constants=rounded({name: value for name, value in found.constants.items() if name in free or name in start}),
        provenance={name: where if found.shown.get(name) else "default: the rows do not show it" for name in free},
        rows=len(rows),
        fit_error=rounded(found.error),
    )


def main() -> None:
    """Fits every family named, or all with rows."""
    reference, names = Path(sys.argv[1]), sys.argv[2:]
    for path in sorted(FOLDER.glob("*.json")):
        if names and path.stem not in names:
            continue
        data = json.loads(path.read_text(encoding="utf-8"))
        entries = [families.entry_from(row, str(path)) for row in data["entries"]]
        keys = set() if not names else set(unpack_keys(data.get("fitted_rows", "")))
        first: dict[str, dict[str, float]] = {}
        for table, file, rows in rows_of(reference, path.stem):
            batch = Batch(rows)
            own = PREDICTORS[table].entry(batch)
            for index, entry in enumerate(entries):
                tag = (entry.operation, entry.scheme, entry.engine)
                if tag != (own.operation, own.scheme, batch.text("engine") or batch.text("source")):
                    continue
                if any(text.startswith("carried") for text in entry.provenance.values()):
                    continue
                start = {**first.get(entry.operation, {}), **entry.constants}
                entries[index] = fit_rows(table, file, rows, start, entry)
                first.setdefault(entry.operation, entries[index].constants)
                keys.update(row_key(cells_of(table, row)) for row in rows)
                print(path.stem, tag, entries[index].fit_error, flush=True)
        data["entries"] = [entry.to_dict() for entry in entries]
        data["fitted_rows"] = pack_keys(keys)
        path.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
        families.family.cache_clear()


if __name__ == "__main__":
    main()
