"""Products at tile and instruction level: bounds of array, ports and issue from shape and machine alone, and how far
closed forms are from kernels."""

from __future__ import annotations

from typing import Any

import numpy as np

import tilesim as ts
from tilesim import _core

BYTES = {"i8": 1, "bf16": 2, "f16": 2, "f32": 4}
TYPES = {
    "edge-8": ["i8", "bf16", "f32"],
    "mesh-16": ["i8", "bf16", "f16", "f32"],
    "gemmini-16": ["i8"],
    "tpu-v3": ["bf16", "f16", "f32"],
}


class Product:
    """A random product, and what its machine says about it."""

    def __init__(self, rng: np.random.Generator) -> None:
        name = str(rng.choice(list(TYPES)))
        whole = ts.Machine.load(name)
        changed: dict[str, Any] = {}
        if rng.random() < 0.5:
            changed["core.isa.accumulate"] = str(rng.choice(["vector", "array"]))
        if rng.random() < 0.3:
            changed["core.isa.loads"] = 2
        if rng.random() < 0.3:
            changed["core.array.dataflow"] = "input_stationary"
        if rng.random() < 0.2:
            changed["core.array.weight_double_buffer"] = False
        self.machine = whole.replace(changed) if changed else whole
        core = self.machine.to_dict()["core"]
        array, vector, isa = core["array"], core["vector"], core.get("isa", {})
        self.rows, self.columns = int(array["rows"]), int(array["columns"])
        side, self.dtype = self.rows, str(rng.choice(TYPES[name]))
        self.rate = float(array["rates"][self.dtype])
        self.buffered = bool(array["weight_double_buffer"])
        self.register = 4 * int(vector["lanes"]) * int(vector["sublanes"])
        self.loads = int(isa.get("loads", 1))
        stated = isa.get("accumulate", "auto")
        memory = self.machine.get("core.scratchpad.accumulator_bytes") != "0 B"
        self.by_vector = stated == "vector" or (stated == "auto" and not memory)

        def extent(most: int) -> int:
            return int(rng.choice([1, side, int(rng.integers(1, most * side + 1)), most * side]))

        self.m, self.n, self.k = extent(4), extent(4), extent(3)
        self.batch, self.taps = int(rng.choice([1, 1, 2])), int(rng.choice([1, 1, 3]))
        self.accumulate, self.stationary_a = bool(rng.random() < 0.4), bool(rng.random() < 0.3)
        kept_is_b = self.stationary_a == (array["dataflow"] == "input_stationary")
        self.moving, across = (self.m, self.n) if kept_is_b else (self.n, self.m)
        self.deep = self.taps * -(-self.k // self.rows)
        self.blocks = self.batch * -(-across // self.columns)

    def text(self, times: int = 1, history: str = "") -> str:
        words = ["mma", self.dtype, self.dtype, f"b{self.batch * times}"]
        words += [f"m{self.m}", f"n{self.n}", f"k{self.k}", f"ko{self.taps}"]
        words += ["stationary_a"] * self.stationary_a + ["accumulate"] * self.accumulate
        return " ".join([*words, *history.split()])

    def bounds(self, times: int) -> dict[str, float]:
        """Cycles that so many of it one behind the other take at least: by the array's rows, the bytes of load and
        store ports, and vector instructions of at most eight registers, eight of which leave the front end a cycle."""
        sets = times * self.deep * self.blocks
        fill = self.rows + self.columns - 2
        streamed = self.moving / self.rate
        size = BYTES[self.dtype]
        rows = sets * self.moving * self.rows * size
        weights = sets * self.rows * self.columns * size
        sums = sets * self.moving * self.columns * 4 if self.by_vector else 0
        added = sums if self.accumulate else sums * (self.deep - 1) // self.deep
        if self.buffered:
            array = self.rows + max(sets * streamed, (sets - 1) * self.rows + streamed) + fill
        else:
            array = sets * (self.rows + streamed + fill)
        return {
            "array": array,
            "loads": (rows + weights + added) / self.register / self.loads,
            "stores": sums / self.register,
            "issue": 2 * (rows + weights + added + sums) / (8 * self.register) / 8,
        }


def latency(product: Product, text: str, kernel: bool) -> dict[str, Any]:
    return dict((_core.isa_latency if kernel else _core.closed_form_latency)(product.machine.core, text))


def test_kernels_and_closed_forms_within_bounds_of_each_other() -> None:
    """Neither is faster than what bounds both; of a chain they differ by the last thing that comes late."""
    rng, differences = np.random.default_rng(19), []
    for _ in range(120):
        product = Product(rng)
        for times in (1, 4):
            bounds = product.bounds(times)
            for kernel in (False, True):
                done = latency(product, product.text(times), kernel)["done"]
                assert done >= max(bounds.values()) - 1e-9, (product.text(times), product.machine.name, kernel, bounds)
        kernel, form = (latency(product, product.text(1, "pipelined"), way)["busy"] for way in (True, False))
        differences.append(abs(kernel / form - 1))
        told = (product.text(), product.machine.name, product.machine.to_dict()["core"].get("isa"), kernel, form)
        assert differences[-1] <= 0.15, told
    assert np.mean(differences) <= 0.03
