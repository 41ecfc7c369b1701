"""Programs on DRAM channels with banks: bounds, conservation, determinism, and the same bytes as the simple memory."""

from __future__ import annotations

import pytest

import tilesim as ts
from tilesim import _core

WORKLOADS = {
    "matmul": lambda: ts.workloads.matmul(512, 512, 512),
    "softmax": lambda: ts.workloads.softmax(256, 512),
    "conv2d": lambda: ts.workloads.conv2d(8, 16, 14, 14, 32, 3, padding=1),
}


@pytest.mark.parametrize("name", WORKLOADS)
def test_bank_memory_moves_the_same_bytes_within_the_bounds(name: str) -> None:
    graph = WORKLOADS[name]()
    program = ts.compile(graph)
    simple, bank = ts.simulate(program), ts.simulate(program, memory="bank")
    assert bank.memory_bytes == simple.memory_bytes
    assert bank.seconds >= ts.roofline(graph, "tpu-v3").seconds
    assert bank.cycles >= ts.simulate(program, memory="ideal").cycles
    assert bank.data["fidelity"]["memory"] == "bank"
    assert any("HBM2-1758" in text for text in bank.approximations)
    for unit in bank.data["units"]:
        assert sum(unit["cycles"].values()) == bank.cycles


def test_no_channel_exceeds_its_data_bus() -> None:
    result = ts.simulate(ts.compile(ts.workloads.softmax(2048, 2048)), memory="bank")
    peak = ts.memory.Part.load("HBM2-1758").peak_bandwidth
    channels = [unit for unit in result.data["units"] if unit["kind"] == "channel"]
    assert len(channels) == 16
    moved = [unit["bytes"] for unit in channels]
    # Writes may still wait in the queues, and writes of one address are merged there.
    assert 0.98 * result.memory_bytes <= sum(moved) <= result.memory_bytes
    assert max(moved) / result.seconds <= peak
    assert max(moved) <= 1.05 * min(moved)  # spread evenly


def test_insertion_order_does_not_matter() -> None:
    program = ts.compile(ts.workloads.softmax(256, 512))
    assert program.machine is not None
    part = ts.memory.Part.load("HBM2-TPUv3").core

    def timing(**options: int | bool) -> str:
        return _core.simulate(program.core, program.machine.core, memory="bank", dram=part, **options).timing_hash()

    first = timing()
    assert all(timing(shuffle_seed=seed, extra_statistic=True) == first for seed in (1, 2, 3))


def test_a_slower_part_is_slower() -> None:
    graph = ts.workloads.softmax(512, 512)
    machine = ts.Machine.load("tpu-v3")
    cycles = [
        ts.simulate(ts.compile(graph, machine.replace({"memory.part": part})), memory="bank").cycles
        for part in ("HBM2-TPUv4", "HBM2-TPUv3", "HBM2-TPUv2", "DDR4-1600")
    ]
    assert cycles == sorted(cycles)
    assert cycles[-1] > 1.5 * cycles[0]


def test_mistakes() -> None:
    program = ts.compile(ts.workloads.matmul(64, 64, 64))
    assert program.machine is not None
    with pytest.raises(ts.UserError, match=r"memory\.part"):
        ts.simulate(program, program.machine.replace({"memory.part": ""}), memory="bank")
    with pytest.raises(ts.UserError, match="HBM2-TPUv3"):
        ts.simulate(program, program.machine.replace({"memory.part": "HBM2-TPUv33"}), memory="bank")
    with pytest.raises(ts.UserError, match="bank"):
        ts.simulate(program, memory="banks")


def test_energy_counts_commands_of_the_part() -> None:
    program = ts.compile(ts.workloads.matmul(512, 512, 512))
    bank, simple = ts.simulate(program, memory="bank"), ts.simulate(program)
    parts = {entry["part"]: entry for entry in bank.data["energy"]}
    assert "memory bytes" not in parts
    assert parts["DRAM activations"]["femtojoules"] == parts["DRAM activations"]["count"] * 909_000
    for name in ("DRAM read bursts", "DRAM write bursts"):
        assert parts[name]["femtojoules"] == parts[name]["count"] * 890_880
    for name, moved in (("read", "memory_read_bytes"), ("write", "memory_written_bytes")):
        bursts = parts[f"DRAM {name} bursts"]["count"]
        assert bursts * 32 == bank.data[moved]
    assert "memory bytes" in {entry["part"] for entry in simple.data["energy"]}
    assert any("DRAM energy" in text for text in bank.approximations)
    other = ts.simulate(
        program, program.machine.replace({"memory.part": "HBM3-6400", "memory.mapping": ""}), memory="bank"
    )
    assert any("no figures per command of HBM3-6400" in text for text in other.approximations)


def test_hashes_spread_the_streams_of_many_cores() -> None:
    # Sixteen cores read rows of tensors whose sizes are powers of two: without a hash they meet in few banks.
    machine = ts.Machine.load("mesh-16").replace({"memory.bank_hash": "none", "memory.channel_hash": "none"})
    b = ts.GraphBuilder("sum", dtype="bf16")
    b.output(b.input("x", [1024, 1024]) + b.input("y", [1024, 1024]), "z")
    program = ts.compile(b.build(), machine)

    def conflicts(**settings: str) -> tuple[int, int]:
        changed = machine.replace({f"memory.{name}": value for name, value in settings.items()})
        result = ts.simulate(program, changed, memory="bank")
        banks = result.data["memory"]["banks"]
        return sum(activates for channel in banks for activates, _ in channel), result.memory_bytes

    plain, moved = conflicts()
    for kind in ("xor", "ipoly"):
        hashed, same = conflicts(bank_hash=kind)
        assert same == moved and hashed < plain


def test_settings_of_addresses_are_checked() -> None:
    machine = ts.Machine.load("tpu-v3")
    with pytest.raises(ts.UserError, match=r"memory\.bank_hash.*none, xor, ipoly"):
        machine.replace({"memory.bank_hash": "md5"})
    with pytest.raises(ts.UserError, match=r"memory\.channel_hash.*none, skew, ipoly"):
        machine.replace({"memory.channel_hash": "xor"})
    program = ts.compile(ts.workloads.matmul(64, 64, 64))
    with pytest.raises(ts.UserError, match="too few bits of bank_group"):
        ts.simulate(program, machine.replace({"memory.mapping": "row:2 bank column offset"}), memory="bank")


def columns_of_wide_rows() -> ts.Graph:
    """The first 256 bytes of rows of 4 KiB: one unit of the interleaving in every round over 16 channels."""
    b = ts.GraphBuilder("columns")
    x = b.input("x", [2048, 1024])
    b.output(x[:, :64] * 2.0, "y")
    return b.build()


def dense_machine(**settings: str) -> ts.Machine:
    """Rows lie one behind the other, without tiles of 8 x 128."""
    base = ts.Machine.load("tpu-v3").replace({"memory.channel_hash": "none", "memory.bank_hash": "none"})
    return base.replace({"layout.tile": [], **{f"memory.{name}": value for name, value in settings.items()}})


def test_pieces_are_looked_up_where_they_lie() -> None:
    program = ts.compile(columns_of_wide_rows(), dense_machine())

    def run(**settings: str) -> tuple[list[int], ts.Result]:
        result = ts.simulate(program, dense_machine(**settings), memory="bank")
        return [unit["bytes"] for unit in result.data["units"] if unit["kind"] == "channel"], result

    moved, met = run()
    spread, hashed = run(channel_hash="skew")
    read = 2048 * 64 * 4
    assert met.memory_bytes == hashed.memory_bytes == 2 * read
    assert max(moved) >= read > 8 * min(moved)  # all that is read lies on one channel
    assert max(spread) <= 1.05 * min(spread)
    peak = ts.memory.Part.load("HBM2-1758").peak_bandwidth
    assert met.seconds >= read / peak > 2 * hashed.seconds


def test_the_two_fidelities_agree_where_one_is_fitted_and_the_other_is_not() -> None:
    """The memory.efficiency of the simple memory was fitted to a chip; banks at the published bandwidth have none."""
    graphs = {
        "matmul": ts.workloads.matmul(1024, 1024, 1024),
        "matmul, few rows": ts.workloads.matmul(8, 2048, 2048),
        "layer_norm": ts.workloads.layer_norm(2048, 1024),
        "softmax": ts.workloads.softmax(1024, 4096),
        "conv2d": ts.workloads.conv2d(8, 64, 28, 28, 64, 3, padding=1),
    }
    for name, graph in graphs.items():
        program = ts.compile(graph, "tpu-v3")
        ratio = ts.simulate(program, memory="bank").cycles / ts.simulate(program, memory="simple").cycles
        assert 0.92 < ratio < 1.08, (name, ratio)


def test_tensors_beyond_the_parts_are_named() -> None:
    b = ts.GraphBuilder("rows of a large table")
    b.output(b.op("embedding", b.weight("table", (7 << 20, 128)), b.input("ids", [16], "i32")), "y")  # 3.5 GiB
    machine = ts.Machine.load("tpu-v3").replace({"memory.channels": 1, "memory.capacity": "4 GiB"})
    result = ts.simulate(ts.compile(b.build(), machine), memory="bank")
    assert any("the parts of all channels hold 2147483648 B" in text for text in result.approximations)


def test_advice_doubles_channels_where_banks_ignore_the_bandwidth() -> None:
    result = ts.simulate(ts.compile(ts.workloads.softmax(512, 512), "tpu-v3"), memory="bank")
    advice = {next(iter(item.change)): item.gain for item in result.explain()}
    assert "memory.bandwidth" not in advice and "memory.latency" not in advice
    assert advice["memory.channels"] > 1.1
