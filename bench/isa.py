"""Rates of the instruction level, in seconds of processor time.

Goals on one core of about 2.6 GHz: scalar instructions >= 150 M/s; at VLEN 1024 f32 multiply-adds in vector registers
>= 1 G/s, loads, stores and multiply-adds of axpy >= 0.6 G element operations/s; timed instructions >= 10 M/s; latencies
of a network's kernels within 1 s, within 0.1 s from a store; Ctrl-C answered within 0.2 s. `--fast` is a smoke run;
`--json FILE` writes the figures. A rate is of the best of several runs: a shared machine only ever slows one down.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import threading
import time
from typing import Any

import tilesim as ts
import tilesim.isa as isa

#: Name, what is done once, one trip of the loop; lines are parted by "|".
LOOPS = {
    "integer": (
        "nop",
        "addi a1, a1, 3|xor a2, a2, a1|slli a3, a2, 5|add a4, a4, a3|srli a5, a4, 7|sub a2, a5, a1",
    ),
    "loads and stores": (
        "la t0, data",
        "ld a1, 0(t0)|ld a2, 8(t0)|add a3, a1, a2|sd a3, 16(t0)|lw a4, 20(t0)|sw a4, 24(t0)",
    ),
    "branches": (
        "nop",
        "andi a1, a0, 1|beqz a1, one|addi a2, a2, 1|one: andi a1, a0, 2|bnez a1, two|addi a3, a3, 1|two: nop",
    ),
    "multiply, divide": (
        "li a1, 12345678901|li a2, 97",
        "mul a3, a1, a2|mulhu a4, a1, a3|divu a5, a3, a2|add a1, a1, a0",
    ),
    "calls": ("nop", "call f|call f|call f"),
    "f64 fused": (
        "fcvt.d.l fa0, a0|li a1, 3|fcvt.d.l fa1, a1",
        "fmadd.d fa2, fa0, fa1, fa2|fmadd.d fa3, fa0, fa1, fa3|fadd.d fa4, fa4, fa0",
    ),
    "f32 sums": ("fcvt.s.l fa0, a0", "fadd.s fa1, fa1, fa0|fmul.s fa2, fa1, fa0|fsub.s fa3, fa2, fa1"),
}

#: Loops of timed runs, on the core `generic`.
TIMED = {
    "integer": LOOPS["integer"],
    "loads and stores": LOOPS["loads and stores"],
    "vector sums": (
        "li t0, 8|vsetvli t1, t0, e32, m1, ta, ma",
        "vadd.vv v8, v16, v24|vmul.vv v9, v16, v25|vadd.vv v10, v9, v8|vsub.vx v11, v8, a0",
    ),
    "axpy, m1": (
        "la t2, data|li t0, 8|vsetvli t1, t0, e32, m1, ta, ma|li t3, 1|fcvt.s.l fa0, t3",
        "vle32.v v8, (t2)|vle32.v v16, (t2)|vfmacc.vf v16, fa0, v8|vse32.v v16, (t2)|addi t3, t3, 8",
    ),
    "axpy, m8": (
        "la t2, data|li t0, 64|vsetvli t1, t0, e32, m8, ta, ma|li t3, 1|fcvt.s.l fa0, t3",
        "vle32.v v8, (t2)|vle32.v v16, (t2)|vfmacc.vf v16, fa0, v8|vse32.v v16, (t2)|addi t3, t3, 64",
    ),
}

#: Vector loops, as those above; vtype is e32, m2 and vl VLMAX, the mask every other element.
VECTOR_LOOPS = {
    "f32 multiply-adds": "vfmacc.vf v8, fa0, v16|vfmacc.vf v10, fa0, v18|vfmacc.vv v12, v18, v20",
    "axpy": "vle32.v v8, (t1)|vle32.v v10, (t2)|vfmacc.vf v10, fa0, v8|vse32.v v10, (t2)",
    "integer, masked": "vadd.vv v8, v16, v18, v0.t|vmul.vv v10, v16, v18, v0.t|vsll.vi v12, v16, 3, v0.t",
    "sums, comparisons": "vredsum.vs v8, v16, v8|vmslt.vv v4, v16, v18|vfredusum.vs v9, v16, v9|vmflt.vf v5, v16, fa0",
    "slides, gathers": "vslidedown.vi v8, v16, 3|vrgather.vv v10, v16, v20|vcompress.vm v12, v16, v0",
}
VLEN = 1024


def program(prepare: str, body: str, trips: int) -> bytes:
    """A loop as an ELF file."""
    text = f"_start: li a0, {trips}|{prepare}|loop: {body}|addi a0, a0, -1|bnez a0, loop\n".replace("|", "\n")
    text += " li a0, 0\n li a7, 93\n ecall\nf: addi a1, a1, 1\n ret\n .balign 8\ndata: .zero 256\n"
    return isa.assemble(text)


def rate(elf: bytes, runs: int, timed: bool = False) -> tuple[int, float]:
    """Instructions, and the least seconds."""
    best, count = float("inf"), 0
    for _ in range(runs):
        start = time.process_time()
        result = isa.run(elf, timed=timed)
        best, count = min(best, time.process_time() - start), result.instructions
        if result.exit_status != 0:
            raise SystemExit(f"the program failed: {result}")
    return count, best


def vector_rate(body: str, trips: int, runs: int) -> tuple[int, float]:
    """Element operations of vector instructions, and the least seconds."""
    prepare = "vsetvli t0, zero, e32, m2, ta, ma|vid.v v16|vid.v v18|vid.v v20|vid.v v22|vand.vi v4, v16, 1"
    prepare += "|vmsne.vi v0, v4, 0|vfcvt.f.x.v v16, v16|li a1, 1|fcvt.s.l fa0, a1|la t1, rows|addi t2, t1, 1024"
    text = f"_start: li a0, {trips}|{prepare}|loop: {body}|addi a0, a0, -1|bnez a0, loop\n".replace("|", "\n")
    elf = isa.assemble(text + " li a0, 0\n li a7, 93\n ecall\n .balign 64\nrows: .zero 2048\n")
    best, count = float("inf"), 0
    for _ in range(runs):
        start = time.process_time()
        result = isa.run(elf, vlen=VLEN)
        best, count = min(best, time.process_time() - start), result.element_operations
        if result.exit_status != 0:
            raise SystemExit(f"the program failed: {result}")
    return count, best


def fuzzed(texts: int, files: int) -> tuple[float, float]:
    """Damaged assembly texts and damaged ELF files, a second each; all end in a result or in words."""
    rng = random.Random(1)
    lines = [f"{row['name']} {row['operands']}" for row in isa.instructions()]
    start = time.process_time()
    for _ in range(texts):
        text = list("_start: li a0, 0\n" + rng.choice(lines) + "\nla a1, _start\nvadd.vv v1, v2, v3\n")
        for _ in range(rng.randrange(4)):
            text[rng.randrange(len(text))] = chr(rng.randrange(32, 127))
        with contextlib.suppress(ts.Error):
            isa.assemble("".join(text))
    assembled = texts / (time.process_time() - start)
    good = isa.assemble("_start: li a0, 0\nli a7, 93\necall")
    start = time.process_time()
    for _ in range(files):
        data = bytearray(good)
        for _ in range(rng.randrange(1, 6)):
            data[rng.choice((rng.randrange(176), rng.randrange(4096, len(data))))] = rng.randrange(256)
        with contextlib.suppress(ts.Error):
            isa.run(bytes(data), max_instructions=1000)
    return assembled, files / (time.process_time() - start)


def latencies(network: str, machine: str, runs: int) -> tuple[int, float, float]:
    """Kernels, and by how many seconds a simulation at instruction level is longer: with an empty store, and again."""
    program = ts.compile(network, machine)

    def seconds(**options: Any) -> float:
        start = time.process_time()
        ts.simulate(program, machine, replay=False, **options)
        return time.process_time() - start

    tile = min(seconds() for _ in range(runs + 1))
    stores = [ts.TileLatencies(source="instruction") for _ in range(runs)]
    cold = min(seconds(level="instruction", latencies=store) for store in stores)
    warm = min(seconds(level="instruction", latencies=stores[0]) for _ in range(runs))
    return len(stores[0].table(machine)), cold - tile, warm - tile


def executed(graph: ts.Graph, machine: str, runs: int) -> float:
    """How many times longer kernels take than the meaning of their tile computes."""
    program = ts.compile(graph, machine)

    def seconds(level: str) -> float:
        start = time.process_time()
        ts.execute(program, seed=1, level=level)
        return time.process_time() - start

    tile, kernels = (min(seconds(level) for _ in range(runs)) for level in ("tile", "instruction"))
    return kernels / tile


def levels(runs: int) -> list[dict[str, Any]]:
    """Prints what level instruction costs: at most 1 s with an empty store and 0.1 s with a full one."""
    rows: list[dict[str, Any]] = []
    for machine in ("tpu-v3", "edge-8"):
        count, cold, warm = latencies("resnet50", machine, runs)
        rows.append({"name": f"ResNet-50, {machine}", "kernels": count, "cold_s": cold, "warm_s": warm})
        print(f"{'ResNet-50, ' + machine:<24} {count:8} kernels, + {cold:.3f} s, again + {warm:.3f} s")
        for name, graph in (
            ("attention", ts.workloads.attention(1, 4, 128, 64)),
            ("convolution", ts.workloads.conv2d(1, 64, 28, 28, 64, 3, padding=1)),
        ):
            factor = executed(graph, machine, runs + 1)
            rows.append({"name": f"executed: {name}, {machine}", "factor": factor})
            print(f"{name + ', ' + machine:<24} {factor:8.1f} times as long as at tile level")
    return rows


def interrupted() -> float:
    """Seconds between a signal and the exception."""
    sent = [0.0]
    signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background of a shell it is ignored

    def send() -> None:
        sent[0] = time.perf_counter()
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(0.2, send)
    timer.start()
    try:
        isa.run(isa.assemble("x: addi a0, a0, 1\n j x"))
    except KeyboardInterrupt:
        return time.perf_counter() - sent[0]
    raise SystemExit("the loop ended")


def main() -> None:
    """Prints one line per loop."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fast", action="store_true")
    parser.add_argument("--json")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for name, (prepare, body) in LOOPS.items():
        trips = 100_000 if options.fast else 10_000_000
        count, seconds = rate(program(prepare, body, trips), 1 if options.fast else 3)
        rows.append({"name": name, "instructions": count, "seconds": seconds, "instructions_per_s": count / seconds})
        print(f"{name:<18} {count / seconds / 1e6:8.0f} M instructions/s")
    for name, body in VECTOR_LOOPS.items():
        count, seconds = vector_rate(body, 10_000 if options.fast else 1_000_000, 1 if options.fast else 3)
        rows.append({"name": name, "element_operations": count, "seconds": seconds, "per_s": count / seconds})
        print(f"{name:<18} {count / seconds / 1e9:8.2f} G element operations/s (VLEN {VLEN})")
    for name, (prepare, body) in TIMED.items():
        trips = 20_000 if options.fast else 2_000_000
        count, seconds = rate(program(prepare, body, trips), 1 if options.fast else 3, timed=True)
        row = {"name": f"timed: {name}", "instructions": count, "seconds": seconds}
        rows.append({**row, "instructions_per_s": count / seconds})
        print(f"{'timed: ' + name:<24} {count / seconds / 1e6:8.1f} M instructions/s")
    for name, per_second in zip(
        ("texts", "ELF files"), fuzzed(200 if options.fast else 20_000, 20 if options.fast else 2_000), strict=True
    ):
        rows.append({"name": f"damaged {name}", "per_s": per_second})
        print(f"{'damaged ' + name:<24} {per_second:8,.0f} a second")
    rows += levels(1 if options.fast else 5)
    seconds = interrupted()
    rows.append({"name": "Ctrl-C", "seconds": seconds})
    print(f"{'Ctrl-C':<24} {seconds:8.3f} s until it is answered")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
