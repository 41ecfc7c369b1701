"""Conversions between dtypes against ml_dtypes and numpy on every 8- and 16-bit pattern, and against exact rounding.

The exact reference looks a value up among all values of the target format, so it shares nothing with the conversion.
ml_dtypes is no reference for f64 sources: it goes through f32 and rounds twice.
"""

from __future__ import annotations

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from tilesim import _core

NUMPY = {
    "f64": np.float64, "f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16,
    "f8e4m3fn": ml_dtypes.float8_e4m3fn, "f8e5m2": ml_dtypes.float8_e5m2, "f8e4m3fnuz": ml_dtypes.float8_e4m3fnuz,
    "f8e5m2fnuz": ml_dtypes.float8_e5m2fnuz, "f8e8m0fnu": ml_dtypes.float8_e8m0fnu,
    "f4e2m1fn": ml_dtypes.float4_e2m1fn, "i64": np.int64, "i32": np.int32, "i16": np.int16, "i8": np.int8,
    "i4": ml_dtypes.int4, "u64": np.uint64, "u32": np.uint32, "u16": np.uint16, "u8": np.uint8, "u4": ml_dtypes.uint4,
    "bool": np.bool_, "c64": np.complex64, "c128": np.complex128, "f8e4m3ieee": ml_dtypes.float8_e4m3,
    "f8e3m4": ml_dtypes.float8_e3m4, "f8e4m3b11fnuz": ml_dtypes.float8_e4m3b11fnuz,
    "f6e2m3fn": ml_dtypes.float6_e2m3fn, "f6e3m2fn": ml_dtypes.float6_e3m2fn, "i2": ml_dtypes.int2,
    "u2": ml_dtypes.uint2,
}  # fmt: skip
NARROW = [name for name in NUMPY if name[0] in "fb" and name not in ("f64", "f32", "bool")]
SIGNED = [name for name in NARROW if name != "f8e8m0fnu"]
INTEGERS = [name for name in NUMPY if name[0] in "iu"]
REAL = [name for name in NUMPY if name[0] != "c"]
#: bits of formats of less than a byte
SHORT = {"f6e2m3fn": 6, "f6e3m2fn": 6, "f4e2m1fn": 4, "i4": 4, "u4": 4, "i2": 2, "u2": 2}


@pytest.fixture(autouse=True)
def quiet():
    """numpy warns when it converts a signalling NaN or a number beyond the target's range; both are meant here."""
    with np.errstate(all="ignore"):
        yield


def codes_of(dtype):
    """Every bit pattern of an 8- or 16-bit host dtype."""
    size = np.dtype(NUMPY[dtype]).itemsize
    if dtype in SHORT:
        return np.arange(1 << SHORT[dtype], dtype=np.uint8)
    if dtype == "bool":
        return np.arange(2, dtype=np.uint8)
    return np.arange(1 << (8 * size), dtype=np.uint8 if size == 1 else np.uint16)


def bits_of(array):
    return array.view({1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}[array.itemsize])


def assert_same(result, expected):
    """Equal bit for bit, any NaN equal to any."""
    assert result.dtype == expected.dtype
    nan = np.isnan(expected.astype(np.float64))
    np.testing.assert_array_equal(np.isnan(result.astype(np.float64)), nan)
    np.testing.assert_array_equal(bits_of(result)[~nan], bits_of(expected)[~nan])


def magnitudes(dtype):
    """All finite values >= 0 of a narrow float dtype in the order of their codes, as f64."""
    values = codes_of(dtype).view(NUMPY[dtype]).astype(np.float64)
    half = values[: len(values) // 2] if dtype != "f8e8m0fnu" else values
    return half[np.isfinite(half)]


def samples(dtype, random):
    """f64 values where rounding to `dtype` is decided: the values, their midpoints, neighbours of both, and noise."""
    values = magnitudes(dtype)
    step = values[-1] - values[-2]
    values = np.append(values, values[-1] + step)
    middle = (values[1:] + values[:-1]) / 2
    points = np.concatenate([values, middle])
    points = np.concatenate([points, np.nextafter(points, np.inf), np.nextafter(points, 0)])
    spread = random.standard_normal(20000) * np.exp2(random.uniform(-160, 130, 20000))
    points = np.concatenate([points, np.abs(spread), [np.inf, np.nan, 5e-324, 1e308, 2.0**-1022]])
    return np.concatenate([points, -points])


def exactly_rounded(values, dtype, rounding="nearest_even", saturate=False):
    """Codes of `values` (f64) in a narrow float dtype with sign, found by search among its values."""
    table = magnitudes(dtype)
    largest = len(table) - 1
    above = table[-1] + (table[-1] - table[-2])
    extended = np.append(table, above)
    size = np.abs(np.nan_to_num(values, nan=0.0, posinf=np.inf, neginf=np.inf))
    low = np.clip(np.searchsorted(extended, size, side="right") - 1, 0, len(extended) - 1)
    code = low.copy()
    if rounding == "nearest_even":
        inside = low <= largest
        middle = (extended[np.minimum(low, largest)] + extended[np.minimum(low, largest) + 1]) / 2
        up = inside & ((size > middle) | ((size == middle) & (low % 2 == 1)))
        code = low + up
    beyond = code > largest
    infinite = np.isinf(size)
    code = np.minimum(code, largest)
    negative = np.signbit(values)
    sign = {"f16": 0x8000, "bf16": 0x8000}.get(dtype, 1 << (SHORT.get(dtype, 8) - 1))
    uz = dtype.endswith("uz")
    result = np.where(negative & ~(uz & (code == 0)), code | sign, code)
    infinity = {"f16": 0x7C00, "bf16": 0x7F80, "f8e5m2": 0x7C, "f8e4m3ieee": 0x78, "f8e3m4": 0x70}.get(dtype)
    nan = {"f16": 0x7E00, "bf16": 0x7FC0, "f8e4m3fn": 0x7F, "f8e5m2": 0x7E, "f8e4m3ieee": 0x7C, "f8e3m4": 0x78}
    nan = nan.get(dtype, sign)
    if not saturate and dtype not in SHORT:
        leaves = infinite if rounding == "toward_zero" else beyond
        lost = nan if infinity is None else infinity
        result = np.where(leaves, lost if uz else np.where(negative, lost | sign, lost), result)
    negative_nan = 0 if dtype in SHORT else nan if uz else nan | sign
    return np.where(np.isnan(values), np.where(negative, negative_nan, nan), result)


@pytest.mark.parametrize("dtype", [name for name in NUMPY if np.dtype(NUMPY[name]).itemsize <= 2])
@pytest.mark.parametrize("wide", ["f32", "f64"])
def test_every_pattern_widens_and_comes_back(dtype, wide):
    patterns = codes_of(dtype).view(NUMPY[dtype])
    widened = _core.convert_array(patterns, wide)
    assert_same(widened, patterns.astype(NUMPY[wide]))
    back = _core.convert_array(widened, dtype)
    if dtype in INTEGERS or dtype == "bool":
        np.testing.assert_array_equal(bits_of(back), bits_of(patterns))
    else:
        assert_same(back, patterns)


@pytest.mark.parametrize("dtype", NARROW)
def test_from_f32_as_ml_dtypes(dtype):
    random = np.random.default_rng(1)
    noise = random.integers(0, 1 << 32, 200_000, dtype=np.uint32).view(np.float32)
    values = np.concatenate([samples(dtype, random).astype(np.float32), noise])
    if dtype == "f8e8m0fnu":  # ml_dtypes takes f32 subnormals above 2^-127 to 2^-126, though 2^-127 is nearer
        values = values[(values <= 2.0**-127) | (values >= 1.5 * 2.0**-127) | np.isnan(values)]
    assert_same(_core.convert_array(values, dtype), values.astype(NUMPY[dtype]))


@pytest.mark.parametrize("dtype", SIGNED)
@pytest.mark.parametrize("rounding", ["nearest_even", "toward_zero"])
@pytest.mark.parametrize("saturate", [False, True])
def test_from_f64_rounds_once(dtype, rounding, saturate):
    values = samples(dtype, np.random.default_rng(2))
    result = _core.convert_array(values, dtype, rounding, saturate)
    expected = exactly_rounded(values, dtype, rounding, saturate)
    np.testing.assert_array_equal(bits_of(result), expected.astype(bits_of(result).dtype))


@pytest.mark.parametrize("dtype", SIGNED)
def test_f32_and_f64_sources_agree(dtype):
    random = np.random.default_rng(3)
    values = random.integers(0, 1 << 32, 100_000, dtype=np.uint32).view(np.float32)
    assert_same(_core.convert_array(values, dtype), _core.convert_array(values.astype(np.float64), dtype))


def test_f64_to_f32_as_the_processor():
    random = np.random.default_rng(4)
    values = random.integers(0, 1 << 64, 200_000, dtype=np.uint64).view(np.float64)
    values = np.concatenate([values, random.standard_normal(100_000) * np.exp2(random.uniform(-152, 129, 100_000))])
    with np.errstate(all="ignore"):
        nearest = values.astype(np.float32)
        toward = np.where(np.abs(nearest.astype(np.float64)) > np.abs(values), np.nextafter(nearest, 0), nearest)
    assert_same(_core.convert_array(values, "f32"), nearest)
    toward = np.where(np.isinf(values), nearest, toward).astype(np.float32)
    assert_same(_core.convert_array(values, "f32", "toward_zero"), toward)
    clipped = np.where(np.isnan(values), values, np.clip(nearest, *np.finfo(np.float32).max * np.array([-1, 1])))
    assert_same(_core.convert_array(values, "f32", saturate=True), clipped.astype(np.float32))


def test_e8m0_holds_positive_powers_of_two():
    values = np.array([1.0, 1.4, 1.5, 3.0, 6.0, 2.0**-140, 2.0**127, 1.6 * 2.0**127, 0.0, -1.0, np.inf, np.nan])
    assert bits_of(_core.convert_array(values, "f8e8m0fnu")).tolist() == [
        *[127, 127, 128, 129, 130, 0, 254],
        *[255, 255, 255, 255, 255],
    ]
    assert bits_of(_core.convert_array(values, "f8e8m0fnu", "toward_zero")).tolist()[2:5] == [127, 128, 129]
    assert bits_of(_core.convert_array(values, "f8e8m0fnu", saturate=True)).tolist()[7] == 254


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16", "f8e4m3fn", "f8e5m2"])
@pytest.mark.parametrize("source", ["i64", "u64"])
def test_large_integers_round_once(dtype, source):
    random = np.random.default_rng(5)
    magnitude = random.integers(0, 1 << 63, 400, dtype=np.uint64) >> random.integers(0, 63, 400, dtype=np.uint64)
    ties = [(1 << 53) + 1, (1 << 24) + 1, (3 << 24) + 2, (1 << 62) + (1 << 38), (1 << 62) + (1 << 38) + 1, 257, 259]
    values = np.concatenate([magnitude, np.array(ties, np.uint64)]).astype(NUMPY[source])
    if source == "i64":
        values = np.concatenate([values, -values, [np.iinfo(np.int64).min]])
    else:
        values = np.concatenate([values, ~values])
    result = _core.convert_array(values, dtype).astype(np.float64)
    for value, got in zip(values.tolist(), result.tolist(), strict=True):
        if not np.isfinite(got):
            assert abs(value) > float(ml_dtypes.finfo(NUMPY[dtype]).max)
            continue
        below, above = (np.nextafter(NUMPY[dtype](got), NUMPY[dtype](limit)) for limit in (-np.inf, np.inf))
        error = abs(Fraction(value) - Fraction(got))
        for neighbour in (float(below), float(above)):
            assert not np.isfinite(neighbour) or error <= abs(Fraction(value) - Fraction(neighbour))


@pytest.mark.parametrize("source", INTEGERS)
@pytest.mark.parametrize("target", INTEGERS)
def test_integers_wrap_or_saturate(source, target):
    random = np.random.default_rng(6)
    raw = random.integers(0, 1 << 64, 2000, dtype=np.uint64) >> random.integers(0, 64, 2000, dtype=np.uint64)
    values = _core.convert_array(raw, source)
    exact = [int(value) for value in values]
    info = ml_dtypes.iinfo(NUMPY[target])
    span = int(info.max) - int(info.min) + 1
    wrapped = [(value - int(info.min)) % span + int(info.min) for value in exact]
    assert [int(value) for value in _core.convert_array(values, target)] == wrapped
    clamped = [min(max(value, int(info.min)), int(info.max)) for value in exact]
    assert [int(value) for value in _core.convert_array(values, target, saturate=True)] == clamped


@pytest.mark.parametrize("target", INTEGERS)
@pytest.mark.parametrize("source", ["f32", "f64"])
def test_floats_truncate_to_integers(source, target):
    random = np.random.default_rng(7)
    values = random.standard_normal(5000) * np.exp2(random.uniform(-3, 80, 5000))
    info = ml_dtypes.iinfo(NUMPY[target])
    edges = np.array([0.0, -0.0, 0.99, -0.99, int(info.max), int(info.min), float(info.max) + 1, float(info.min) - 1])
    values = np.concatenate([values, edges]).astype(NUMPY[source])
    exact = [int(value) for value in values.tolist()]
    span = int(info.max) - int(info.min) + 1
    wrapped = [(value - int(info.min)) % span + int(info.min) for value in exact]
    assert [int(value) for value in _core.convert_array(values, target)] == wrapped
    clamped = [min(max(value, int(info.min)), int(info.max)) for value in exact]
    assert [int(value) for value in _core.convert_array(values, target, saturate=True)] == clamped
    special = np.array([np.nan, np.inf, -np.inf], NUMPY[source])
    assert [int(value) for value in _core.convert_array(special, target)] == [0, 0, 0]
    saturated = _core.convert_array(special, target, saturate=True)
    assert [int(value) for value in saturated] == [0, int(info.max), int(info.min)]


@pytest.mark.parametrize("complex_dtype", ["c64", "c128"])
@pytest.mark.parametrize("source", REAL)
def test_bool_and_complex(source, complex_dtype):
    values = np.array([0, 1, 0, 1, 1], NUMPY[source])
    truth = values.astype(np.float64) != 0
    np.testing.assert_array_equal(_core.convert_array(values, "bool"), truth)
    numbers = _core.convert_array(values, complex_dtype)
    assert numbers.dtype == NUMPY[complex_dtype]
    np.testing.assert_array_equal(numbers.real.astype(np.float64), values.astype(np.float64))
    np.testing.assert_array_equal(numbers.imag, 0)
    assert_same(_core.convert_array((numbers + 2j).astype(numbers.dtype), source), values) if source != "bool" else None


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_complex_is_true_when_either_part_is(dtype):
    values = np.array([0, 1, 1j, -0.0, 3.25 - 7j], dtype)
    assert _core.convert_array(values, "bool").tolist() == [False, True, True, False, True]
    for other in ("c64", "c128"):
        np.testing.assert_array_equal(_core.convert_array(values, other), values.astype(NUMPY[other]))


@pytest.mark.parametrize("through", ["f16", "bf16", "f8e4m3fn", "f8e5m2", "f4e2m1fn"])
def test_round_through(through):
    values = np.random.default_rng(8).standard_normal(3000).astype(np.float32)
    assert_same(_core.round_array(values, through), values.astype(NUMPY[through]).astype(np.float32))


def test_round_to_tf32():
    values = np.random.default_rng(9).standard_normal(3000).astype(np.float32)
    values = np.concatenate([values, np.array([1 + 2**-11, 1 + 3 * 2**-11, np.inf, -np.inf, 0, 1e-40], np.float32)])
    _, exponent = np.frexp(values.astype(np.float64))
    with np.errstate(invalid="ignore"):
        quantum = np.exp2(np.maximum(exponent - 11, -126 - 10).astype(np.float64))
        expected = np.where(np.isfinite(values), np.rint(values / quantum) * quantum, values)
    np.testing.assert_array_equal(_core.round_array(values, "tf32"), expected.astype(np.float32))
    assert np.isnan(_core.round_array(np.array([np.nan], np.float32), "tf32")[0])


def test_names_bits_and_roundoff():
    assert _core.dtype_names() == list(NUMPY)
    for alias, name in {
        "float32": "f32", "fp16": "f16", "bfloat16": "bf16", "fp8": "f8e4m3fn", "f8e4m3": "f8e4m3fn", "int8": "i8",
        "pred": "bool", "i1": "bool", "complex64": "c64", "float8_e8m0fnu": "f8e8m0fnu", "complex128": "c128",
        "float8_e4m3": "f8e4m3ieee", "s2": "i2",
    }.items():  # fmt: skip
        assert _core.parse_dtype(alias) == name
    bits = {"f64": 64, "f8e5m2": 8, "f4e2m1fn": 4, "i4": 4, "bool": 8, "c64": 64, "c128": 128, "f6e2m3fn": 8, "i2": 8}
    assert {name: _core.dtype_bits(name) for name in bits} == bits
    for name in ("f64", "f32", *SIGNED):
        assert _core.unit_roundoff(name) == float(ml_dtypes.finfo(NUMPY[name]).eps) / 2
    assert _core.unit_roundoff("i8") == 0
    with pytest.raises(_core.UserError, match=r"Did you mean 'float32'\?") as caught:
        _core.parse_dtype("flaot32")
    assert caught.value.value == "'flaot32'"


def test_arrays_are_shared_where_possible():
    for dtype in NUMPY.values():
        array = np.zeros((2, 3), dtype)
        shared = _core.share_array(array)
        assert shared.dtype == array.dtype
        assert shared.shape == array.shape
        assert np.shares_memory(shared, array)
    whole = np.arange(12, dtype=np.int32).reshape(3, 4)
    odd_ones = [whole.T, whole[:, ::2], whole[::-1], whole.astype(">i4"), whole.tolist(), np.int32(7), np.zeros((0, 3))]
    for odd in odd_ones:
        np.testing.assert_array_equal(_core.share_array(odd), odd)
    assert _core.share_array(np.float32(3)).shape == ()
    with pytest.raises(_core.UserError, match="complex256"):
        _core.share_array(np.zeros(2, np.clongdouble))


def test_shared_memory_outlives_its_owner():
    array = np.arange(1000, dtype=np.int64)
    shared = _core.share_array(array)
    del array
    np.testing.assert_array_equal(shared, np.arange(1000))
