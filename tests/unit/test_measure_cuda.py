"""`measure cuda` against a stand-in for torch whose GPU is our own model: what it writes is what calibrate reads."""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any

import pytest

import tilesim as ts
from tilesim.analytic import gemm
from tilesim.analytic.measured import measure
from tilesim.analytic.measured.tables import read

NAMES = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16", "int8": "int8"}


class FakeCuda:
    """A GPU with a clock: products cost what the closed form says, with a launch of its own."""

    def __init__(self) -> None:
        self.now, self.calls, self.recorded = 0.0, [], None
        self.models = {name: gemm.estimator("h100", name).core({"launch": 9000.0}) for name in NAMES.values()}

    def tensor(self, *shape: int, device: str, dtype: str = "float32") -> types.SimpleNamespace:
        assert device == "cuda"
        return types.SimpleNamespace(
            shape=shape,
            dtype=dtype,
            t=lambda: self.tensor(*shape[::-1], device=device, dtype=dtype),
            to=lambda kind: self.tensor(*shape, device=device, dtype=kind),
        )

    def no_kernel(self, *_: object, **__: object) -> None:
        raise RuntimeError("not supported on this GPU")

    def mm(self, a: Any, b: Any) -> None:
        import numpy as np

        assert a.shape[1] == b.shape[0] and a.dtype == b.dtype
        shape = (np.ones(1), *(np.array([float(x)]) for x in (a.shape[0], b.shape[1], a.shape[1])))
        seconds = float(self.models[NAMES[a.dtype]].seconds(*shape)[0])
        if self.recorded is None:
            self.now += seconds
        else:
            self.recorded.append(seconds)

    def module(self) -> types.ModuleType:
        gpu = self

        class Event:
            def __init__(self, enable_timing: bool) -> None:
                assert enable_timing

            def record(self) -> None:
                self.at = gpu.now

            def elapsed_time(self, other: Event) -> float:
                return (other.at - self.at) * 1e3

        class CUDAGraph:
            def __init__(self) -> None:
                self.parts: list[float] = []

            def replay(self) -> None:
                gpu.now += sum(self.parts)

        class Recording:
            def __init__(self, graph: CUDAGraph) -> None:
                self.graph = graph

            def __enter__(self) -> None:
                gpu.recorded = self.graph.parts

            def __exit__(self, *_: object) -> None:
                gpu.recorded = None

        torch = types.ModuleType("torch")
        torch.__dict__.update({name: name for name in NAMES}, randn=self.tensor, ones=self.tensor, mm=self.mm)
        torch.__dict__.update(int8="int8", float8_e4m3fn="fp8", _int_mm=self.mm, _scaled_mm=self.no_kernel)
        torch.cuda = types.SimpleNamespace(  # type: ignore[attr-defined]
            is_available=lambda: True, synchronize=lambda: None, CUDAGraph=CUDAGraph, graph=Recording, Event=Event
        )
        torch.cuda.get_device_name = lambda: "NVIDIA H100 80GB HBM3"
        return torch


SHAPES = [(m, n, k) for m in (1, 16, 64, 256, 1024) for n in (256, 1024, 4096) for k in (256, 1024, 4096)]


def test_what_is_measured_can_be_fitted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", FakeCuda().module())
    monkeypatch.setattr(measure, "SHAPES", SHAPES)
    path = tmp_path / "gpu.csv"
    count = ts_measure(path, "auto")
    rows = read("gemm", path)
    aligned = sum(m > 16 for m, _, _ in SHAPES) + 2
    assert len(rows) == count == 3 * (len(SHAPES) + 2) + aligned  # and two large squares; fp8 has no kernel here
    assert {row.text("dtype") for row in rows} == {"fp32", "fp16", "bf16", "int8"}
    assert {row.text("device") for row in rows} == {"h100"}
    assert all(row.status == "ok" and row.text("engine") == "library" for row in rows)
    profile = ts.analytic.calibrate(path, device="h100", holdout="none")
    launch = {entry.scheme: entry.constants["launch"] for entry in profile.entries}
    assert launch["bf16"] == pytest.approx(9000, rel=0.15)  # the constant of the GPU that was measured


def ts_measure(path: Path, device: str) -> int:
    return measure.measure_cuda(path, device, seconds=0.01)


def test_a_machine_without_a_gpu_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = FakeCuda().module()
    torch.cuda.is_available = lambda: False
    monkeypatch.setitem(sys.modules, "torch", torch)
    with pytest.raises(ts.UserError, match="no CUDA device"):
        ts_measure(tmp_path / "gpu.csv", "h100")
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ts.UserError, match=r"tilesim\[torch\]"):
        ts_measure(tmp_path / "gpu.csv", "h100")
    with pytest.raises(ts.UserError, match="h100"):
        ts_measure(tmp_path / "gpu.csv", "h1000")
