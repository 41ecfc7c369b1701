"""Columns of public measurement sets, renamed to those of the reference tables.

AIConfigurator (Apache-2.0): gemm and attention tables, written out as CSV. NeuSight (MIT): CSV files of linear, bmm and
vector operations. DeepBench (Apache-2.0): a sheet of products, written out as CSV. mlsim: results.csv.
A header is recognised by its own columns; everything else is left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

__all__ = ["recognise"]

_ENGINES = {"trtllm": "TensorRT-LLM", "vllm": "vLLM", "sglang": "SGLang"}

Row = dict[str, str]


def _device(name: str) -> str:
    """Names of the driver ("NVIDIA H100 80GB HBM3") as labels of device files."""
    known = ("RTX PRO 6000", "A100", "H100", "H200", "B200", "L40S", "L4", "V100", "T4", "B60", "RTX 4090", "MI300X")
    return next((label for label in known if label.lower() in name.lower()), name)


def _engine(row: Mapping[str, str]) -> str:
    return _ENGINES.get(row.get("framework", "").strip().lower(), row.get("framework", "").strip())


def _configurator_gemm(row: Row) -> Row:
    kept = {key: row[key] for key in ("m", "n", "k")}
    return {
        "source": "AIConfigurator",
        "engine": _engine(row),
        "device": _device(row["device"]),
        "dtype": row["gemm_dtype"],
        **kept,
        "latency_ms": row["latency"],
    }


def _configurator_attention(row: Row) -> Row:
    kept = ("batch_size", "isl", "num_heads", "num_key_value_heads", "head_dim", "attn_dtype", "kv_cache_dtype", "step")
    phase = "generation" if "generation" in row.get("op_name", "") else "context"
    return {
        "source": "AIConfigurator",
        "engine": _engine(row),
        "device": _device(row["device"]),
        "phase": phase,
        **{key: row[key] for key in kept},
        "window_size": row.get("window_size") or "0",
        "latency_ms": row["latency"],
    }


def _neusight(row: Row) -> Row:
    """Linear maps (B, M, N) through a weight of N by K; a batched product is taken as (B, M, N) by (B, N, K)."""
    linear = row["OPName"].strip().lower() == "linear"
    rows, batch = (int(row["B"]) * int(row["M"]), 1) if linear else (int(row["M"]), int(row["B"]))
    return {
        "source": "NeuSight-linear" if linear else "NeuSight-bmm",
        "device": _device(row["Device"]),
        "dtype": "fp32",
        "batch": str(batch),
        "m": str(rows),
        "n": row["K"],
        "k": row["N"],
        "latency_ms": row["Latency (ms)"] if "Latency (ms)" in row else row["Latency"],
    }


_VECTOR = {"layernorm": "ln", "layer_norm": "ln", "div": "div", "true_divide": "div"}


def _neusight_vector(row: Row) -> Row:
    """Operations over B rows of H elements."""
    name = row["OPName"].strip().lower()
    return {
        "source": "NeuSight",
        "device": _device(row["Device"]),
        "dtype": "fp32",
        "op": _VECTOR.get(name, name),
        "rows": row["B"],
        "width": row["H"],
        "latency_ms": row["Latency (ms)"],
    }


def _deepbench(row: Row) -> Row:
    """The sheets name neither device nor dtype: both columns are added when a sheet is written out."""
    cells = {key.strip().lower(): (value or "").strip() for key, value in row.items() if key}
    flag = {"n": "0", "t": "1", "0": "0", "1": "1", "": ""}
    return {
        "source": "DeepBench",
        "device": _device(cells["device"]),
        "dtype": cells["dtype"],
        "batch": "1",
        **{key: cells[key] for key in ("m", "n", "k")},
        "ta": flag[cells["transa"].lower()],
        "tb": flag[cells["transb"].lower()],
        "latency_ms": cells["ms"],
    }


def _mlsim(row: Row) -> Row:
    """Square products of one T4, which the file does not name."""
    size = row["matrix_size"]
    return {
        "source": "mlsim",
        "device": row.get("device") or "T4",
        "dtype": row["dtype"],
        "batch": "1",
        **dict.fromkeys(("m", "n", "k"), size),
        "latency_ms": row["runtime_ms"],
    }


_FORMATS: list[tuple[set[str], Callable[[Row], Row]]] = [
    ({"framework", "device", "gemm_dtype", "m", "n", "k", "latency"}, _configurator_gemm),
    ({"framework", "device", "attn_dtype", "kv_cache_dtype", "isl", "step", "latency"}, _configurator_attention),
    ({"OPName", "Latency (ms)", "Device", "B", "M", "N", "K"}, _neusight),
    ({"OPName", "Latency (ms)", "Device", "B", "H"}, _neusight_vector),
    ({"matrix_size", "dtype", "runtime_ms"}, _mlsim),
    ({"device", "dtype", "M", "N", "K", "transA", "transB", "ms"}, _deepbench),
]


def recognise(header: Sequence[str]) -> Callable[[Row], Row] | None:
    """How to rename the cells of a known public format.

    Args:
        header: column names of the file.

    Returns:
        A function from a row as read to one with our columns; none for any other header.
    """
    names = {name.strip() for name in header}
    return next((convert for needed, convert in _FORMATS if needed <= names), None)
