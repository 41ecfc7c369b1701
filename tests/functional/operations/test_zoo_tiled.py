"""Networks of `tilesim.models` at small sizes: the tiled program gives what the reference gives, and has a time."""

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest

import tilesim as ts
from tilesim.models import clip, deepseek, dit, dlrm, llama4, mamba, transformer, unet, vision, vit
from tilesim.models import decoder as decoders
from tilesim.models.experts import Experts

SMALL = {"vocabulary": 50, "width": 32, "layers": 2, "heads": 4, "key_heads": 2, "hidden": 48, "head_width": 8}
SHARED = Experts(count=8, chosen=3, scores="sigmoid", groups=4, chosen_groups=2, scale=2.5, hidden=16, shared=16)
LLAMA = dataclasses.replace(decoders.LLAMA_3_8B, **SMALL)
MISTRAL = dataclasses.replace(decoders.MISTRAL_7B, **SMALL, window=4)
MIXTRAL = dataclasses.replace(decoders.MIXTRAL_8X7B, **SMALL, experts=Experts(count=5, chosen=2))
QWEN = dataclasses.replace(decoders.QWEN2_5_1_5B, **SMALL)
LATENT = deepseek.DeepseekConfig("deepseek", 50, 32, 1, 4, 48, 24, 16, 8, 4, 6, SHARED, 1)
SCOUT = llama4.Llama4Config(
    "scout", 50, 32, 4, 4, 2, dataclasses.replace(llama4.LLAMA_4_SCOUT.experts, count=4, hidden=16, shared=16), 8,
    chunk=4,
)  # fmt: skip
MAMBA = mamba.MambaConfig("mamba", 50, 16, 2, 32, 3, state=4)
TOWER = clip.Tower(16, 2, 2, 24)
TEXT = transformer.TextConfig("text", 2, 24, 3, 40, 12)

NETWORKS: dict[str, Callable[[], ts.Graph]] = {
    "llama prefill": lambda: decoders.decoder(LLAMA, 2, 9, "prefill", "f32"),
    "llama decode": lambda: decoders.decoder(LLAMA, 2, 9, "decode", "f32"),
    "mistral decode": lambda: decoders.decoder(MISTRAL, 2, 9, "decode", "f32"),
    "qwen decode": lambda: decoders.decoder(QWEN, 2, 9, "decode", "f32"),
    "mixtral prefill": lambda: decoders.decoder(MIXTRAL, 2, 9, "prefill", "f32"),
    "mixtral decode": lambda: decoders.decoder(MIXTRAL, 2, 9, "decode", "f32"),
    "deepseek prefill": lambda: deepseek.deepseek(LATENT, 2, 9, "prefill", "f32"),
    "deepseek decode": lambda: deepseek.deepseek(LATENT, 2, 9, "decode", "f32"),
    "scout prefill": lambda: llama4.llama4(SCOUT, 2, 9, "prefill", "f32"),
    "scout decode": lambda: llama4.llama4(SCOUT, 2, 9, "decode", "f32"),
    "mamba prefill": lambda: mamba.mamba(MAMBA, 2, 7, "prefill", "f32"),
    "mamba decode": lambda: mamba.mamba(MAMBA, 2, 7, "decode", "f32"),
    "clip": lambda: clip.clip(clip.ClipConfig("clip", TOWER, TOWER, 16, 8, 40, 9, 12), 3, 7),
    "dit": lambda: dit.dit(dit.DitConfig("dit", 24, 2, 3, size=8, channels=3, classes=5, frequencies=16), 2),
    "dlrm": lambda: dlrm.dlrm(dlrm.DlrmConfig("dlrm", (5, 9, 3), 4, 6, (8, 4), (7, 1)), 6, 2),
    "unet": lambda: unet.unet(unet.UnetConfig("unet", (16, 32), 1, heads=4, text=12, tokens=5, size=4, groups=8), 1),
    "bert": lambda: transformer.bert(TEXT, 2, 7),
    "gpt": lambda: transformer.gpt(TEXT, 2, 7),
    "gpt decode": lambda: transformer.gpt(TEXT, 2, 7, phase="decode"),
    "vit": lambda: vit.vit(vit.VitConfig("vit", 24, 2, 3, 8, 10), 2, 32),
    "mobilenet": lambda: vision.mobilenet_v2(1, 32),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_tiled_program_equals_reference(name: str) -> None:
    machine = ts.Machine.load("tpu-v3").replace({"core.array.multiply": "as stored"})
    graph = NETWORKS[name]()
    program = ts.compile(graph, machine)
    got, wanted = ts.execute(program, seed=3), ts.reference(graph, seed=3)
    for output, value in wanted.items():
        scale = float(np.max(np.abs(value))) or 1.0
        np.testing.assert_allclose(np.asarray(got[output]) / scale, value / scale, atol=2e-4, err_msg=output)
    assert ts.verify(program, seed=3).ok
    assert ts.simulate(program).cycles > 0


@pytest.mark.parametrize("name", ["mixtral prefill", "deepseek prefill", "scout decode", "mamba prefill"])
def test_networks_that_depend_on_data_run_on_a_small_chip_too(name: str) -> None:
    """Experts and loops, without barriers between kernels and with another array."""
    program = ts.compile(NETWORKS[name](), "edge-8")
    assert ts.verify(program, seed=5).ok
    ts.execute(program, seed=5, find_races=True)
    assert ts.simulate(program).cycles > 0
