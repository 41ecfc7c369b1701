"""What the front ends add to the frameworks' own work.

Import: torch.export and functionalising are torch's; the rest of `from_torch` is ours, in processor seconds (goals:
ResNet-50 and BERT-base 1 s, Llama-3-8B of 32 layers 3 s; weights on the device meta). Backend of torch.compile: a warm
512^3 product against a backend that does nothing (goal: 50 ms). Zoo: compile and simulate (memory simple, tpu-v3)
Llama-3-8B of 32 layers (goals: decode at 4096 1 s, prefill of 2048 3 s), with `--long` also prefill of 8192 by
DeepSeek-V3; in processor seconds of the process. `--json FILE` writes the figures.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    """Processor seconds of this thread in one call, and its value: others on the machine do not count."""
    begin = time.thread_time()
    value = call()
    return time.thread_time() - begin, value


def wall(call: Callable[[], Any]) -> float:
    """Wall time of one call in seconds."""
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def models() -> dict[str, tuple[Callable[[], Any], tuple[Any, ...], dict[str, Any], float]]:
    """Module, arguments and goal in seconds by name."""
    import transformers

    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
    from support.torch_resnet import resnet

    def meta(make: Callable[[], Any]) -> Callable[[], Any]:
        def build() -> Any:
            with torch.device("meta"):
                return make().eval()

        return build

    def llama() -> Any:
        config = transformers.LlamaConfig(
            vocab_size=128256, hidden_size=4096, intermediate_size=14336, num_hidden_layers=32, num_attention_heads=32,
            num_key_value_heads=8, rope_theta=500000.0, use_cache=False,
        )  # fmt: skip
        return transformers.LlamaForCausalLM(config).to(torch.bfloat16)

    bert = transformers.BertConfig()
    tokens = torch.zeros(1, 128, dtype=torch.int64, device="meta")
    return {
        "resnet50": (lambda: resnet(50).eval(), (torch.zeros(1, 3, 224, 224),), {}, 1.0),
        "bert-base 128": (meta(lambda: transformers.BertModel(bert)), (tokens,), {}, 1.0),
        "llama-3-8b 128": (meta(llama), (tokens,), {}, 3.0),
    }


def imports(rows: list[dict[str, Any]]) -> None:
    """Seconds beyond torch's own export and functionalising."""
    from tilesim.frontends.torch import frontend as torch_frontend

    for name, (build, args, kwargs, goal) in models().items():
        module = build()
        exporting, program = timed(lambda module=module, args=args, kw=kwargs: torch_frontend.export(module, args, kw))
        functional, _ = timed(lambda program=program: torch_frontend.decomposed(program))
        whole, graph = timed(lambda program=program, name=name: torch_frontend.from_exported(program, name))
        count = sum(len(graph.operations(function)) for function in graph.functions)
        row = {"name": f"import {name}", "seconds": whole - functional, "goal": goal, "operations": count}
        rows.append({**row, "torch": exporting + functional, "recognised": len(graph.changes)})
        print(
            f"import {name:<20} {row['seconds']:7.2f} s beyond torch's {exporting + functional:7.2f} s   "
            f"{count} operations, {len(graph.changes)} replacements   (goal: <= {goal} s)",
            flush=True,
        )


def backend(rows: list[dict[str, Any]]) -> None:
    """A warm call of a compiled product."""
    from tilesim import torch_compile as torch_backend

    torch_backend.register()
    a, b = torch.randn(512, 512), torch.randn(512, 512)
    seconds = {}
    for name in ("eager", "tilesim"):
        torch._dynamo.reset()
        compiled = torch.compile(torch.mm, backend=name)
        compiled(a, b)
        seconds[name] = min(wall(lambda f=compiled: f(a, b)) for _ in range(20))
    extra = seconds["tilesim"] - seconds["eager"]
    rows.append({"name": "torch.compile 512^3 warm", "seconds": extra, "goal": 0.05})
    print(f"torch.compile 512^3, warm      {extra * 1e3:7.2f} ms beyond a backend that does nothing   (goal: <= 50 ms)")


def networks(rows: list[dict[str, Any]], long: bool) -> None:
    """Compile and simulate networks of the zoo."""
    import tilesim as ts

    cases: list[tuple[str, int, str, float | None]] = [
        ("llama-3-8b", 4096, "decode", 1.0),
        ("llama-3-8b", 2048, "prefill", 3.0),
    ]
    for name, context, phase, goal in cases + [("deepseek-v3", 8192, "prefill", None)] * long:
        begin = time.process_time()
        graph = ts.models.build(name, batch=1, sequence=context, phase=phase)
        program = ts.compile(graph, "tpu-v3")
        result = ts.simulate(program, memory="simple")
        seconds = time.process_time() - begin
        what = f"{name} {phase} {context}"
        rows.append({"name": what, "seconds": seconds, "goal": goal, "operations": program.operations})
        said = f"(goal: <= {goal} s)" if goal else ""
        print(
            f"{what:<28} {seconds:7.2f} s   {program.operations:,} tile operations, {result.cycles:,} cycles   {said}"
        )


def main() -> None:
    """Runs all of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", metavar="FILE", help="write the figures")
    parser.add_argument("--long", action="store_true", help="also DeepSeek-V3's prefill of 8192 tokens")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    rows: list[dict[str, Any]] = []
    networks(rows, options.long)
    backend(rows)
    imports(rows)
    if options.json:
        Path(options.json).write_text(json.dumps({"schema": "tilesim.bench", "version": 1, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
