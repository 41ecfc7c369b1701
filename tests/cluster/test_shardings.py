"""Graphs divided by Shardy and by XLA: what is given, what they are told, what they refuse. `test_corpus.py` compares
the values of many programs."""

import importlib.util

import numpy as np
import pytest

import tilesim as ts
from tilesim import _core
from tilesim.cluster.partition import spread_shardings

pytestmark = pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="needs jax, whose Shardy is compared")


def integers(shape, seed):
    return np.random.default_rng(seed).integers(-2, 3, shape).astype(np.float32)


def agrees(graph, spmd):
    inputs = [integers(row["shape"], i) for i, row in enumerate(graph.inputs)]
    whole, parts = ts.reference(graph, inputs), ts.execute(spmd, inputs)
    for (name, wanted), own in zip(whole.items(), parts.values(), strict=True):
        largest = max(1, np.abs(wanted).max())
        np.testing.assert_allclose(own, wanted, rtol=1e-4, atol=1e-4 * largest, err_msg=name)


def by_hand():
    b = ts.GraphBuilder("mlp")
    x, up, down = b.input("x", (8, 16)), b.input("up", (16, 32)), b.input("down", (32, 16))
    b.output(b.matmul(b.apply("relu", b.matmul(x, up)), down), "y")
    return b.build()


def test_shardy_divides_graphs_of_any_origin():
    graph = by_hand()
    given = {"x": ("d", None), "up": (None, "t"), "down": ("t", None)}
    spmd = ts.partition(graph, {"d": 2, "t": 3}, given, by="shardy")
    assert [row["kind"] for row in spmd.collectives()] == ["all_reduce"]
    agrees(graph, spmd)
    graph.annotate({"x": '[{"d"}, {}]', "up": '[{}, {"t"}]'}, mesh={"d": 2, "t": 4})
    assert spread_shardings(graph, by="shardy") == spread_shardings(graph)
    with pytest.raises(ts.UserError, match="own"):
        spread_shardings(graph, by="xla")


def test_xla_needs_a_module():
    graph = by_hand()
    graph.annotate({"x": '[{"d"}, {}]'}, mesh={"d": 2})
    for mesh in (None, {"d": 2}):
        with pytest.raises(ts.UserError, match="module"):
            ts.partition(graph, mesh, by="xla")


def of_one_device(m=8):
    import jax

    def mlp(x, up, down):
        return jax.nn.relu(x @ up) @ down

    shapes = [jax.ShapeDtypeStruct(shape, "float32") for shape in ((m, 16), (16, 32), (32, 16))]
    return ts.from_jax(mlp, *shapes)


#: shardings of a product of two layers, and what one has to send by hand: (kind, wire bytes of a device)
GIVEN = [
    # rows of x over d, hidden over t: partial sums of 4 x 16 floats over 4 devices, 2 x 3/4 of them
    ({"x": ("d",), "up": (None, "t"), "down": ("t",)}, [("all_reduce", 2 * 3 / 4 * 4 * 16 * 4)]),
    # both products divided along what they sum: over all 8 devices the 8 x 32 floats of the first are summed
    ({"x": (None, ("t", "d"))}, [("all_reduce", 2 * 7 / 8 * 8 * 32 * 4)]),
]


@pytest.mark.parametrize(("given", "sends"), GIVEN)
def test_xla_takes_shardings_that_are_given(given, sends):
    graph = of_one_device()
    spmd = ts.partition(graph, {"d": 2, "t": 4}, given, by="xla")
    assert spmd.devices == 8
    agrees(graph, spmd)
    assert [(row["kind"], row["wire_bytes"]) for row in spmd.collectives()] == sends and spmd.records == []
    assert not graph.mesh and not graph.shardings  # the caller's graph is as it was


def test_what_xla_leaves_whole_is_told():
    """Parts that do not divide an axis: XLA holds such inputs and outputs whole."""
    graph = of_one_device(m=7)
    given = {"x": ("d",), "up": (None, "t"), graph.outputs[0]["name"]: ("d", "t")}
    spmd = ts.partition(graph, {"d": 2, "t": 4}, given, by="xla")
    agrees(graph, spmd)
    assert spmd.graph.inputs[0]["shape"] == (7, 16) and spmd.graph.outputs[0]["shape"] == (7, 4)
    assert [row["value"] for row in spmd.records] == ["x", graph.outputs[0]["name"]]
    for row in spmd.records:
        assert row["reason"] == "XLA splits axis 0 into 1 instead of 2 parts, which do not divide 7"


def test_what_was_said_of_a_graph_reaches_xla():
    """Annotated since it was read, or another mesh over the module's own axes: nothing of it is dropped."""
    graph = of_one_device()
    graph.annotate({"x": '[{"d"}, {}]', "up": '[{}, {"t"}]', "down": '[{"t"}, {}]'}, mesh={"d": 2, "t": 4})
    spmd = ts.partition(graph.copy(), by="xla")
    assert [row["kind"] for row in spmd.collectives()] == ["all_reduce"]
    agrees(graph, spmd)
    graph = ts.from_stablehlo(NAMED)
    axes = [one.partition("=")[0].strip() for one in graph.mesh.split(",")]
    spmd = ts.partition(graph, dict.fromkeys(axes, 2), by="xla")
    assert spmd.devices == 2 ** len(axes) != graph.devices
    agrees(graph, spmd)


#: two products of a module that states its own mesh
NAMED = """module @m attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["x"=2, "y"=4]>
  func.func public @main(%x: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
                         %w: tensor<16x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"y"}]>},
                         %v: tensor<32x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {}]>}) -> tensor<8x16xf32> {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<8x16xf32>, tensor<16x32xf32>)
      -> tensor<8x32xf32>
    %1 = stablehlo.dot_general %0, %v, contracting_dims = [1] x [0] : (tensor<8x32xf32>, tensor<32x16xf32>)
      -> tensor<8x16xf32>
    return %1 : tensor<8x16xf32>
  }
}
"""
LISTS = """module @m attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%x: tensor<8x16xf32> {mhlo.sharding = "{devices=[2,1,4]<=[8] last_tile_dim_replicate}"},
                         %w: tensor<16x32xf32>) -> tensor<8x32xf32> {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<8x16xf32>, tensor<16x32xf32>)
      -> tensor<8x32xf32>
    return %0 : tensor<8x32xf32>
  }
}
"""


def test_modules_that_list_devices_take_shardings_too():
    graph = ts.from_stablehlo(LISTS)
    first, second = (one.partition("=")[0].strip() for one in graph.mesh.split(","))
    inputs = [row["name"] for row in graph.inputs]
    spmd = ts.partition(graph, None, {inputs[1]: (None, second)}, by="xla")
    agrees(graph, spmd)
    assert not spmd.collectives() and spmd.graphs[0].inputs[1]["shape"] == (16, 8)
    turned = ts.partition(graph, None, {inputs[0]: (None, (second, first))}, by="xla")
    agrees(graph, turned)
    assert turned.collectives() and turned.graphs[0].inputs[0]["shape"] == (8, 2)  # what is contracted is divided
    with pytest.raises(ts.UserError, match="without a mesh"):
        ts.partition(graph, {first: 4, second: 2}, by="xla")
    with pytest.raises(ts.UserError, match="whole axes"):
        ts.partition(graph, None, {inputs[1]: f'[{{}}, {{"{second}":(1)2}}]'}, by="xla")


def test_what_xla_is_not_told():
    graph = of_one_device()
    with pytest.raises(ts.UserError, match="without a mesh"):
        ts.partition(graph, by="xla")
    with pytest.raises(ts.UserError, match="no such axis"):
        ts.partition(graph, {"d": 2}, {"x": ("e",)}, by="xla")
    inside = graph.core.operations("")[0]["results"][0]["name"]
    with pytest.raises(ts.UserError, match="inputs and outputs"):
        ts.partition(graph, {"d": 2}, {inside: ("d",)}, by="xla")


def test_an_interface_that_jax_lacks_is_named(monkeypatch):
    from tilesim.cluster.partitioners import xla

    script = xla.CHILD.read_text(encoding="utf-8").replace("hlo_to_stablehlo\n", "of_another_version\n", 1)

    class Other:
        @staticmethod
        def read_text(**_):
            return script

    monkeypatch.setattr(xla, "CHILD", Other)
    with pytest.raises(_core.Unsupported, match=r"jax \S+ has no interface .* jax 0\.10 has it"):
        ts.partition(of_one_device(), {"d": 2}, {"x": ("d",)}, by="xla")


def test_xla_that_refuses_is_told():
    graph = ts.from_stablehlo(NAMED)
    graph.module = "module @m { func.func @other() { return } }"
    with pytest.raises(_core.Unsupported, match="XLA cannot partition"):
        ts.partition(graph, by="xla")


def test_the_module_goes_with_copies_not_with_files():
    graph = ts.from_stablehlo(NAMED)
    assert graph.copy().module == NAMED
    assert ts.Graph.from_dict(graph.to_dict()).module == ""


def test_constants_come_back_from_xla():
    """Its text leaves out those of more than ten elements, unless it is told not to."""
    text = """module @m attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%x: tensor<16xi32> {mhlo.sharding = "{devices=[2]<=[2]}"}) -> tensor<16xi32> {
    %c = stablehlo.constant dense<[VALUES]> : tensor<16xi32>
    %0 = stablehlo.add %x, %c : tensor<16xi32>
    return %0 : tensor<16xi32>
  }
}""".replace("VALUES", ", ".join(str(i * i) for i in range(16)))
    graph = ts.from_stablehlo(text)
    (name,) = (row["name"] for row in graph.inputs)
    found = ts.execute(ts.partition(graph, by="xla"), {name: np.zeros(16, np.int32)})
    assert [value.tolist() for value in found.values()] == [[i * i for i in range(16)]]
