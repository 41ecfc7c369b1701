"""The commands: where each is, what it does, and examples that `--help` shows."""

from __future__ import annotations

from typing import NamedTuple


class Entry(NamedTuple):
    """A command: `module:function` in this package, its help, examples without the program's name."""

    place: str
    help: str
    examples: tuple[str, ...]

    def epilog(self, command: str) -> str:
        """What `--help` shows below the options; a paragraph each, as typer lays them out."""
        lines = [f"  tilesim {command} {words}".rstrip() for words in self.examples]
        return "\n\n".join(["Examples:", *lines])


GROUPS = {
    "machine": "Machines: presets and files.",
    "model": "Networks that Tilesim builds itself.",
    "device": "Devices: CPUs, GPUs and NPUs in closed form.",
    "cluster": "Many chips: networks, collectives, steps.",
    "isa": "RISC-V programs at instruction level.",
    "validate": "Comparison with measured tables.",
    "measure": "Measure this machine for calibrate.",
}

COMMANDS: dict[str, Entry] = {
    "run": Entry(
        "run:run",
        "Compile, simulate and explain a workload; on a device, estimate it.",
        (
            "resnet18",
            "bert-base --machine tpu-v4 --batch 8",
            "gpt2 --phase decode --context 512 --set core.array.count=4",
            "matmul:512,512,512,bf16 --verify --timeline trace.perfetto",
            "bert-base --machine h100",
        ),
    ),
    "why": Entry(
        "why:why",
        "Why an operation takes so long: its bound, each term between bound and time, and what would change it.",
        ("bert-base attention.self --machine tpu-v3", "run.json intermediate.dense --html why.html"),
    ),
    "compare": Entry(
        "compare:compare",
        "Results side by side: which operations the difference lies in. The others are compared with the first one.",
        (
            "mlp --machine tpu-v3 --machine tpu-v4",
            "mlp --lowering native --lowering best",
            "old.json new.json --html diff.html",
            "old_step.json new_step.json",
        ),
    ),
    "check": Entry(
        "compare:check",
        "Whether a result is that of before: totals and each operation; exit code 1 where one changed by more.",
        ("new.json --against old.json --tolerance 2%",),
    ),
    "open": Entry(
        "compare:open_",
        "Make the page of a saved result, and open it.",
        ("new.json --no-browser -o new.html", "new.json --baseline old.json"),
    ),
    "sweep": Entry(
        "sweep:sweep",
        "Models on machines with settings varied, every combination simulated; a row each.",
        (
            "mlp --machine tpu-v3 --set core.array.rows=64,128",
            "mlp,resnet18 --set core.array.count=1,2 --pareto seconds,bytes",
        ),
    ),
    "coverage": Entry(
        "report:coverage",
        "How each operation is modelled (array, vector unit, copy, host, unsupported); shares of FLOPs, bytes, time.",
        ("bert-base", "resnet18 --machine tpu-v4 --all"),
    ),
    "profile": Entry(
        "report:profile",
        "Time of each operation by the reference kernels on this computer, beside its simulated time.",
        ("mlp --runs 1", "mlp --batch 8 --all"),
    ),
    "levels": Entry(
        "levels:levels",
        "What closed forms and kernels say of each tile compute, and of the whole.",
        ("resnet18", "bert-base --machine edge-8 --json levels.json"),
    ),
    "map": Entry(
        "mapping:map_",
        "Show how products, vector kernels and kernels that move data are mapped.",
        ("bert-base", "matmul:512,512,512 --show", "matmul:512,512,512 --tiles m=128"),
    ),
    "tune": Entry(
        "mapping:tune",
        "Find the fastest mapping by simulating candidates.",
        ("matmul:512,512,512 --budget 8", "mlp --budget 4 --save best.json"),
    ),
    "roofline": Entry(
        "analytic:roofline",
        "The bound of a network on a device, the predicted time, and what bounds each operation.",
        ("bert-base --device h100", "llama-3-8b --phase decode --scheme int4_wo"),
    ),
    "crossover": Entry(
        "analytic:crossover",
        "Does another dtype help, from which intensity on, and how sure is that?",
        ("h100 fp8", "t4 int8 --shape 1:4096,4096,4096", "h100 --model gpt2"),
    ),
    "suite": Entry(
        "analytic:suite", "A suite of workloads across devices.", ("vision", "llm --device h100 --device mi300x")
    ),
    "calibrate": Entry(
        "analytic:calibrate",
        "Fit the few constants of a device to measurements; state the error on rows left out.",
        ("measurements.csv --device h100 --save profile.json",),
    ),
    "doctor": Entry("doctor:doctor", "Versions, what is installed, and where things lie.", ("",)),
    "machine list": Entry(
        "machines:list_",
        "Machines, which are simulated, and devices, which are estimated: --machine takes both.",
        ("",),
    ),
    "machine show": Entry(
        "machines:show",
        "Every setting of a machine: its value, whether the file sets it or it is the default, and its source.",
        ("tpu-v3",),
    ),
    "machine settings": Entry(
        "machines:settings",
        "All settings that a machine can have: unit, range, default, meaning, effect.",
        ("core.array", "memory.bandwidth"),
    ),
    "machine diff": Entry("machines:diff", "The settings in which two machines differ.", ("tpu-v3 tpu-v4",)),
    "machine new": Entry(
        "machines:new",
        "Write a machine's file to change by hand: every setting with unit, range, default, meaning and source.",
        ("--from tpu-v3 my.toml", "--from edge-8 my.json --name mine"),
    ),
    "model list": Entry(
        "machines:models", "The networks, with their sizes and what they are built with unless told otherwise.", ("",)
    ),
    "model show": Entry(
        "machines:model", "What goes in and out of a network, its size, and its work.", ("llama-3-8b --phase decode",)
    ),
    "device list": Entry("analytic:devices", "The shipped devices; machine list has machines too.", ("",)),
    "device show": Entry("analytic:device", "Every figure of a device and where it comes from.", ("h100",)),
    "measure cpu": Entry(
        "analytic:measure_cpu",
        "Matrix products through numpy and torch, plain and packed: about a minute.",
        ("--save cpu.csv --seconds 30",),
    ),
    "measure cuda": Entry(
        "analytic:measure_cuda", "Matrix products through torch on a CUDA device.", ("--save gpu.csv",)
    ),
    "isa run": Entry(
        "isa:run",
        "Run a program; its standard streams are this command's, the profile of a timed run goes to standard error."
        "\n\nExit codes: 0, the program ended with 0; 1, it ended otherwise or trapped; 2, a mistake in the command.",
        ("k.elf -- 1000", "k.elf --vlen 512 --json run.json"),
    ),
    "isa asm": Entry("isa:asm", "Assemble a file into a static program.", ("k.s -o k.elf",)),
    "isa dis": Entry("isa:dis", "Disassemble a program's code, or single instructions.", ("k.elf", "00a585b3")),
    "isa kernel": Entry(
        "isa:kernel_",
        "The kernel of a tile compute, as a program or as text.",
        ('"mma i8 i8 b1 m4 n8 k8 ko1" --machine edge-8 -o k.elf',),
    ),
    "isa header": Entry(
        "isa:header_",
        "The C header of an NPU core: its instructions, numbers, registers and transfer descriptor.",
        ("--machine edge-8 -o tilesim_isa.h",),
    ),
    "isa list": Entry("isa:list_", "The table of instructions.", ("Zbb",)),
    "cluster list": Entry(
        "clusters.lists:list_", "The shipped clusters; NAME:devices scales the outer dimension.", ("",)
    ),
    "cluster show": Entry(
        "clusters.lists:show",
        "A cluster: its dimensions, the rates and latencies of its links, and where the numbers come from.",
        ("dgx-h100:64",),
    ),
    "cluster collective": Entry(
        "clusters.collective:collective_",
        "The time of one collective on a cluster's network.",
        ("all_reduce 1GiB --cluster dgx-h100:64", "all_to_all 64MiB --cluster tpu-v4:64 --model flows"),
    ),
    "cluster step": Entry(
        "clusters.step:step",
        "Time and memory of one step on many devices: training, prefill or decode under a plan, or a module for them.",
        ("megatron-22b --cluster dgx-h200:8 --plan tensor=8", "gpt3-175b --cluster dgx-h100 --devices 64,512"),
    ),
    "cluster search": Entry(
        "clusters.search:search",
        "Every plan that divides a workload, priced; the fastest that fit, and what the best one spends its time on.",
        ("gpt3-175b --cluster dgx-a100:64", "gpt3-175b --cluster dgx-a100:64 --map"),
    ),
    "cluster compare": Entry(
        "clusters.compare:compare",
        "Steps side by side: which parts the difference lies in. The others are compared with the first one.",
        ("llama3-100m --cluster dgx-h100 --cluster dgx-a100",),
    ),
    "cluster partition": Entry(
        "clusters.partition:partition",
        "Print the collectives of a program for several devices: kind, calls, groups, bytes in, out and on the wire.",
        ("module.mlir", "mlp.json --mesh d=4 --shardings up=-,d"),
    ),
    "cluster replay": Entry(
        "clusters.replay:replay",
        "The time of recorded traces on a cluster: computes as recorded, communication by the network.",
        ("traces --cluster dgx-h100:64",),
    ),
    "validate tpu-v3": Entry(
        "validate:tpu_v3",
        "Compare with measured cycles of one TPU v3 core.",
        ("", "--cases measured.csv --json report.json"),
    ),
    "validate noc": Entry(
        "validate:noc", "Compare with measured latencies and accepted loads of on-chip networks.", ("--seeds 1",)
    ),
    "validate dram": Entry("validate:dram", "Compare with cycles of DRAM channels.", ("",)),
    "validate gemm": Entry(
        "validate:gemm", "Compare predicted with measured matrix products.", ("", "--cases measured.csv --device h100")
    ),
    "validate attention": Entry("validate:attention", "Compare predicted with measured attention kernels.", ("",)),
    "validate conv": Entry("validate:conv", "Compare predicted with measured convolutions.", ("",)),
    "validate vector": Entry(
        "validate:vector", "Compare predicted with measured elementwise operations, softmax and normalization.", ("",)
    ),
    "validate sparse": Entry("validate:sparse", "Compare with measured cycles of units that skip zeros.", ("",)),
    "validate rvv": Entry(
        "validate:rvv",
        "Compare with measured cycles of vector instructions on four RISC-V cores."
        "\n\nExit codes: 0; 1, rows could not be simulated; 2, a mistake in the command.",
        ("", "--cases rvv_cycles.csv --json report.json"),
    ),
    "validate network": Entry(
        "validate:network",
        "Compare estimates of whole networks with measured ones: eager torch and torch.compile.",
        ("",),
    ),
    "validate collective": Entry(
        "validate:collective",
        "Compare collectives of several devices with measured ones."
        "\n\nExit codes: 0; 1, rows could not be predicted; 2, a mistake in the command.",
        ("",),
    ),
    "validate step": Entry(
        "validate:step_",
        "Compare predicted with measured training steps on many devices.",
        ("", "--cases train_step_ms.csv --json report.json"),
    ),
}
