"""Modules for several devices become graphs that say so: meshes, shardings, groups, regions of own tensors."""

import functools
import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

import tilesim as ts
from support.divided import arrays, written
from tilesim import _core

WORKLOADS = Path(__file__).resolve().parents[2].parent / "shared" / "workloads" / "stablehlo"
NAMES = [
    *("tensor", "data", "fsdp", "sequence", "own_sums", "own_index", "own_gather", "own_scatter", "own_then_free"),
    *("own_ring_product", "own_branch", "own_halo", "own_product", "own_axis", "own_axis_product"),
    *(f"{name}.gspmd" for name in ("tensor", "fsdp", "own_sums", "own_product", "own_ring_product", "own_axis")),
]
needs_jax = pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="needs jax")


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """Directory of some programs of the corpus."""
    return written(tmp_path_factory.mktemp("programs"), NAMES)


@functools.cache
def partitioned(folder):
    """XLA's program of a folder; two tests look at it."""
    graph = ts.from_stablehlo((folder / "partitioned.mlir").read_text())
    if graph.devices == 1:  # no communication between devices, so the module names none
        graph.annotate(devices=8)
    return ts.cluster.Spmd.from_partitioned(graph)


def module(body, attributes="mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32"):
    return f"module @m attributes {{{attributes}}} {{\n{body}\n}}\n"


# --- whole programs ---


@needs_jax
@pytest.mark.parametrize("name", NAMES)
def test_modules_of_jax_keep_mesh_and_meaning(programs, name):
    folder = programs / name
    graph = ts.from_stablehlo((folder / "module.mlir").read_text())
    assert graph.devices == 8
    sizes = dict(_core.mesh_axes(graph.mesh)[0])
    assert np.prod(list(sizes.values())) == 8
    if not name.endswith("gspmd"):
        assert sizes == ({"x": 8} if name == "own_halo" else {"x": 2, "y": 4})
    inputs, wanted = arrays(folder / "inputs.npz"), arrays(folder / "outputs.npz")
    found = ts.execute(ts.cluster.Spmd.from_partitioned(graph), inputs)
    for output, want in zip(found.values(), wanted, strict=True):
        np.testing.assert_allclose(output, want, rtol=2e-5, atol=2e-5)


@needs_jax
@pytest.mark.parametrize("name", NAMES)
def test_modules_of_jax_are_divided_regions_included(programs, name):
    folder = programs / name
    spmd = ts.partition(ts.from_stablehlo((folder / "module.mlir").read_text()))
    own, bound = (
        sum(row["count"] * row["wire_bytes"] for row in program.collectives())
        for program in (spmd, partitioned(folder))
    )
    assert own <= 1.05 * bound
    assert {row["view"] for row in spmd.inputs} == {"divided"}
    inputs, wanted = arrays(folder / "inputs.npz"), arrays(folder / "outputs.npz")
    for output, want in zip(ts.execute(spmd, inputs).values(), wanted, strict=True):
        np.testing.assert_allclose(output, want, rtol=2e-5, atol=2e-5)


@needs_jax
@pytest.mark.parametrize("by", ["own", "shardy"])
def test_axes_that_a_region_leaves_free_divide_what_is_in_it(programs, by):
    graph = ts.from_stablehlo((programs / "own_axis_product" / "module.mlir").read_text())
    spmd = ts.partition(graph, by=by)
    (row,) = spmd.collectives()  # the region's own sum, of a quarter of its rows
    assert (row["kind"], row["bytes_in"], row["devices"]) == ("all_reduce", 2 * 32 * 4, 2)
    (product,) = [entry for entry in spmd.graph.operations() if entry["kind"] == "contract"]
    assert product["results"][0]["shape"] == (2, 32)


@needs_jax
def test_what_is_a_devices_own_does_not_leave_its_region():
    body = """sdy.mesh @m = <["x"=2, "y"=2]>
    func.func @main(%a: tensor<4xf32> {sdy.sharding = #sdy.sharding<@m, [{"x"}]>}) -> (tensor<4xf32>, tensor<ui32>) {
      %0 = stablehlo.tanh %a {sdy.sharding = #sdy.sharding_per_value<[<@m, [{"x"}]>]>} : tensor<4xf32>
      %1 = stablehlo.tanh %0 : tensor<4xf32>
      %2 = stablehlo.partition_id : tensor<ui32>
      return %1, %2 : tensor<4xf32>, tensor<ui32> }"""
    with pytest.raises(ts.Unsupported, match="another tensor on each device"):
        ts.partition(ts.from_stablehlo(module(body)))


@needs_jax
@pytest.mark.parametrize("name", NAMES)
def test_partitioned_modules_run_on_all_devices(programs, name):
    folder = programs / name
    spmd = partitioned(folder)
    assert spmd.devices == 8
    inputs, wanted = arrays(folder / "inputs.npz"), arrays(folder / "outputs.npz")
    places = json.loads((folder / "places.json").read_text())
    found = ts.execute(spmd, inputs)
    for output, want, parts in zip(found.values(), wanted, places, strict=True):
        if not isinstance(output, list):
            output = [output] * 8
        for own, part in zip(output, parts, strict=True):
            np.testing.assert_allclose(own, want[tuple(slice(*ends) for ends in part)], rtol=2e-5, atol=2e-5)


@needs_jax
def test_strings_of_gspmd_mean_what_jax_says(programs):
    texts = json.loads((programs / "strings.json").read_text())
    assert len(texts) == 4
    for text, parts in texts.items():
        for mesh in ("x=2, y=4", _core.gspmd_mesh([text], 8)):
            sharding, manual = _core.gspmd_shardings(text, mesh, [2])[0]
            counts, indices = _core.sharding_division(sharding, mesh)
            own = [[[i * 8 // n, (i + 1) * 8 // n] for i, n in zip(index, counts, strict=True)] for index in indices]
            assert own == parts and manual == ""


def tiles(text):
    """Device of each tile by numpy alone: shape, and devices in it."""
    shape = [int(n) for n in text.split("devices=[")[1].split("]")[0].split(",")]
    rest = text.split("]", 1)[1].strip("}").split(" ")[0]
    if rest.startswith("<="):
        dims = [int(n) for n in rest[3:].split("]")[0].split(",")]
        order = [int(n) for n in rest.split("T(")[1].strip(")").split(",")] if "T(" in rest else range(len(dims))
        return np.arange(np.prod(dims)).reshape(dims).transpose(list(order)).reshape(shape)
    return np.array([int(n) for n in rest.split(",")]).reshape(shape)


@pytest.mark.parametrize(
    "text",
    [
        "{devices=[4,2]0,1,2,3,4,5,6,7}",
        "{devices=[2,4]0,2,4,6,1,3,5,7}",
        "{devices=[2,2]0,1,3,2}",
        "{devices=[12,1]<=[12]}",
        "{devices=[6,2]<=[2,2,3]T(2,0,1)}",
        "{devices=[2,1,4]<=[8] last_tile_dim_replicate}",
        "{devices=[2,2,3]<=[3,2,2]T(1,2,0) last_tile_dims={replicated}}",
        "{devices=[2,2,2,2]<=[16] last_tile_dims={manual, replicated}}",
    ],
)
def test_tiled_strings_divide_as_their_numbers_say(text):
    device = tiles(text)
    mesh = _core.gspmd_mesh([text], device.size)
    sharding, _ = _core.gspmd_shardings(text, mesh, [2])[0]
    counts, indices = _core.sharding_division(sharding, mesh)
    assert counts == list(device.shape[:2])
    for index in np.ndindex(*device.shape):
        assert indices[device[index]] == list(index[:2])


def test_other_forms_of_gspmd():
    mesh = "x=2, y=4"
    assert _core.gspmd_shardings("{replicated}", mesh, [2]) == [("[{}, {}]", "")]
    assert _core.gspmd_shardings("{maximal device=3}", mesh, [1]) == [("[{}]", "")]
    assert _core.gspmd_shardings("{unknown}", mesh, [1]) == [(None, "")]
    assert _core.gspmd_shardings("{manual}", mesh, [1]) == [(None, '[], replicated={"x", "y"}')]
    pair = "{{devices=[8,1]<=[8]}, /*index=1*/{replicated}}"
    assert _core.gspmd_shardings(pair, mesh, [2, 0]) == [('[{"x", "y"}, {}]', ""), ("[]", "")]
    assert _core.gspmd_shardings("{devices=[4,2]<=[8]}", mesh, [2]) == [('[{"x", "y":(1)2}, {"y":(2)2}]', "")]
    for wrong in ("{devices=[2,2]<=[8]}", "{devices=[2]0,0}", "{tiled}", "{devices=[2]<=[2]T(1)}", "replicated"):
        with pytest.raises(ts.UserError):
            _core.gspmd_shardings(wrong, mesh, [1])


# --- groups ---

SUM = (
    "({^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> "
    "stablehlo.return %r : tensor<f32>})"
)


def reduced(groups, attributes, more=""):
    """Values of an all-reduce of the device's number plus one, per device."""
    body = f"""func.func @main(%a: tensor<1xf32>) -> tensor<1xf32> {{
      %0 = "stablehlo.all_reduce"(%a) <{{replica_groups = {groups}{more}}}> {SUM} : (tensor<1xf32>) -> tensor<1xf32>
      return %0 : tensor<1xf32> }}"""
    graph = ts.from_stablehlo(module(body, attributes))
    values = [np.array([2.0**d], np.float32) for d in range(graph.devices)]
    found = ts.execute(ts.cluster.Spmd.from_partitioned(graph), [values])
    (output,) = found.values()
    output = output if isinstance(output, list) else [output] * graph.devices
    return [sorted(d for d in range(graph.devices) if int(own[0]) >> d & 1) for own in output]


@needs_jax
@pytest.mark.parametrize(
    ("more", "groups", "wanted"),
    [
        # 2 replicas of 3 partitions: device = 3 * replica + partition (StableHLO: cross_replica and the others)
        ("", [[0, 1]], [[0, 3], [1, 4], [2, 5]]),
        (", channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>", [[0], [1]], [[0, 1, 2], [3, 4, 5]]),
        (
            ", channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids",
            [[0, 4], [1, 5], [2, 3]],
            [[0, 4], [1, 5], [2, 3]],
        ),
        (
            ", channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids",
            [[0, 1, 2, 3], [4, 5, -1, -1]],
            [[0, 1, 2, 3], [4, 5]],
        ),
    ],
)
def test_groups_in_each_way_of_stating_them(more, groups, wanted):
    text = f"dense<{groups}> : tensor<{len(groups)}x{len(groups[0])}xi64>"
    found = reduced(text, "mhlo.num_partitions = 3 : i32, mhlo.num_replicas = 2 : i32", more)
    assert found == [next(group for group in wanted if d in group) for d in range(6)]


@needs_jax
def test_groups_along_axes_of_a_mesh():
    body = f"""sdy.mesh @m = <["x"=2, "y"=4]>
    func.func @main(%a: tensor<1xf32>) -> tensor<1xf32> {{
      %0 = "stablehlo.all_reduce"(%a) <{{replica_groups = #stablehlo.replica_group_mesh_axes<mesh = @m,
        axes = [#stablehlo.axis_ref<name = "x">]>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>,
        use_global_device_ids}}> {SUM} : (tensor<1xf32>) -> tensor<1xf32>
      return %0 : tensor<1xf32> }}"""
    body = body.replace('@m = <["x"=2, "y"=4]>', MESH)
    graph = ts.from_stablehlo(module(body, "mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32"))
    (row,) = ts.cluster.Spmd.from_partitioned(graph).collectives()
    assert row["groups"] == [[0, 4], [1, 5], [2, 6], [3, 7]]


MESH = '@m = <["x"=2, "y"=4]> {stablehlo.mesh = {axes = [{name = "x", size = 2 : i64}, {name = "y", size = 4 : i64}]}}'


@needs_jax
def test_replica_and_partition_ids():
    body = """func.func @main() -> (tensor<ui32>, tensor<ui32>) {
      %0 = stablehlo.partition_id : tensor<ui32>
      %1 = stablehlo.replica_id : tensor<ui32>
      return %0, %1 : tensor<ui32>, tensor<ui32> }"""
    graph = ts.from_stablehlo(module(body, "mhlo.num_partitions = 3 : i32, mhlo.num_replicas = 2 : i32"))
    partition, replica = ts.execute(ts.cluster.Spmd.from_partitioned(graph), []).values()
    assert [int(own) for own in partition] == [0, 1, 2, 0, 1, 2]
    assert [int(own) for own in replica] == [0, 0, 0, 1, 1, 1]


@needs_jax
def test_asynchronous_pairs():
    body = """func.func @main(%a: tensor<2xf32>) -> tensor<8xf32> {
      %0 = "stablehlo.async_start"(%a) ({^bb0(%x: tensor<2xf32>):
        %g = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1, 2, 3]]> :
          tensor<1x4xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids}> :
          (tensor<2xf32>) -> tensor<8xf32>
        "stablehlo.return"(%g) : (tensor<8xf32>) -> () }) : (tensor<2xf32>) -> !stablehlo.future<tensor<8xf32>>
      %1 = "stablehlo.async_done"(%0) : (!stablehlo.future<tensor<8xf32>>) -> tensor<8xf32>
      return %1 : tensor<8xf32> }"""
    graph = ts.from_stablehlo(module(body))
    parts = [np.arange(2, dtype=np.float32) + 10 * d for d in range(4)]
    (output,) = ts.execute(ts.cluster.Spmd.from_partitioned(graph), [parts]).values()
    np.testing.assert_array_equal(output, np.concatenate(parts))


@needs_jax
def test_groups_that_the_module_cannot_have():
    with pytest.raises(ts.UserError, match="device that the module does not have"):
        reduced("dense<[[0, 1]]> : tensor<1x2xi64>", "mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32")


@needs_jax
@pytest.mark.skipif(not WORKLOADS.is_dir(), reason="needs the workloads beside the repository")
def test_a_module_of_four_replicas():
    graph = ts.from_stablehlo(WORKLOADS / "resnet_50_inference_step_4_devices_1024_batch.mlir")
    spmd = ts.partition(graph)
    assert graph.devices == spmd.devices == 4
    text = (WORKLOADS / "resnet_50_inference_step_4_devices_1024_batch.mlir").read_text()
    assert len(spmd.collectives()) == text.count('"stablehlo.all_reduce"(') + text.count('"stablehlo.all_gather"(')
    notes = " ".join(ts.estimate(graph, "a100").approximations)
    assert "one of 4" in notes


# --- annotations ---


def two_layers():
    b = ts.GraphBuilder("two")
    x = b.input("x", (8, 16))
    w = b.input("w", (16, 4))
    b.output(b.apply("tanh", x @ w), "y")
    return b


def test_annotations_go_through_files_and_passes(tmp_path):
    graph = two_layers().build(shardings={"x": '[{"d"}, {?}]', "y": '[{"d"}, {}]'}, mesh={"d": 2, "e": 4})
    assert graph.mesh == "d=2, e=4"
    assert graph.shardings == {"x": '[{"d"}, {?}]', "y": '[{"d"}, {}]'}
    for name in ("g.json", "g.tsim"):
        graph.save(tmp_path / name)
        again = ts.Graph.load(tmp_path / name)
        assert (again.mesh, again.shardings, again.devices) == (graph.mesh, graph.shardings, 1)
    before = graph.shardings
    graph.optimize()
    graph.remove_dead_code()
    assert graph.shardings == before


def test_an_annotated_copy_stays():
    b = ts.GraphBuilder("copy")
    x = b.input("x", (8,))
    b.output(b.apply("tanh", b.op("copy", x, name="again")), "y")
    graph = b.build(shardings={"x": '[{"d"}]', "again": "[{}]"}, mesh={"d": 2})
    graph.optimize()
    assert graph.shardings == {"x": '[{"d"}]', "again": "[{}]"}


@pytest.mark.parametrize(
    ("shardings", "message"),
    [
        ({"xx": "[{}, {}]"}, "does not exist"),
        ({"x": "[{}]"}, "number of axes"),
        ({"x": '[{"d"}, {"d"}]'}, "used twice"),
        ({"x": '[{"d":(1)2}, {"d":(1)2}]'}, "used twice"),
        ({"x": '[{"dd"}, {}]'}, "no such axis"),
        ({"x": '[{"e":(1)3}, {}]'}, "does not divide"),
        ({"x": "[{d}"}, "not a sharding"),
    ],
)
def test_wrong_shardings_are_told(shardings, message):
    with pytest.raises(ts.UserError, match=message):
        two_layers().build(shardings=shardings, mesh={"d": 2, "e": 4})


def test_unknown_names_get_a_suggestion():
    with pytest.raises(ts.UserError, match="'x'"):
        two_layers().build(shardings={"xx": "[{}, {}]"}, mesh={"d": 2})
    with pytest.raises(ts.UserError, match="data"):
        two_layers().build(shardings={"x": '[{"dta"}, {}]'}, mesh={"data": 2})


def test_results_say_that_this_is_the_whole_program():
    graph = two_layers().build(shardings={"x": '[{"d"}, {}]'}, mesh={"d": 4})
    told = "program of 4 devices runs on one"
    assert told in " ".join(ts.estimate(graph, "a100").approximations)
    assert told in " ".join(ts.simulate(ts.compile(graph, "edge-8")).approximations)
    assert told in " ".join(ts.run(graph, machine="edge-8").approximations)
    same = two_layers().build()
    assert "devices" not in " ".join(ts.estimate(same, "a100").approximations)


@needs_jax
def test_a_constraint_is_kept() -> None:
    """As JAX writes the shardings of a jitted function that another one calls."""
    body = """sdy.mesh @m = <["x"=4]>
      func.func public @main(%a: tensor<8x4xf32>) -> tensor<8xf32> {
        %0 = func.call @inner(%a) : (tensor<8x4xf32>) -> tensor<8xf32>
        return %0 : tensor<8xf32>
      }
      func.func private @inner(%a: tensor<8x4xf32>) -> tensor<8xf32> {
        %0 = sdy.sharding_constraint %a <@m, [{}, {"x"}]> : tensor<8x4xf32>
        %c = stablehlo.constant dense<0.0> : tensor<f32>
        %1 = stablehlo.reduce(%0 init: %c) applies stablehlo.add across dimensions = [1]
          : (tensor<8x4xf32>, tensor<f32>) -> tensor<8xf32>
        %2 = sdy.sharding_constraint %1 <@m, [{}]> : tensor<8xf32>
        return %2 : tensor<8xf32>
      }"""
    graph = ts.from_stablehlo(module(body))
    assert '[{}, {"x"}]' in graph.shardings.values()
    rows = ts.partition(graph).collectives().rows
    assert [(row["kind"], row["devices"], row["wire_bytes"]) for row in rows] == [("all_reduce", 4, 2 * 3 / 4 * 32)]


def test_an_operation_has_one_handler() -> None:
    from tilesim.frontends.stablehlo.scope import handles

    with pytest.raises(_core.InternalError, match="two handlers"):
        handles("stablehlo.transpose")(lambda scope, op: [])
