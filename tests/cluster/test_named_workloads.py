"""Workloads by name: their published batches, other sizes, and batches that nothing divides."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import tilesim as ts
from tilesim.cli.main import app
from tilesim.models.layered_presets import layered_names

#: sequences and tokens of each, from the papers
PUBLISHED = {
    "megatron-22b": (4, 2048), "gpt3-175b": (1536, 2048), "turing-530b": (1920, 2048), "megatron-1t": (3072, 2048),
    "llama-3-8b": (2048, 8192), "llama-3-70b": (2048, 8192), "llama-3-405b": (2048, 8192),
}  # fmt: skip


def run(*words: str) -> str:
    return " ".join(CliRunner().invoke(app, ["cluster", *words]).output.split())


def test_every_name_has_its_published_batch() -> None:
    assert {name: (ts.workloads.layered(name).global_batch, ts.workloads.layered(name).sequence)
            for name in layered_names()} == PUBLISHED  # fmt: skip
    for name in layered_names():
        assert "arXiv" in ts.workloads.layered(name).source


def test_the_headline_says_them() -> None:
    plan = ts.Plan(tensor=8, pipeline=8, recompute="full")
    found = ts.cluster.step("gpt3-175b", "dgx-a100:64", plan)
    assert "gpt3-175b, 1,536 × 2,048 tokens" in repr(found)
    assert "training, 1,536 sequences of 2,048 tokens: Narayanan" in found.explain()
    other = run("step", "gpt3-175b", "--cluster", "dgx-a100:64", "--plan", plan.text(), "--batch", "64")
    assert (
        "training, 64 sequences of 2,048 tokens" in other
        and "gpt3-175b, 64 × 2,048 tokens" in other
        and "arXiv" not in other
    )
    decode = run("step", "llama-3-8b", "--cluster", "dgx-h100:1", "--phase", "decode", "--context", "4096")
    assert "decode, 1 sequence at 4,096 tokens" in decode


def test_sizes_are_changed_one_by_one() -> None:
    work = ts.workloads.layered("llama-3-8b", phase="decode")
    assert (work.phase, work.global_batch, work.sequence, work.source) == ("decode", 1, 2048, "")
    work = ts.workloads.layered("llama-3-8b", 8, 512)
    assert (work.phase, work.global_batch, work.sequence) == ("train", 8, 512)
    assert ts.workloads.layered("gpt3-175b", 1536, 2048, "train") == ts.workloads.layered("gpt3-175b")


def test_a_file_keeps_its_own(tmp_path: Path) -> None:
    path = tmp_path / "work.json"
    ts.workloads.layered("gpt3-175b", batch=96).save(path)
    assert ts.workloads.layered(path).global_batch == 96
    assert ts.workloads.layered(path, batch=48).global_batch == 48
    assert json.loads(path.read_text())["source"] == ""
    plan = "tensor=8,pipeline=8,recompute=full"
    assert "96 sequences" in run("step", str(path), "--cluster", "dgx-h100:64", "--plan", plan)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["step", "gpt3-175b", "--cluster", "dgx-a100:1000"], ["the default plan needs", "multiples of 1,000"]),
        (["step", "gpt3-175b", "--cluster", "dgx-a100:1000", "--plan", "data=125,tensor=8"], ["divisors of 1536"]),
        (["search", "gpt3-175b", "--cluster", "dgx-a100:1000", "--batch", "7"], ["batch 7", "a multiple of 5"]),
        (["step", "llama-3-8b", "--cluster", "dgx-h100:8", "--plan", "tensor=8", "--phase", "decode", "--batch",
          "100000"], ["does not fit", "cache", "smaller batch"]),
        (["step", "llama-3-8b", "--cluster", "dgx-h100:8", "--phase", "decod"], ["unknown phase", "decode"]),
        (["step", "llama3-100m", "--cluster", "dgx-h100:8", "--batch", "3"], ["only to layered workloads"]),
    ],
)  # fmt: skip
def test_mistakes(words: list[str], told: list[str]) -> None:
    said = " ".join(str(CliRunner().invoke(app, ["cluster", *words]).exception or run(*words)).split())
    for word in told:
        assert word in said


def test_a_batch_that_the_message_names_is_divided() -> None:
    """Of random devices and batches: where none divides, multiples of what the message says do."""
    work = ts.workloads.transformer_step(6, 96, 6, 100, 32, 1)
    for devices in (7, 11, 22, 35):
        with pytest.raises(ts.UserError, match="no legal plan") as caught:
            ts.cluster.search(work, ts.Cluster("h100", [{**SWITCH, "size": devices}]))
        least = int(str(caught.value).split("a multiple of ")[1].split(")")[0])
        again = ts.workloads.transformer_step(6, 96, 6, 100, 32, least)
        assert ts.cluster.search(again, ts.Cluster("h100", [{**SWITCH, "size": devices}]), confirm=0).plans


SWITCH = {"kind": "switch", "bandwidth_bytes_per_second": 1e11, "latency_seconds": 1e-6}
