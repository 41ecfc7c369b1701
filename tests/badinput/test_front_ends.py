"""Front ends: bytecode that is none or makes its reader spin; libraries that are not there."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

import tilesim as ts
from tilesim.frontends.stablehlo import entry as stablehlo


def test_bytecode():
    pytest.importorskip("jax", reason="needs jax: pip install 'tilesim[jax]'")
    for data in (b"ML\xefR", b"ML\xefR" + bytes(range(256))):
        with pytest.raises(ts.UserError, match="bytecode"):
            ts.from_stablehlo(data)


def test_bytecode_whose_reader_spins(monkeypatch):
    """The reader is made to: it stops by its process time, however long that takes on a loaded machine."""
    pytest.importorskip("jax", reason="needs jax: pip install 'tilesim[jax]'")
    monkeypatch.setattr(stablehlo, "TRANSLATE", stablehlo.TRANSLATE.partition("with made")[0] + "while True: pass")
    monkeypatch.setattr(stablehlo, "MAX_WORK", 0)
    with pytest.raises(ts.UserError, match="takes too long to read"):
        ts.from_stablehlo(b"ML\xefR")


@pytest.mark.parametrize("what", ["onnx", "jax", "torch"])
def test_without_a_library_the_error_names_it(what):
    """The import is made to fail; everything else goes on."""
    calls = {
        "onnx": "ts.from_onnx(b'')",
        "jax": "ts.from_stablehlo('module {}')",
        "torch": "ts.from_pytorch_ir({'graph_inputs': [], 'graph_outputs': [], 'weights': [], 'nodes': []})",
    }
    script = f"""
        import sys
        sys.modules[{what!r}] = None
        import tilesim as ts
        b = ts.GraphBuilder('alone')
        b.output(b.apply('relu', b.input('x', (2,))))
        assert ts.reference(b.build())
        try:
            {calls[what]}
        except ts.UserError as error:
            assert "pip install 'tilesim[{what}]'" in str(error), error
        else:
            raise SystemExit('no error')
    """
    path = os.pathsep.join(filter(None, sys.path))
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert done.returncode == 0, done.stderr[-2000:]
