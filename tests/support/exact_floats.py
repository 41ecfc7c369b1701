"""Floating point by rational numbers: IEEE 754 results and flags in every rounding mode, as RISC-V has them.

Numbers are bits; a result is (bits, flags). Slow, and made of nothing but integers and fractions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt

NX, UF, OF, DZ, NV = 1, 2, 4, 8, 16
NEAREST_EVEN, ZERO, DOWN, UP, NEAREST_AWAY, ODD = range(6)
Result = tuple[int, int]


@dataclass(frozen=True)
class Format:
    """A binary format by the bits of its exponent and fraction."""

    exponent: int
    fraction: int

    @property
    def bias(self) -> int:
        return (1 << self.exponent - 1) - 1

    @property
    def sign(self) -> int:
        return 1 << self.exponent + self.fraction

    @property
    def infinity(self) -> int:
        return ((1 << self.exponent) - 1) << self.fraction

    @property
    def nan(self) -> int:
        return self.infinity | 1 << self.fraction - 1

    def is_nan(self, bits: int) -> bool:
        return bits & self.sign - 1 > self.infinity

    def signals(self, bits: int) -> bool:
        return self.is_nan(bits) and not bits >> self.fraction - 1 & 1

    def is_infinite(self, bits: int) -> bool:
        return bits & self.sign - 1 == self.infinity

    def negative(self, bits: int) -> bool:
        return bits & self.sign != 0

    def value(self, bits: int) -> Fraction:
        """Of a finite number."""
        field, fraction = bits >> self.fraction & (1 << self.exponent) - 1, bits & (1 << self.fraction) - 1
        whole = fraction | (1 << self.fraction if field else 0)
        size = Fraction(whole) * Fraction(2) ** (max(field, 1) - self.bias - self.fraction)
        return -size if self.negative(bits) else size


F16, BF16, F32, F64 = Format(5, 10), Format(8, 7), Format(8, 23), Format(11, 52)
BY_WIDTH = {16: F16, 32: F32, 64: F64}


def whole_number(value: Fraction, mode: int) -> int:
    """The integer that a number rounds to."""
    low = value.numerator // value.denominator
    rest = value - low
    if rest == 0:
        return low
    if mode == NEAREST_EVEN:
        return low + (rest > Fraction(1, 2) or (rest == Fraction(1, 2) and low % 2 == 1))
    if mode == NEAREST_AWAY:
        return low + (rest > Fraction(1, 2) or (rest == Fraction(1, 2) and value > 0))
    if mode == ODD:
        return low if low % 2 else low + 1
    return low + (mode == UP or (mode == ZERO and value < 0))


def magnitude(value: Fraction) -> int:
    """e with 2^e ≤ |value| < 2^(e + 1)."""
    size = abs(value)
    e = size.numerator.bit_length() - size.denominator.bit_length()
    return e if Fraction(2) ** e <= size else e - 1


def rounded(to: Format, value: Fraction, mode: int, negative_zero: bool = False) -> Result:
    """A real number in a format."""
    if value == 0:
        return (to.sign if negative_zero else 0), 0
    sign, lowest = (to.sign if value < 0 else 0), 1 - to.bias
    e = magnitude(value)
    step = Fraction(2) ** (max(e, lowest) - to.fraction)
    units = whole_number(value / step, mode)
    flags = NX if units * step != value else 0
    if flags and e < lowest:
        free = Fraction(2) ** (e - to.fraction)
        if abs(whole_number(value / free, mode) * free) < Fraction(2) ** lowest:
            flags |= UF
    result = abs(units * step)
    if result >= Fraction(2) ** (to.bias + 1):
        away = mode in (NEAREST_EVEN, NEAREST_AWAY) or mode == (DOWN if value < 0 else UP)
        return sign | (to.infinity if away else to.infinity - 1), OF | NX
    if result < Fraction(2) ** lowest:
        return sign | abs(units), flags
    e = magnitude(result)
    return sign | (e + to.bias) << to.fraction | int(result / Fraction(2) ** (e - to.fraction)) - (
        1 << to.fraction
    ), flags


def _nan(f: Format, *numbers: int) -> Result | None:
    if not any(f.is_nan(x) for x in numbers):
        return None
    return f.nan, NV if any(f.signals(x) for x in numbers) else 0


def add(f: Format, a: int, b: int, mode: int) -> Result:
    if (nan := _nan(f, a, b)) is not None:
        return nan
    if f.is_infinite(a) or f.is_infinite(b):
        if f.is_infinite(a) and f.is_infinite(b) and a != b:
            return f.nan, NV
        return (a if f.is_infinite(a) else b), 0
    value = f.value(a) + f.value(b)
    both = f.negative(a) and f.negative(b)
    return rounded(
        f,
        value,
        mode,
        both or (mode == DOWN and f.negative(a) != f.negative(b)) or (mode == DOWN and value == 0 and f.value(a) != 0),
    )


def subtract(f: Format, a: int, b: int, mode: int) -> Result:
    return add(f, a, b ^ f.sign if not f.is_nan(b) else b, mode)


def multiply(f: Format, a: int, b: int, mode: int) -> Result:
    if (nan := _nan(f, a, b)) is not None:
        return nan
    sign = (a ^ b) & f.sign
    if f.is_infinite(a) or f.is_infinite(b):
        zero = any(not f.is_infinite(x) and f.value(x) == 0 for x in (a, b))
        return (f.nan, NV) if zero else (sign | f.infinity, 0)
    return rounded(f, f.value(a) * f.value(b), mode, sign != 0)


def divide(f: Format, a: int, b: int, mode: int) -> Result:
    if (nan := _nan(f, a, b)) is not None:
        return nan
    sign = (a ^ b) & f.sign
    if f.is_infinite(a):
        return (f.nan, NV) if f.is_infinite(b) else (sign | f.infinity, 0)
    if f.is_infinite(b):
        return sign, 0
    if f.value(b) == 0:
        return (f.nan, NV) if f.value(a) == 0 else (sign | f.infinity, DZ)
    return rounded(f, f.value(a) / f.value(b), mode, sign != 0)


def fused(f: Format, a: int, b: int, c: int, mode: int) -> Result:
    """a · b + c."""
    pairs = ((a, b), (b, a))
    undefined = any(f.is_infinite(x) and y & f.sign - 1 == 0 for x, y in pairs)
    if undefined:
        return f.nan, NV
    if (nan := _nan(f, a, b, c)) is not None:
        return nan
    sign = (a ^ b) & f.sign
    if f.is_infinite(a) or f.is_infinite(b):
        return (f.nan, NV) if f.is_infinite(c) and (c & f.sign) != sign else (sign | f.infinity, 0)
    if f.is_infinite(c):
        return c, 0
    product, other = f.value(a) * f.value(b), f.value(c)
    same = (sign != 0) == f.negative(c)
    negative = sign != 0 if same else mode == DOWN
    if product + other == 0 and (product != 0 or not same):
        negative = mode == DOWN
    return rounded(f, product + other, mode, negative)


def root(f: Format, a: int, mode: int) -> Result:
    if (nan := _nan(f, a)) is not None:
        return nan
    if a & f.sign - 1 == 0:
        return a, 0
    if f.negative(a):
        return f.nan, NV
    if f.is_infinite(a):
        return a, 0
    value, shift = f.value(a), 2 * (f.fraction + 4) + 2 * f.bias
    scaled = value * Fraction(4) ** shift
    number = scaled.numerator // scaled.denominator
    found = isqrt(number)
    exact = found * found == number and scaled.denominator == 1
    # between two neighbours that no rounding tells apart
    return rounded(f, (Fraction(found) if exact else found + Fraction(1, 3)) / Fraction(2) ** shift, mode)


def convert(source: Format, to: Format, a: int, mode: int) -> Result:
    if source.is_nan(a):
        return to.nan, NV if source.signals(a) else 0
    if source.is_infinite(a):
        return (to.sign if source.negative(a) else 0) | to.infinity, 0
    return rounded(to, source.value(a), mode, source.negative(a))


def to_integer(f: Format, a: int, bits: int, signed: bool, mode: int) -> Result:
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    ones = (1 << bits) - 1
    if f.is_nan(a):
        return high, NV
    if f.is_infinite(a):
        return (low if f.negative(a) else high) & ones, NV
    value = f.value(a)
    number = whole_number(value, mode)
    if not low <= number <= high:
        return (low if number < low else high) & ones, NV
    return number & ones, 0 if number == value else NX


def order(f: Format, a: int) -> Fraction:
    """Where a number that is no NaN stands among the others."""
    return (Fraction(-1) if f.negative(a) else Fraction(1)) * Fraction(2) ** 2000 if f.is_infinite(a) else f.value(a)


def smaller(f: Format, a: int, b: int, largest: bool = False) -> Result:
    flags = NV if f.signals(a) or f.signals(b) else 0
    if f.is_nan(a):
        return (f.nan if f.is_nan(b) else b), flags
    if f.is_nan(b):
        return a, flags
    x, y = (order(f, a), not f.negative(a)), (order(f, b), not f.negative(b))
    return (a if (x < y) != largest or x == y else b), flags


def compare(f: Format, a: int, b: int, relation: Callable[[Fraction, Fraction], bool], quiet: bool) -> Result:
    if f.is_nan(a) or f.is_nan(b):
        signal = not quiet or f.signals(a) or f.signals(b)
        return int(relation is _unequal), NV if signal else 0
    return int(relation(order(f, a), order(f, b))), 0


def _unequal(x: Fraction, y: Fraction) -> bool:
    return x != y


def classify(f: Format, a: int) -> int:
    if f.is_nan(a):
        return 1 << (8 if f.signals(a) else 9)
    size = a & f.sign - 1
    kind = 3 if size == f.infinity else 2 if size >> f.fraction else 1 if size else 0
    return 1 << (3 - kind if f.negative(a) else 4 + kind)
