"""Every format that is read: how a small sample is made, what reads it, and what is done with it afterwards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tilesim as ts
from support.format_graphs import (
    COMPILED_USES,
    GRAPH_USES,
    TESTS,
    Format,
    by_path,
    compiled,
    executed,
    graphs,
    program_simulated,
    program_told,
    read_graph,
    saved,
    saved_again,
    shown,
    texts,
    told,
)
from tilesim import _core
from tilesim.analytic.families import Entry
from tilesim.base.files import read_json
from tilesim.machine.dram_reference import _LEVELS as LEVELS
from tilesim.machine.dram_reference import part_from_reference
from tilesim.mapping.foreign import from_timeloop, from_zigzag
from tilesim.validation.tables import dram as validate_dram

# --- machines, devices, parts, networks ---


def machine_used(machine: ts.Machine, folder: Path) -> None:
    """A product simulated on it, and its closed form."""
    dtypes = sorted(machine.core.device()["matrix_flops_per_second"])
    graph = ts.workloads.matmul(20, 20, 20, dtype=dtypes[0] if dtypes else "f32")
    shown(ts.simulate(ts.compile(graph, machine)), folder)


def machine_told(machine: ts.Machine, folder: Path) -> None:
    """Everything that it says about itself."""
    again = ts.Machine.load(machine.to_dict())
    assert again.core.hash() == machine.core.hash()
    assert repr(machine) and machine.sources is not None
    for sort in machine.sorts:
        machine.only(sort)


def machines(folder: Path) -> list[bytes]:
    """Presets, with sorts of cores and regions among them."""
    found = [ts.Machine.load(name).to_dict() for name in ("edge-8", "tpu-v3", "gemmini-16", "chiplet-2")]
    sorts = [{"sort": "big", "count": 1}, {"sort": "little", "count": 2, "core": {"array": {"rows": 8}}}]
    noted = saved([ts.Machine.load("edge-8")], folder, "noted.json")
    return [*texts(*found, ts.Machine.load("edge-8").replace({"cores": sorts}).to_dict()), *noted]


def machines_with_comments(folder: Path) -> list[bytes]:
    """Of the same presets."""
    return saved([ts.Machine.load(name) for name in ("edge-8", "tpu-v3", "chiplet-2")], folder, "commented.toml")


def part_run(part: ts.memory.Part, folder: Path) -> None:
    """Some requests, and what they cost."""
    result = ts.memory.run(part, "random_read", requests=20, inject_every=50)
    assert repr(result) and result.table() and result.energy is not ...


def reference_part() -> dict[str, Any]:
    """A part in the reference form."""
    own = ts.memory.Part.load("DDR4-3200").to_dict()
    names = {name: reference for reference, name in LEVELS.items()}
    constraints = []
    for row in own["constraints"]:
        window = {"window": 1} if row.get("sibling") else {"window": row["window"]} if "window" in row else {}
        kept = {key: row[key] for key in ("after", "before", "cycles")}
        constraints.append({**kept, "level": names[row["level"]], **window})
    return {
        "standard": own["standard"],
        "burst_bytes": own["burst_bytes"],
        "prefetch": own["prefetch"],
        "read_latency_cycles": own["read_latency"],
        "levels": {names[name]: count for name, count in own["levels"].items()},
        "controller": {
            "impl": "GenericDDR",
            "read_buffer_size": 32,
            "write_buffer_size": 32,
            "wr_high_watermark": 0.8,
            "wr_low_watermark": 0.2,
        },
        "timing_cycles": {"rate": 3200, "tCK_ps": own["clock_ps"], **own["timing"]},
        "constraints": constraints,
    }


def reference_form(path: Path) -> ts.memory.Part:
    """A part in the reference form, as a dict."""
    return ts.memory.Part.load(part_from_reference(read_json(path), "mine"))


def network_run(net: Any, folder: Path) -> None:
    """Some packets."""
    _core.measure_network(net, _core.NetworkRouter(), "neighbor", 0.1, 1, 1, 20, 1, 3)
    ts.simulate(ts.compile(ts.workloads.matmul(8, 8, 8), "edge-8"), network=str(folder / "network.json"))


def networks(folder: Path) -> list[bytes]:
    """A star, and one with a root."""
    star = [{"between": [0, leaf], "latency": 3} for leaf in (1, 2, 3)]
    network = {"schema": "tilesim.network", "version": 1, "name": "star", "routers": 4, "nodes": [1, 2, 3]}
    return texts({**network, "links": star}, {**network, "links": star, "root": 2})


def device_used(device: ts.Device, folder: Path) -> None:
    """Predictions by its closed form."""
    assert repr(device) and device.memory and device.shared
    ts.Device.load(device.to_dict())
    for graph in graphs()[:2]:
        estimate = ts.estimate(graph, device)
        assert repr(estimate)
        ts.roofline(graph, device)


# --- results, mappings, stores, profiles ---


def written(result: ts.Result, folder: Path) -> None:
    """All that writes one."""
    result.to_html(folder / "report.html")
    result.save(folder / "result.json")
    ts.Result.load(folder / "result.json")
    result.timing_hash()
    if result.data["intervals"]:
        result.timeline(folder / "timeline.perfetto")


def results(folder: Path) -> list[bytes]:
    """Of one machine, with a timeline; and one with memory of banks."""
    program = ts.compile(ts.workloads.softmax(4, 8))
    return texts(
        ts.simulate(program, timeline=True).data, ts.simulate(ts.compile(ts.workloads.matmul(8, 8, 8), "edge-8")).data
    )


def mapping_used(table: ts.mapping.MappingTable, folder: Path) -> None:
    """Compiled with, and saved."""
    ts.compile(PRODUCT(), "edge-8", mapping=table)
    assert table.report() is not None and repr(table)
    table.save(folder / "mapping.json")
    ts.mapping.MappingTable.load(folder / "mapping.json")


def PRODUCT() -> ts.Graph:
    """The product that mapping tables are for."""
    return ts.workloads.matmul(256, 96, 128, dtype="bf16")


def mapping_tables(folder: Path) -> list[bytes]:
    """By size, and by name."""
    sizes = {"256_128_96": {"TILE_M": 64, "TILE_N": 32, "TILE_K": 64}}
    named = {"matmul": {"tiles": [64, 32, 64], "order": [0, 1, 2], "depths": [2, 2, 2]}}
    return texts(sizes, {"schema": "tilesim.mapping", "version": 1, "order": "M_K_N", "entries": {**sizes, **named}})


def products() -> Any:
    """What imported mappings are for."""
    return ts.mapping.products(PRODUCT(), "edge-8")


TIMELOOP = """mapping:
  - {target: DRAM, type: temporal, factors: M=4 N=3 K=2, permutation: KNM}
  - {target: GlobalBuffer, type: temporal, factors: M8 N4 K64, permutation: MNK}
  - target: GlobalBuffer
    type: spatial
    factors: [M=8, N=8, K=1]
    permutation: [M, N, K]
  - {target: GlobalBuffer, type: bypass, keep: [Inputs, Outputs], bypass: [Weights]}
"""
ZIGZAG = """- name: default
  spatial_mapping: {D1: ["K, 8"], D2: ["C, 8"]}
  temporal_ordering:
    - [C, 16]
    - [B, 64]
    - [K, 2]
    - [K, '*']
    - ['*', '*']
  memory_operand_links: {O: O, W: I2, I: I1}
"""


def stores(folder: Path) -> list[bytes]:
    """Of a sweep, a tuning and latencies."""
    path = folder / "store.sqlite"
    with_all(path)
    return [path.read_bytes()]


def with_all(path: Path) -> None:
    """A sweep, a tuning and a simulation, which take from a store what is known."""
    store = ts.Store(path)
    try:
        ts.sweep(PRODUCT(), "edge-8", {"core.array.count": [1, 2]}, store=store, jobs=1)
        ts.tune(PRODUCT(), "edge-8", budget=2, store=store, jobs=1)
        latencies = ts.TileLatencies(path)
        try:
            ts.simulate(ts.compile(ts.workloads.matmul(8, 8, 8), "edge-8"), latencies=latencies)
            latencies.table("edge-8")
        finally:
            latencies.close()
    finally:
        store._connection.execute("PRAGMA journal_mode=DELETE")  # one file holds all
        store.close()


def profile_used(profile: ts.analytic.Profile, folder: Path) -> None:
    """A prediction with it."""
    assert repr(profile) and profile.report() is not None
    repr(ts.estimate(graphs()[1], "t4", profile=profile))
    profile.save(folder / "again.json")
    ts.analytic.Profile.load(folder / "again.json")


def profiles(folder: Path) -> list[bytes]:
    """Of a fit of one group."""
    entry = Entry("gemm", "fp16", device="t4", constants={"efficiency": 0.8}, provenance={"efficiency": "fitted"})
    return saved([ts.analytic.Profile("mine", [entry], [1, 2, 3], [{"n": 3}], ["nothing"])], folder, "profile.json")


def traces(folder: Path) -> list[bytes]:
    """With cycles and without."""
    plain = "\n".join(f"{'RW'[i % 2]} {hex(i * 64)}" for i in range(12))
    timed = "# a comment\n" + "\n".join(f"R {i * 4096} {i * 10}" for i in range(12))
    return texts(plain, timed)


def trace_run(trace: ts.memory.Trace, folder: Path) -> None:
    """On one channel."""
    repr(ts.memory.run("DDR4-3200", trace, wrap=True))


def parts_table(path: Path) -> Any:
    """A table's own parts."""
    cases = path.parent / "dram.csv"
    cases.write_text(
        "part,pattern,inject_every_cycles,requests,cycles\nmine,random_read,50,20,2000\n", encoding="utf-8"
    )
    return validate_dram(cases, path)


OWN = [
    Format("graph", "graph.json", "json", lambda f: saved(graphs(), f, "g.json"), read_graph, GRAPH_USES, 4600),
    Format("graph .tsim", "graph.tsim", "tsim", lambda f: saved(graphs(), f, "g.tsim"), read_graph, GRAPH_USES, 2600),
    Format(
        "weights by path",
        "graph.json",
        "json",
        by_path,
        read_graph,
        [told, saved_again, GRAPH_USES[4]],
        1600,
        lambda f: (f / "w.bin").write_bytes(bytes(range(12))),
    ),
    Format(
        "program",
        "program.json",
        "json",
        lambda f: [p.read_bytes() for p in sorted((TESTS / "programs").glob("*.json"))],
        ts.Program.load,
        [program_told, program_simulated, executed],
        2400,
    ),
    Format("compiled", "compiled.tsim", "tsim", compiled, ts.Program.load, COMPILED_USES, 900),
    Format(
        "machine",
        "machine.json",
        "json",
        machines,
        ts.Machine.load,
        [machine_told, machine_used, lambda m, _: repr(ts.Device.from_machine(m))],
        2200,
    ),
    Format(
        "machine, TOML",
        "machine.toml",
        "text",
        machines_with_comments,
        ts.Machine.load,
        [machine_told, machine_used],
        400,
        needs="tomllib",
    ),
    Format(
        "device",
        "device.json",
        "json",
        lambda f: texts(*(ts.Device.load(n).to_dict() for n in ("t4", "xeon-8480"))),
        ts.Device.load,
        [device_used],
        1400,
    ),
    Format(
        "DRAM part",
        "part.json",
        "json",
        lambda f: texts(*(ts.memory.Part.load(name).to_dict() for name in ("HBM2-2000", "DDR4-3200"))),
        ts.memory.Part.load,
        [part_run],
        600,
    ),
    Format(
        "DRAM part, reference form",
        "part.json",
        "json",
        lambda f: texts(reference_part()),
        reference_form,
        [part_run],
        500,
    ),
    Format(
        "parts of a table", "dram_parts.json", "json", lambda f: texts({"mine": reference_part()}), parts_table, (), 300
    ),
    Format("DRAM trace", "trace.txt", "text", traces, ts.memory.Trace.read, [trace_run], 900),
    Format("network", "network.json", "json", networks, ts.network.topology, [network_run], 1200),
    Format("result", "result.json", "json", results, ts.Result.load, [shown, written], 1000),
    Format("mapping table", "mapping.json", "json", mapping_tables, ts.mapping.MappingTable.load, [mapping_used], 500),
    Format(
        "Timeloop",
        "map.yaml",
        "text",
        lambda f: texts(TIMELOOP),
        lambda path: from_timeloop(path, products()),
        (),
        120,
        needs="yaml",
    ),
    Format(
        "ZigZag",
        "map.yaml",
        "text",
        lambda f: texts(ZIGZAG),
        lambda path: from_zigzag(path, products()),
        (),
        120,
        needs="yaml",
    ),
    Format("store", "store.sqlite", "store", stores, lambda path: path, [lambda path, _: with_all(path)], 50),
    Format("profile", "profile.json", "json", profiles, ts.analytic.Profile.load, [profile_used], 700),
]
