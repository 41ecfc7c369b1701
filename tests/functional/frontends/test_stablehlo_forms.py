"""Tuples, tokens, calls, dynamic forms, orders and bodies of StableHLO: what they mean, from numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilesim as ts

pytest.importorskip("jax", reason="needs jax: pip install 'tilesim[jax]'")

F = "tensor<2x3xf32>"
X = np.arange(6, dtype=np.float32).reshape(2, 3) - 2


def outputs(text: str, *arrays: Any) -> list[Any]:
    return [np.asarray(array) for array in ts.reference(ts.from_stablehlo(text), list(arrays)).values()]


def gives(text: str, arrays: list[Any], wanted: list[Any]) -> None:
    found = outputs(text, *arrays)
    assert len(found) == len(wanted)
    for ours, theirs in zip(found, wanted, strict=True):
        assert ours.shape == np.shape(theirs)
        np.testing.assert_array_equal(ours, theirs)


def test_calls_of_what_follows():
    """A composite, a call, and a call inside of a function, each of a function further down."""
    gives(
        f"""module {{
 func.func @main(%a: {F}) -> {F} {{
  %0 = stablehlo.composite "some.twice" %a {{ composite_attributes = {{ n = 2 : i64 }}, decomposition = @twice }} : ({F}) -> {F}
  %1 = func.call @later(%0) : ({F}) -> {F}
  return %1 : {F} }}
 func.func private @later(%a: {F}) -> {F} {{
  %0 = func.call @twice(%a) : ({F}) -> {F}
  return %0 : {F} }}
 func.func private @twice(%a: {F}) -> {F} {{
  %0 = stablehlo.add %a, %a : {F}
  return %0 : {F} }} }}""",  # noqa: E501
        [X],
        [4 * X],
    )


def test_tuples():
    """Nested, through functions that are called, and as results."""
    pair, deep = f"tuple<{F}, tensor<i32>>", f"tuple<tuple<{F}, tensor<i32>>, !stablehlo.token>"
    steps = "\n".join(
        f"  %s{i + 1} = stablehlo.add %s{i}, %x : {F}" for i in range(12)
    )  # too many to be built in place
    gives(
        f"""module {{
 func.func @main(%a: {F}, %b: tensor<i32>) -> (tensor<i32>, {pair}) {{
  %t = stablehlo.tuple %a, %b : {pair}
  %token = stablehlo.after_all : !stablehlo.token
  %u = stablehlo.tuple %t, %token : {deep}
  %v = func.call @f(%u) : ({deep}) -> {pair}
  %0 = stablehlo.get_tuple_element %v[0] : ({pair}) -> {F}
  %1 = stablehlo.get_tuple_element %v[1] : ({pair}) -> tensor<i32>
  %w = stablehlo.tuple %0, %b : {pair}
  %x = stablehlo.tuple %w, %token : {deep}
  %y = func.call @f(%x) : ({deep}) -> {pair}
  return %1, %y : tensor<i32>, {pair} }}
 func.func private @f(%u: {deep}) -> {pair} {{
  %t = stablehlo.get_tuple_element %u[0] : ({deep}) -> {pair}
  %x = stablehlo.get_tuple_element %t[0] : ({pair}) -> {F}
  %n = stablehlo.get_tuple_element %t[1] : ({pair}) -> tensor<i32>
  %s0 = stablehlo.negate %x : {F}
{steps}
  %m = stablehlo.add %n, %n : tensor<i32>
  %r = stablehlo.tuple %s12, %m : {pair}
  return %r : {pair} }} }}""",
        [X, np.int32(5)],
        [10, 121 * X, 10],
    )


def test_host():
    """Infeeds and receives are inputs, outfeeds and sends outputs."""
    i, token = "tensor<2xi64>", "!stablehlo.token"
    text = f"""func.func @main(%a: {i}) -> {i} {{
 %t = stablehlo.create_token : {token}
 %0:2 = "stablehlo.infeed"(%t) {{infeed_config = "", layout = [[0]]}} : ({token}) -> ({i}, {token})
 %1:2 = "stablehlo.infeed"(%0#1) {{infeed_config = "", layout = [[0]]}} : ({token}) -> ({i}, {token})
 %2 = stablehlo.add %0#0, %1#0 : {i}
 %3 = "stablehlo.outfeed"(%2, %1#1) {{outfeed_config = ""}} : ({i}, {token}) -> {token}
 %4 = "stablehlo.send"(%a, %3) {{channel_handle = #stablehlo.channel_handle<handle = 7, type = 2>, is_host_transfer = true}} : ({i}, {token}) -> {token}
 %5:2 = "stablehlo.recv"(%4) {{channel_handle = #stablehlo.channel_handle<handle = 8, type = 3>, is_host_transfer = true}} : ({token}) -> ({i}, {token})
 return %5#0 : {i} }}"""  # noqa: E501
    given = {"arg0": [1, 2], "infeed": [3, 4], "infeed.1": [30, 40], "recv8": [9, 8]}
    graph = ts.from_stablehlo(text)
    found = ts.execute(ts.compile(graph, "edge-8"), {name: np.array(array) for name, array in given.items()})
    assert {name: array.tolist() for name, array in found.items()} == {
        "output0": [9, 8],
        "outfeed": [33, 44],
        "send7": [1, 2],
    }
    with pytest.raises(ts.Unsupported, match="collective_permute"):
        between = text.replace("is_host_transfer = true", "is_host_transfer = false")
        ts.from_stablehlo(between.replace("type = 2", "type = 1").replace("type = 3", "type = 1"))


TWO = "tensor<2xi64>"
WINDOW = "dimension_numbers = #stablehlo.conv<[b, 0, f]x[0, i, o]->[b, 0, f]>, batch_group_count = 1 : i64"
#: operation, its constants, its result; with input %a
DYNAMIC: dict[str, tuple[str, list[str], str, Any]] = {
    "iota": (f"stablehlo.dynamic_iota %0, dim = 1 : ({TWO})", ["[2, 3]"], F, np.tile(np.arange(3), (2, 1))),
    "reshape": (f"stablehlo.dynamic_reshape %a, %0 : ({F}, {TWO})", ["[3, 2]"], "tensor<3x2xf32>", X.reshape(3, 2)),
    "pad": (
        f"stablehlo.dynamic_pad %a, %n, %0, %1, %2 : ({F}, tensor<f32>, {TWO}, {TWO}, {TWO})",
        ["[1, 0]", "0", "[0, 1]"],
        "tensor<3x5xf32>",
        np.array([[7] * 5, [-2, 7, -1, 7, 0], [1, 7, 2, 7, 3]]),
    ),
    "slice": (
        f"stablehlo.real_dynamic_slice %a, %0, %1, %2 : ({F}, {TWO}, {TWO}, {TWO})",
        ["[0, 1]", "[2, 3]", "1"],
        "tensor<2x2xf32>",
        X[:, 1:],
    ),
    "conv": (
        f'"stablehlo.dynamic_conv"(%x, %w, %0) {{{WINDOW}, feature_group_count = 1 : i64}} : '
        "(tensor<1x6x1xf32>, tensor<2x1x1xf32>, tensor<1x2xi64>)",
        ["[[1, 0]] : tensor<1x2xi64>"],
        "tensor<1x6x1xf32>",
        np.convolve(X.reshape(-1), np.ones(2))[:6].reshape(1, 6, 1),
    ),
}


@pytest.mark.parametrize("name", DYNAMIC)
def test_dynamic_operations_of_constant_shapes(name):
    operation, constants, result, wanted = DYNAMIC[name]
    lines = [
        f" %{i} = stablehlo.constant dense<{value.partition(' : ')[0]}> : {value.partition(' : ')[2] or TWO}"
        for i, value in enumerate(constants)
    ]
    text = f"""func.func @main(%a: {F}) -> {result} {{
 %n = stablehlo.constant dense<7.0> : tensor<f32>
 %x = stablehlo.reshape %a : ({F}) -> tensor<1x6x1xf32>
 %w = stablehlo.constant dense<1.0> : tensor<2x1x1xf32>
 {chr(10).join(lines)}
 %r = {operation} -> {result}
 return %r : {result} }}"""
    gives(text, [X], [wanted])


SPECIAL = np.array([np.inf, np.nan, -np.nan, -np.inf, 3, 0.0, -0.0, 1], np.float64)


def total_order(x: Any) -> Any:
    """Integers in the order of IEEE 754, by the bits of f64."""
    bits = x.astype(np.float64).view(np.int64)
    return bits ^ ((bits >> 63) & np.iinfo(np.int64).max)


@pytest.mark.parametrize(("element", "dtype"), [("f32", np.float32), ("f64", np.float64), ("f16", np.float16)])
@pytest.mark.parametrize("machine", [None, "edge-8"])
def test_total_order(element, dtype, machine):
    """NaN of both signs and zeros of both signs in chlo.top_k and in sorts by TOTALORDER."""
    x, n = SPECIAL.astype(dtype), len(SPECIAL)
    t, i = f"tensor<{n}x{element}>", f"tensor<{n}xi32>"
    for direction in ("GT", "LT"):
        sort = f"""%0:2 = "stablehlo.sort"(%a, %i) ({{ ^bb0(%p: tensor<{element}>, %q: tensor<{element}>, %r: tensor<i32>, %s: tensor<i32>):
   %c = stablehlo.compare {direction}, %p, %q, TOTALORDER : (tensor<{element}>, tensor<{element}>) -> tensor<i1>
   stablehlo.return %c : tensor<i1> }}) {{dimension = 0 : i64, is_stable = true}} : ({t}, {i}) -> ({t}, {i})"""  # noqa: E501
        top = f"%0:2 = chlo.top_k(%a, k = {n}) : {t} -> ({t}, {i})"
        places = np.argsort(total_order(x) if direction == "LT" else ~total_order(x), kind="stable")
        for operation in (sort, top)[: 2 if direction == "GT" else 1]:
            text = f"""func.func @main(%a: {t}) -> ({t}, {i}) {{
 %i = stablehlo.iota dim = 0 : {i}
 {operation}
 return %0#0, %0#1 : {t}, {i} }}"""
            graph = ts.from_stablehlo(text)
            found = ts.reference(graph, [x]) if machine is None else ts.execute(ts.compile(graph, machine), [x])
            values, numbers = found.values()
            np.testing.assert_array_equal(numbers, places)
            np.testing.assert_array_equal(np.signbit(values), np.signbit(x[places]))
            np.testing.assert_array_equal(values, x[places])


def test_the_order_of_top_k_as_xla_has_it():
    given = np.array([np.inf, np.nan, -np.nan, -np.inf, 3], np.float32)
    text = "func.func @main(%a: tensor<5xf32>) -> tensor<5xi32> { %0:2 = chlo.top_k(%a, k = 5) : tensor<5xf32> -> "
    text += "(tensor<5xf32>, tensor<5xi32>)\n return %0#1 : tensor<5xi32> }"
    gives(text, [given], [[1, 0, 4, 3, 2]])


def selected(x: Any, source: Any, window: int, strides: int, low: int, wins: Any, scatter: Any, start: float) -> Any:
    """select_and_scatter along one axis, window by window."""
    result = np.full(x.shape, start, x.dtype)
    for number, value in enumerate(source):
        places = [p for p in range(number * strides - low, number * strides - low + window) if 0 <= p < len(x)]
        best = places[0]
        for place in places[1:]:
            best = best if wins(x[best], x[place]) else place
        result[best] = scatter(result[best], value)
    return result


@pytest.mark.parametrize("direction", ["GE", "GT", "LE", "LT"])
@pytest.mark.parametrize("body", ["add", "multiply", "maximum"])
def test_select_and_scatter(direction, body):
    """The first of equal elements is kept by GE and LE, the last one by GT and LT."""
    random = np.random.default_rng(3)
    compare = {"GE": np.greater_equal, "GT": np.greater, "LE": np.less_equal, "LT": np.less}[direction]
    start = {"add": 0.0, "multiply": 1.0, "maximum": -9.0}[body]
    for window, strides, low, high in ((2, 1, 0, 0), (3, 2, 1, 1), (3, 1, 2, 0), (1, 2, 0, 0)):
        x = random.integers(-2, 3, 9).astype(np.float32)
        count = (9 + low + high - window) // strides + 1
        source = random.integers(-4, 5, count).astype(np.float32)
        text = f"""func.func @main(%a: tensor<9xf32>, %s: tensor<{count}xf32>) -> tensor<9xf32> {{
 %i = stablehlo.constant dense<{start}> : tensor<f32>
 %0 = "stablehlo.select_and_scatter"(%a, %s, %i) ({{
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
   %c = stablehlo.compare {direction}, %p, %q : (tensor<f32>, tensor<f32>) -> tensor<i1>
   stablehlo.return %c : tensor<i1> }}, {{
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
   %c = stablehlo.{body} %p, %q : tensor<f32>
   stablehlo.return %c : tensor<f32> }}) {{window_dimensions = array<i64: {window}>, window_strides = array<i64: {strides}>, padding = dense<[[{low}, {high}]]> : tensor<1x2xi64>}} : (tensor<9xf32>, tensor<{count}xf32>, tensor<f32>) -> tensor<9xf32>
 return %0 : tensor<9xf32> }}"""  # noqa: E501
        wanted = selected(x, source, window, strides, low, compare, getattr(np, body), start)
        gives(text, [x, source], [wanted])


@pytest.mark.parametrize("element", ["f32", "f64"])
def test_scatter_by_any_body(element):
    """One update after the other, p and q giving p q + q; those that leave x are dropped. In a wider type too."""
    x, updates = X.copy(), np.array([[1, 2, 3], [4, 5, 6], [-1, 1, 2], [9, 9, 9]], np.float32)
    rows = np.array([[0], [1], [0], [2]], np.int32)
    t = f"tensor<2x3x{element}>"
    text = f"""func.func @main(%x: {F}, %i: tensor<4x1xi32>, %u: tensor<4x3xf32>) -> {t} {{
 %0 = "stablehlo.scatter"(%x, %i, %u) ({{ ^bb0(%p: tensor<{element}>, %q: tensor<{element}>):
   %c = stablehlo.multiply %p, %q : tensor<{element}>
   %d = stablehlo.add %c, %q : tensor<{element}>
   stablehlo.return %d : tensor<{element}> }}) {{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, indices_are_sorted = false, unique_indices = false}} : ({F}, tensor<4x1xi32>, tensor<4x3xf32>) -> {t}
 return %0 : {t} }}"""  # noqa: E501
    for (row,), update in zip(rows, updates, strict=True):
        if row < 2:
            x[row] = x[row] * update + update
    (found,) = outputs(text, X, rows, updates)
    assert found.dtype == np.dtype(element.replace("f", "float"))
    np.testing.assert_array_equal(found, x)


def test_reductions_in_a_wider_type():
    """The element type of the body is that of the sums (is_promotable)."""
    body = """({ ^bb0(%p: tensor<f64>, %q: tensor<f64>):
   %c = stablehlo.add %p, %q : tensor<f64>
   stablehlo.return %c : tensor<f64> })"""
    x = np.array([[1, 1e-9, -1], [3, 1e-8, -3]], np.float32)
    text = f"""func.func @main(%a: {F}) -> (tensor<2xf64>, tensor<2x2xf64>) {{
 %i = stablehlo.constant dense<0.0> : tensor<f32>
 %0 = "stablehlo.reduce"(%a, %i) {body} {{dimensions = array<i64: 1>}} : ({F}, tensor<f32>) -> tensor<2xf64>
 %1 = "stablehlo.reduce_window"(%a, %i) {body} {{window_dimensions = array<i64: 1, 2>}} : ({F}, tensor<f32>) -> tensor<2x2xf64>
 return %0, %1 : tensor<2xf64>, tensor<2x2xf64> }}"""  # noqa: E501
    wide = x.astype(np.float64)
    for ours, theirs in zip(outputs(text, x), (wide.sum(1), wide[:, :2] + wide[:, 1:]), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)


@pytest.mark.parametrize(("element", "dtype"), [("f32", np.complex64), ("f64", np.complex128)])
def test_complex_numbers_at_the_border(element, dtype):
    """As inputs and results of a program, in what moves them, reduces them, and factors a matrix of them."""
    random = np.random.default_rng(4)
    a = (random.standard_normal((3, 3)) + 1j * random.standard_normal((3, 3))).astype(dtype)
    whole = a @ a.conj().T + 3 * np.eye(3, dtype=dtype)
    t, r = f"tensor<3x3xcomplex<{element}>>", f"tensor<3xcomplex<{element}>>"
    text = f"""func.func @main(%a: {t}, %h: {t}) -> ({t}, {r}, {r}, {t}, {t}) {{
 %z = stablehlo.constant dense<(0.0, 0.0)> : tensor<complex<{element}>>
 %o = stablehlo.constant dense<(1.0, 0.0)> : tensor<complex<{element}>>
 %0 = stablehlo.transpose %a, dims = [1, 0] : ({t}) -> {t}
 %1 = stablehlo.reduce(%a init: %z) applies stablehlo.add across dimensions = [0] : ({t}, tensor<complex<{element}>>) -> {r}
 %2 = stablehlo.reduce(%a init: %o) applies stablehlo.multiply across dimensions = [1] : ({t}, tensor<complex<{element}>>) -> {r}
 %3 = stablehlo.cholesky %h, lower = true : {t}
 %4 = stablehlo.cholesky %h : {t}
 return %0, %1, %2, %3, %4 : {t}, {r}, {r}, {t}, {t} }}"""  # noqa: E501
    lower = np.linalg.cholesky(whole)
    graph = ts.from_stablehlo(text)
    program = ts.compile(graph, "edge-8", fallback="host")
    for found in (ts.reference(graph, [a, whole]), ts.execute(program, [a, whole])):
        wanted = (a.T, a.sum(0), a.prod(1), lower, lower.conj().T)
        for ours, theirs in zip(found.values(), wanted, strict=True):
            assert ours.dtype == dtype
            np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_devices_add_in_a_wider_type():
    """Collectives of complex numbers, and of a body that is wider than the operands."""
    text = """module attributes {mhlo.num_replicas = 2 : i32} {
 func.func @main(%a: tensor<4xf32>) -> (tensor<4xf64>, tensor<8xf32>) {
  %0 = "stablehlo.all_reduce"(%a) ({ ^bb0(%p: tensor<f64>, %q: tensor<f64>):
   %s = stablehlo.add %p, %q : tensor<f64>
   stablehlo.return %s : tensor<f64> }) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<4xf32>) -> tensor<4xf64>
  %z = stablehlo.complex %a, %a : tensor<4xcomplex<f32>>
  %1 = "stablehlo.all_gather"(%z) {all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<4xcomplex<f32>>) -> tensor<8xcomplex<f32>>
  %2 = stablehlo.imag %1 : (tensor<8xcomplex<f32>>) -> tensor<8xf32>
  return %0, %2 : tensor<4xf64>, tensor<8xf32> } }"""  # noqa: E501
    parts = [np.array([1, 2, 3, 1e-9], np.float32), np.array([4, 5, 6, 1], np.float32)]
    found = ts.execute(ts.cluster.Spmd([ts.from_stablehlo(text)], 2), [parts])
    total, gathered = (array[0] if isinstance(array, list) else array for array in found.values())
    np.testing.assert_array_equal(total, parts[0].astype(np.float64) + parts[1])
    np.testing.assert_array_equal(gathered, np.concatenate(parts))


def test_empty_windows():
    """A window that does not fit gives nothing (StableHLO, convolution), on a machine too."""
    text = """func.func @main(%a: tensor<2x3x9x10xf32>, %w: tensor<4x3x10x5xf32>) -> (tensor<2x4x0x6xf32>, tensor<2x3x0x9xf32>, tensor<4xf32>) {
 %i = stablehlo.constant dense<0.0> : tensor<f32>
 %0 = stablehlo.convolution(%a, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x3x9x10xf32>, tensor<4x3x10x5xf32>) -> tensor<2x4x0x6xf32>
 %1 = "stablehlo.reduce_window"(%a, %i) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>):
   %c = stablehlo.add %p, %q : tensor<f32>
   stablehlo.return %c : tensor<f32> }) {window_dimensions = array<i64: 1, 1, 12, 2>} : (tensor<2x3x9x10xf32>, tensor<f32>) -> tensor<2x3x0x9xf32>
 %2 = stablehlo.reduce(%0 init: %i) applies stablehlo.add across dimensions = [0, 2, 3] : (tensor<2x4x0x6xf32>, tensor<f32>) -> tensor<4xf32>
 return %0, %1, %2 : tensor<2x4x0x6xf32>, tensor<2x3x0x9xf32>, tensor<4xf32> }"""  # noqa: E501
    graph = ts.from_stablehlo(text)
    given = [np.ones((2, 3, 9, 10), np.float32), np.ones((4, 3, 10, 5), np.float32)]
    program = ts.compile(graph, "edge-8")
    assert ts.simulate(program).cycles > 0
    for found in (ts.reference(graph, given), ts.execute(program, given)):
        assert [array.shape for array in found.values()] == [(2, 4, 0, 6), (2, 3, 0, 9), (4,)]
        np.testing.assert_array_equal(found["output2"], 0)
