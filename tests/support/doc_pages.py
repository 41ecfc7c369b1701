"""What the pages of the documentation say to run: blocks of Python, commands, and what a reader has before them."""

from __future__ import annotations

import importlib.util
import inspect
import json
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilesim as ts
from support import simulator_files as theirs
from tilesim.base.paths import sample
from tilesim.cli.commands import COMMANDS

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
README = DOCS.parent / "README.md"
NOT_RUN = ("measure",)  # what runs for as long as the hardware takes, or needs a GPU
PENDING: tuple[str, ...] = ()  # told of before they are there
LIBRARIES = ("torch", "jax", "onnx", "safetensors", "transformers")


def command(name: str) -> bool:
    """Whether the command line has a command."""
    return any(one.split()[0] == name for one in COMMANDS)


def known(condition: str) -> bool:
    """Whether what a block needs is there: a page may tell of calls that are still being built."""
    names = {"ts": ts, "command": command, "signature": inspect.signature, "hasattr": hasattr, "any": any}
    names["installed"] = lambda library: importlib.util.find_spec(library) is not None
    return bool(eval(condition, {"__builtins__": {}}, names))


def blocks(page: Path) -> list[str]:
    """The Python of a page, without the blocks whose condition, in a comment before them, does not hold."""
    found = re.findall(
        r"(?:<!-- when: ([^\n]*?) -->\n)?```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL
    )
    return [text for condition, text in found if not condition or known(condition)]


def commands(page: Path) -> list[list[str]]:
    """The command lines of a page, without the program's name."""
    lines = re.findall(
        r"^(?:    |\$ )?(?:pip install \. && )?tilesim (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE
    )
    found, left_out = [], set()
    for words in (shlex.split(line, comments=True) for line in lines):
        if words[0] in PENDING and not command(words[0]):
            continue
        if words[0] in NOT_RUN:
            left_out |= {word for word in words if "." in word}  # what it would have written
        elif not left_out & set(words):
            found.append(words)
    return found


def prepared(page: Path) -> dict[str, Any]:
    """Files that a page names as the reader's own, and what its first block imports from the reader's project."""
    text = page.read_text(encoding="utf-8")
    header, *rows = sample("gemm").read_text(encoding="utf-8").splitlines()
    own = [header, *(row for row in rows if row.startswith("H100"))]
    Path("measurements.csv").write_text("\n".join(own) + "\n", encoding="utf-8")
    for machine in re.findall(r"```toml\n(.*?)```", text, re.DOTALL):
        Path("my-chip.toml").write_text(machine, encoding="utf-8")
    if "old_step.json" in text:
        for name in ("old_step.json", "new_step.json"):
            ts.cluster.step("megatron-22b", "dgx-a100:8", ts.Plan(tensor=8), check_memory=False).save(name)
    if "mlp.json" in text:
        b = ts.GraphBuilder("mlp")
        up, down = b.input("up", (8, 32)), b.input("down", (32, 8))
        b.output(b.matmul(b.apply("gelu_tanh", b.matmul(b.input("x", (4, 8)), up)), down), "y")
        b.build().save("mlp.json")
    if "reference.json" in text:
        ts.run("mlp", machine="tpu-v3").save("reference.json")
    for name, content in (("alexnet.csv", theirs.TOPOLOGY), ("scale.cfg", theirs.CONFIGURATION),
                          ("problem.yaml", theirs.PROBLEM), ("architecture.yaml", theirs.ARCHITECTURE)):  # fmt: skip
        if name in text:
            Path(name).write_text(content, encoding="utf-8")
    foreign = ("module.mlir", "model.onnx", "program.json", "model.safetensors", "ts.from_jax(function")
    return _models() if any(name in text for name in foreign) else {}


def _models() -> dict[str, Any]:
    """One small network in every format."""
    jax = pytest.importorskip("jax")
    torch, onnx = pytest.importorskip("torch"), pytest.importorskip("onnx")
    from safetensors.numpy import save_file

    def function(x: Any, w: Any) -> Any:
        return x @ w

    arguments = [jax.ShapeDtypeStruct((4, 8), "float32"), jax.ShapeDtypeStruct((8, 2), "float32")]
    Path("module.mlir").write_text(jax.jit(function).lower(*arguments).as_text(), encoding="utf-8")
    value = onnx.helper.make_tensor_value_info
    node = onnx.helper.make_node("Relu", ["x"], ["y"])
    ends = [value("x", 1, ["batch", 8])], [value("y", 1, ["batch", 8])]
    onnx.save(onnx.helper.make_model(onnx.helper.make_graph([node], "g", *ends)), "model.onnx")
    layer = torch.nn.Linear(8, 2)
    ts.frontends.to_pytorch_ir(layer, (torch.ones(4, 8),), "program.json")
    state = {name: np.ascontiguousarray(one.detach().numpy()) for name, one in layer.state_dict().items()}
    save_file(state, "model.safetensors")
    index = {"metadata": {}, "weight_map": dict.fromkeys(state, "model.safetensors")}
    Path("model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
    return {"function": function, "arguments": arguments}
