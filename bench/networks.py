"""How far networks are from what is possible: bytes and time over the bound, by machine and lowering.

`networks.py [NAME ...] [--machine M ...] [--lowering native|best ...] [--others] [--fast] [--json FILE]`, further
options of `compile` as `--set residency=none`. A name is a network of the zoo, with sizes as in
gpt2:context=1024,dtype=bf16; or, with `--others`, one of the transformers package by configuration. A last line per
machine and lowering gives the geometric means.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Callable
from typing import Any

import tilesim as ts
from tilesim.loading import load

MACHINES = ("tpu-v3", "mesh-16", "edge-8")
NETWORKS = (
    "resnet50",
    "resnet50:dtype=bf16",
    "mobilenet-v2",
    "bert-base:context=512",
    "gpt2:context=1024,dtype=bf16",
    "vit-b-16",
    "dit-xl-2",
    "stable-diffusion-1.5-unet",
    "mamba-2.8b:context=1024",
    "llama-3-8b:phase=decode,context=4096,batch=1",
    "llama-3-8b:phase=decode,context=4096,batch=16",
    "llama-3-8b:phase=decode,context=4096,batch=64",
    "mixtral-8x7b:phase=decode,context=4096",
)
FAST = ("mobilenet-v2", "vit-b-16")


def zoo(text: str) -> Any:
    """The network that a name with sizes stands for."""
    name, _, sizes = text.partition(":")
    pairs = [pair.split("=") for pair in sizes.split(",") if pair]
    return load(name, **{key: int(value) if value.isdigit() else value for key, value in pairs})


def others() -> dict[str, Callable[[], Any]]:
    """Networks of the transformers package, built from their configurations on the device meta."""
    import torch
    import transformers as tf

    def image(size: int) -> dict[str, Any]:
        return {"pixel_values": torch.zeros(1, 3, size, size, device="meta")}

    def tokens(count: int, **more: Any) -> dict[str, Any]:
        return {"input_ids": torch.zeros(1, count, dtype=torch.int64, device="meta"), **more}

    def network(make: Callable[[], Any], inputs: dict[str, Any], device: str = "meta") -> Callable[[], Any]:
        def build() -> Any:
            with torch.device(device):
                module = make().eval()
            return ts.from_torch(module, (), kwargs=inputs)

        return build

    decoder = {"decoder_input_ids": torch.zeros(1, 64, dtype=torch.int64, device="meta")}
    sound = {"input_values": torch.zeros(1, 16000 * 4, device="meta")}
    return {
        "convnext-tiny": network(lambda: tf.ConvNextModel(tf.ConvNextConfig()), image(224)),
        "swin-tiny": network(lambda: tf.SwinModel(tf.SwinConfig()), image(224)),
        "regnet-y": network(lambda: tf.RegNetModel(tf.RegNetConfig()), image(224)),
        "efficientnet-b7": network(lambda: tf.EfficientNetModel(tf.EfficientNetConfig()), image(224)),
        "segformer-b0": network(lambda: tf.SegformerModel(tf.SegformerConfig()), image(512)),
        "t5-small": network(lambda: tf.T5Model(tf.T5Config(use_cache=False)), tokens(128, **decoder)),
        "wav2vec2-base": network(lambda: tf.Wav2Vec2Model(tf.Wav2Vec2Config()), sound),
        "gpt-neox": network(
            lambda: tf.GPTNeoXModel(tf.GPTNeoXConfig(num_hidden_layers=4, hidden_size=2048, intermediate_size=8192,
                                                     num_attention_heads=16, use_cache=False)),
            tokens(512),
        ),
        "distilbert": network(lambda: tf.DistilBertModel(tf.DistilBertConfig()), tokens(256)),
        "albert-base": network(
            lambda: tf.AlbertModel(tf.AlbertConfig(hidden_size=768, num_attention_heads=12, intermediate_size=3072)),
            {"input_ids": torch.zeros(1, 256, dtype=torch.int64)},
            "cpu",  # its positions are a buffer with values
        ),
    }  # fmt: skip


def measured(name: str, graph: Any, machine: str, lowering: str, options: dict[str, Any]) -> dict[str, Any]:
    """One row."""
    begin = time.perf_counter()
    program = ts.compile(graph, machine, lowering=lowering, **options)
    compiled = time.perf_counter()
    result = ts.simulate(program)
    simulated = time.perf_counter()
    bound = result.bounds
    return {
        "network": name,
        "machine": machine,
        "lowering": lowering,
        "bytes": result.memory_bytes,
        "bytes_over_bound": result.memory_bytes / bound.bytes if bound.bytes else math.nan,
        "seconds": result.seconds,
        "time_over_bound": result.seconds / bound.seconds if bound.seconds else math.nan,
        "bound_by": bound.part,
        "compile_seconds": compiled - begin,
        "simulate_seconds": simulated - compiled,
    }


def show(row: dict[str, Any]) -> None:
    """One line."""
    print(
        f"{row['network']:<46} {row['machine']:<8} {row['lowering']:<6} bytes {row['bytes_over_bound']:7.2f}   "
        f"time {row['time_over_bound']:7.2f} ({row['bound_by']})   {row['seconds'] * 1e3:10.3f} ms   "
        f"compile {row['compile_seconds']:6.2f} s   simulate {row['simulate_seconds']:6.2f} s",
        flush=True,
    )


def mean(rows: list[dict[str, Any]], column: str) -> float:
    """Geometric mean."""
    return math.exp(sum(math.log(row[column]) for row in rows) / len(rows))


def lowerings(machine: str, wanted: list[str]) -> list[str]:
    """Those of the wanted ones that the machine has: without a profile there is only one."""
    has_profile = bool(ts.Machine.load(machine).to_dict().get("lowering"))
    return [lowering for lowering in wanted if lowering == "best" or has_profile]


def main() -> int:
    """Runs the table; 1 where a network fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="networks; none: those of the table")
    parser.add_argument("--machine", action="append", help="machines; none: " + ", ".join(MACHINES))
    parser.add_argument("--lowering", action="append", choices=("native", "best"), help="none: both")
    parser.add_argument("--others", action="store_true", help="networks of the transformers package instead")
    parser.add_argument("--fast", action="store_true", help="two networks, tpu-v3")
    parser.add_argument("--set", action="append", default=[], metavar="OPTION=VALUE", help="further options of compile")
    parser.add_argument("--json", metavar="FILE", help="write the rows")
    given = parser.parse_args()
    options = dict(pair.split("=", 1) for pair in given.set)
    built = others() if given.others else {}
    names = given.names or (list(built) if given.others else FAST if given.fast else NETWORKS)
    rows: list[dict[str, Any]] = []
    failed = False
    for name in names:
        try:
            graph = built[name]() if given.others else zoo(name)
        except Exception as error:
            print(f"{name:<46} {type(error).__name__}: {error}", flush=True)
            failed = True
            continue
        for machine in given.machine or (MACHINES[:1] if given.fast else MACHINES):
            for lowering in lowerings(machine, given.lowering or ["native", "best"]):
                try:
                    rows.append(measured(name, graph, machine, lowering, options))
                    show(rows[-1])
                except ts.Error as error:
                    print(f"{name:<46} {machine:<8} {lowering:<6} {error}", flush=True)
                    failed = True
    for machine, lowering in dict.fromkeys((row["machine"], row["lowering"]) for row in rows):
        own = [row for row in rows if (row["machine"], row["lowering"]) == (machine, lowering)]
        print(
            f"{'geometric mean of ' + str(len(own)):<46} {machine:<8} {lowering:<6} "
            f"bytes {mean(own, 'bytes_over_bound'):7.2f}   time {mean(own, 'time_over_bound'):7.2f}"
        )
    if given.json:
        with open(given.json, "w", encoding="utf-8") as file:
            json.dump({"schema": "tilesim.bench.networks", "version": 1, "rows": rows}, file, indent=1)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
