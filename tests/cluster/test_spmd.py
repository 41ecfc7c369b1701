"""Programs of several devices: collectives by numpy, loops and branches in lockstep, tables, files, command line."""

import json
import re

import numpy as np
import pytest
from typer.testing import CliRunner

import tilesim as ts
from tilesim.cli.main import app
from tilesim.graph.tensor import Tensor

GROUPS = [[0, 2], [1, 3]]
FLAT = [0, 2, 1, 3]


def one(kind, shape=(4, 6), devices=4, dtype="f32", **attributes):
    """A program of one operation."""
    b = ts.GraphBuilder("one")
    x = b.input("x", shape, dtype)
    b.output(b.op(kind, x, name="sent", **attributes), "y")
    graph = b.build()
    graph.annotate(devices=devices)
    return ts.cluster.Spmd.from_partitioned(graph)


def inputs(shape=(4, 6), devices=4, dtype=np.float32):
    rng = np.random.default_rng(1)
    return [rng.integers(-9, 9, shape).astype(dtype) for _ in range(devices)]


def each(found, devices=4):
    (output,) = found.values()
    return output if isinstance(output, list) else [output] * devices


def by_group(parts, meaning):
    """Result of each device where `meaning(tensors of its group, its position)` gives it."""
    return [meaning([parts[m] for m in g], g.index(d)) for d in range(4) for g in GROUPS if d in g]


REDUCE = {
    "add": np.add.reduce,
    "multiply": np.multiply.reduce,
    "maximum": np.maximum.reduce,
    "minimum": np.minimum.reduce,
}
MEANINGS = {
    **{
        ("all_reduce", c): ({"combiner": c}, lambda xs, i, f=f: f(np.stack(xs)).astype(xs[0].dtype))
        for c, f in REDUCE.items()
    },
    **{
        ("reduce_scatter", dim): (
            {"combiner": "add", "dim": dim},
            lambda xs, i, dim=dim: np.split(sum(xs), 2, axis=dim)[i],
        )
        for dim in (0, 1)
    },
    **{("all_gather", dim): ({"dim": dim}, lambda xs, i, dim=dim: np.concatenate(xs, axis=dim)) for dim in (0, 1)},
    **{
        ("all_to_all", s, c): (
            {"split_dim": s, "concat_dim": c},
            lambda xs, i, s=s, c=c: np.concatenate([np.split(x, 2, axis=s)[i] for x in xs], axis=c),
        )
        for s in (0, 1)
        for c in (0, 1)
    },
    ("broadcast_devices",): ({}, lambda xs, i: xs[0]),
}


@pytest.mark.parametrize("key", MEANINGS, ids=str)
@pytest.mark.parametrize("dtype", ["f32", "i32"])
def test_collectives_by_numpy(key, dtype):
    attributes, meaning = MEANINGS[key]
    parts = inputs(dtype=np.dtype(dtype.replace("f", "float").replace("i", "int")))
    spmd = one(key[0], dtype=dtype, groups=FLAT, group_size=2, **attributes)
    found = each(ts.execute(spmd, [parts]))
    for got, want in zip(found, by_group(parts, meaning), strict=True):
        np.testing.assert_array_equal(got, want)
        assert got.dtype == want.dtype


@pytest.mark.parametrize("combiner", ["logical_and", "logical_or"])
def test_truth_values_are_combined(combiner):
    parts = [np.array(bits) for bits in ([1, 1, 0, 0], [1, 0, 0, 1], [1, 1, 0, 1], [1, 0, 0, 0])]
    parts = [part.astype(bool) for part in parts]
    found = each(ts.execute(one("all_reduce", (4,), dtype="bool", combiner=combiner), [parts]))
    want = np.logical_and.reduce(parts) if combiner == "logical_and" else np.logical_or.reduce(parts)
    np.testing.assert_array_equal(found[3], want)


def test_sums_follow_the_order_of_the_group():
    # (1e8 + 1) - 1e8 in f32 depends on the order
    parts = [np.array([v], np.float32) for v in (1e8, 1, -1e8, 0)]
    found = each(ts.execute(one("all_reduce", (1,), combiner="add", groups=[0, 2, 1, 3], group_size=4), [parts]))
    assert [float(x[0]) for x in found] == [1.0] * 4
    found = each(ts.execute(one("all_reduce", (1,), combiner="add"), [parts]))
    assert [float(x[0]) for x in found] == [0.0] * 4


def test_shorter_groups_and_devices_without_a_source():
    parts = inputs()
    found = each(ts.execute(one("all_reduce", combiner="add", groups=[0, 1, 2, 3, -1, -1], group_size=3), [parts]))
    np.testing.assert_array_equal(found[1], parts[0] + parts[1] + parts[2])
    np.testing.assert_array_equal(found[3], parts[3])
    found = each(ts.execute(one("permute_devices", pairs=[0, 1, 1, 2, 3, 3]), [parts]))
    for got, want in zip(found, [np.zeros((4, 6)), parts[0], parts[1], parts[3]], strict=True):
        np.testing.assert_array_equal(got, want)


def test_wrong_groups_are_told():
    for attributes, message in (
        ({"groups": [0, 1, 1, 2], "group_size": 2}, "twice"),
        ({"groups": [0, -1, 1, 2], "group_size": 4}, "-1 before"),
        ({"groups": [0, 1, 2], "group_size": 2}, "multiple"),
        ({"groups": [0, 1, 2, 7], "group_size": 4}, "does not exist"),
    ):
        with pytest.raises(ts.UserError, match=message):
            one("all_reduce", combiner="add", **attributes)
    with pytest.raises(ts.UserError, match="in no group"):
        ts.execute(one("all_reduce", combiner="add", groups=[0, 1], group_size=2), [inputs()])
    with pytest.raises(ts.UserError, match="same target"):
        ts.execute(one("permute_devices", pairs=[0, 1, 2, 1]), [inputs()])


# --- loops, branches, calls ---


def running(b, kind, operands, functions, **attributes):
    """Results of an operation that runs functions."""
    values = b.core.op(kind, [x.value for x in operands], attributes, "", 0, functions)
    return [Tensor(b, value) for value in values]


def looped(trips_of):
    """x = all-reduced x + 1, as often as `trips_of(builder, x)` says."""
    b = ts.GraphBuilder("loop")
    test = b.function("test")
    i, n, _ = test.input("i", (), "i32"), test.input("n", (), "i32"), test.input("x", (3,))
    test.output(test.apply("less", i, n), "go")
    body = b.function("body")
    i, n, x = body.input("i", (), "i32"), body.input("n", (), "i32"), body.input("x", (3,))
    body.output(i + 1, "i2")
    body.output(body.op("copy", n), "n2")
    body.output(body.op("all_reduce", x, combiner="maximum", name="met") + 1.0, "x2")
    x = b.input("x", (3,))
    n = trips_of(b)
    zero = b.weight("zero", data=np.int32(0))
    state = running(b, "while", [zero, n, x], ["test", "body"], trips=5)
    b.output(state[2], "y")
    graph = b.build()
    graph.annotate(devices=4)
    return ts.cluster.Spmd.from_partitioned(graph)


def test_loops_run_in_lockstep():
    spmd = looped(lambda b: b.weight("trips", data=np.int32(5)))
    parts = inputs((3,))
    found = each(ts.execute(spmd, [parts]))
    for own in found:
        np.testing.assert_array_equal(own, np.maximum.reduce(parts) + 5)
    (row,) = spmd.collectives()
    assert (row["kind"], row["count"]) == ("all_reduce", 5)


def test_devices_that_part_are_an_error():
    spmd = looped(lambda b: b.op("convert", b.op("device_index", axis="partition"), dtype="i32"))
    with pytest.raises(ts.UserError, match="device 1 differs"):
        ts.execute(spmd, [inputs((3,))])


def branching(which):
    b = ts.GraphBuilder("branch")
    for name, combiner in (("yes", "add"), ("no", "maximum")):
        f = b.function(name)
        f.output(f.op("all_reduce", f.input("x", (3,)), combiner=combiner), "y")
    x = b.input("x", (3,))
    b.output(running(b, "branch", [which(b), x], ["yes", "no"])[0], "y")
    graph = b.build()
    graph.annotate(devices=4)
    return ts.cluster.Spmd.from_partitioned(graph)


def test_branches_that_all_take_and_that_some_take():
    parts = inputs((3,))
    found = each(ts.execute(branching(lambda b: b.weight("one", data=np.int32(1))), [parts]))
    np.testing.assert_array_equal(found[2], np.maximum.reduce(parts))
    with pytest.raises(ts.UserError, match="same choice"):
        ts.execute(branching(lambda b: b.op("convert", b.op("device_index", axis="partition"), dtype="i32")), [parts])


# --- tables ---


@pytest.mark.parametrize(
    ("kind", "attributes", "share"),
    [
        ("all_reduce", {"combiner": "add"}, 2 * 3 / 4 * 96),
        ("reduce_scatter", {"combiner": "add", "dim": 0}, 3 / 4 * 96),
        ("all_gather", {"dim": 0}, 3 / 4 * 4 * 96),
        ("all_to_all", {"split_dim": 0, "concat_dim": 1}, 3 / 4 * 96),
        ("permute_devices", {"pairs": [0, 1, 1, 0]}, 96),
        ("permute_devices", {"pairs": [0, 0]}, 0),
    ],
)
def test_bytes_on_the_wire(kind, attributes, share):
    size = {} if "pairs" in attributes else {"groups": [0, 1, 2, 3], "group_size": 4}
    (row,) = one(kind, **attributes, **size).collectives()
    out = {"all_gather": 384, "reduce_scatter": 24}.get(kind, 96)
    assert (row["bytes_in"], row["bytes_out"], row["wire_bytes"]) == (96, out, share)
    assert row["operation"] == "sent" and row["count"] == 1
    assert list(row) == ["operation", "kind", "count", "devices", "groups", "bytes_in", "bytes_out", "wire_bytes"]


def test_calls_are_counted():
    b = ts.GraphBuilder("calls")
    f = b.function("layer")
    f.output(f.op("all_reduce", f.input("x", (4,)), combiner="add", groups=[0, 1], group_size=2), "y")
    x = b.input("x", (4,))
    for _ in range(3):
        (x,) = running(b, "call", [x], ["layer"])
    b.output(x, "y")
    graph = b.build()
    graph.annotate(devices=2)
    spmd = ts.partition(graph)
    assert [row["count"] for row in spmd.collectives()] == [1, 1, 1]
    assert "3 calls" in " ".join(ts.estimate(graph, "a100").approximations)
    assert "one of 2" in " ".join(ts.estimate(graph, "a100").approximations)


# --- global tensors, files, the command line ---


def divided(size):
    """Sums of the rows of x, which is divided over y; the rows over x. Local shapes."""
    b = ts.GraphBuilder("rows")
    x = b.input("x", (-(-size // 2), 8 // 4))
    total = b.op("all_reduce", b.op("reduce", x, dims=[1], combiner="add"), combiner="add",
                 groups=[0, 1, 2, 3, 4, 5, 6, 7], group_size=4)  # fmt: skip
    b.output(total, "y")
    graph = b.build(shardings={"x": '[{"x"}, {"y"}]', "y": '[{"x"}]'}, mesh={"x": 2, "y": 4})
    graph.annotate(devices=8)
    return ts.cluster.Spmd.from_partitioned(graph)


def test_global_tensors_in_and_out(tmp_path):
    spmd = divided(6)
    assert [row["view"] for row in [*spmd.inputs, *spmd.outputs]] == ["divided", "divided"]
    x = np.arange(48, dtype=np.float32).reshape(6, 8)
    np.testing.assert_array_equal(ts.execute(spmd, {"x": x})["y"], x.sum(axis=1))
    spmd.save(tmp_path / "rows.spmd.json")
    again = ts.cluster.Spmd.load(tmp_path / "rows.spmd.json")
    assert again.to_dict() == spmd.to_dict()
    np.testing.assert_array_equal(ts.execute(again, [x])["y"], x.sum(axis=1))


def test_uneven_axes_are_padded_and_cropped():
    graph = divided(5).graph
    rows = [{**row, "view": "divided"} for row in (*graph.inputs, *graph.outputs)]
    rows[0] |= {"shape": [5, 8], "sharding": '[{"x"}, {"y"}]'}
    rows[1] |= {"shape": [5], "sharding": '[{"x"}]'}
    spmd = ts.cluster.Spmd([graph], 8, mesh="x=2, y=4", inputs=rows[:1], outputs=rows[1:])
    x = np.arange(40, dtype=np.float32).reshape(5, 8)
    np.testing.assert_array_equal(ts.execute(spmd, [x])["y"], x.sum(axis=1))


def test_wrong_inputs_are_told():
    spmd = divided(6)
    with pytest.raises(ts.UserError, match="unknown input"):
        ts.execute(spmd, {"xx": np.zeros((6, 8), np.float32)})
    with pytest.raises(ts.UserError, match="wrong shape"):
        ts.execute(spmd, [np.zeros((3, 2), np.float32)])
    with pytest.raises(ts.UserError, match="wrong number"):
        ts.execute(spmd, [])
    with pytest.raises(ts.UserError, match="do not cover all devices"):
        ts.cluster.Spmd([spmd.graph], 4, classes=[[0, 1, 1, 2]])
    with pytest.raises(ts.UserError, match="for one device"):
        ts.cluster.Spmd.from_partitioned(ts.GraphBuilder("none").build())


def test_files_that_are_none(tmp_path):
    for text, message in (("{", "JSON"), ("{}", "not a program"), ('{"schema": "tilesim.spmd"}', "version")):
        (tmp_path / "none.json").write_text(text, encoding="utf-8")
        with pytest.raises(ts.UserError, match=message):
            ts.cluster.Spmd.load(tmp_path / "none.json")
    with pytest.raises(ts.UserError):
        ts.cluster.Spmd.load(tmp_path / "missing.json")


ODD = (None, -1, 3.5, "x", True, {}, [None], [[None]], [["a"]])


@pytest.mark.parametrize(
    "key", ["schema", "version", "devices", "mesh", "classes", "inputs", "outputs", "records", "graphs"]
)
def test_files_that_are_damaged_are_named(tmp_path, key):
    path = tmp_path / "d.spmd.json"
    divided(6).save(path)
    good = json.loads(path.read_text())
    assert ts.cluster.Spmd.load(path).to_dict() == divided(6).to_dict()
    for value in (*ODD, ...):
        if (key, value) in (("mesh", "x"), ("version", True)):
            continue
        path.write_text(json.dumps({name: one for name, one in {**good, key: value}.items() if one is not ...}))
        with pytest.raises(ts.UserError, match=re.escape(str(path))):
            ts.cluster.Spmd.load(path)
    for name in ("name", "dtype", "shape", "view", "sharding") if key in ("inputs", "outputs") else ():
        for value in (*ODD, ...):
            if isinstance(value, str) and name != "view":
                continue
            row = {part: one for part, one in {**good[key][0], name: value}.items() if one is not ...}
            path.write_text(json.dumps({**good, key: [row, *good[key][1:]]}))
            with pytest.raises(ts.UserError, match=re.escape(f"{path}: {key}[0].{name}: ")):
                ts.cluster.Spmd.load(path)


def test_the_command_line(tmp_path):
    spmd = divided(6)
    spmd.graph.save(tmp_path / "rows.json")
    found = CliRunner().invoke(app, ["cluster", "partition", str(tmp_path / "rows.json"), "--json", "-"])
    assert found.exit_code == 0, found.output
    data = json.loads(found.output)
    assert data["devices"] == 8
    assert [row["kind"] for row in data["collectives"]] == ["all_reduce"]
    found = CliRunner().invoke(app, ["cluster", "partition", str(tmp_path / "rows.json")])
    assert "8 devices" in found.output and "all_reduce" in found.output


def test_the_command_line_divides_as_the_call_does(tmp_path):
    """Mesh, shardings in words and in a file, and who divides: the same program as `ts.partition`."""
    b = ts.GraphBuilder("mlp")
    x, up, down = b.input("x", [8, 16]), b.input("up", [16, 32]), b.input("down", [32, 16])
    b.output(b.matmul(b.matmul(x, up), down), "y")
    graph, path = b.build(), tmp_path / "mlp.json"
    graph.save(path)
    (tmp_path / "s.json").write_text(json.dumps({"up": [None, ["t", "u"]], "x": ["d"]}))

    def run(*words):
        return CliRunner().invoke(app, ["cluster", "partition", str(path), "--json", "-", *words])

    def told(words, *given, **more):
        found, spmd = run(*words), ts.partition(graph, *given, **more)
        assert found.exit_code == 0, found.output
        data = json.loads(found.output)
        assert data["devices"] == spmd.devices
        assert data["collectives"] == json.loads(json.dumps(spmd.collectives().rows)) != []

    mesh, parts = {"d": 2, "t": 2, "u": 2}, {"x": ("d", None), "up": (None, ("t", "u"))}
    named = ["--mesh", "d=2,t=2,u=2"]
    told([*named, "--shardings", "x=d,-", "--shardings", "up=-,t+u"], mesh, parts)
    told([*named, "--shardings", str(tmp_path / "s.json")], mesh, parts)
    shardy = ["--shardings", "x=d", "--shardings", 'up=[{}, {"t", "u"}]', "--by", "shardy"]
    told([*named, *shardy], mesh, parts, by="shardy")
    for words, message in (
        (["--shardings", "x=d"], "the graph no mesh"), (["--mesh", "d=2", "--shardings", "x=e"], "no such axis"),
        (["--mesh", "d=2", "--shardings", "z=d"], "z"), (["--mesh", "d=0"], "mesh"), (["--mesh", "d"], "mesh"),
        (["--mesh", "d=2", "--shardings", "x"], "not a sharding"), (["--mesh", "d=2", "--by", "me"], "unknown"),
        (["--mesh", "d=2", "--shardings", "x=d", "--shardings", "x=-"], "two shardings"),
    ):  # fmt: skip
        found = run(*words)
        assert isinstance(found.exception, ts.UserError) and message in str(found.exception), (words, found.exception)
    with pytest.raises(ts.UserError, match="not an axis of the mesh"):
        ts.partition(graph, {"d": 2}, {"x": (1,)})
    ts.partition(graph, mesh, parts).save(tmp_path / "mlp.spmd.json")
    found = CliRunner().invoke(app, ["cluster", "partition", str(tmp_path / "mlp.spmd.json"), "--mesh", "d=2"])
    assert isinstance(found.exception, ts.UserError) and "partitioned program" in str(found.exception)


def test_numbers_without_axes_keep_none():
    b = ts.GraphBuilder("scaled")
    x, factor = b.input("x", (8,)), b.input("factor", ())
    b.output(b.apply("multiply", x, factor), "y")
    b.output(b.apply("tanh", factor), "z")
    graph = b.build(shardings={"x": '[{"d"}]', "y": '[{"d"}]', "factor": "[]", "z": "[]"}, mesh={"d": 4})
    rows = [[{**row, "view": "divided", "sharding": graph.shardings[row["name"]]} for row in side]
            for side in (graph.inputs, graph.outputs)]  # fmt: skip
    local = ts.partition(graph)
    spmd = ts.cluster.Spmd(local.graphs, 4, mesh="d=4", inputs=rows[0], outputs=rows[1])
    found = ts.execute(spmd, [np.arange(8, dtype=np.float32), np.float32(2)])
    np.testing.assert_array_equal(found["y"], np.arange(8) * 2)
    assert np.shape(found["z"]) == () and np.isclose(found["z"], np.tanh(2))


@pytest.mark.parametrize("rows", [4, 5, 7])
def test_random_parts_are_of_one_tensor(rows: int) -> None:
    """Parts differ, so that one in another's place shows; what all hold is equal; nothing lies beyond the end."""
    b = ts.GraphBuilder("g", dtype="f32")
    x, w = b.input("x", (rows, 2)), b.input("w", (2, 2))
    b.output(x + 0.0, "y")
    b.output(w + 0.0, "v")
    found = ts.execute(ts.partition(b.build(), {"t": 4}, {"x": ("t", None)}), seed=3)
    assert found["y"].shape == (rows, 2) and found["v"].shape == (2, 2)
    assert len(np.unique(found["y"])) == 2 * rows
