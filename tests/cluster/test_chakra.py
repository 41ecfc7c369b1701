"""Chakra files: protobuf reads what is written; replays are as forms and a simulation of all devices say."""

import json
import random

import pytest

import tilesim as ts
from tilesim.cluster import Trace, TraceClass, TraceNode

pb = pytest.importorskip("google.protobuf")
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory  # noqa: E402

KINDS = ("double", "float", "int32", "int64", "uint32", "uint64", "sint32", "sint64", "fixed32", "fixed64", "sfixed32",
         "sfixed64", "bool", "string", "bytes")  # fmt: skip


def price(op, size, devices):
    """A network of our own: 1 us and 1 GB/s a link, whatever the operation."""
    return 1e-6 + size / 1e9 if len(devices) > 1 else 0.0


@pytest.fixture(scope="module")
def schema():
    """Messages of MLCommons' et_def.proto, by its numbers."""
    file = descriptor_pb2.FileDescriptorProto(name="et.proto", package="et", syntax="proto3")
    sort = descriptor_pb2.FieldDescriptorProto

    def message(name, fields):
        made = file.message_type.add(name=name)
        for field, number, kind, many in fields:
            one = made.field.add(name=field, number=number, label=3 if many else 1)
            if kind[0].isupper():
                one.type, one.type_name = sort.TYPE_MESSAGE, f".et.{kind}"
            else:
                one.type = getattr(sort, f"TYPE_{kind.upper()}")
        return made

    for kind in KINDS:
        message(f"{kind.capitalize()}List", [("values", 1, kind, True)])
    values = [(f"{kind}_val", 3 + 2 * i, kind, False) for i, kind in enumerate(KINDS)]
    values += [(f"{kind}_list", 4 + 2 * i, f"{kind.capitalize()}List", False) for i, kind in enumerate(KINDS)]
    made = message("AttributeProto", [("name", 1, "string", False), ("doc_string", 2, "string", False), *values])
    made.oneof_decl.add(name="value")
    for one in made.field[2:]:
        one.oneof_index = 0
    message("GlobalMetadata", [("version", 1, "string", False), ("attr", 2, "AttributeProto", True)])
    message("Node", [("id", 1, "uint64", False), ("name", 2, "string", False), ("type", 3, "int32", False),
                     ("ctrl_deps", 4, "uint64", True), ("data_deps", 5, "uint64", True),
                     ("start_time_micros", 6, "uint64", False), ("duration_micros", 7, "uint64", False),
                     ("attr", 10, "AttributeProto", True)])  # fmt: skip
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"et.{name}"))
            for name in ("GlobalMetadata", "Node", "AttributeProto")}  # fmt: skip


def lengths(data):
    at = 0
    while at < len(data):
        size = shift = 0
        while True:
            byte, at = data[at], at + 1
            size |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                break
        yield data[at : at + size]
        at += size


def nodes_of(schema, path):
    first, *rest = lengths(path.read_bytes())
    assert schema["GlobalMetadata"].FromString(first).version
    return [schema["Node"].FromString(one) for one in rest]


def values(node):
    return {one.name: getattr(one, one.WhichOneof("value")) for one in node.attr}


def frame(*messages):
    out = b""
    for one in messages:
        body = one.SerializeToString()
        size = len(body)
        head = b""
        while size > 127:
            head, size = head + bytes([size & 127 | 128]), size >> 7
        out += head + bytes([size]) + body
    return out


def test_files_parse_by_the_public_numbers(schema, tmp_path):
    trace = ts.cluster.fsdp_trace(8, 2, layer_bytes=1 << 20, forward_ps=1_234_567, backward_ps=400_000,
                                  groups=[[0, 2, 4, 6], [1, 3, 5, 7]])  # fmt: skip
    paths = ts.cluster.to_chakra(trace, None, tmp_path / "out")
    assert len(paths) == 9
    assert json.loads((tmp_path / "out" / "comm_group.json").read_text()) == {"1": [0, 2, 4, 6], "2": [1, 3, 5, 7]}
    nodes = nodes_of(schema, tmp_path / "out" / "fsdp.3.et")
    assert [node.type for node in nodes] == [7, 4, 7, 4, 4, 7, 4, 7]
    gather, forward, _, second = nodes[:4]
    assert values(gather) == {"is_cpu_op": False, "comm_type": 2, "comm_size": 1 << 18, "pg_name": "2"}
    kinds = {one.name: one.WhichOneof("value") for one in gather.attr}
    number = "int64_val"
    assert kinds == {"is_cpu_op": "bool_val", "comm_type": number, "comm_size": number, "pg_name": "string_val"}
    assert values(nodes[5])["comm_size"] == 1 << 20 and values(nodes[5])["comm_type"] == 7
    assert forward.duration_micros == 1 and values(forward)["duration_ps"] == 1_234_567
    assert list(forward.data_deps) == [0] and list(second.data_deps) == [1, 2]


def test_messages_between_devices(schema, tmp_path):
    pipe = ts.cluster.pipeline("1f1b", 3, 4, forward=1e-3, backward_input=1e-3, backward_weight=1e-3)
    ts.cluster.to_chakra(pipe.to_trace(1000), None, tmp_path)
    sends, receives = [], []
    for device in range(3):
        for node in nodes_of(schema, tmp_path / f"pipeline.{device}.et"):
            if node.type in (5, 6):
                found = values(node)
                kinds = {one.name: one.WhichOneof("value") for one in node.attr}
                assert kinds["comm_src"] == kinds["comm_dst"] == kinds["comm_tag"] == "int32_val"
                assert device == found["comm_src" if node.type == 5 else "comm_dst"]
                (sends if node.type == 5 else receives).append(
                    tuple(found[key] for key in ("comm_src", "comm_dst", "comm_tag", "comm_size"))
                )
    assert sorted(sends) == sorted(receives) and len(set(sends)) == 2 * 2 * 4  # both ways over two borders
    assert {one[3] for one in sends} == {1000}


@pytest.mark.parametrize("name", ["gpipe", "1f1b", "interleaved", "zb-h1", "zb-h2", "zb-v", "dualpipe"])
def test_a_pipeline_replays_as_it_was_timed(name, tmp_path):
    virtual = 2 if name == "interleaved" else 1
    pipe = ts.cluster.pipeline(name, 4, 8, virtual, forward=[3e-3, 1e-3, 2e-3, 5e-3], backward_input=2e-3,
                               backward_weight=1.5e-3, transfer=1e-5)  # fmt: skip
    ts.cluster.to_chakra(pipe.to_trace(10), None, tmp_path)
    again = ts.cluster.replay(tmp_path, price=lambda op, size, devices: 1e-5)
    assert again.seconds == pipe.seconds
    assert len(again.table()) == (2 if name == "dualpipe" else 4)  # its copies of the model lie mirrored


def test_fsdp_in_closed_form(tmp_path):
    layers, size, forward, backward = 5, 8_000_000, 7_000_000_000, 11_000_000_000
    trace = ts.cluster.fsdp_trace(16, layers, layer_bytes=size, forward_ps=forward, backward_ps=backward)
    ts.cluster.to_chakra(trace, None, tmp_path)
    result = ts.cluster.replay(tmp_path, price=price)
    talk = 1_000_000 + size * 1000  # picoseconds: a gather hides behind the one before, 8 ms for 7 ms of compute
    begin = 0
    for layer in range(layers):
        begin = max(begin, talk * (layer + 1)) + forward
    end = begin + layers * backward + talk
    assert round(result.seconds * 1e12) == end
    assert round(result.compute_seconds * 1e12) == layers * (forward + backward)
    assert round(result.exposed_seconds * 1e12) == end - layers * (forward + backward)
    assert [row["devices"] for row in result.classes] == [16]
    result.timeline(tmp_path / "t.json")
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    assert sum(one["ph"] == "X" for one in events) == 4 * layers


@pytest.mark.parametrize("cluster", ["dgx-h100:16", "tpu-v4:16"])
def test_collectives_take_what_the_network_says(cluster, tmp_path):
    sizes = {"all_reduce": 1 << 22, "all_gather": 1 << 24, "reduce_scatter": 3 << 20, "all_to_all": 1 << 21}
    nodes = [TraceNode(i, op, "collective", [i - 1] if i else [], bytes=size, op=op)
             for i, (op, size) in enumerate(sizes.items())]  # fmt: skip
    ts.cluster.to_chakra(Trace("all", 16, [TraceClass(list(range(16)), nodes)]), ts.Cluster.load(cluster), tmp_path)
    result = ts.cluster.replay(tmp_path, cluster)
    total = sum(ts.cluster.collective(op, size, cluster).seconds for op, size in sizes.items())
    assert result.seconds == pytest.approx(total, rel=0.01)
    assert result.exposed_seconds == pytest.approx(result.seconds)
    assert result.cluster == ts.Cluster.load(cluster).name


def random_trace(draw, devices):
    """Rows and columns of a grid, and rings of messages; classes of devices that differ or do not."""
    side = draw.choice([n for n in (1, 2, 4, devices) if devices % n == 0])
    groups = {"rows": [list(range(i, i + side)) for i in range(0, devices, side)],
              "columns": [list(range(i, devices, side)) for i in range(side)]}  # fmt: skip
    plan = []
    for i in range(draw.randrange(4, 14)):
        kind = draw.choice(["compute", "compute", "collective", "ring"])
        group, op = draw.choice(["", "rows", "columns"]), draw.choice(["all_reduce", "all_gather", "all_to_all"])
        deps = sorted(draw.sample(range(i), min(i, draw.randrange(3))))
        plan.append((kind, group, op, draw.randrange(1, 5) * 1000 * devices, deps))
    slow = draw.choice([(), (draw.randrange(devices),), tuple(range(0, devices, 2))])
    classes = []
    for late in (False, True):
        own = [device for device in range(devices) if (device in slow) == late]
        if not own:
            continue
        nodes, of = [], []
        for i, (kind, group, op, size, deps) in enumerate(plan):
            waits = [of[dep] for dep in deps]
            if kind == "compute":
                spent = 1_000_000 * (size // devices) // 1000 + (500_000 if late else 0)
                nodes.append(TraceNode(len(nodes), f"c{i}", kind, waits, duration_ps=spent))
            elif kind == "collective":
                nodes.append(TraceNode(len(nodes), f"x{i}", kind, waits, bytes=size, op=op, group=group))
            else:
                after = [(device + 1) % devices for device in own]
                before = [(device - 1) % devices for device in own]
                nodes.append(TraceNode(len(nodes), f"s{i}", "send", waits, bytes=size, peers=after, tag=i))
                nodes.append(TraceNode(len(nodes), f"r{i}", "recv", waits, bytes=size, peers=before, tag=i))
            of.append(len(nodes) - 1)
        classes.append(TraceClass(own, nodes))
    return Trace("random", devices, classes, groups)


def test_one_device_per_class_is_as_all_devices(tmp_path):
    draw = random.Random(11)
    fewer = 0
    for turn in range(40):
        devices = draw.choice([1, 2, 4, 8, 16])
        trace = random_trace(draw, devices)
        one = ts.cluster.replay(trace, price=price)
        every = ts.cluster.replay(trace, price=price, symmetry=False)
        assert len(every.classes) == devices
        assert (one.seconds, one.compute_seconds) == (every.seconds, every.compute_seconds)
        assert one.exposed_seconds == pytest.approx(every.exposed_seconds)
        ends = sorted(row["seconds"] for row in every.classes)
        assert sorted(row["seconds"] for row in one.classes for _ in range(row["devices"])) == ends
        fewer += len(one.classes) < devices
        if turn % 4 == 0:  # through files
            folder = tmp_path / str(turn)
            ts.cluster.to_chakra(trace, None, folder)
            read = ts.cluster.replay(folder, price=price)
            assert read.seconds == pytest.approx(one.seconds, rel=0.01) and len(read.classes) == len(one.classes)
    assert fewer > 8


def test_stragglers_move_the_step_by_their_critical_path():
    def step(extra):
        nodes = lambda more: [  # noqa: E731
            TraceNode(0, "a", "compute", duration_ps=5_000_000 + more),
            TraceNode(1, "sum", "collective", [0], bytes=10, op="all_reduce"),
            TraceNode(2, "b", "compute", [1], duration_ps=3_000_000),
        ]
        trace = Trace("s", 8, [TraceClass([0, 1, 2, 4, 5, 6, 7], nodes(0)), TraceClass([3], nodes(extra))])
        return ts.cluster.replay(trace, price=price)

    slow = step(700_000)
    assert round((slow.seconds - step(0).seconds) * 1e12) == 700_000
    assert sorted(row["devices"] for row in slow.classes) == [1, 7]
    assert len(step(0).classes) == 1  # nothing tells them apart


def test_unknown_attributes_are_kept_and_foreign_files_read(schema, tmp_path):
    Node, Attribute = schema["Node"], schema["AttributeProto"]
    every = []
    for kind in KINDS:
        one = Attribute(name=f"my_{kind}")
        many = Attribute(name=f"my_{kind}s")
        value = {"double": -0.5, "float": 1.5, "bool": True, "string": "ä", "bytes": b"\xff\0"}.get(kind)
        value = value if value is not None else (7 if kind.startswith(("u", "f")) else -7)
        setattr(one, f"{kind}_val", value)
        getattr(many, f"{kind}_list").values.extend([value, value])
        every += [one, many]
    first = Node(id=900, name="k", type=4, duration_micros=25, attr=every)
    comm = Node(id=7, name="sum", type=7, ctrl_deps=[900], attr=[
        Attribute(name="comm_type", int64_val=0), Attribute(name="comm_size", uint64_val=4000)])  # fmt: skip
    for device in range(2):
        (tmp_path / f"theirs.{device}.et").write_bytes(frame(schema["GlobalMetadata"](version="0.0.4"), first, comm))
    result = ts.cluster.replay(tmp_path, price=price)
    assert round(result.seconds * 1e12) == 25_000_000 + 1_000_000 + 4_000_000
    ts.cluster.to_chakra(ts.cluster.from_chakra(tmp_path), None, tmp_path / "again")
    mine = nodes_of(schema, tmp_path / "again" / "theirs.1.et")
    kept = {one.name: one.SerializeToString() for one in mine[0].attr}
    for one in every:
        assert kept[one.name] == one.SerializeToString()
    assert mine[0].duration_micros == 25 and list(mine[1].data_deps) == [900]


def write(folder, schema, *per_device, groups=None):
    folder.mkdir(exist_ok=True)
    for device, nodes in enumerate(per_device):
        (folder / f"t.{device}.et").write_bytes(frame(schema["GlobalMetadata"](version="1"), *nodes))
    if groups is not None:
        (folder / "comm_group.json").write_text(json.dumps(groups))
    return folder


def fails(folder, *texts, **options):
    with pytest.raises(ts.UserError) as error:
        ts.cluster.replay(folder, price=options.pop("price", price), **options)
    for text in texts:
        assert text in str(error.value), str(error.value)


def test_broken_files_name_file_and_node(schema, tmp_path):
    Node, Attribute = schema["Node"], schema["AttributeProto"]

    def number(name, value, kind="int64"):
        return Attribute(name=name, **{f"{kind}_val": value})

    def comm(key, **more):
        attributes = {"comm_type": 0, "comm_size": 8, **more}
        return Node(id=key, name=f"n{key}", type=7, attr=[
            number(k, v, "string" if isinstance(v, str) else "int64") for k, v in attributes.items()])  # fmt: skip

    def message(key, sort, **ends):
        return Node(
            id=key,
            name=f"n{key}",
            type=sort,
            attr=[number("comm_size", 8), *(number(k, v, "int32") for k, v in ends.items())],
        )

    one = Node(id=1, name="n1", type=4)
    whole = frame(schema["GlobalMetadata"](version="1"), one, Node(id=2, name="second", type=4, data_deps=[1]))
    for cut in range(1, len(whole)):
        folder = tmp_path / f"cut{cut}"
        folder.mkdir()
        (folder / "t.0.et").write_bytes(whole[:cut])
        at_border = cut in (
            len(frame(schema["GlobalMetadata"](version="1"))),
            len(frame(schema["GlobalMetadata"](version="1"), one)),
        )
        if not at_border:
            fails(folder, "t.0.et", "truncated")
    fails(
        write(tmp_path / "type", schema, [one, Node(id=5, name="odd", type=12)]),
        "t.0.et: node 5 (odd)",
        "unknown node type",
    )
    fails(write(tmp_path / "none", schema, [Node(id=5, name="odd")]), "node 5 (odd)", "unknown node type")
    ring = [Node(id=1, name="a", type=4, data_deps=[3]), Node(id=3, name="b", type=4, data_deps=[1])]
    fails(write(tmp_path / "ring", schema, ring), "t.0.et", "node 1 (a), which waits for node 3 (b)")
    fails(write(tmp_path / "dep", schema, [Node(id=1, name="a", type=4, data_deps=[9])]), "node 1 (a)", "got 9")
    fails(write(tmp_path / "comm", schema, [comm(4, comm_type=33)]), "node 4 (n4), comm_type", "33")
    fails(write(tmp_path / "group", schema, [comm(4, pg_name="8")], groups={"1": [0]}), "node 4 (n4), pg_name", "8")
    fails(
        write(tmp_path / "alone", schema, [comm(4)], [one]),
        "t.0.et: node 4 (n4)",
        "device 1 is missing in a collective",
    )
    fails(write(tmp_path / "other", schema, [comm(4)], [comm(6, comm_size=9)]), "node 4 (n4)", "t.1.et: node 6 (n6)")
    fails(write(tmp_path / "away", schema, [message(4, 5, comm_dst=7)]), "node 4 (n4)", "unknown peer")
    fails(
        write(tmp_path / "peer", schema, [message(4, 5, comm_dst=1, comm_tag=3)], [one]),
        "t.0.et: node 4 (n4)",
        "device 1 receives nothing with tag 3",
    )
    fails(
        write(tmp_path / "src", schema, [message(4, 5, comm_src=1, comm_dst=1)], [message(4, 6, comm_src=0)]),
        "to another device",
    )
    cross = [message(1, 6, comm_src=1), message(2, 5, comm_dst=1)]
    cross[1].data_deps.append(1)
    back = [message(1, 6, comm_src=0), message(2, 5, comm_dst=0)]
    back[1].data_deps.append(1)
    fails(write(tmp_path / "cross", schema, cross, back), "t.0.et: node 1 (n1)", "deadlock between devices")
    turns = {"1": [0, 1], "2": [0, 1]}
    first, second = [comm(1, pg_name="1"), comm(2, pg_name="2")], [comm(1, pg_name="1"), comm(2, pg_name="2")]
    first[1].data_deps.append(1)
    second[0].data_deps.append(2)
    fails(write(tmp_path / "turns", schema, first, second, groups=turns), "node 1 (n1)", "deadlock between devices")
    fails(
        write(tmp_path / "reduce", schema, [comm(4, comm_type=1)], [comm(4, comm_type=1)]),
        "no network model", "node 4 (n4)", price=None, cluster="dgx-h100:2",
    )  # fmt: skip
    gap = write(tmp_path / "gap", schema, [one], [one], [one])
    (gap / "t.1.et").unlink()
    fails(gap, "t.1.et", "missing")
    fails(tmp_path / "nowhere", "nowhere")
    fails(tmp_path, "does not have this trace")


def test_numbers_of_devices_must_agree(tmp_path):
    trace = ts.cluster.fsdp_trace(4, 1, layer_bytes=8, forward_ps=1, backward_ps=1)
    with pytest.raises(ts.UserError, match="different numbers of devices"):
        ts.cluster.replay(trace, "dgx-h100:8")
    with pytest.raises(ts.UserError, match="different numbers of devices"):
        ts.cluster.to_chakra(trace, ts.Cluster.load("dgx-h100:8"), tmp_path)
    with pytest.raises(ts.UserError, match="to_trace"):
        ts.cluster.to_chakra(7, None, tmp_path)
    trace.classes[0].nodes[0].kind = "colective"
    with pytest.raises(ts.UserError, match=r"node 0.*Did you mean 'collective'"):
        ts.cluster.replay(trace, price=price)


@pytest.mark.parametrize("seed", range(4))
def test_a_trace_replaces_an_older_one_of_its_name(seed, tmp_path):
    """Whatever lay there before, the folder holds the new trace alone, and nothing else is touched."""
    rng = random.Random(seed)
    older, newer = rng.sample([1, 2, 3, 8, 12, 17], 2)

    def written(devices):
        trace = ts.cluster.fsdp_trace(devices, 1, layer_bytes=8 * devices, forward_ps=devices, backward_ps=1)
        return ts.cluster.to_chakra(trace, None, tmp_path)

    written(older)
    others = [
        "fsdp.et", "fsdp.x.et", "fsdp.3.et.bak", "fsdp2.3.et", "other.17.et", "xfsdp.4.et", "fsdp.1.99.et", "fsdp",
    ]  # fmt: skip
    for name in others:
        (tmp_path / name).write_bytes(b"mine")
    (tmp_path / "fsdp.0019.et").write_bytes(b"read as device 19")
    paths = written(newer)
    assert {one.name for one in tmp_path.iterdir()} == {*others, *(path.rsplit("/", 1)[-1] for path in paths)}
    assert all((tmp_path / name).read_bytes() == b"mine" for name in others)
    again = ts.cluster.from_chakra(tmp_path, "fsdp")
    assert again.devices == newer and again.classes[0].nodes[1].duration_ps == newer


def test_command_line(tmp_path, capsys):
    from tilesim.cli.main import app

    trace = ts.cluster.fsdp_trace(16, 3, layer_bytes=1 << 20, forward_ps=10**7, backward_ps=10**7)
    ts.cluster.to_chakra(trace, None, tmp_path)
    given = ["cluster", "replay", str(tmp_path), "--cluster", "dgx-h100:16"]
    app([*given, "--json", "-"], standalone_mode=False)
    read = json.loads(capsys.readouterr().out)
    result = ts.cluster.replay(trace, "dgx-h100:16")
    assert read["seconds"] == result.seconds and read["classes"] == result.classes
    assert set(read) >= {"exposed_seconds", "compute_seconds", "idle_seconds", "devices"}
    app([*given, "--timeline", str(tmp_path / "t.json")], standalone_mode=False)
    assert "16" in capsys.readouterr().out and (tmp_path / "t.json").exists()


@pytest.mark.parametrize("wrong", [{"layer_bytes": -8}, {"forward_ps": -1}, {"backward_ps": -1}])
def test_steps_of_negative_sizes_or_times(wrong: dict[str, int]) -> None:
    given = {"layer_bytes": 8, "forward_ps": 0, "backward_ps": 1}
    ts.cluster.fsdp_trace(4, 1, **given).check()
    with pytest.raises(ts.UserError, match=f"{next(iter(wrong))}: out of range.*-"):
        ts.cluster.fsdp_trace(4, 1, **{**given, **wrong})
