"""Converts public measurement sets to the columns of the reference tables.

AIConfigurator (Apache-2.0): gemm, attention and quantize tables, Parquet or CSV. NeuSight (MIT): CSV files of linear,
bmm, conv and vector operations. DeepBench (Apache-2.0): the workbooks, or one sheet as CSV. Vidur (MIT): mlp.csv and
attention.csv of a model. LLMCompass (BSD-3): files without a header. LLMServingSim (MIT): layers.csv of a model. XLA
(Apache-2.0): performance tables of products. gpu-tpu-pedia: products on TPUs. mlsim: results.csv.
The columns of a file identify its format. Rows that the tables cannot represent get a reason and are skipped.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

__all__ = ["REFUSED", "Converter", "label_of", "recognise"]

_ENGINES = {"trtllm": "TensorRT-LLM", "vllm": "vLLM", "sglang": "SGLang"}
REFUSED = "refused"  #: column of a converted row with the reason why no model can predict it

Row = dict[str, str]
KindAndRow = tuple[str, Row]  # kind of table, and the cells of a row
Converter = Callable[[Row, str], list[KindAndRow]]


def label_of(name: str) -> str:
    """Converts a driver's name ("NVIDIA H100 80GB HBM3"), TPU name or compute capability to a device label."""
    known = ("RTX PRO 6000", "A100", "H100", "H200", "B200", "L40S", "L4", "V100", "T4", "B60", "RTX 4090", "MI300X")
    compute_capability = {"sm_80": "A100", "sm_89": "L40S", "sm_90": "H100", "sm_100": "B200", "sm_70": "V100"}
    parts = re.split(r"[^a-z0-9]+", name.lower())
    label = next((label for label in known if all(word in parts for word in label.lower().split())), "")
    if tpu := re.search(r"tpu[ -]?(v\d\w?)", name.lower()):
        return f"tpu-{tpu[1]}"
    near = next((label for label in known if label.lower() in name.lower()), name)
    return compute_capability.get(name, label or near)


def _engine(row: Mapping[str, str]) -> str:
    return _ENGINES.get(row.get("framework", "").strip().lower(), row.get("framework", "").strip())


def _row(table: str, source: str, device: str, dtype: str, latency_ms: str, **cells: str) -> tuple[str, Row]:
    """Returns the kind of the table and one row."""
    head = {"source": source, "device": label_of(device)} | ({"dtype": dtype} if dtype else {})
    return table, {**head, **cells, "latency_ms": latency_ms}


def _configurator_gemm(row: Row, place: str) -> list[KindAndRow]:
    shape = {key: row[key] for key in ("m", "n", "k")}
    found = _row(
        "gemm", "AIConfigurator", row["device"], row["gemm_dtype"], row["latency"], engine=_engine(row), **shape
    )
    if row["gemm_dtype"] == "fp8_block" and found[1]["engine"] == "vLLM":
        found[1][REFUSED] = "measured without a captured graph, so the times include the host"
    return [found]


def _configurator_attention(row: Row, place: str) -> list[KindAndRow]:
    kept = ("batch_size", "isl", "num_heads", "num_key_value_heads", "head_dim", "attn_dtype", "kv_cache_dtype", "step")
    phase = "generation" if "generation" in row.get("op_name", "") else "context"
    cells = {key: row[key] for key in kept} | {"window_size": row.get("window_size") or "0"}
    engine = _engine(row)
    return [_row("attention", "AIConfigurator", row["device"], "", row["latency"], engine=engine, phase=phase, **cells)]


def _configurator_quantize(row: Row, place: str) -> list[KindAndRow]:
    """Reads casts of activations, or the computation of their scale, which writes no elements."""
    name = row.get("op_name", "") + row.get("kernel_source", "")
    cells = {"op": "compute_scale" if "compute_scale" in name else "quantize", "rows": row["m"], "width": row["k"]}
    return [_row("vector", "AIConfigurator", row["device"], "bf16", row["latency"], engine=_engine(row), **cells)]


def _neusight(row: Row, place: str) -> list[KindAndRow]:
    """Reads linear layers (B, M, N) with weights of N by K, and batched products (B, M, N) by (B, N, K)."""
    linear = row["OPName"].strip().lower() == "linear"
    rows, batch = (int(row["B"]) * int(row["M"]), 1) if linear else (int(row["M"]), int(row["B"]))
    source = "NeuSight-linear" if linear else "NeuSight-bmm"
    cells = {"batch": str(batch), "m": str(rows), "n": row["K"], "k": row["N"]}
    return [_row("gemm", source, row["Device"], "fp32", row["Latency (ms)"], **cells)]


_VECTOR = {"layernorm": "ln", "layer_norm": "ln", "div": "div", "true_divide": "div"}


def _neusight_vector(row: Row, place: str) -> list[KindAndRow]:
    """Reads operations over B rows of H elements."""
    name = row["OPName"].strip().lower()
    cells = {"op": _VECTOR.get(name, name), "rows": row["B"], "width": row["H"]}
    return [_row("vector", "NeuSight", row["Device"], "fp32", row["Latency (ms)"], **cells)]


_CONV = {
    "batch": ("b", "n", "batch", "batch_size"),
    "in_channels": ("cin", "c_in", "ic", "in_channels", "channels_in", "in_channel", "c"),
    "out_channels": ("cout", "c_out", "oc", "out_channels", "channels_out", "out_channel", "o"),
    "size": ("h", "size", "input_size", "image_size", "w"),
    "kernel": ("kernel", "kernel_size", "k", "r"),
    "stride": ("stride", "s"),
    "padding": ("padding", "pad", "p"),
}


def _neusight_conv(row: Row, place: str) -> list[KindAndRow]:
    cells = {key.strip().lower().replace(" ", "_"): value for key, value in row.items() if key}
    shape = {}
    for column, spellings in _CONV.items():
        found = next((name for name in spellings if name in cells), None)
        if found is None:
            raise ValueError(f"missing column {column} of a convolution: name it as one of {', '.join(spellings)}")
        shape[column] = cells[found]
    return [_row("conv", "NeuSight", row["Device"], "fp32", row["Latency (ms)"], **shape)]


def _milliseconds(cells: Mapping[str, str], ms: str, us: str) -> str:
    if (cells.get(ms) or "").strip():
        return cells[ms]
    return f"{float(cells[us]) / 1e3:.9g}"


def _deepbench(row: Row, place: str) -> list[KindAndRow]:
    """Reads a row; device and dtype come from the workbook's file name and sheet, or from columns of a CSV file."""
    cells = {key.strip().lower(): (value or "").strip() for key, value in row.items() if key}
    head = ("DeepBench", cells["device"], cells["dtype"])
    if not cells["dtype"]:
        raise ValueError("missing dtype: name the sheet fp32, fp16 or int8, or add a column dtype")
    if cells.get("m"):
        flag = {"n": "0", "t": "1", "0": "0", "1": "1", "": "", "false": "0", "true": "1"}
        turned = {ours: flag[cells.get(theirs, "").lower()] for ours, theirs in (("ta", "transa"), ("tb", "transb"))}
        shape = {key: cells[key] for key in ("m", "n", "k")}
        return [_row("gemm", *head, _milliseconds(cells, "ms", "usec"), batch="1", **shape | turned)]
    stride, pad = cells.get("stride") or cells.get("stride_w", ""), cells.get("pad") or cells.get("pad_w", "")
    shape = {
        "batch": cells["n"], "in_channels": cells["c"], "out_channels": cells.get("k") or cells.get("filters", ""),
        "size": cells["w"], "kernel": cells["s"], "stride": stride, "padding": pad,
    }  # fmt: skip
    time = _milliseconds(cells, "forward" if cells.get("forward") else "ms", "forward_us")
    found = _row("conv", *head, time, **shape)
    pairs = (("w", "h"), ("r", "s"), ("pad_w", "pad_h"), ("stride_w", "stride_h"))
    if any(cells.get(a, "") != cells.get(b, "") for a, b in pairs):
        found[1][REFUSED] = "the closed form covers square convolutions only"
    return [found]


def _mlsim(row: Row, place: str) -> list[KindAndRow]:
    """Reads square products, measured on a T4 unless the file names another device."""
    shape = dict.fromkeys(("m", "n", "k"), row["matrix_size"])
    return [_row("gemm", "mlsim", row.get("device") or "T4", row["dtype"], row["runtime_ms"], batch="1", **shape)]


def _in_path(place: str, what: str) -> str:
    """Returns the device that a folder in the path names."""
    for part in reversed(Path(place).parts[:-1]):
        if re.search(r"(?i)\b(tpu|rtx|mi\d|[abhvtl]\d{1,4}s?)\b", part.replace("_", " ").replace("-", " ")):
            return label_of(part)
    raise ValueError(f"missing device: keep {what}'s folders above the file, or add a column device")


def _vidur_mlp(row: Row, place: str) -> list[KindAndRow]:
    """Reads products of one transformer layer in fp16, sharded over `num_tensor_parallel_workers`."""
    tokens, width, wide = (int(float(row[key])) for key in ("num_tokens", "n_embd", "n_expanded_embd"))
    heads, key_heads = int(float(row["n_head"])), int(float(row["n_kv_head"]))
    workers = int(float(row["num_tensor_parallel_workers"]))
    gated = row.get("use_gated_mlp", "").strip().lower() == "true"
    shapes = {
        "attn_pre_proj": ((heads + 2 * key_heads) * (width // heads) // workers, width),
        "attn_post_proj": (width, width // workers),
        "mlp_up_proj": ((2 if gated else 1) * wide // workers, width),
        "mlp_down_proj": (width, wide // workers),
    }
    head = ("Vidur", row.get("device") or _in_path(place, "Vidur"), "fp16")
    out: list[KindAndRow] = []
    for name, (n, k) in shapes.items():
        if time := row.get(f"time_stats.{name}.median", ""):
            out.append(_row("gemm", *head, time, batch="1", m=str(tokens), n=str(n), k=str(k)))
    for name, op in (("add", "add"), ("input_layernorm", "rms"), ("post_attention_layernorm", "rms")):
        if time := row.get(f"time_stats.{name}.median", ""):
            out.append(_row("vector", *head, time, op=op, rows=str(tokens), width=str(width)))
    return out


def _vidur_attention(row: Row, place: str) -> list[KindAndRow]:
    """Reads attention of one layer: a chunk of one prompt, or a decode step of a batch."""
    heads, key_heads, width, workers = (
        int(float(row[key])) for key in ("n_q_head", "n_kv_head", "n_embd", "num_tensor_parallel_workers")
    )
    prefill = row["is_prefill"].strip().lower() == "true"
    device = row.get("device") or _in_path(place, "Vidur")
    time = row[f"time_stats.attn_{'prefill' if prefill else 'decode'}.median"]
    cells = {
        "phase": "context" if prefill else "generation",
        "batch_size": row["batch_size"],
        "isl": row["prefill_chunk_size"] if prefill else "1",
        "num_heads": str(heads // workers),
        "num_key_value_heads": str(max(1, key_heads // workers)),
        "head_dim": str(width // heads),
        **dict.fromkeys(("attn_dtype", "kv_cache_dtype"), "fp16"),
        "step": row["kv_cache_size"],
        "window_size": "0",
    }
    return [_row("attention", "Vidur", device, "", time, **cells)]


def _compass(row: Row, place: str) -> list[KindAndRow]:
    cells = [row[f"column{index}"] for index in range(sum(key.startswith("column") for key in row))]
    head = ("LLMCompass", row["device"], "fp16")
    if row["compass"] == "matmul":
        shape = dict(zip(("m", "k", "n"), cells, strict=False))
        return [_row("gemm", *head, cells[3].removesuffix("ms"), batch="1", **shape)]
    extents = [int(cell) for cell in cells[:-1]]
    rows, width = extents if len(extents) == 2 else (1, extents[0])
    ms = rows * width / float(cells[-1]) / 1e6
    op = {"layernorm": "ln"}.get(row["compass"], row["compass"])
    return [_row("vector", *head, f"{ms:.9g}", op=op, rows=str(rows), width=str(width))]


# Published models that LLMServingSim profiles: widths of hidden state, queries, keys and inner layer; vocabulary
_SERVED = {
    "llama-3.1-8b": (4096, 4096, 1024, 14336, 128256),
    "llama-3.1-70b": (8192, 8192, 1024, 28672, 128256),
    "mixtral-8x7b-v0.1": (4096, 4096, 1024, 14336, 32000),
}


def _serving(row: Row, place: str) -> list[KindAndRow]:
    """Reads layers of a served model with times in nanoseconds; folders name the model and the device."""
    parts = [part.lower() for part in Path(place).parts]
    model = next((name for name in _SERVED if name in parts), None)
    if model is None:
        raise ValueError(f"missing model: keep one of these folders above the file: {', '.join(_SERVED)}")
    width, queries, keys, inner, vocabulary = _SERVED[model]
    over = int(row["tp_size"])
    shapes = {
        "q_proj": (queries // over, width), "k_proj": (keys // over, width), "v_proj": (keys // over, width),
        "o_proj": (width, queries // over), "gate_proj": (inner // over, width), "up_proj": (inner // over, width),
        "down_proj": (width, inner // over), "expert.w1": (inner // over, width), "expert.w3": (inner // over, width),
        "expert.w2": (width, inner // over), "lm_head": (vocabulary // over, width),
    }  # fmt: skip
    name, ms = row["layer_name"].strip(), f"{float(row['latency(ns)']) / 1e6:.9g}"
    device = row.get("device") or _in_path(place, "LLMServingSim")
    head, cells = ("LLMServingSim", device, "bf16", ms), {"engine": "vLLM"}
    if name in shapes:
        n, k = shapes[name]
        if name.startswith("expert"):
            cells[REFUSED] = "the file does not state the number of tokens per expert"
        return [_row("gemm", *head, batch="1", m=row["input"], n=str(n), k=str(k), **cells)]
    if name.endswith("layernorm"):
        return [_row("vector", *head, op="rms", rows=row["input"], width=str(width), **cells)]
    return [_row("gemm", *head, **cells | {REFUSED: f"no model of layer {name}"})]


_XLA = {"bf16": "bf16", "f16": "fp16", "f32": "tf32", "f8e4m3fn": "fp8_nocast", "f8e5m2": "fp8_e5m2_nocast"}


def _xla(row: Row, place: str) -> list[KindAndRow]:
    """Reads rates in FLOP/s. XLA runs float32 products in tf32 by default; fp8 operands need no cast."""
    operands = row["xla"].split("->")[0].split("x")
    shape = {"batch": row["b"], **{key: row[key] for key in ("m", "n", "k")}}
    work = 2.0
    for extent in shape.values():
        work *= float(extent)
    ms = f"{work / float(row['flops']) * 1e3:.9g}"
    dtype = _XLA.get(operands[0], operands[0])
    more = {REFUSED: f"no scheme multiplies {row['xla']}"} if len(set(operands)) > 1 or dtype == _XLA["f8e5m2"] else {}
    return [_row("gemm", "XLA", row["device"], dtype, ms, **shape, **more)]


def _pedia(row: Row, place: str) -> list[KindAndRow]:
    """Reads wall-clock times of products on TPUs in microseconds, including a dispatch of about 130 us."""
    shape = {key: row[key] for key in ("m", "n", "k")}
    return [_row("gemm", "gpu-tpu-pedia", row["device"], row["dtype"], f"{float(row['time_us']) / 1e3:.9g}", **shape)]


_FORMATS: list[tuple[set[str], Converter]] = [
    ({"framework", "device", "gemm_dtype", "m", "n", "k", "latency"}, _configurator_gemm),
    ({"framework", "device", "attn_dtype", "kv_cache_dtype", "isl", "step", "latency"}, _configurator_attention),
    ({"framework", "device", "quant_dtype", "m", "k", "latency"}, _configurator_quantize),
    ({"OPName", "Latency (ms)", "Device", "B", "M", "N", "K"}, _neusight),
    ({"OPName", "Latency (ms)", "Device", "B", "H"}, _neusight_vector),
    ({"matrix_size", "dtype", "runtime_ms"}, _mlsim),
    ({"device", "dtype", "M", "N", "K", "transA", "transB", "ms"}, _deepbench),
    ({"device", "dtype", "m", "n", "k", "ms"}, _deepbench),
    ({"device", "dtype", "m", "n", "k", "usec"}, _deepbench),
    ({"device", "dtype", "w", "h", "c", "n", "s"}, _deepbench),
    ({"num_tokens", "n_embd", "n_expanded_embd", "n_head", "time_stats.attn_pre_proj.median"}, _vidur_mlp),
    ({"n_embd", "n_q_head", "n_kv_head", "is_prefill", "kv_cache_size", "prefill_chunk_size"}, _vidur_attention),
    ({"compass", "device", "column0"}, _compass),
    ({"layer_name", "input", "tp_size", "latency(ns)"}, _serving),
    ({"xla", "device", "b", "m", "n", "k", "flops"}, _xla),
    ({"device", "tpu_gen", "dtype", "m", "n", "k", "time_us"}, _pedia),
    ({"OPName", "Latency (ms)", "Device"}, _neusight_conv),
]


def recognise(header: Sequence[str]) -> Converter | None:
    """Finds the converter for a known public format; None for other files."""
    names = {name.strip() for name in header}
    for needed, convert in _FORMATS:
        if needed <= names and not (convert is _neusight_vector and {"C", "Cin", "I", "in_channels"} & names):
            return convert
    return None
