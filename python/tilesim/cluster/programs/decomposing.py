"""Splits products to overlap communication: collective matmul.

If an all-gather along an axis feeds a product, n products of shards replace it: a ring moves the shards, and a device
multiplies one shard while it receives the next. If a reduce-scatter follows a product, a device computes another
device's block, adds the received block and sends the sum on; it computes its own block last. (S. Wang et al., Overlap
communication with dependent computation via decomposition in large deep learning models, ASPLOS 2023; "windowed einsum"
in XLA.)
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from ... import _core
from ...graph.devices import bytes_of, groups_of

__all__ = ["GPU_LEAST_BYTES", "Ring", "decomposed", "rings"]

#: least operand that XLA splits on GPUs (xla_gpu_threshold_for_windowed_einsum_mib, by default 100,000)
GPU_LEAST_BYTES = 100_000 << 20
_Row = dict[str, Any]


@dataclass(frozen=True)
class _ShardedProduct:
    """`side`: sharded operand; `axis`: its sharded axis; `summed`: whether it is contracted; `result`: result axis."""

    name: str
    side: int
    axis: int
    summed: bool
    result: int = -1


@dataclass(frozen=True)
class Ring:
    """A gather (or scatter) and the products that can overlap its steps; equal rings have one `key`."""

    name: str
    gathers: bool
    groups: tuple[tuple[int, ...], ...]
    products: tuple[_ShardedProduct, ...]
    bytes: int
    key: str

    @property
    def steps(self) -> int:
        """Number of parts of each product."""
        return len(self.groups[0])


def rings(core: _core.Graph, devices: int) -> list[Ring]:
    """Returns the rings that can split products in the entry function of one device class."""
    rows = core.operations()
    makers = {one["name"]: row for row in rows for one in row["results"] if one is not None}
    readers: dict[str, list[_Row]] = {}
    for row in rows:
        for one in row["operands"]:
            if one is not None and one["name"]:
                readers.setdefault(one["name"], []).append(row)
    ends = {one["name"] for one in core.outputs}
    found = []
    for row in rows:
        if row["kind"] not in ("all_gather", "reduce_scatter") or len(row["operands"]) != 1:
            continue
        groups = tuple(tuple(group) for group in groups_of(row, devices))
        sizes = {len(group) for group in groups}
        if len(sizes) != 1 or sizes == {1} or sorted(sum(groups, ())) != list(range(devices)):
            continue
        dim, value = int(row["attributes"]["dim"]), row["results"][0]["name"]
        products: list[_ShardedProduct | None]
        if row["kind"] == "all_gather":
            known = readers.get(value, [])
            products = [_reading(other, value, dim) for other in known]
            if value in ends or len({other["name"] for other in known}) < len(known):
                continue
        else:
            operand = row["operands"][0]["name"]
            maker = makers.get(operand)
            if maker is None or operand in ends or len(readers[operand]) > 1:
                continue
            products = [_giving(maker, dim) if row["attributes"].get("combiner", "add") == "add" else None]
        whole = [one for one in products if one is not None]
        if whole and len(whole) == len(products):
            found.append(_ring(row, groups, tuple(whole), rows))
    return found


def _ring(
    row: _Row, groups: tuple[tuple[int, ...], ...], products: tuple[_ShardedProduct, ...], rows: list[_Row]
) -> Ring:
    named = {one["name"]: one for one in rows}
    content = [(row["kind"], str(row["attributes"]), str(row["operands"][0]["dtype"]), row["operands"][0]["shape"])]
    for one in products:
        operands = [(other["dtype"], other["shape"]) for other in named[one.name]["operands"]]
        content.append((str(operands), str(named[one.name]["attributes"]), str((one.side, one.axis)), ()))
    size = max(bytes_of(row["operands"][0]), bytes_of(row["results"][0]))
    return Ring(row["name"], row["kind"] == "all_gather", groups, products, size, str(content))


def _free(row: _Row, side: int) -> list[int]:
    """Returns the axes of an operand that are neither batch nor contracted axes."""
    letter, more = "ab"[side], row["attributes"]
    used = {*more[f"{letter}_batch"], *more[f"{letter}_contract"]}
    return [axis for axis in range(len(row["operands"][side]["shape"])) if axis not in used]


def _is_product(row: _Row) -> bool:
    names = ("a_batch", "b_batch", "a_contract", "b_contract")
    return row["kind"] == "contract" and len(row["operands"]) == 2 and all(name in row["attributes"] for name in names)


def _reading(row: _Row, value: str, dim: int) -> _ShardedProduct | None:
    """Describes an operation as a product with an operand gathered along `dim`, or returns None."""
    if not _is_product(row):
        return None
    sides = [side for side in (0, 1) if row["operands"][side]["name"] == value]
    if len(sides) != 1:
        return None
    side = sides[0]
    if dim in row["attributes"][f"{'ab'[side]}_contract"]:
        return _ShardedProduct(row["name"], side, dim, True)
    free = _free(row, side)
    return _ShardedProduct(row["name"], side, dim, False, _place(row, side, free.index(dim))) if dim in free else None


def _giving(row: _Row, dim: int) -> _ShardedProduct | None:
    """Describes an operation as a product whose result is scattered along `dim`, or returns None."""
    if not _is_product(row):
        return None
    for side in (0, 1):
        for number, axis in enumerate(_free(row, side)):
            if _place(row, side, number) == dim:
                return _ShardedProduct(row["name"], side, axis, False, dim)
    return None


def _place(row: _Row, side: int, number: int) -> int:
    return len(row["attributes"]["a_batch"]) + (len(_free(row, 0)) if side else 0) + number


def decomposed(core: _core.Graph, chosen: Collection[Ring], devices: int) -> _core.Graph:
    """Splits the products of the chosen rings into parts."""
    data = json.loads(core.to_json())
    entry = next(function for function in data["functions"] if function["name"] == core.main)
    rows = {row["name"]: row for row in core.operations()}
    maker = _OperationWriter(data["weights"], devices, set(rows))
    gathers = {ring.name: ring for ring in chosen if ring.gathers}
    scatters = {ring.name: ring for ring in chosen if not ring.gathers}
    of = {one.name: (ring, one) for ring in gathers.values() for one in ring.products}
    dropped = {one.name for ring in scatters.values() for one in ring.products}
    shards: dict[str, list[str]] = {}
    made = maker.ops
    for op in entry["ops"]:
        name = op["name"]
        if name in gathers:
            shards[name] = maker.shards(gathers[name], rows[name])
        elif name in of and name not in dropped:
            ring, product = of[name]
            maker.gathered(ring, product, rows[name], shards[ring.name], op["results"][0])
        elif name in scatters:
            maker.scattered(scatters[name], rows[scatters[name].products[0].name], op["results"][0])
        elif name not in dropped:
            made.append(op)
    entry["ops"] = made
    return _core.Graph.from_json(json.dumps(data))


class _OperationWriter:
    """Writes the operations that replace a product."""

    def __init__(self, weights: dict[str, Any], devices: int, names: set[str]) -> None:
        self.weights, self.devices, self.names = weights, devices, names
        self.ops: list[_Row] = []
        self.constants: dict[str, str] = {}
        self.index = ""

    def op(
        self, kind: str, name: str, operands: list[str], dtype: str, shape: list[int], more: _Row | None = None
    ) -> str:  # fmt: skip
        while name in self.names or (name in self.weights and kind != "constant"):
            name += "'"
        self.names.add(name)
        result = {"name": name, "dtype": dtype, "shape": list(shape)}
        self.ops.append(
            {"name": name, "kind": kind, "operands": operands, "results": [result], "attributes": more or {}}
        )
        return name

    def last(self, result: _Row) -> None:
        """Gives the last written operation the result of the replaced operation."""
        row = self.ops[-1]
        row["results"] = [result]

    def constant(self, dtype: str, values: list[int], shape: list[int]) -> str:
        """Writes a constant of integers; equal constants are written once."""
        name = f"ring.{dtype}{shape}{values}"
        if name not in self.constants:
            self.weights[name] = {"dtype": dtype, "shape": shape, "source": "data", "data": values, "trainable": False}
            self.constants[name] = self.op("constant", name, [], dtype, shape, {"reference": name})
        return self.constants[name]

    def starts(self, ring: Ring, step: int, size: int, axis: int, rank: int) -> list[str]:
        """Writes a step's block start along an axis; a device's own block is first in a gather, last in a scatter."""
        n, table = ring.steps, [0] * self.devices
        for group in ring.groups:
            for place, device in enumerate(group):
                table[device] = size * ((place - step - (not ring.gathers)) % n)
        if not self.index:
            self.index = self.op("device_index", "ring.device", [], "u32", [], {"axis": "partition"})
        whole = self.constant("i64", table, [self.devices])
        own = self.op("dynamic_slice", f"{ring.name}.own", [whole, self.index], "i64", [1], {"sizes": [1]})
        start = self.op("reshape", f"{ring.name}.start", [own], "i64", [], {"shape": []})
        return [start if one == axis else self.constant("i64", [0], []) for one in range(rank)]

    def permuted(self, ring: Ring, value: str, dtype: str, shape: list[int]) -> str:
        pairs = [device for group in ring.groups for at, one in enumerate(group)
                 for device in (one, group[(at + 1) % len(group)])]  # fmt: skip
        return self.op("permute_devices", f"{ring.name}.permute", [value], dtype, shape,
                       {"pairs": pairs, "partitions": True})  # fmt: skip

    def shards(self, ring: Ring, row: _Row) -> list[str]:
        """Writes the transfers of a ring; returns the shard of each step."""
        own = row["operands"][0]
        found = [own["name"]]
        for _ in range(1, ring.steps):
            found.append(self.permuted(ring, found[-1], own["dtype"], own["shape"]))
        return found

    def product(self, row: _Row, operands: list[str], shape: list[int]) -> str:
        return self.op("contract", f"{row['name']}.part", operands, row["results"][0]["dtype"], shape,
                       row["attributes"])  # fmt: skip

    def added(self, row: _Row, one: str, other: str, shape: list[int]) -> str:
        return self.op("elementwise", f"{row['name']}.sum", [one, other], row["results"][0]["dtype"], shape,
                       {"function": "add"})  # fmt: skip

    def gathered(self, ring: Ring, product: _ShardedProduct, row: _Row, shards: list[str], result: _Row) -> None:
        """Writes a product with a sharded operand, per step as a block or as a summand of the result."""
        names = [one["name"] for one in row["operands"]]
        shape, n = list(row["results"][0]["shape"]), ring.steps
        size = row["operands"][product.side]["shape"][product.axis] // n
        value = ""
        for step, shard in enumerate(shards):
            operands = list(names)
            operands[product.side] = shard
            if product.summed:
                operands[1 - product.side] = self.block(ring, step, size, row, product)
                part = self.product(row, operands, shape)
                value = self.added(row, value, part, shape) if value else part
                continue
            part = self.product(row, operands, [size if at == product.result else d for at, d in enumerate(shape)])
            dtype = row["results"][0]["dtype"]
            if not value:
                value = self.op("broadcast", f"{row['name']}.empty", [self.constant(dtype, [0], [])], dtype, shape,
                                {"shape": shape, "dims": []})  # fmt: skip
            starts = self.starts(ring, step, size, product.result, len(shape))
            value = self.op("dynamic_update", f"{row['name']}.update", [value, part, *starts], dtype, shape)
        self.last(result)

    def block(self, ring: Ring, step: int, size: int, row: _Row, product: _ShardedProduct) -> str:
        """Cuts the part of the other operand that a step's shard needs."""
        side = 1 - product.side
        mine, others = (row["attributes"][f"{'ab'[one]}_contract"] for one in (product.side, side))
        return self.cut(ring, step, size, row["operands"][side], others[mine.index(product.axis)])

    def cut(self, ring: Ring, step: int, size: int, operand: _Row, axis: int) -> str:
        shape = [size if at == axis else d for at, d in enumerate(operand["shape"])]
        starts = self.starts(ring, step, size, axis, len(shape))
        return self.op("dynamic_slice", f"{operand['name']}.block", [operand["name"], *starts], operand["dtype"], shape,
                       {"sizes": shape})  # fmt: skip

    def scattered(self, ring: Ring, row: _Row, result: _Row) -> None:
        """Writes a product whose blocks travel around a ring; each device adds its part."""
        (product,) = ring.products
        operand, dtype = row["operands"][product.side], row["results"][0]["dtype"]
        size = operand["shape"][product.axis] // ring.steps
        shape = [size if at == product.result else d for at, d in enumerate(row["results"][0]["shape"])]
        value = ""
        for step in range(ring.steps):
            operands = [one["name"] for one in row["operands"]]
            operands[product.side] = self.cut(ring, step, size, operand, product.axis)
            part = self.product(row, operands, shape)
            value = self.added(row, self.permuted(ring, value, dtype, shape), part, shape) if value else part
        self.last(result)
