"""Takes the shipped samples of measured tables from the whole tables: `sample_tables.py FOLDER [--write]`.

Of every group of a table (the columns named below) so many rows at equal distances in the order of the file; nothing
is chosen by how well it is predicted. Without --write it says whether the shipped samples are these.
"""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path

SAMPLES = Path(__file__).resolve().parents[1] / "configs" / "samples"
#: sample -> file, columns that make a group, rows of each group
TABLES = {
    "tpu-v3": ("tpu_v3_cycles.csv", (), 1000),
    "dram": ("dram_cycles.csv", ("part",), 6),
    "noc": ("noc_latency.csv", ("network", "state"), 3),
    "gemm": ("gpu_gemm_latency.csv", ("device", "engine", "dtype"), 12),
    "attention": ("gpu_attention_latency.csv", ("phase", "attn_dtype", "kv_cache_dtype"), 12),
    "conv": ("t4_conv_latency.csv", (), 40),
    "vector": ("t4_vector_latency.csv", ("op",), 6),
    "sparse": ("sparse_cycles.csv", ("source",), 24),
    "rvv": ("rvv_cycles.csv", ("core",), 60),
    "network": ("gpu_network_latency.csv", ("device", "mode", "engine"), 4),
    "collective": ("collective_latency.csv", ("source", "device", "op"), 6),
    "step": ("train_step_ms.csv", ("source", "system"), 8),
}


def sample(folder: Path, name: str) -> tuple[list[list[str]], int]:
    """Header and rows of a sample.

    Args:
        folder: of the whole tables.
        name: of the sample.

    Returns:
        Cells, and the number of rows of the whole table.
    """
    file, columns, count = TABLES[name]
    with open(folder / file, newline="", encoding="utf-8") as text:
        header, *rows = list(csv.reader(text))
    places = [header.index(column) for column in columns]
    groups: dict[tuple[str, ...], list[int]] = {}
    for number, row in enumerate(rows):
        groups.setdefault(tuple(row[place] for place in places), []).append(number)
    taken = set()
    for numbers in groups.values():
        few = min(count, len(numbers))
        taken |= {numbers[len(numbers) * i // few] for i in range(few)}
    return [header, *(rows[number] for number in sorted(taken))], len(rows)


def main() -> int:
    """Writes or compares all samples."""
    folder, write, status, whole = Path(sys.argv[1]), "--write" in sys.argv, 0, {}
    for name in TABLES:
        (rows, whole[name]), path = sample(folder, name), SAMPLES / f"{name}.csv"
        if write:
            with open(path, "w", newline="", encoding="utf-8") as text:
                csv.writer(text, lineterminator="\n").writerows(rows)
        else:
            with open(path, newline="", encoding="utf-8") as text:
                same = list(csv.reader(text)) == rows
            status |= not same
        told = "" if write else ", as shipped" if same else ", NOT as shipped"
        print(f"{name:<10} {len(rows) - 1:>4} of {whole[name]:>5} rows{told}")
    text = json.dumps(whole, indent=1) + "\n"
    if write:
        (SAMPLES / "rows.json").write_text(text, encoding="utf-8")
    elif (SAMPLES / "rows.json").read_text(encoding="utf-8") != text:
        print("rows.json NOT as shipped")
        status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
