"""Writes docs/explanation/accuracy.md and its pictures from the shipped samples.

Usage: `accuracy_page.py [--whole FOLDER] [--check]`.

The figures of the samples are computed anew. Those of the whole tables, which lie outside the repository, are read
from bench/accuracy_whole.json; --whole computes them from a folder with the tables and writes that file. --check writes
nothing but what differs, as .new beside it, and fails then.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import json
import sys
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tilesim import _core
from tilesim.base.figures import count, percent
from tilesim.base.palette import SERIES
from tilesim.base.paths import rows_of_full_table, sample
from tilesim.base.validation import statistics
from tilesim.validation import analytic, collective, network, noc, rvv, sparse, step, tables

ROOT = Path(__file__).resolve().parents[1]
PAGE, PICTURES, WHOLE = (
    ROOT / "docs" / "explanation" / "accuracy.md",
    ROOT / "docs" / "pictures",
    ROOT / "bench" / "accuracy_whole.json",
)


def _closed(name: str) -> Callable[[Any], dict[str, Any]]:
    return lambda cases: analytic.validate(name, cases)


#: table: file of the whole one, how it is run, quantity, title, what was measured, what is fitted
TABLES: dict[str, tuple[str, Callable[[Any], dict[str, Any]], str, str, str, str]] = {
    "tpu-v3": (
        "tpu_v3_cycles.csv",
        lambda cases: tables.tpu_v3(cases),
        "cycles",
        "TPU v3, one core",
        "cycles at 940 MHz, PyTorchSim artifact (doi 10.1145/3725843.3756045)",
        "one number, `memory.efficiency`, on two rows; the lowering profile was chosen with these rows known "
        "([TPU v3](compute_and_fusion.md#tpu-v3))",
    ),
    "gemm": (
        "gpu_gemm_latency.csv",
        _closed("gemm"),
        "ms",
        "Matrix products of GPUs",
        "kernels by device, engine and scheme, NVIDIA AIConfigurator",
        "constants of each family",
    ),
    "attention": (
        "gpu_attention_latency.csv",
        _closed("attention"),
        "ms",
        "Attention of an H100",
        "prefill and decode kernels, NVIDIA AIConfigurator",
        "constants of the family",
    ),
    "conv": (
        "t4_conv_latency.csv",
        _closed("conv"),
        "ms",
        "Convolutions of a T4",
        "fp32, cuDNN 8.9, NeuSight; some rows ran Winograd",
        "constants of the family",
    ),
    "vector": (
        "t4_vector_latency.csv",
        _closed("vector"),
        "ms",
        "Elementwise operations, softmax, normalization of a T4",
        "fp32, NeuSight",
        "constants of the family",
    ),
    "network": (
        "gpu_network_latency.csv",
        lambda cases: network.network(cases),
        "ms",
        "Whole networks on five GPUs",
        "fp32 BERT and GPT-2, eager torch and torch.compile, NeuSight",
        "inference; training is predicted with nothing fitted",
    ),
    "collective": (
        "collective_latency.csv",
        lambda cases: collective.collective(cases),
        "ms",
        "Collectives of several GPUs",
        "one call of NCCL, NVIDIA AIConfigurator, Vidur, ml-engineering",
        "constants of each generation of links",
    ),
    "step": (
        "train_step_ms.csv",
        lambda cases: step.step(cases),
        "ms",
        "Training steps on many chips",
        "steps of transformers on up to 1,024 GPUs or chips, vTrain, LLM Foundry, Megatron-LM, MaxText",
        "constants of each framework",
    ),
    "sparse": (
        "sparse_cycles.csv",
        lambda cases: sparse.sparse(cases),
        "cycles",
        "Units that skip zeros",
        "published cycles of SIGMA as STONNE simulates it, of a dual-side sparse tensor core and of an Eyeriss v2 PE",
        "nothing",
    ),
    "dram": (
        "dram_cycles.csv",
        lambda cases: tables.dram(cases),
        "cycles",
        "DRAM channels",
        "Ramulator 2.1, a model, run for this project",
        "nothing",
    ),
    "noc": (
        "noc_latency.csv",
        lambda cases: noc.noc(cases, 3),
        "latency, accepted",
        "On-chip networks",
        "BookSim 2, a model, run for this project; three seeds",
        "nothing",
    ),
    "rvv": (
        "rvv_cycles.csv",
        lambda cases: rvv.rvv(cases),
        "cycles",
        "RISC-V vector instructions",
        "one instruction in a loop: Saturn in RTL simulation, SiFive X280 and XuanTie C908 on silicon, Andes AX45MPV "
        "from the vendor's model; camel-cdr/rvv-bench-results",
        "36 to 57 numbers of each core, by class of instruction",
    ),
}
#: whole tables without a sample: name, file, how it is run
FURTHER = {"gemm, T4": ("t4_gemm_latency.csv", _closed("gemm"))}
ALONE = """# Accuracy

This page compares predictions with measured figures, by table and by device. `bench/accuracy_page.py` writes it from
the measured rows that the package ships (`configs/samples`), and a test compares it with the present version.
`tilesim validate NAME` prints the same figures, and `tilesim validate NAME --cases FILE.csv` those of your own rows:

    $ tilesim validate tpu-v3

{example}

An error is predicted / measured − 1; mean, median and largest are of its absolute value. Rows that cannot be predicted
count as 100 % and are named. Fitted rows took part in choosing a constant. Their error says how well the formula fits,
not how well it predicts; [held-out rows](#held-out-rows) show the latter.

"""
KEPT_OUT = """## Complete tables

The samples are taken from larger tables at equal distances, without regard to their errors
(`bench/sample_tables.py`). The complete tables are not part of the repository. These are their figures, computed on
{date} with version {tilesim} by `python bench/accuracy_page.py --whole FOLDER`:

| table | rows | mean | median | largest |
|---|---|---|---|---|"""
UNSEEN = """
Some published rows are kept from the project, among them all TPU v3 rows except the ten shipped ones, so that others
can test whether anything was tuned to the rows above. The project does not know their errors.

Near saturation, network latencies differ by tens of per cent between seeds in the reference itself (`noc`).
"""
HELD_OUT = """## Held-out rows

These errors are of rows that the fit did not see. "Halves" is fitted on the other half of the rows, "other devices"
on all other devices; "specification" is not fitted. Mean errors in per cent:

| device, engine, scheme | halves | other devices | specification |
|---|---|---|---|
| A100, TensorRT-LLM, bf16 | 6.0 | 10.8 | 12.1 |
| A100, TensorRT-LLM, sq | 7.5 | 42.0 | 32.1 |
| A100, TensorRT-LLM, int8_wo / int4_wo | 7.2 / 7.9 | 35.7 / 43.4 | 27.8 / 30.8 |
| H100, vLLM, bf16 / fp8 | 6.1 / 6.9 | 16.5 / 24.3 | 17.3 / 16.1 |
| L40S, TensorRT-LLM, bf16 / fp8 | 11.6 / 7.1 | 16.6 / 14.4 | 15.3 / 11.6 |
| T4, DeepBench, fp32 / fp16 / int8 | 11.7 / 10.2 / 9.4 | | |
| T4, convolutions | 14.7 | | |
| T4, softmax / layer normalization | 13.8 / 12.3 | | |
| H100, attention, prefill / decode, bf16 | 10.3 / 10.2 | | |

Does a scheme help against bf16? Right answers in per cent, beside the rate of the majority answer:

| | halves | other devices | specification | majority |
|---|---|---|---|---|
| H100 fp8 | 92.3 | 88.5 | 84.3 | 66 |
| L40S fp8 | 94.3 | 91.4 | 93.7 | 54 |
| A100 sq | 94.2 | 62.5 | 62.5 | 63 |
| A100 int8_wo / int4_wo | 89.0 / 91.3 | 48.7 / 37.1 | 61.9 / 55.4 | 66 / 71 |

| other tables | left out | mean error, % |
|---|---|---|
| networks on A100 / T4 / V100 | one of two networks | 0.9 to 4.7 / 13.5 to 16.1 / 1.2 to 4.6 |
| networks on A100 / H100 / L4 / T4 / V100 | the device | 2.9 / 5.3 / 56 / 21.4 / 4.3 |
| collectives in a node, A100 / H100 / B200 / L40S | every other size | 6.3 / 7.8 / 5.0 / 12.0 |
| collectives between nodes | one of two systems | 24 to 28 |
| steps, A100 node / up to 512 A100 | one half | 5.3 to 6.2 / 9.3 to 9.4 |
| steps, FSDP on A100 / H100 | one half | 3.7 to 5.6 / 3.1 to 3.7 |
| steps, Megatron-LM 22B and 175B | all rows | 3.1 |
| steps of any framework | all (`unfitted`) | 6.5 to 11.0 |
| serving steps, RTX PRO 6000 / RTX 4090 | all rows | 4.7 to 9.7 / 20 |
| graphs of Llama 3 / ResNets on four GPUs | none fitted | 1.1 to 4.6 / 11.9 |
| RISC-V instructions, four cores | one instruction | 2.4 to 4.4 |

`tilesim calibrate TABLE --holdout`, `bench/fit_families.py --left-out`, `bench/fit_collectives.py` and
`bench/fit_cores.py` print such figures. The rules of fusion were chosen with the Llama rows known.

Of ONNX's node tests in supported dtypes, 762 of 771 pass at opset 13 to 20, and the other nine decode images.
"""


def points(report: dict[str, Any]) -> list[tuple[str, float, float]]:
    """Group, measured and predicted of the rows that were predicted."""
    found = []
    owner = {}
    for key, members in grouped(report).items():
        owner |= {id(row): key for row in members}
    for row in report["rows"]:
        for what in ("cycles", "ms", "latency", "accepted", "relative_to_dense"):
            measured, predicted = row.get(f"measured_{what}"), row.get(f"predicted_{what}")
            if row["status"] == "ok" and measured and predicted:
                found.append((owner[id(row)], float(measured), float(predicted)))
                break
    return found


def grouped(report: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Rows by device, or by what stands for it."""
    found: dict[str, list[dict[str, Any]]] = {}
    for row in report["rows"]:
        if report["table"] == "tpu-v3":
            key = "TPU v3, fitted rows" if row["fitted"] else "TPU v3"
        elif report["table"] == "noc":
            key = f"{row['network']}, {row['state']}"
        elif report["table"] == "network":
            key = f"{row['device']}, {row['mode']}"
        else:
            parts = [
                row.get(name)
                for name in ("core", "device", "dtype", "phase", "attn_dtype", "kv_cache_dtype", "part", "unit")
            ]
            key = ", ".join(str(part) for part in parts if part)
        found.setdefault(key or report["table"], []).append(row)
    return found


def line(name: str, rows: Sequence[dict[str, Any]], group: bool = False) -> str:
    """One row of a table of the page: of a table of measurements, or of a group of its rows."""
    own = statistics(list(rows))
    which = ("mean", "max") if group else ("mean", "median", "max")
    cells = [name, count(own["n"]), *(percent(own[f"{one}_abs_error"]) for one in which)]
    number = sum(bool(row.get("fitted")) for row in rows)
    if not group:
        cells.append("none" if not number else "all" if number == len(rows) else count(number))
    return f"| {' | '.join(cells)} |"


def draw(name: str, report: dict[str, Any], path: Path) -> None:
    """Predicted against measured, both logarithmic; the data's hash stands in the file."""
    import matplotlib
    from matplotlib.figure import Figure

    drawn = points(report)
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": name, "font.size": 8}):
        figure = Figure(figsize=(4.2, 3.4), layout="constrained")
        axes = figure.subplots()
        ends = [min(min(m, p) for _, m, p in drawn), max(max(m, p) for _, m, p in drawn)]
        axes.plot(ends, ends, color="#777777", linewidth=0.8)
        groups = list(dict.fromkeys(group for group, _, _ in drawn))
        for number, group in enumerate(groups):
            own = [(m, p) for one, m, p in drawn if one == group]
            marker = "osD^v"[number // len(SERIES) % 5]
            style = {"s": 9, "marker": marker, "color": SERIES[number % len(SERIES)], "linewidths": 0}
            axes.scatter(*zip(*own, strict=True), label=group, **style)
        axes.set(xscale="log", yscale="log", xlabel=f"measured ({TABLES[name][2]})", ylabel="predicted")
        if 1 < len(groups) <= 9:
            axes.legend(fontsize=5, frameon=False)
        text = {
            "Date": None,
            "Title": f"{TABLES[name][3]}: predicted against measured",
            "Description": data_hash(report),
        }
        path.parent.mkdir(exist_ok=True)
        figure.savefig(path, format="svg", metadata=text)


def data_hash(report: dict[str, Any]) -> str:
    """Of what a picture shows."""
    text = json.dumps([(group, f"{m:.3g}", f"{p:.3g}") for group, m, p in points(report)])
    return "data " + hashlib.sha256(text.encode()).hexdigest()[:16]


def page(reports: dict[str, dict[str, Any]], whole: dict[str, Any]) -> str:
    """The text of docs/explanation/accuracy.md."""
    lines = [
        ALONE.format(example=example(reports["tpu-v3"]))
        + "## All tables\n\nThe shipped samples:\n\n| table | rows | mean | median | largest | fitted |"
    ]
    lines.append("|---|---|---|---|---|---|")
    for name, report in reports.items():
        title = TABLES[name][3]
        lines.append(line(f"[{title}](#{name})", report["rows"]))
    lines += ["", whole_section(whole), HELD_OUT.rstrip()]
    for name, report in reports.items():
        _, _, _, title, measured, fitted = TABLES[name]
        size, part = rows_of_full_table(name), report["n"]
        told = f"all {count(size)} rows" if part == size else f"{count(part)} of {count(size)} rows"
        text = f"{title}, {told}. Measured: {measured}. Fitted: {fitted}."
        lines += [f"\n## `{name}`\n", *textwrap.wrap(text, 118, break_long_words=False, break_on_hyphens=False), ""]
        lines += [f"![{title}: predicted against measured](../pictures/accuracy-{name}.svg)\n"]
        lines += ["| device | rows | mean | largest |", "|---|---|---|---|"]
        lines += [line(key.replace("|", ", "), rows, group=True) for key, rows in grouped(report).items()]
        failed = [row["reason"] for row in report["rows"] if row["status"] != "ok"]
        lines += [f"\nNot predicted, {failed.count(reason)}: {reason}" for reason in sorted(set(failed))]
    return "\n".join(lines) + "\n"


def example(report: dict[str, Any]) -> str:
    """The first rows of a table, as its command prints them."""
    lines = [f"{'workload':<27}{'measured, cycles':>18}{'predicted, cycles':>19}{'error, %':>10}"]
    for row in report["rows"][:4]:
        measured, predicted = f"{row['measured_cycles']:,.0f}", f"{row['predicted_cycles']:,.0f}"
        lines.append(f"{row['workload']:<27}{measured:>18}{predicted:>19}{100 * row['error']:>+10.2f}")
    return "\n".join(["```text", *lines, "…", "```"])


def whole_section(whole: dict[str, Any]) -> str:
    """Figures of the complete tables, which lie outside the repository."""
    lines = [KEPT_OUT.format(**whole)]
    for name, row in whole["tables"].items():
        errors = " | ".join(percent(row[f"{which}_abs_error"]) for which in ("mean", "median", "max"))
        lines.append(f"| {name} | {count(row['n'])} | {errors} |")
    return "\n".join([*lines, UNSEEN])


def whole_figures(folder: Path) -> dict[str, Any]:
    """Statistics of the whole tables; no row of them."""
    found = {}
    every = {name: (file, run) for name, (file, run, *_) in TABLES.items()} | FURTHER
    for name, (file, run) in every.items():
        report = run(folder / file)
        own = {
            key: report[key] for key in ("n", "n_unsupported", "mean_abs_error", "median_abs_error", "max_abs_error")
        }
        fitted = sum(bool(row.get("fitted")) for row in report["rows"])
        shipped = len(sample(name).read_text(encoding="utf-8").splitlines()) - 1 if name in TABLES else 0
        found[name] = {"file": file, "shipped": shipped, "fitted": fitted} | own
        print(name, found[name], flush=True)
    date = datetime.date.today().isoformat()
    return {"date": date, "tilesim": _core.__version__, "tables": found}


def reports() -> dict[str, dict[str, Any]]:
    """The samples, predicted."""
    return {name: row[1](sample(name)) for name, row in TABLES.items()}


def stale(found: dict[str, dict[str, Any]]) -> list[str]:
    """Files that are not what the samples give; the page that would be right stands beside it as .new."""
    text, wrong = page(found, json.loads(WHOLE.read_text(encoding="utf-8"))), []
    if not PAGE.is_file() or PAGE.read_text(encoding="utf-8") != text:
        PAGE.with_suffix(".md.new").write_text(text, encoding="utf-8")
        wrong.append(f"move {PAGE.name}.new over {PAGE.name}")
    for name, report in found.items():
        path = PICTURES / f"accuracy-{name}.svg"
        if not path.is_file() or data_hash(report) not in path.read_text(encoding="utf-8"):
            wrong.append(f"{path.name} is of other data: run bench/accuracy_page.py")
    return wrong


def main() -> int:
    """Writes or checks."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--whole", type=Path, help="folder with the whole tables")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    if options.whole:
        WHOLE.write_text(json.dumps(whole_figures(options.whole), indent=1) + "\n", encoding="utf-8")
    found = reports()
    if options.check:
        wrong = stale(found)
        print("\n".join(wrong) or "docs/explanation/accuracy.md is what the samples give")
        return bool(wrong)
    PAGE.write_text(page(found, json.loads(WHOLE.read_text(encoding="utf-8"))), encoding="utf-8")
    for name, report in found.items():
        draw(name, report, PICTURES / f"accuracy-{name}.svg")
    return 0


if __name__ == "__main__":
    sys.exit(main())
