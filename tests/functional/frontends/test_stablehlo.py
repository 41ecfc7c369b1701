"""StableHLO and JAX: the graph's values are those of JAX's own run on the processor."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tilesim as ts
from support.command import tilesim

jax = pytest.importorskip("jax", reason="needs jax: pip install 'tilesim[jax]'")
from support import jax_cases, jax_random  # noqa: E402

WORKLOADS = Path(__file__).resolve().parents[3].parent / "shared" / "workloads" / "stablehlo"
for _parent in Path(__file__).resolve().parents:
    if (_parent / "shared" / "workloads" / "stablehlo").is_dir():
        WORKLOADS = _parent / "shared" / "workloads" / "stablehlo"


def agree(function, args, rtol=2e-5, atol=2e-5):
    """Reads a function and compares leaf by leaf; integers exactly."""
    graph = ts.from_jax(function, *args)
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(args)]
    got = list(ts.reference(graph, leaves).values())
    wanted = [np.asarray(leaf) for leaf in jax.tree.leaves(jax.jit(function)(*args))]
    assert len(got) == len(wanted)
    for ours, theirs in zip(got, wanted, strict=True):
        assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
        if theirs.dtype.kind in "iub":
            np.testing.assert_array_equal(ours, theirs)
        else:
            np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=atol, equal_nan=True)
    return graph


#: compiling each case takes JAX longer than reading it: every fourth one runs always, all of them with -m slow
NAMES = [name if i % 4 == 0 else pytest.param(name, marks=pytest.mark.slow) for i, name in enumerate(jax_cases.CASES)]


@pytest.mark.parametrize("name", NAMES)
def test_values_of_jax(name):
    function, args = jax_cases.CASES[name]
    agree(function, args)


@pytest.mark.skipif(not WORKLOADS.is_dir(), reason="the shared workloads are not beside this checkout")
@pytest.mark.parametrize("path", sorted(WORKLOADS.glob("*.mlir")), ids=lambda path: path.stem)
def test_workloads_import(path):
    graph = ts.from_stablehlo(path, passes="none")
    text = path.read_text(encoding="utf-8")
    products = [op for op in graph.operations() if op["kind"] in ("contract", "convolution")]
    assert len(products) == text.count("stablehlo.dot_general") + text.count("stablehlo.convolution")
    collectives = [op for op in graph.operations() if op["kind"] == "all_reduce"]
    assert len(collectives) == text.count('"stablehlo.all_reduce"')
    again = ts.Graph.from_dict(graph.to_dict())
    assert again == graph
    short = ts.from_stablehlo(path)
    assert short.flops()["matrix"] == graph.flops()["matrix"]


@pytest.mark.skipif(not WORKLOADS.is_dir(), reason="the shared workloads are not beside this checkout")
def test_costs_of_a_workload():
    """Products of three layers, forward and both gradients (the first layer has one): by hand from the shapes."""
    graph = ts.from_stablehlo(WORKLOADS / "jax_example.mlir")
    layers = [(784, 1024), (1024, 1024), (1024, 10)]
    flops = sum(2 * 128 * a * b * (3 if i else 2) for i, (a, b) in enumerate(layers))
    assert graph.flops()["matrix"] == flops


MODULE = """
module @two {
  func.func public @main(%a: tensor<8x16xf32> loc("a"), %b: tensor<16x4xf32> loc("b")) -> tensor<8x4xf32> {
    %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] :
      (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
    %1 = "stablehlo.all_reduce"(%0) <{replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>}> ({
    ^bb0(%x: tensor<f32>, %y: tensor<f32>):
      %s = stablehlo.add %x, %y : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<8x4xf32>) -> tensor<8x4xf32>
    return %1 : tensor<8x4xf32>
  }
}
"""


def test_collectives_are_kept():
    graph = ts.from_stablehlo(MODULE)
    assert [row["name"] for row in graph.inputs] == ["a", "b"]
    reduce = graph.operations()[-1]
    assert reduce["kind"] == "all_reduce"
    assert reduce["attributes"]["groups"] == [0, 1, 2, 3]
    assert reduce["attributes"]["group_size"] == 2
    with pytest.raises(ts.Unsupported, match="all_reduce"):
        ts.reference(graph)


def test_one_of_alike_devices():
    """Collectives untimed: values as where every device holds the same, and the result says so."""
    graph = ts.from_stablehlo(MODULE)
    with pytest.raises(ts.Unsupported, match="collectives='untimed'"):
        ts.compile(graph, "tpu-v3")
    program = ts.compile(graph, "tpu-v3", collectives="untimed")
    given = [np.ones((8, 16), np.float32), np.eye(16, 4, dtype=np.float32)]
    np.testing.assert_array_equal(ts.execute(program, given)["output0"], np.full((8, 4), 2, np.float32))
    assert any("takes no time" in line for line in ts.simulate(program).approximations)

    b = ts.GraphBuilder("several")
    x = b.input("x", (4, 6))
    b.output(b.op("all_gather", x, dim=1, group_size=3), "gathered")
    b.output(b.op("reduce_scatter", x, dim=0, combiner="add", group_size=2), "scattered")
    b.output(b.op("all_to_all", x, split_dim=1, concat_dim=0, group_size=2), "exchanged")
    b.output(b.op("permute_devices", x, pairs=[0, 1, 1, 0]), "permuted")
    b.output(b.op("all_reduce", x, combiner="maximum", group_size=4), "largest")
    b.output(b.op("device_index", axis="replica"), "index")
    given = np.arange(24, dtype=np.float32).reshape(4, 6)
    got = ts.execute(ts.compile(b.build(), "tpu-v3", collectives="untimed"), (given,))
    np.testing.assert_array_equal(got["gathered"], np.concatenate([given] * 3, 1))
    np.testing.assert_array_equal(got["scattered"], 2 * given[:2])
    np.testing.assert_array_equal(got["exchanged"], np.concatenate([given[:, :3]] * 2))
    np.testing.assert_array_equal(got["permuted"], given)
    np.testing.assert_array_equal(got["largest"], given)
    assert got["index"] == 0


@pytest.mark.skipif(not WORKLOADS.is_dir(), reason="the shared workloads are not beside this checkout")
def test_workloads_simulate():
    """All of them; the small ones are executed too. Products of i64 run on the vector unit."""
    for path in sorted(WORKLOADS.glob("*.mlir")):
        graph = ts.from_stablehlo(path)
        program = ts.compile(graph, "tpu-v3", collectives="untimed")
        assert ts.simulate(program).cycles > 0
        assert path.stem.startswith("resnet") or ts.verify(program).ok


def test_bytecode(tmp_path):
    import io

    module = jax.jit(lambda a: jax.numpy.tanh(a @ a.T)).lower(np.ones((4, 8), np.float32)).compiler_ir("stablehlo")
    buffer = io.BytesIO()
    module.operation.write_bytecode(buffer)
    path = tmp_path / "model.mlirbc"
    path.write_bytes(buffer.getvalue())
    graph = ts.from_stablehlo(path)
    given = np.linspace(-1, 1, 32, dtype=np.float32).reshape(4, 8)
    np.testing.assert_allclose(ts.reference(graph, [given])["result"], np.tanh(given @ given.T), rtol=1e-5)


def test_portable_artifacts_and_quantized_bytecode():
    """What jax.export writes, and bytecode with quantized types, whose dialect is loaded for them."""
    import io

    from jax import export
    from jax.interpreters import mlir
    from jaxlib.mlir import ir

    from tilesim.frontends.stablehlo.passes import know_quantized

    given = np.linspace(-1, 1, 8, dtype=np.float32)
    artifact = export.export(jax.jit(lambda a: jax.numpy.sin(a) * 2))(given).mlir_module_serialized
    (found,) = ts.reference(ts.from_stablehlo(artifact), [given]).values()
    np.testing.assert_allclose(found, np.sin(given) * 2, rtol=1e-6)
    t = "tensor<3x!quant.uniform<i8:f32, 0.1:-30>>"
    text = f"func.func @main(%a: {t}) -> {t} {{ %0 = stablehlo.add %a, %a : {t}\n return %0 : {t} }}"
    context = mlir.make_ir_context()
    know_quantized(context)
    buffer = io.BytesIO()
    with context, ir.Location.unknown():
        ir.Module.parse(text).operation.write_bytecode(buffer)
    for source in (text, buffer.getvalue()):  # codes q stand for 0.1 (q + 30)
        (found,) = ts.reference(ts.from_stablehlo(source), [np.array([1, 2, -50], np.int8)]).values()
        assert found.tolist() == [32, 34, -70]


def test_bytecode_is_read_with_the_dialects_of_jax():
    """Without importing jax, which takes three times as long as the rest."""
    import subprocess
    import sys

    from jax.interpreters import mlir

    from tilesim.frontends.stablehlo.entry import TRANSLATE

    names = [
        "stablehlo.add", "chlo.erf", "sdy.mesh", "sdy.sharding_constraint", "mpmd.transfer", "mhlo.add", "func.call",
    ]  # fmt: skip
    names += ["arith.addf", "math.sin", "memref.load", "scf.if", "vector.load", "cf.br", "tensor.empty", "none.such"]
    known = "[made.is_registered_operation(name) for name in sys.argv[1:]]"
    script = f"{TRANSLATE.partition('seconds, memory')[0]}print({known}, 'jax' in sys.modules)"
    said = subprocess.run([sys.executable, "-c", script, *names], check=True, capture_output=True, text=True).stdout
    context = mlir.make_ir_context()
    wanted = [context.is_registered_operation(name) for name in names]
    assert said.strip() == f"{wanted} False" and any(wanted) and not all(wanted)


def test_patterns_are_recovered():
    """A pattern becomes one kind where its body is that pattern, and stays general where it is not."""
    jnp, lax = jax.numpy, jax.lax
    a = np.arange(12, dtype=np.float32).reshape(3, 4)

    def kinds(function):
        return [op["kind"] for op in ts.from_jax(function, a).operations()]

    assert "reduce" in kinds(lambda a: jnp.argmax(a, 1))
    assert "cumulative" in kinds(lambda a: jnp.cumsum(a, 1))
    assert "sort" in kinds(lambda a: jnp.sort(a, 1))
    assert "embedding" in kinds(lambda a: a[jnp.array([2, 0])])
    assert kinds(lambda a: lax.reduce(a, np.float32(0), lambda p, q: p - (-q), (1,))).count("reduce") == 0


def test_counted_loops_cost_their_trips():
    graph = ts.from_jax(lambda a: jax.lax.fori_loop(0, 7, lambda i, c: c @ a, a), np.ones((8, 8), np.float32))
    loop = next(op for op in graph.operations() if op["kind"] == "while")
    assert loop["attributes"]["trips"] == 7
    assert graph.flops()["matrix"] == 7 * 2 * 8**3


def test_repeated_functions_are_called():
    """A function of some size that is called twice is one function of the graph."""
    jnp = jax.numpy

    @jax.jit
    def layer(a, w):
        for _ in range(4):
            a = jnp.tanh(a @ w) + jnp.sin(a) * jnp.cos(a)
        return a

    graph = agree(lambda a, w: layer(layer(a, w), w), (np.full((4, 4), 0.1, np.float32), np.eye(4, dtype=np.float32)))
    assert [op["kind"] for op in graph.operations()].count("call") == 2
    assert len(graph.functions) == 2


def test_unknown_meaning_is_named():
    with pytest.raises(ts.Unsupported, match="custom_call 'lapack_ssyevd_ffi'"):
        ts.from_jax(lambda a: jax.numpy.linalg.eigh(a)[0], np.ones((4, 4), np.float32))
    text = MODULE.replace('"stablehlo.all_reduce"', '"stablehlo.custom_call"')
    with pytest.raises(ts.UserError):
        ts.from_stablehlo(text)
    dynamic = "func.func @main(%a: tensor<?x4xf32>) -> tensor<?x4xf32> { return %a : tensor<?x4xf32> }"
    with pytest.raises(ts.Unsupported, match="static shapes"):
        ts.from_stablehlo(dynamic)


def dialects():
    """All operations of the two dialects that jaxlib knows."""
    from jaxlib.mlir.dialects import _chlo_ops_gen, _stablehlo_ops_gen

    found = {}
    for name, module in (("stablehlo", _stablehlo_ops_gen), ("chlo", _chlo_ops_gen)):
        classes = [value for value in vars(module).values() if isinstance(value, type)]
        names = {getattr(value, "OPERATION_NAME", "") for value in classes}
        found[name] = sorted(one for one in names if one.startswith(f"{name}."))
    return found


def test_every_operation_is_read_or_left_out_with_a_reason():
    import tilesim.frontends.stablehlo.module  # noqa: F401 (its handlers enter the table)
    from tilesim.frontends.stablehlo.scope import HANDLERS
    from tilesim.frontends.stablehlo.table import EXCLUDED, QUANTIZED, STRUCTURE, documented

    known = dialects()
    assert not set(EXCLUDED) & set(HANDLERS)
    assert [name for name in known["stablehlo"] if name not in {*HANDLERS, *EXCLUDED, *STRUCTURE, *QUANTIZED}] == []
    page = Path(__file__).resolve().parents[3] / "docs" / "how_to" / "input_formats.md"
    assert documented() in page.read_text(encoding="utf-8"), documented()


def test_what_is_left_out_says_why():
    text = """
func.func @main(%a: tensor<4x8xf32>, %b: tensor<8x4xf32>) -> tensor<4x4xf32> {
  %0 = "stablehlo.einsum"(%a, %b) <{einsum_config = "ab,bc->ac"}> :
    (tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}
"""
    with pytest.raises(ts.Unsupported, match=r"stablehlo\.einsum.*removed from the specification"):
        ts.from_stablehlo(text)


def test_command_line(tmp_path):
    path = tmp_path / "net.mlir"
    lowered = jax.jit(lambda a, b: jax.nn.relu(a @ b)).lower(
        np.ones((128, 128), np.float32), np.ones((128, 64), np.float32)
    )
    path.write_text(lowered.as_text(), encoding="utf-8")
    done = tilesim("run", str(path), "--quiet", "--verify")
    assert done.returncode == 0, done.stderr
    assert "net on tpu-v3" in done.stdout


def random_functions(count):
    for seed in range(count):
        function, args = jax_random.function(seed)
        try:
            graph = agree(function, args, rtol=2e-4, atol=2e-4)
            assert ts.verify(ts.compile(graph, "edge-8")).ok
        except ts.Unsupported:
            continue
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from None


@pytest.mark.parametrize("number", [8, pytest.param(300, marks=pytest.mark.slow)])
def test_random_functions(number):
    random_functions(number)
