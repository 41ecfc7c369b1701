"""ONNX: the node tests that the standard ships, external data, control flow."""

from __future__ import annotations

import importlib
import json
import pkgutil
import re
import warnings

import numpy as np
import pytest

import tilesim as ts

onnx = pytest.importorskip("onnx", reason="needs onnx: pip install 'tilesim[onnx]'")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from support.onnx_models import floats, model, run  # noqa: E402
from tilesim.frontends.onnx.scope import DTYPES, OTHER_TYPES  # noqa: E402

#: node tests of opset 13 to 20 that do not pass, with the reason (onnx 1.23.2)
NOT_PASSED = {"test_image_decoder_": "ImageDecoder reads compressed images: no tensor program"}
#: the same for all opsets
NOT_PASSED_ELSEWHERE = {
    "test_bernoulli": "random numbers",
    "test_basic_deform_conv": "DeformConv has no meaning yet",
    "test_deform_conv": "DeformConv has no meaning yet",
    "test_det_": "Det has no meaning yet",
    "test_training_dropout": "random numbers",
    "test_nonmaxsuppression": "the number of results depends on data",
    "test_roialign": "RoiAlign has no meaning yet",
    "test_not_": "opset 1",
    "test_scan_sum": "Scan of opset 8",
    "test_tensorscatter": "TensorScatter (opset 24) has no meaning yet",
    "test_tfidfvectorizer": "TfIdfVectorizer counts texts",
    "test_adagrad": "operators of training (domain ai.onnx.preview.training)",
    "test_adam": "the same",
    "test_momentum": "the same",
    "test_nesterov": "the same",
}
ROUNDOFF = {"float16": 2.0**-9, "bfloat16": 2.0**-6}


def arrays(values):
    return [numpy_helper.to_array(v) if isinstance(v, TensorProto) else np.asarray(v) for v in values]


def differs(ours, theirs, rtol, atol):
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    if (ours.shape, ours.dtype) != (theirs.shape, theirs.dtype):
        return f"{ours.dtype}{ours.shape} for {theirs.dtype}{theirs.shape}"
    if theirs.dtype.kind in "iub":
        return "" if np.array_equal(ours, theirs) else "other integers"
    wide = np.complex128 if theirs.dtype.kind == "c" else np.float64
    slack = ROUNDOFF.get(theirs.dtype.name, 0.0)
    close = np.allclose(
        ours.astype(wide), theirs.astype(wide), rtol=max(rtol, 1e-4, slack), atol=max(atol, 1e-5, slack / 8),
        equal_nan=True,
    )  # fmt: skip
    return "" if close else "other values"


def read(model, inputs):
    """The graph; inputs that shapes depend on become constants."""
    names = [declared.name for declared in model.graph.input]
    fixed = {}
    while True:
        try:
            return ts.from_onnx(model, fixed=fixed)
        except ts.Unsupported as error:
            needed = [name for name in getattr(error, "needed", ()) if name in names and name not in fixed]
            if not needed:
                raise
            fixed.update({name: inputs[names.index(name)] for name in needed})


def outcome(case):
    """ "" where the case passes, else why not."""
    inputs, outputs = (arrays(part) for part in case.data_sets[0])
    try:
        graph = read(case.model, inputs)
    except ts.Unsupported as error:
        return f"unsupported: {error}"
    names = [declared.name for declared in case.model.graph.input]
    taken = {row["name"] for row in graph.inputs}
    given = {name: array for name, array in zip(names, inputs, strict=False) if name in taken}
    results = ts.reference(graph, given).values()
    wrong = [differs(a, b, case.rtol, case.atol) for a, b in zip(results, outputs, strict=True)]
    return next((text for text in wrong if text), "")


def in_our_dtypes(case):
    for declared in [*case.model.graph.input, *case.model.graph.output]:
        kind = declared.type
        if not kind.HasField("tensor_type") or kind.tensor_type.elem_type not in DTYPES:
            return False
    return True


def opset(case):
    return next((o.version for o in case.model.opset_import if o.domain in ("", "ai.onnx")), 0)


def node_cases(without=()):
    """Cases of the standard's modules; each module makes its own when it is imported."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.case import node

        for module in pkgutil.iter_modules(node.__path__):
            if module.name not in without:
                importlib.import_module(f"{node.__name__}.{module.name}")
        return list(node._NodeTestCases)


def test_node_tests():
    """At least nine in ten at opset 13 to 20; none gives other values, and each that is refused is on the list."""
    slow = ("averagepool", "maxpool", "lppool")  # of opset 22, and most of the time
    cases = [case for case in node_cases(slow) if 13 <= opset(case) <= 20 and in_our_dtypes(case)]
    failures = {case.name: text for case in cases if (text := outcome(case))}
    unlisted = {name: text for name, text in failures.items() if not name.startswith(tuple(NOT_PASSED))}
    assert len(cases) > 700
    assert not unlisted
    assert len(failures) <= 0.1 * len(cases)


def test_types_are_those_of_the_standard():
    """Every number of TensorProto.DataType: the dtype of that name, or told as what it is."""
    short = (("bfloat", "bf"), ("complex", "c"), ("float", "f"), ("uint", "u"), ("int", "i"), ("_", ""))
    for word, number in TensorProto.DataType.items():
        if word in ("UNDEFINED", "STRING", "COMPLEX128", "UINT2", "INT2"):
            assert OTHER_TYPES.get(number, "undefined") == word.lower()
            continue
        if number > 26:  # younger than what is read
            continue
        name = helper.tensor_dtype_to_np_dtype(number).name
        for long, letters in short:
            name = name.replace(long, letters)
        assert DTYPES[number] == name
    assert len(set(DTYPES.values())) == len(DTYPES)


def with_defaults(model, version):
    """The model with every default of the standard written out; none where nothing is left open."""
    explicit = type(model)()
    explicit.CopyFrom(model)
    added = 0
    for node in explicit.graph.node:
        given = {attribute.name for attribute in node.attribute}
        for name, attribute in onnx.defs.get_schema(node.op_type, version, node.domain).attributes.items():
            if attribute.default_value.name and name not in given:
                node.attribute.append(attribute.default_value)
                added += 1
    return explicit if added else None


def alike(a, b):
    """Equal but for what a float loses in a file of ONNX, which holds 32 bits of it."""
    if isinstance(a, float) and isinstance(b, float):
        return a == b or abs(a - b) <= 1e-6 * abs(a)
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(alike(value, b[key]) for key, value in a.items())
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(alike, a, b))
    return a == b


def same_values(case, a, b, inputs):
    """To the bit, where a default is written in another way: a cap of 0 for none."""
    given = dict(zip([declared.name for declared in case.model.graph.input], inputs, strict=False))
    found = [list(ts.reference(g, {row["name"]: given[row["name"]] for row in g.inputs}).values()) for g in (a, b)]
    return all(x.tobytes() == y.tobytes() for x, y in zip(*found, strict=True))


def test_defaults_are_those_of_the_standard():
    """An attribute that is left out means what the standard's own table says: the same graph comes of both."""
    seen, compared, others = set(), set(), {}
    for case in node_cases(("averagepool", "maxpool", "lppool")):
        sort = tuple((node.op_type, *sorted(a.name for a in node.attribute)) for node in case.model.graph.node)
        if opset(case) < 13 or not in_our_dtypes(case) or sort in seen:
            continue
        seen.add(sort)
        explicit, inputs = with_defaults(case.model, opset(case)), arrays(case.data_sets[0][0])
        if explicit is None:
            continue
        try:
            short, long = (read(model, inputs) for model in (case.model, explicit))
        except ts.Unsupported:
            continue
        compared.update(node.op_type for node in case.model.graph.node)
        texts = [
            re.sub(r"(?<=f32\()[^)]+", lambda number: f"{float(number[0]):.5g}", g.core.to_json())
            for g in (short, long)
        ]
        if not alike(*map(json.loads, texts)) and not same_values(case, short, long, inputs):
            others[case.name] = [a.name for node in explicit.graph.node for a in node.attribute]
    assert not others
    assert len(compared) > 60


def test_zero_points_per_output_of_a_convolution():
    """Integers exactly, with a zero point and a scale per output channel: sums by numpy."""
    draw = np.random.default_rng(3)
    for channels, groups in ((4, 1), (6, 2), (3, 3)):
        x = draw.integers(0, 256, (2, 6, 7, 5)).astype(np.uint8)
        w = draw.integers(0, 256, (channels, 6 // groups, 3, 2)).astype(np.uint8)
        x_zero, w_zero = np.uint8(draw.integers(1, 255)), draw.integers(1, 255, channels).astype(np.uint8)
        centered = w.astype(np.int64) - w_zero.reshape(-1, 1, 1, 1)
        windows = np.lib.stride_tricks.sliding_window_view(x.astype(np.int64) - x_zero, (3, 2), axis=(2, 3))
        per_group = [
            np.einsum("nchwij,ocij->nohw", part, kernel)
            for part, kernel in zip(np.split(windows, groups, 1), np.split(centered, groups), strict=True)
        ]
        sums = np.concatenate(per_group, axis=1)
        node = helper.make_node("ConvInteger", ["x", "w", "xz", "wz"], ["y"], group=groups)
        (got,) = run([node], {"x": x}, ["y"], {"w": w, "xz": x_zero, "wz": w_zero})
        np.testing.assert_array_equal(got, sums)
        scale = draw.uniform(0.5, 2, channels).astype(np.float32) * np.float32(2e-4)
        parts = {
            "xs": np.float32(0.5), "xz": x_zero, "w": w, "ws": scale, "wz": w_zero, "ys": np.float32(0.25),
            "yz": np.uint8(7),
        }  # fmt: skip
        node = helper.make_node("QLinearConv", ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz"], ["y"], group=groups)
        (got,) = run([node], {"x": x}, ["y"], parts)
        real = sums * 0.5 * scale.astype(np.float64).reshape(1, -1, 1, 1) / 0.25
        wanted = np.clip(np.rint(real) + 7, 0, 255)
        near_a_half = np.abs(np.abs(real - np.floor(real)) - 0.5) < 1e-4
        assert got.dtype == np.uint8
        assert np.all((got == wanted) | (near_a_half & (np.abs(got - wanted) <= 1)))
        assert len(np.unique(got)) > 20


def test_zero_points_of_8_bit_floats():
    """A zero point of a float is added before rounding: numbers that the format holds exactly."""
    import ml_dtypes

    x = np.array([0.0, 1.0, -2.0, 3.5, 8.0], np.float32)
    zero = numpy_helper.from_array(np.array(1.5, ml_dtypes.float8_e4m3fn), "z")
    node = helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"])
    back = helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"])
    made = model([node, back], {"x": x}, ["y"], {"s": np.float32(0.5)}, opset=19)
    made.graph.initializer.append(zero)
    graph = ts.from_onnx(made)
    (got,) = ts.reference(graph, {"x": x}).values()
    held = (x / 0.5 + 1.5).astype(ml_dtypes.float8_e4m3fn).astype(np.float32)
    np.testing.assert_array_equal(got, (held - 1.5) * 0.5)


@pytest.mark.slow
def test_all_node_tests():
    """Of every opset: refused with a reason, never another value."""
    cases = [case for case in node_cases() if in_our_dtypes(case)]
    failures = {case.name: text for case in cases if (text := outcome(case))}
    known = tuple([*NOT_PASSED, *NOT_PASSED_ELSEWHERE])
    assert {name: text for name, text in failures.items() if not name.startswith(known)} == {}
    assert all(text.startswith("unsupported") for text in failures.values())
    assert len(failures) <= 0.05 * len(cases)


@pytest.mark.parametrize("opset", [13, 17, 20, 21, 22, 23])
def test_opsets(opset):
    """Models of these opsets equal onnx's own evaluation."""
    from onnx.reference import ReferenceEvaluator

    x, w, s = floats(2, 6), floats(6, 8), floats(8)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("Add", ["a", "s"], ["b"]),
        helper.make_node("ReduceMean", ["b"], ["c"], axes=[1], keepdims=1)
        if opset < 18
        else helper.make_node("ReduceMean", ["b", "axes"], ["c"], keepdims=1),
        helper.make_node("Sub", ["b", "c"], ["d"]),
        helper.make_node("Cast", ["d"], ["e"], to=TensorProto.FLOAT16),
        helper.make_node("Softmax", ["e"], ["y"]),
    ]
    made = model(nodes, {"x": x}, ["y"], {"w": w, "s": s, "axes": np.array([1])}, opset=opset)
    (wanted,) = ReferenceEvaluator(made).run(None, {"x": x})
    (got,) = ts.reference(ts.from_onnx(made), {"x": x}).values()
    assert got.dtype == wanted.dtype and not differs(got, wanted, 0, 0)


@pytest.mark.parametrize("opset", [1, 6, 29, 1000])
def test_unknown_opsets(opset):
    made = model([helper.make_node("Add", ["x", "x"], ["y"])], {"x": floats(3)}, ["y"], opset=opset)
    with pytest.raises(ts.Unsupported, match=f"opset {opset}.*7 to 28"):
        ts.from_onnx(made)


def test_no_opset():
    made = model([helper.make_node("Add", ["x", "x"], ["y"])], {"x": floats(3)}, ["y"])
    del made.opset_import[:]
    with pytest.raises(ts.UserError, match="opset_import"):
        ts.from_onnx(made)
