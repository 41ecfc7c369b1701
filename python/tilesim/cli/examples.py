"""Examples that `--help` shows behind the options of a command."""

from __future__ import annotations

__all__ = ["EXAMPLES", "epilog"]

EXAMPLES: dict[str, tuple[str, ...]] = {
    "levels": ("tilesim levels resnet18", "tilesim levels bert-base --machine edge-8 --json levels.json"),
    "isa run": ("tilesim isa run k.elf -- 1000", "tilesim isa run k.elf --vlen 512 --json run.json"),
    "isa asm": ("tilesim isa asm k.s -o k.elf",),
    "isa dis": ("tilesim isa dis k.elf", "tilesim isa dis 00a585b3"),
    "isa header": ("tilesim isa header --machine edge-8 -o tilesim_isa.h",),
    "isa list": ("tilesim isa list Zbb",),
    "isa kernel": ('tilesim isa kernel "mma i8 i8 b1 m4 n8 k8 ko1" --machine edge-8 -o k.elf',),
    "cluster collective": (
        "tilesim cluster collective all_reduce 1GiB --cluster dgx-h100:64",
        "tilesim cluster collective all_to_all 64MiB --cluster tpu-v4:64 --model flows",
    ),
    "cluster replay": ("tilesim cluster replay traces --cluster dgx-h100:64",),
    "cluster partition": (
        "tilesim cluster partition module.mlir",
        "tilesim cluster partition mlp.json --mesh d=4 --shardings up=-,d",
    ),
    "cluster list": ("tilesim cluster list",),
    "cluster show": ("tilesim cluster show dgx-h100:64",),
    "run": (
        "tilesim run resnet18",
        "tilesim run bert-base --machine tpu-v4 --batch 8",
        "tilesim run gpt2 --phase decode --context 512 --set core.array.count=4",
        "tilesim run matmul:512,512,512,bf16 --verify --timeline trace.perfetto",
        "tilesim run bert-base --machine h100",
    ),
    "coverage": ("tilesim coverage bert-base", "tilesim coverage resnet18 --machine tpu-v4 --all"),
    "profile": ("tilesim profile mlp --runs 1", "tilesim profile mlp --batch 8 --all"),
    "map": (
        "tilesim map bert-base",
        "tilesim map matmul:512,512,512 --show",
        "tilesim map matmul:512,512,512 --tiles m=128",
    ),
    "tune": ("tilesim tune matmul:512,512,512 --budget 8", "tilesim tune mlp --budget 4 --save best.json"),
    "roofline": (
        "tilesim roofline bert-base --device h100",
        "tilesim roofline llama-3-8b --phase decode --scheme int4_wo",
    ),
    "crossover": (
        "tilesim crossover h100 fp8",
        "tilesim crossover t4 int8 --shape 1:4096,4096,4096",
        "tilesim crossover h100 --model gpt2",
    ),
    "suite": ("tilesim suite vision", "tilesim suite llm --device h100 --device mi300x"),
    "calibrate": ("tilesim calibrate measurements.csv --device h100 --save profile.json",),
    "why": (
        "tilesim why bert-base attention.self --machine tpu-v3",
        "tilesim why run.json intermediate.dense --html why.html",
    ),
    "compare": (
        "tilesim compare mlp --machine tpu-v3 --machine tpu-v4",
        "tilesim compare mlp --lowering native --lowering best",
        "tilesim compare old.json new.json --html diff.html",
        "tilesim compare old_step.json new_step.json",
    ),
    "check": ("tilesim check new.json --against old.json --tolerance 2%",),
    "open": ("tilesim open new.json --no-browser -o new.html", "tilesim open new.json --baseline old.json"),
    "doctor": ("tilesim doctor",),
    "machine list": ("tilesim machine list",),
    "machine show": ("tilesim machine show tpu-v3",),
    "machine settings": ("tilesim machine settings core.array", "tilesim machine settings memory.bandwidth"),
    "machine diff": ("tilesim machine diff tpu-v3 tpu-v4",),
    "machine new": (
        "tilesim machine new --from tpu-v3 my.toml",
        "tilesim machine new --from edge-8 my.json --name mine",
    ),
    "device list": ("tilesim device list",),
    "device show": ("tilesim device show h100",),
    "model list": ("tilesim model list",),
    "model show": ("tilesim model show llama-3-8b --phase decode",),
    "measure cpu": ("tilesim measure cpu --save cpu.csv --seconds 30",),
    "measure cuda": ("tilesim measure cuda --save gpu.csv",),
    "validate tpu-v3": ("tilesim validate tpu-v3", "tilesim validate tpu-v3 --cases measured.csv --json report.json"),
    "validate noc": ("tilesim validate noc --seeds 1",),
    "validate dram": ("tilesim validate dram",),
    "validate gemm": ("tilesim validate gemm", "tilesim validate gemm --cases measured.csv --device h100"),
    "validate attention": ("tilesim validate attention",),
    "validate conv": ("tilesim validate conv",),
    "validate vector": ("tilesim validate vector",),
    "validate sparse": ("tilesim validate sparse",),
    "validate rvv": ("tilesim validate rvv", "tilesim validate rvv --cases rvv_cycles.csv --json report.json"),
    "validate step": ("tilesim validate step", "tilesim validate step --cases train_step_ms.csv --json report.json"),
    "cluster step": (
        "tilesim cluster step megatron-22b --cluster dgx-h200:8 --plan tensor=8",
        "tilesim cluster step gpt3-175b --cluster dgx-h100 --devices 64,512",
    ),
    "cluster compare": ("tilesim cluster compare llama3-100m --cluster dgx-h100 --cluster dgx-a100",),
    "cluster search": (
        "tilesim cluster search gpt3-175b --cluster dgx-a100:64",
        "tilesim cluster search gpt3-175b --cluster dgx-a100:64 --map",
    ),
    "validate network": ("tilesim validate network",),
    "validate collective": ("tilesim validate collective",),
}


def epilog(command: str) -> str:
    """What stands below the options.

    Args:
        command: its words.

    Returns:
        The examples, a paragraph each, as typer lays them out.
    """
    return "\n\n".join(["Examples:", *(f"  {line}" for line in EXAMPLES[command])])
