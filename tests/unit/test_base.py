"""Errors, JSON, units, elementwise functions and cancellation, as Python sees them."""

from __future__ import annotations

import json
import math
import os
import signal
import threading
import time

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from tilesim import _core

quick = hypothesis.settings(deadline=None, max_examples=120)


# ---- errors


def test_error_classes():
    assert issubclass(_core.UserError, _core.Error) and issubclass(_core.UserError, ValueError)
    assert issubclass(_core.Unsupported, _core.UserError)
    assert issubclass(_core.InternalError, _core.Error) and not issubclass(_core.InternalError, ValueError)
    assert _core.UserError("raised from Python").place == ""


def test_error_has_its_parts():
    with pytest.raises(_core.UserError) as caught:
        _core.parse_frequency("940 MHertz")
    error = caught.value
    assert (error.what, error.place, error.value) == ("a frequency has an unknown unit", "", "'940 MHertz'")
    assert error.allowed == "a number and one of Hz, kHz, MHz, GHz"
    assert str(error) == f"{error.what} (got {error.value}; allowed: {error.allowed})"


# ---- JSON

JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)


def same(a, b):
    """Equal, and integers, floats and bools kept apart, the sign of zero too."""
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and a == b and (not isinstance(a, float) or math.copysign(1, a) == math.copysign(1, b))


@quick
@hypothesis.given(JSON_VALUES, st.sampled_from([None, 0, 2]), st.booleans())
def test_json_round_trip(value, indent, ascii_only):
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    normal = _core.parse_json(text, indent=-1 if indent is None else indent)
    assert same(json.loads(normal), value)
    assert _core.parse_json(normal) == _core.parse_json(text)


@pytest.mark.parametrize(
    ("text", "place", "what"),
    [
        ('{"a": 1,\n "b": {"c": 2,\n  "c": 3}}', "text:3:5 (b.c)", "a key appears twice"),
        ('{"a": [1,\n 9223372036854775808]}', "text:2:21 (a[1])", "beyond 64 bits"),
        ("-9223372036854775809", "text:1:20", "beyond 64 bits"),
        ("[1, 123456789012345678901234567890]", "text:1:35 ([1])", "beyond 64 bits"),
        ("[" + "1" * 400 + "]", "text:1:402 ([0])", "beyond 64 bits"),
        ('{"x": 1e999}', "text:1:12 (x)", "not finite"),
        ("[NaN]", "text:1:2 ([0])", "not valid JSON"),
        ('{"a": {"b": [1, 2', "text:1:17 (a.b[2])", "the text ends"),
        ("", "text:1:1", "the text ends"),
        ("  \n ", "text:2:1", "the text ends"),
        ('{"a": "abc', "text:1:10 (a)", "missing closing quote"),
        ("[1, 2,]", "text:1:7 ([2])", "not valid JSON"),
        ('{"a": 1}\n{}', "text:2:1", "not valid JSON"),
        ("[\n" * 201, "text:201 (" + "[0]" * 200 + ")", "nested too deeply"),
        ("{'a': 1}", "text:1:2", "not valid JSON"),
        ("// note\n1", "text:1:1", "not valid JSON"),
    ],
)
def test_json_errors(text, place, what):
    with pytest.raises(_core.UserError, match=what) as caught:
        _core.parse_json(text)
    assert caught.value.place == place


def test_json_of_200_levels():
    text = "[" * 200 + "]" * 200
    assert _core.parse_json(text) == text


@pytest.mark.parametrize("text", [b'"\xff"', b'"\xc3("', b'"\xed\xa0\x80"', b'{"\xe2\x82": 1}'])
def test_json_with_bad_utf8(text):
    with pytest.raises(_core.UserError, match=r"UTF-8"):
        _core.parse_json(text)


@pytest.mark.parametrize("text", [b"0\0", b"[1]\n\0[2]", b'{"a": 1}\0{', b"0\0\0\0", b"\0", b"[\0]", b'"\0"'])
def test_json_with_a_zero_byte(text):
    with pytest.raises(_core.UserError, match="not valid JSON"):
        _core.parse_json(text)


@quick
@hypothesis.given(st.binary(max_size=60))
@hypothesis.example(b"0\0\0\1\0\0\0\0\0\0\0")
def test_any_bytes_are_json_or_an_error(text):
    try:
        normal = _core.parse_json(text)
    except _core.UserError:
        return
    assert same(json.loads(normal), json.loads(text))


def test_numbers_are_written_shortest():
    assert _core.parse_json("[1.0, 0.10000000000000001, 1e22]") == "[1.0, 0.1, 1e+22]"
    assert _core.parse_json("[-0.0, -0, 5e-324, 9007199254740993]") == "[-0.0, 0, 5e-324, 9007199254740993]"


def test_hash_is_fnv_1a():
    # http://www.isthe.com/chongo/src/fnv/test_fnv.c
    assert _core.hash_text("") == "cbf29ce484222325"
    assert _core.hash_text("foobar") == "85944171f73967e8"


# ---- units


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        ("frequency", "940 MHz", 940_000_000),
        ("frequency", "1.1 GHz", 1_100_000_000),
        ("frequency", "1GHz", 10**9),
        ("bytes", "16 MiB", 16 << 20),
        ("bytes", "1 GB", 10**9),
        ("bytes", "0.5 KiB", 512),
        ("bytes", "0 B", 0),
        ("bandwidth", "1.2 TB/s", 1_200_000_000_000),
        ("bandwidth", "614 GiB/s", 614 << 30),
        ("duration", "1.5 us", 1_500_000),
        ("duration", "0.94 ns", 940),
        ("energy", "909 pJ", 909_000),
        ("energy", "1.2 nJ", 1_200_000),
        ("energy", "1e-3 pJ", 1),
    ],
)
def test_units(parse, text, value):
    assert getattr(_core, f"parse_{parse}")(text) == value


@pytest.mark.parametrize(
    ("parse", "text", "message"),
    [
        ("frequency", "940", "needs a unit"),
        ("frequency", "MHz", "needs a number"),
        ("frequency", "940 MB", "unknown unit"),
        ("frequency", "-1 GHz", "cannot be negative"),
        ("frequency", "1.5 Hz", "whole number of Hz"),
        ("bytes", "1 KIB", "Did you mean 'KiB'"),
        ("bytes", "16 Mib", "unknown unit"),
        ("bytes", "9000000 TiB", "below 2"),
        ("bytes", "1e400 B", "below 2"),
        ("bytes", "nan B", "needs a number"),
        ("bytes", "0x10 B", "unknown unit"),
        ("bytes", "", "needs a number"),
        ("duration", "0.9375 ns", "whole number of ps"),
        ("bandwidth", "450 GB", "Did you mean 'GB/s'|unknown unit"),
    ],
)
def test_unit_errors(parse, text, message):
    with pytest.raises(_core.UserError, match=message):
        getattr(_core, f"parse_{parse}")(text)


# ---- elementwise functions


def power(x, y):
    return math.inf if (x, y) == (-math.inf, 0.5) else np.power(x, y)  # numpy takes a square root there


REFERENCE = {
    "negate": np.negative, "abs": np.abs, "sign": np.sign, "floor": np.floor, "ceil": np.ceil, "round_even": np.rint,
    "trunc": np.trunc, "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log2": np.log2,
    "log1p": np.log1p, "sqrt": np.sqrt, "cbrt": np.cbrt, "reciprocal": np.reciprocal, "sin": np.sin, "cos": np.cos,
    "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh,
    "tanh": np.tanh, "is_finite": np.isfinite, "is_nan": np.isnan, "logical_not": np.logical_not,
    "relu": lambda x: np.maximum(x, 0.0), "softplus": lambda x: np.logaddexp(x, 0.0), "identity": lambda x: x,
    "rsqrt": lambda x: 1 / np.sqrt(x), "sigmoid": lambda x: np.exp(-np.logaddexp(0.0, -x)),
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide, "remainder": np.fmod,
    "floor_divide": np.floor_divide, "power": power, "maximum": np.maximum, "minimum": np.minimum,
    "atan2": np.arctan2, "logical_and": np.logical_and, "logical_or": np.logical_or, "logical_xor": np.logical_xor,
    "equal": np.equal, "not_equal": np.not_equal, "less": np.less, "less_equal": np.less_equal,
    "greater": np.greater, "greater_equal": np.greater_equal, "select": lambda a, b, c: b if a else c,
    "clamp": lambda low, x, high: np.minimum(np.maximum(x, low), high),
    "erf": np.vectorize(math.erf), "erfc": np.vectorize(math.erfc),
    "gelu_erf": lambda x: 0.5 * x * (1 + math.erf(x / math.sqrt(2))),
    "gelu_tanh": lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "silu": lambda x: x * np.exp(-np.logaddexp(0.0, -x)),
}  # fmt: skip
POINTS = [0.0, -0.0, 0.5, 1.0, -1.0, 1.5, 2.5, -2.5, 0.1, 3.7, -7.25, 30.0, -30.0, 800.0, -800.0]
POINTS += [math.inf, -math.inf, math.nan]
NAMES = list(REFERENCE)
BINARY = NAMES[NAMES.index("add") : NAMES.index("greater_equal") + 1]
ARITY = dict.fromkeys(BINARY, 2) | {"select": 3, "clamp": 3}


@pytest.mark.parametrize("name", REFERENCE)
def test_functions_as_numpy(name):
    arity = ARITY.get(name, 1)
    random = np.random.default_rng(0)
    rows = [[x] for x in POINTS] if arity == 1 else random.choice(POINTS, (400, arity)).tolist()
    for row in rows:
        with np.errstate(all="ignore"):
            expected = float(REFERENCE[name](*map(np.float64, row)))
        got = _core.evaluate_function(name, row)
        assert got == pytest.approx(expected, rel=1e-14, abs=1e-300, nan_ok=True), row


def test_functions_without_reference_are_few():
    rest = set(_core.function_names()) - set(REFERENCE)
    bitwise = {"bitwise_not", "bitwise_and", "bitwise_or", "bitwise_xor", "popcount", "shift_left", "shift_right"}
    assert rest == bitwise | {"fma"}
    with pytest.raises(_core.UserError, match="Did you mean 'sigmoid'"):
        _core.evaluate_function("sigmoyd", [0.0])
    with pytest.raises(_core.UserError, match="number of operands"):
        _core.evaluate_function("add", [0.0])


def test_fma_rounds_once():
    assert _core.evaluate_function("fma", [1 + 2.0**-30, 1 - 2.0**-30, -1.0]) == -(2.0**-60)


# ---- cancellation


def interrupt_after(seconds):
    timer = threading.Timer(seconds, os.kill, [os.getpid(), signal.SIGINT])
    timer.start()
    return timer


def test_ctrl_c_stops_a_long_call():
    # Whoever started the tests may have had the signal ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        timer = interrupt_after(0.2)
        begin = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            _core.poll_for(20.0)
        timer.join()
        assert time.monotonic() - begin < 5
    finally:
        signal.signal(signal.SIGINT, before)


def test_what_a_handler_raises_arrives():
    class Stop(Exception):
        pass

    def handler(number, frame):
        raise Stop("handler")

    before = signal.signal(signal.SIGINT, handler)
    try:
        timer = interrupt_after(0.1)
        with pytest.raises(Stop, match="handler"):
            _core.poll_for(20.0)
        timer.join()
    finally:
        signal.signal(signal.SIGINT, before)


def test_progress_is_called_and_may_raise():
    calls = []
    _core.poll_for(0.25, progress=calls.append)
    assert 2 <= len(calls) <= 6
    assert set(calls) == {-1.0}

    def stop(fraction):
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        _core.poll_for(20.0, progress=stop)
