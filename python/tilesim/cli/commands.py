"""The table of commands, with the function, help and examples of each command."""

from __future__ import annotations

from typing import NamedTuple


class Command(NamedTuple):
    """A command: its place `module:function` in this package, its help, and its examples without "tilesim"."""

    place: str
    help: str
    examples: tuple[str, ...]

    def epilog(self, command: str) -> str:
        """Returns the text below the options in `--help`: one paragraph per example."""
        lines = [f"  tilesim {command} {words}".rstrip() for words in self.examples]
        return "\n\n".join(["Examples:", *lines])


GROUPS = {
    "machine": "Machines: presets and files.",
    "model": "Built-in networks.",
    "device": "Devices: CPUs, GPUs and NPUs, estimated in closed form.",
    "cluster": "Many chips: collectives, training and inference steps.",
    "isa": "RISC-V programs at instruction level.",
    "validate": "Compare predictions with measured tables.",
    "measure": "Measure this computer for calibrate.",
}

COMMANDS: dict[str, Command] = {
    "run": Command(
        "run:run",
        "Compile, simulate and explain a workload on a machine; estimate it on a device.",
        (
            "resnet18",
            "bert-base --machine tpu-v4 --batch 8",
            "gpt2 --phase decode --context 512 --set core.array.count=4",
            "matmul:512,512,512,bf16 --verify --timeline trace.perfetto",
            "bert-base --machine h100",
        ),
    ),
    "why": Command(
        "why:why",
        "Explain the time of an operation: its lower bound, each term above the bound, and alternatives.",
        ("bert-base attention.self --machine tpu-v3", "run.json intermediate.dense --html why.html"),
    ),
    "compare": Command(
        "compare:compare",
        "Compare results with the first one, and show which operations differ.",
        (
            "mlp --machine tpu-v3 --machine tpu-v4",
            "mlp --lowering native --lowering best",
            "old.json new.json --html diff.html",
            "old_step.json new_step.json",
        ),
    ),
    "check": Command(
        "compare:check",
        "Check a result against a saved one: totals and each operation. Exit code 1 if a change exceeds the tolerance.",
        ("new.json --against old.json --tolerance 2%",),
    ),
    "open": Command(
        "compare:open_",
        "Write the HTML page of a saved result, and open it.",
        ("new.json --no-browser -o new.html", "new.json --baseline old.json"),
    ),
    "sweep": Command(
        "sweep:sweep",
        "Simulate every combination of models, machines and settings, one row each.",
        (
            "mlp --machine tpu-v3 --set core.array.rows=64,128",
            "mlp,resnet18 --set core.array.count=1,2 --pareto seconds,bytes",
        ),
    ),
    "coverage": Command(
        "report:coverage",
        "Show how each operation is modelled (array, vector unit, copy, host, unsupported), and shares of work.",
        ("bert-base", "resnet18 --machine tpu-v4 --all"),
    ),
    "profile": Command(
        "report:profile",
        "Time each operation's reference kernel on this computer, and compare with its simulated time.",
        ("mlp --runs 1", "mlp --batch 8 --all"),
    ),
    "levels": Command(
        "levels:levels",
        "Compare closed-form and instruction-level times of each tile operation, and of the whole program.",
        ("resnet18", "bert-base --machine edge-8 --json levels.json"),
    ),
    "map": Command(
        "mapping:map_",
        "Show the mapping of matrix products, vector kernels and data-movement kernels.",
        ("bert-base", "matmul:512,512,512 --show", "matmul:512,512,512 --tiles m=128"),
    ),
    "tune": Command(
        "mapping:tune",
        "Find the fastest mapping by simulating candidates.",
        ("matmul:512,512,512 --budget 8", "mlp --budget 4 --save best.json"),
    ),
    "roofline": Command(
        "analytic:roofline",
        "Show a network's lower bound and estimated time on a device, and what bounds each operation.",
        ("bert-base --device h100", "llama-3-8b --phase decode --scheme int4_wo"),
    ),
    "crossover": Command(
        "analytic:crossover",
        "Find out whether another dtype is faster, from which arithmetic intensity on, and with what confidence.",
        ("h100 fp8", "t4 int8 --shape 1:4096,4096,4096", "h100 --model gpt2"),
    ),
    "suite": Command(
        "analytic:suite",
        "Estimate a suite of workloads on several devices.",
        ("vision", "llm --device h100 --device mi300x"),
    ),
    "calibrate": Command(
        "analytic:calibrate",
        "Fit a device's constants to measurements, and report the error on held-out rows.",
        ("measurements.csv --device h100 --save profile.json",),
    ),
    "doctor": Command("doctor:doctor", "Show versions, installed packages and paths.", ("",)),
    "machine list": Command(
        "machines:list_",
        "List machines (simulated) and devices (estimated); --machine accepts both.",
        ("",),
    ),
    "machine show": Command(
        "machines:show",
        "Show every setting of a machine: value, origin (file or default) and source.",
        ("tpu-v3",),
    ),
    "machine settings": Command(
        "machines:settings",
        "Describe all settings of machines: unit, range, default, meaning, effect.",
        ("core.array", "memory.bandwidth"),
    ),
    "machine diff": Command("machines:diff", "Show the settings in which two machines differ.", ("tpu-v3 tpu-v4",)),
    "machine new": Command(
        "machines:new",
        "Write a machine file to edit: every setting with unit, range, default, meaning and source.",
        ("--from tpu-v3 my.toml", "--from edge-8 my.json --name mine"),
    ),
    "model list": Command("machines:models", "List the networks with their sizes and default options.", ("",)),
    "model show": Command(
        "machines:model", "Show a network's inputs, outputs, size and work.", ("llama-3-8b --phase decode",)
    ),
    "device list": Command("analytic:devices", "List the shipped devices; machine list has machines too.", ("",)),
    "device show": Command("analytic:device", "Show all parameters of a device with their sources.", ("h100",)),
    "measure cpu": Command(
        "analytic:measure_cpu",
        "Measure matrix products of numpy and torch, plain and packed; takes about a minute.",
        ("--save cpu.csv --seconds 30",),
    ),
    "measure cuda": Command(
        "analytic:measure_cuda", "Measure matrix products of torch on a CUDA device.", ("--save gpu.csv",)
    ),
    "isa run": Command(
        "isa:run",
        "Run a program with this command's standard streams; the profile of a timed run goes to standard error."
        "\n\nExit codes: 0, the program returned 0; 1, it returned another code or trapped; 2, wrong arguments.",
        ("k.elf -- 1000", "k.elf --vlen 512 --json run.json"),
    ),
    "isa asm": Command("isa:asm", "Assemble a file into a static program.", ("k.s -o k.elf",)),
    "isa dis": Command("isa:dis", "Disassemble a program's code, or single instructions.", ("k.elf", "00a585b3")),
    "isa kernel": Command(
        "isa:kernel_",
        "Write the kernel of a tile operation, as a program or as text.",
        ('"mma i8 i8 b1 m4 n8 k8 ko1" --machine edge-8 -o k.elf',),
    ),
    "isa header": Command(
        "isa:header_",
        "Write the C header of an NPU core: instructions, constants, registers and transfer descriptor.",
        ("--machine edge-8 -o tilesim_isa.h",),
    ),
    "isa list": Command("isa:list_", "List the instructions.", ("Zbb",)),
    "cluster list": Command(
        "clusters.lists:list_", "List the shipped clusters; NAME:devices scales the outer dimension.", ("",)
    ),
    "cluster show": Command(
        "clusters.lists:show",
        "Show a cluster: dimensions, link rates and latencies, and their sources.",
        ("dgx-h100:64",),
    ),
    "cluster collective": Command(
        "clusters.collective:collective_",
        "Estimate the time of one collective on a cluster's network.",
        ("all_reduce 1GiB --cluster dgx-h100:64", "all_to_all 64MiB --cluster tpu-v4:64 --model flows"),
    ),
    "cluster step": Command(
        "clusters.step:step",
        "Estimate time and memory of one step on many devices: training, prefill or decode or a partitioned module.",
        ("megatron-22b --cluster dgx-h200:8 --plan tensor=8", "gpt3-175b --cluster dgx-h100 --devices 64,512"),
    ),
    "cluster search": Command(
        "clusters.search:search",
        "Estimate every parallel plan of a workload; list the fastest that fit, and explain the best one.",
        ("gpt3-175b --cluster dgx-a100:64", "gpt3-175b --cluster dgx-a100:64 --map"),
    ),
    "cluster compare": Command(
        "clusters.compare:compare",
        "Compare steps with the first one, and show which parts differ.",
        ("llama3-100m --cluster dgx-h100 --cluster dgx-a100",),
    ),
    "cluster partition": Command(
        "clusters.partition:partition",
        "Print the collectives of a program for several devices: type, calls, groups, bytes in, out and on the wire.",
        ("module.mlir", "mlp.json --mesh d=4 --shardings up=-,d"),
    ),
    "cluster replay": Command(
        "clusters.replay:replay",
        "Replay recorded traces on a cluster: compute times as recorded, communication by the network model.",
        ("traces --cluster dgx-h100:64",),
    ),
    "validate tpu-v3": Command(
        "validate:tpu_v3",
        "Compare with measured cycles of one TPU v3 core.",
        ("", "--cases measured.csv --json report.json"),
    ),
    "validate noc": Command(
        "validate:noc", "Compare with measured latencies and accepted loads of on-chip networks.", ("--seeds 1",)
    ),
    "validate dram": Command("validate:dram", "Compare with cycles of DRAM channels.", ("",)),
    "validate gemm": Command(
        "validate:gemm", "Compare predicted with measured matrix products.", ("", "--cases measured.csv --device h100")
    ),
    "validate attention": Command("validate:attention", "Compare predicted with measured attention kernels.", ("",)),
    "validate conv": Command("validate:conv", "Compare predicted with measured convolutions.", ("",)),
    "validate vector": Command(
        "validate:vector", "Compare predicted with measured elementwise operations, softmax and normalization.", ("",)
    ),
    "validate sparse": Command("validate:sparse", "Compare with measured cycles of units that skip zeros.", ("",)),
    "validate rvv": Command(
        "validate:rvv",
        "Compare with measured cycles of vector instructions on four RISC-V cores."
        "\n\nExit codes: 0, success; 1, some rows could not be simulated; 2, wrong arguments.",
        ("", "--cases rvv_cycles.csv --json report.json"),
    ),
    "validate network": Command(
        "validate:network",
        "Compare estimates of whole networks with measured ones: eager torch and torch.compile.",
        ("",),
    ),
    "validate collective": Command(
        "validate:collective",
        "Compare collectives of several devices with measured ones."
        "\n\nExit codes: 0, success; 1, some rows could not be predicted; 2, wrong arguments.",
        ("",),
    ),
    "validate step": Command(
        "validate:step_",
        "Compare predicted with measured training steps on many devices.",
        ("", "--cases train_step_ms.csv --json report.json"),
    ),
}
