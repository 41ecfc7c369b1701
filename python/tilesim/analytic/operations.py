"""Operations of a graph in closed form: which model, which shape, which terms."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from .. import _core
from ..base.errors import Unsupported
from ..graph import Graph
from ..machine.device import Device
from . import attention, conv, gemm, vector
from .profile import Profile
from .schemes import Scheme, scheme

__all__ = ["Cost", "Costs", "cost_of", "costs_of", "flat_operations", "inlined"]

VIEWS = {"reshape", "bitcast", "constant", "iota"}
SCHEME_OF_DTYPE = {"f64": "fp64", "f32": "fp32", "f16": "fp16", "bf16": "bf16", "i8": "int8", "u8": "int8"}
FLOATS = ("fp64", "fp32", "tf32", "fp16", "bf16")  # schemes that quantize nothing


@dataclass
class Cost:
    """Seconds of one operation and of its terms; bytes and multiply-adds as the graph counts them."""

    name: str
    kind: str
    seconds: float
    terms: dict[str, float] = field(default_factory=dict)
    bytes: float = 0.0
    flops: float = 0.0
    scheme: str = ""
    model: str = ""
    hits: float | None = None  # share of its bytes that the shared level holds; none: not modelled
    occupancy: float | None = None  # share of the units that its tiles keep busy; none: not modelled

    @property
    def bound(self) -> str:
        """The longest term: compute, load, memory, launch, cast, split."""
        return max(self.terms, key=lambda key: self.terms[key]) if self.terms and self.seconds > 0 else "none"


@dataclass
class Costs:
    """What an estimate needs beside the operation."""

    device: Device
    scheme: str | None
    engine: str
    profile: Profile | None
    notes: set[str] = field(default_factory=set)
    core: Any = None  #: the graph with its calls replaced, for the bodies of loops and branches


def inlined(graph: Graph) -> Any:
    """A graph of the core with its calls replaced by their bodies.

    Args:
        graph: the workload.

    Returns:
        A copy; loops and branches keep the functions that they run.
    """
    core = graph.core.copy()
    core.inline_calls()
    return core


def costs_of(operations: Sequence[Mapping[str, Any]], costs: Costs) -> list[Cost]:
    """Costs of operations that follow each other.

    Args:
        operations: of one function.
        costs: as of `cost_of`.

    Returns:
        One cost per operation.
    """
    producers = {result["name"]: op["kind"] for op in operations for result in op["results"]}
    uses: dict[str, int] = {}
    for op in operations:
        for operand in op["operands"]:
            if operand is not None:  # one that may be left out
                uses[operand["name"]] = uses.get(operand["name"], 0) + 1
    return [cost_of(op, costs, producers, uses) for op in operations]


def flat_operations(graph: Graph) -> list[dict[str, Any]]:
    """The operations of a graph with its calls replaced by their bodies.

    Args:
        graph: the workload.

    Returns:
        One dict per operation: kind, operands, results, attributes, flops, bytes.
    """
    return list(inlined(graph).operations())


def _elements(tensor: Mapping[str, Any]) -> float:
    return float(math.prod(tensor["shape"]))


def _scheme_of(dtype: str, costs: Costs, wanted: str | None) -> Scheme:
    name = wanted or SCHEME_OF_DTYPE.get(dtype)
    if name is None:
        raise Unsupported(f"no scheme multiplies {dtype}; allowed: {', '.join(SCHEME_OF_DTYPE)}")
    how = scheme(name, costs.device)
    if costs.device.kind == "tpu" and how.name == "fp32":
        costs.notes.add("f32 products round their operands to bf16 once, the default precision of this device")
        return replace(how, arithmetic="bf16")
    return how


def _unquantized(dtype: str, costs: Costs) -> Scheme:
    """Of products of activations, batched ones and attention: what quantizes weights leaves them in 16 bits."""
    if costs.scheme is None:
        return _scheme_of(dtype, costs, None)
    wanted = scheme(costs.scheme, costs.device)
    if wanted.name in FLOATS:
        return _scheme_of(dtype, costs, wanted.name)
    halves = max(("bf16", "fp16"), key=lambda name: costs.device.rate(name).flops_per_second)
    return _scheme_of(dtype, costs, halves if dtype in ("f32", "bf16") else None)


def _product(op: Mapping[str, Any], costs: Costs) -> Cost:
    a, b = op["operands"][:2]
    at = op["attributes"]
    lead, over = at.get("a_batch", []), at.get("a_contract", [])
    other = set(at.get("b_batch", [])) | set(at.get("b_contract", []))
    batch = math.prod(a["shape"][i] for i in lead)
    k = math.prod(a["shape"][i] for i in over)
    m = math.prod(x for i, x in enumerate(a["shape"]) if i not in lead and i not in over)
    n = math.prod(x for i, x in enumerate(b["shape"]) if i not in other)
    how = _scheme_of(a["dtype"], costs, costs.scheme) if batch == 1 else _unquantized(a["dtype"], costs)
    return _gemm_cost(op, costs, how, batch, m, n, k)


def _gemm_cost(op: Mapping[str, Any], costs: Costs, how: Scheme, batch: float, m: float, n: float, k: float) -> Cost:
    if min(batch, m, n, k) <= 0:
        return Cost(op["name"], op["kind"], 0.0, {}, op["bytes"], 0.0, how.name, "nothing to do")
    found = gemm.estimator(costs.device, how, engine=costs.engine, profile=costs.profile)
    if not found.origin.startswith("profile"):
        costs.notes.add(f"products ({how.name}): constants of {found.origin}")
    table = found.terms([m], [n], [k], [batch])
    terms = {name: float(table[name][0]) for name in ("compute", "load", "memory", "launch", "split", "cast")}
    note = f"{int(table['tile_m'][0])}x{int(table['tile_n'][0])} tiles, k split {int(table['splits'][0])}"
    latency = float(table["latency"][0])
    if table["tile_m"][0] > 0 and latency >= terms["compute"]:  # short steps wait: the arithmetic alone is less
        terms["compute"] = 2 * batch * m * n * k / costs.device.rate(how.arithmetic).flops_per_second
        terms["latency"] = latency
    seconds, hits, busy = (float(table[name][0]) for name in ("total", "hits", "occupancy"))
    return Cost(op["name"], op["kind"], seconds, terms, op["bytes"], _flops(op), how.name, note, hits, busy)


def _ragged(op: Mapping[str, Any], costs: Costs) -> Cost:
    """Rows that choose their matrix by group (experts): as many products as groups that can have rows."""
    a, b = op["operands"][:2]
    rows, (groups, k, n) = a["shape"][0], b["shape"]
    used = max(1, min(groups, rows))
    costs.notes.add("rows of experts are taken as spread evenly over as many groups as there can be")
    return _gemm_cost(op, costs, _scheme_of(a["dtype"], costs, costs.scheme), used, -(-rows // used), n, k)


def _functions(op: Mapping[str, Any], costs: Costs) -> list[list[Cost]]:
    """Costs of the functions that a loop or branch runs."""
    return [costs_of(costs.core.operations(name), costs) for name in op["functions"]]


def _sum(op: Mapping[str, Any], parts: Sequence[Cost], times: float, model: str) -> Cost:
    terms: dict[str, float] = {}
    for part in parts:
        for key, value in part.terms.items():
            terms[key] = terms.get(key, 0.0) + times * value
    moved, work, seconds = (times * sum(getattr(part, key) for part in parts) for key in ("bytes", "flops", "seconds"))
    return Cost(op["name"], op["kind"], seconds, terms, moved, work, op["results"][0]["dtype"], model)


def _loop(op: Mapping[str, Any], costs: Costs) -> Cost:
    trips = op["attributes"].get("trips")
    if trips is None:
        raise Unsupported("a loop whose length only the data know has no closed form")
    costs.notes.add("loops: every trip runs its operations one after the other")
    return _sum(op, [part for body in _functions(op, costs) for part in body], float(trips), f"{trips} trips")


def _branch(op: Mapping[str, Any], costs: Costs) -> Cost:
    costs.notes.add("branches: the side that takes longest")
    sides = [_sum(op, body, 1.0, "longest side") for body in _functions(op, costs)]
    return max(sides, key=lambda side: side.seconds)


def _convolution(op: Mapping[str, Any], costs: Costs) -> Cost:
    x, w = op["operands"][:2]
    y = op["results"][0]
    at = op["attributes"]
    groups = at.get("groups", 1)
    where = {letter: i for i, letter in enumerate(at["w_labels"])}
    spatial = [i for letter, i in where.items() if letter not in "OI"]
    taps = [w["shape"][i] for i in spatial]
    channels, filters = w["shape"][where["I"]], w["shape"][where["O"]] // groups
    images = x["shape"][at["x_labels"].index("N")]
    size = [x["shape"][at["x_labels"].index(letter)] for letter in at["w_labels"] if letter not in "OI"]
    how = _scheme_of(x["dtype"], costs, costs.scheme)
    square = len(set(size)) == 1 and len(set(taps)) == 1 and len(size) == 2 and groups == 1
    plain = set(at.get("window_dilation", [1])) == {1} and not at.get("input_dilation")
    if square and plain and len(set(at["pads"])) == 1 and len(set(at["strides"])) == 1 and costs.device.kind == "gpu":
        found = conv.estimator_of(costs.device, how.name, costs.engine, profile=costs.profile)
        shape = (images, channels, filters, size[0], taps[0], at["strides"][0], at["pads"][0])
        ways = conv.conv_terms(found, conv.ConvCases(*(np.array([float(value)]) for value in shape)))
        total, layout = float(ways["total"][0]), float(ways["layout"][0])
        memory = op["bytes"] / costs.device.memory.bytes_per_second
        terms = {"compute": total - layout, "memory": memory, "layout": layout}
        way = min(("direct", "winograd2", "winograd4"), key=lambda key: float(ways[key][0]))
        return Cost(op["name"], op["kind"], total, terms, op["bytes"], _flops(op), how.name, way)
    outputs = _elements(y) / max(1, y["shape"][at["y_labels"].index("C")])
    cost = _gemm_cost(op, costs, how, groups, outputs, filters, channels * math.prod(taps))
    cost.model = "implicit product, " + cost.model
    return cost


def _attention(op: Mapping[str, Any], costs: Costs) -> Cost:
    q, k, v = op["operands"][:3]
    at = op["attributes"]
    batch, heads, queries, depth = q["shape"]
    key_heads, keys = k["shape"][1], at.get("kv_len", k["shape"][2])
    shape = (batch, queries, keys, heads, key_heads, max(depth, v["shape"][3]), at.get("window", 0))
    cases = attention.AttentionCases(*(np.array([float(value)]) for value in shape), causal=bool(at.get("causal")))
    how = _unquantized(q["dtype"], costs)
    phase = "decode" if queries == 1 else "prefill"
    table = attention.call_terms(costs.device, cases, how.name, how.name, costs.engine, costs.profile)
    terms = {name: float(value[0]) for name, value in table.items() if name != "total"}
    return Cost(op["name"], op["kind"], float(table["total"][0]), terms, op["bytes"], _flops(op), how.name, phase)


def _vector_constants(op: Mapping[str, Any], costs: Costs, kind: str) -> Mapping[str, float]:
    return vector.constants_of(costs.device, kind, "fp32", profile=costs.profile).constants


def _stream(
    op: Mapping[str, Any], costs: Costs, kind: str = "copy", bytes_: float | None = None, launch: bool = True
) -> Cost:
    """Anything that streams: bytes of the graph at the memory's rate, arithmetic on ordinary lanes, one launch."""
    c = _vector_constants(op, costs, kind)
    device = costs.device
    dtype = op["results"][0]["dtype"]
    moved = float(op["bytes"] if bytes_ is None else bytes_)
    work = _flops(op)
    lanes = device.vector_rate(dtype if dtype in ("f16", "bf16", "f64") else "f32") * c["lanes_share"]
    memory = moved / (device.memory.bytes_per_second * c["memory_share"])
    each = 0.0
    if kind in ("softmax", "ln"):
        each = _rows(op) * c["row"] / device.units
    started = c["launch"] if launch else 0.0
    terms = {"memory": memory, "compute": work / lanes, "launch": started, "rows": each}
    p = c["overlap"]
    longest = max(memory, terms["compute"], each)
    core = (
        longest * sum((terms[key] / longest) ** p for key in ("memory", "compute", "rows")) ** (1 / p)
        if longest
        else 0.0
    )
    return Cost(op["name"], op["kind"], started + core, terms, moved, work, dtype, kind if launch else "fused")


def _rows(op: Mapping[str, Any]) -> float:
    x = op["operands"][0]
    at = op["attributes"]
    along = [at["dim"]] if "dim" in at else at.get("dims") or [len(x["shape"]) - 1]
    width = math.prod(x["shape"][i] for i in along)
    return _elements(x) / max(1, width)


def _flops(op: Mapping[str, Any]) -> float:
    return float(sum(op["flops"].values()))


_MODELS: dict[str, Callable[[Mapping[str, Any], Costs], Cost]] = {
    "contract": _product,
    "convolution": _convolution,
    "attention": _attention,
    "ragged_contract": _ragged,
    "while": _loop,
    "branch": _branch,
    "softmax": lambda op, costs: _stream(op, costs, "softmax"),
    "log_softmax": lambda op, costs: _stream(op, costs, "softmax"),
    "normalize": lambda op, costs: _stream(op, costs, "ln"),
}
_FUSIBLE = {"elementwise", "convert", "batch_norm", "broadcast"}


def cost_of(op: Mapping[str, Any], costs: Costs, producers: Mapping[str, str], uses: Mapping[str, int]) -> Cost:
    """Cost of one operation.

    Args:
        op: as `flat_operations` gives it.
        costs: device, scheme, profile; takes notes of what was approximated.
        producers: value name to the kind of operation that made it.
        uses: value name to how often it is read.

    Returns:
        The cost; zero for views and constants.

    Raises:
        Unsupported: for a kind without a model or a dtype that the device lacks; names the operation.
    """
    kind = op["kind"]
    if kind in VIEWS:
        costs.notes.add("views and constants cost nothing: layouts are taken to fit")
        return Cost(op["name"], kind, 0.0, model="view")
    try:
        if kind in _MODELS:
            return _MODELS[kind](op, costs)
        if kind == "while" and not op["attributes"].get("trips"):
            costs.notes.add("while: how often data let it run is not known; the time is that of one trip")
        if kind == "branch":
            costs.notes.add("branch: data choose the side; the time is that of the dearest")
        if op["flops"]["matrix"] > 0:
            raise Unsupported(f"no closed form for {kind}")
        if kind in _FUSIBLE and (chained := _chained(op, producers, uses)):
            costs.notes.add("elementwise operations behind a kernel are fused into it: their other operands only")
            others = sum(_bytes(t) for t in op["operands"] if t["name"] != chained)
            return _stream(op, costs, "copy", others, launch=False)
        return _stream(op, costs)
    except Unsupported as error:
        raise Unsupported(f"operation {op['name']} ({kind}): {error}") from None


def _bytes(tensor: Mapping[str, Any]) -> float:
    return _elements(tensor) * _core.dtype_bits(tensor["dtype"]) / 8


def _chained(op: Mapping[str, Any], producers: Mapping[str, str], uses: Mapping[str, int]) -> str:
    result = _elements(op["results"][0])
    made: Sequence[str] = [
        t["name"]
        for t in op["operands"]
        if producers.get(t["name"], "constant") not in VIEWS and uses.get(t["name"]) == 1 and _elements(t) == result
    ]
    return made[0] if made else ""
