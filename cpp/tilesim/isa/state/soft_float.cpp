#include "tilesim/isa/state/soft_float.hpp"

#include <algorithm>
#include <bit>

namespace tilesim::isa::soft {

namespace {

using u64 = std::uint64_t;
__extension__ using u128 = unsigned __int128;

/// sign · significand · 2^exponent; the highest bit of a finite nonzero significand is bit 63.
struct Number {
  enum Kind { zero, finite, infinite, nan } kind = zero;
  bool negative = false;
  int exponent = 0;
  u64 significand = 0;
};

Number unpack(Format f, u64 a) {
  Number n;
  n.negative = (a & f.sign()) != 0;
  const u64 fraction = a & ((u64{1} << f.fraction) - 1);
  const int field = static_cast<int>(a >> f.fraction & ((u64{1} << f.exponent) - 1));
  if (field == (1 << f.exponent) - 1) {
    n.kind = fraction != 0 ? Number::nan : Number::infinite;
    return n;
  }
  n.significand = field != 0 ? fraction | u64{1} << f.fraction : fraction;
  if (n.significand == 0) return n;
  n.kind = Number::finite;
  const int shift = std::countl_zero(n.significand);
  n.significand <<= shift;
  n.exponent = std::max(field, 1) - f.bias() - f.fraction - shift;
  return n;
}

u64 zero(Format f, bool negative) { return negative ? f.sign() : 0; }
u64 infinity(Format f, bool negative) { return zero(f, negative) | f.infinity(); }

u64 invalid_result(Format f, std::uint8_t& flags) {
  flags |= invalid;
  return f.canonical();
}

/// The canonical NaN; sets the invalid flag if an operand is a signaling NaN.
u64 nan_of(Format f, std::uint8_t& flags, u64 a, u64 b, u64 c = 0) {
  if (is_signalling(f, a) || is_signalling(f, b) || is_signalling(f, c)) flags |= invalid;
  return f.canonical();
}

int highest(u128 value) {
  const u64 top = static_cast<u64>(value >> 64);
  return top != 0 ? 127 - std::countl_zero(top) : 63 - std::countl_zero(static_cast<u64>(value));
}

/// Whether to round a magnitude up: `last` is the lowest kept bit, `rest_to_half` compares dropped bits with half.
bool rounds_up(Round mode, bool negative, bool last, int rest_to_half, bool exact) {
  if (exact) return false;
  switch (mode) {
    case Round::nearest_even:
      return rest_to_half > 0 || (rest_to_half == 0 && last);
    case Round::nearest_away:
      return rest_to_half >= 0;
    case Round::down:
      return negative;
    case Round::up:
      return !negative;
    default:
      return false;
  }
}

struct Rounded {
  u128 value;
  bool inexact;
};

/// Drops the lowest `drop` bits of `value`, with rounding; `sticky`: nonzero bits follow below the value.
Rounded drop_bits(u128 value, bool sticky, int drop, Round mode, bool negative) {
  if (drop <= 0) {
    const bool up = rounds_up(mode, negative, (value << -drop & 1) != 0, -1, !sticky);
    return {(value << -drop) + (up ? 1 : 0), sticky};
  }
  const u128 kept = drop > 127 ? 0 : value >> drop;
  const u128 rest = drop > 127 ? value : value & ((u128{1} << drop) - 1);
  const u128 half = drop > 128 ? 0 : u128{1} << (drop - 1);  // products may drop 128 bits
  const int order = drop > 128 || rest < half ? -1 : rest > half || sticky ? 1 : 0;
  const bool exact = rest == 0 && !sticky;
  return {kept + (rounds_up(mode, negative, (kept & 1) != 0, order, exact) ? 1 : 0), !exact};
}

/// value · 2^exponent, rounded once. `sticky`: nonzero bits follow; the value then has more bits than the format.
u64 pack(Format f, bool negative, int exponent, u128 value, bool sticky, Round mode, std::uint8_t& flags) {
  if (value == 0) return zero(f, negative);
  const int lead = exponent + highest(value), lowest = 1 - f.bias();
  const int last = std::max(lead, lowest) - f.fraction;
  Rounded r = drop_bits(value, sticky, last - exponent, mode, negative);
  if (r.inexact) flags |= inexact;
  if (lead < lowest && r.inexact) {
    // tiny: below the normal range after rounding with unbounded exponent
    const Rounded free = drop_bits(value, sticky, lead - f.fraction - exponent, mode, negative);
    if (lead < lowest - 1 || free.value >> (f.fraction + 1) == 0) flags |= underflow;
  }
  int place = last + f.fraction;
  if (r.value >> (f.fraction + 1) != 0) r.value >>= 1, ++place;
  if (r.value >> f.fraction == 0) return zero(f, negative) | static_cast<u64>(r.value);
  if (place > f.bias()) {
    flags |= overflow | inexact;
    const bool to_infinity =
        mode == Round::nearest_even || mode == Round::nearest_away || mode == (negative ? Round::down : Round::up);
    return to_infinity ? infinity(f, negative) : infinity(f, negative) - 1;
  }
  const u64 fraction = static_cast<u64>(r.value) & ((u64{1} << f.fraction) - 1);
  return zero(f, negative) | static_cast<u64>(place + f.bias()) << f.fraction | fraction;
}

/// A finite number in the width that sums need: the highest bit is bit 124.
struct Wide {
  bool negative;
  int exponent;
  u128 value;
};

u64 sum(Format f, Wide a, Wide b, Round mode, std::uint8_t& flags) {
  if (a.exponent < b.exponent || (a.exponent == b.exponent && a.value < b.value)) std::swap(a, b);
  const int apart = a.exponent - b.exponent;
  const u128 small = apart > 127 ? 0 : b.value >> apart;
  const bool sticky = apart > 127 ? true : small << apart != b.value;
  if (a.negative == b.negative) return pack(f, a.negative, a.exponent, a.value + small, sticky, mode, flags);
  const u128 difference = a.value - small - (sticky ? 1 : 0);
  if (difference == 0 && !sticky) return zero(f, mode == Round::down);
  return pack(f, a.negative, a.exponent, difference, sticky, mode, flags);
}

Wide widened(const Number& n) { return {n.negative, n.exponent - 61, u128{n.significand} << 61}; }

Wide product(const Number& a, const Number& b) {
  const u128 value = u128{a.significand} * b.significand;
  const int shift = 124 - highest(value);  // −3 … −1: the lowest bits of both factors are 0, so the product stays exact
  return {a.negative != b.negative, a.exponent + b.exponent - shift, value >> -shift};
}

int order(Format f, u64 a, u64 b) {  // neither is NaN
  const Number x = unpack(f, a), y = unpack(f, b);
  if (x.kind == Number::zero && y.kind == Number::zero) return 0;
  const auto key = [&](u64 v) {
    const auto magnitude = static_cast<std::int64_t>(v & (f.sign() - 1));
    return (v & f.sign()) != 0 ? -magnitude : magnitude;
  };
  return key(a) < key(b) ? -1 : key(a) > key(b) ? 1 : 0;
}

u64 choose(Format f, u64 a, u64 b, bool largest, std::uint8_t& flags) {
  if (is_signalling(f, a) || is_signalling(f, b)) flags |= invalid;
  if (is_nan(f, a)) return is_nan(f, b) ? f.canonical() : b;
  if (is_nan(f, b)) return a;
  const int by = order(f, a, b);
  if (by == 0) return largest ? a & b : a | b;  // zeros of different sign
  return (by < 0) == largest ? b : a;
}

}  // namespace

u64 add(Format f, u64 a, u64 b, Round mode, std::uint8_t& flags) {
  const Number x = unpack(f, a), y = unpack(f, b);
  if (x.kind == Number::nan || y.kind == Number::nan) return nan_of(f, flags, a, b);
  if (x.kind == Number::infinite)
    return y.kind == Number::infinite && x.negative != y.negative ? invalid_result(f, flags) : a;
  if (y.kind == Number::infinite) return b;
  if (x.kind == Number::zero && y.kind == Number::zero)
    return zero(f, x.negative == y.negative ? x.negative : mode == Round::down);
  if (x.kind == Number::zero) return b;
  if (y.kind == Number::zero) return a;
  return sum(f, widened(x), widened(y), mode, flags);
}

u64 subtract(Format f, u64 a, u64 b, Round mode, std::uint8_t& flags) { return add(f, a, b ^ f.sign(), mode, flags); }

u64 multiply(Format f, u64 a, u64 b, Round mode, std::uint8_t& flags) {
  const Number x = unpack(f, a), y = unpack(f, b);
  const bool negative = x.negative != y.negative;
  if (x.kind == Number::nan || y.kind == Number::nan) return nan_of(f, flags, a, b);
  if (x.kind == Number::infinite || y.kind == Number::infinite)
    return x.kind == Number::zero || y.kind == Number::zero ? invalid_result(f, flags) : infinity(f, negative);
  if (x.kind == Number::zero || y.kind == Number::zero) return zero(f, negative);
  return pack(f, negative, x.exponent + y.exponent, u128{x.significand} * y.significand, false, mode, flags);
}

u64 divide(Format f, u64 a, u64 b, Round mode, std::uint8_t& flags) {
  const Number x = unpack(f, a), y = unpack(f, b);
  const bool negative = x.negative != y.negative;
  if (x.kind == Number::nan || y.kind == Number::nan) return nan_of(f, flags, a, b);
  if (x.kind == Number::infinite) return y.kind == Number::infinite ? invalid_result(f, flags) : infinity(f, negative);
  if (y.kind == Number::infinite) return zero(f, negative);
  if (y.kind == Number::zero) {
    if (x.kind == Number::zero) return invalid_result(f, flags);
    flags |= divide_by_zero;
    return infinity(f, negative);
  }
  if (x.kind == Number::zero) return zero(f, negative);
  const u128 dividend = u128{x.significand} << 64, quotient = dividend / y.significand;
  return pack(f, negative, x.exponent - y.exponent - 64, quotient, quotient * y.significand != dividend, mode, flags);
}

u64 square_root(Format f, u64 a, Round mode, std::uint8_t& flags) {
  const Number x = unpack(f, a);
  if (x.kind == Number::nan) return nan_of(f, flags, a, a);
  if (x.kind == Number::zero) return a;
  if (x.negative) return invalid_result(f, flags);
  if (x.kind == Number::infinite) return a;
  const int odd = x.exponent & 1;
  u128 rest = u128{x.significand} << (62 + odd), root = 0;  // with the even exponent x.exponent − odd − 62
  for (int bit = 63; bit >= 0; --bit) {
    const u128 trial = (root << 1 | u128{1} << bit) << bit;
    if (trial <= rest) rest -= trial, root |= u128{1} << bit;
  }
  return pack(f, false, (x.exponent - odd - 62) / 2, root, rest != 0, mode, flags);
}

u64 multiply_add(Format f, u64 a, u64 b, u64 c, Round mode, std::uint8_t& flags) {
  const Number x = unpack(f, a), y = unpack(f, b), z = unpack(f, c);
  const bool negative = x.negative != y.negative;
  const bool undefined =
      (x.kind == Number::infinite && y.kind == Number::zero) || (x.kind == Number::zero && y.kind == Number::infinite);
  if (undefined) return invalid_result(f, flags);  // also if c is a quiet NaN
  if (x.kind == Number::nan || y.kind == Number::nan || z.kind == Number::nan) return nan_of(f, flags, a, b, c);
  if (x.kind == Number::infinite || y.kind == Number::infinite)
    return z.kind == Number::infinite && z.negative != negative ? invalid_result(f, flags) : infinity(f, negative);
  if (z.kind == Number::infinite) return c;
  if (x.kind == Number::zero || y.kind == Number::zero) {
    if (z.kind != Number::zero) return c;
    return zero(f, z.negative == negative ? negative : mode == Round::down);
  }
  if (z.kind == Number::zero)
    return pack(f, negative, x.exponent + y.exponent, u128{x.significand} * y.significand, false, mode, flags);
  return sum(f, product(x, y), widened(z), mode, flags);
}

u64 convert(Format from, Format to, u64 a, Round mode, std::uint8_t& flags) {
  const Number x = unpack(from, a);
  if (x.kind == Number::nan) {
    if (is_signalling(from, a)) flags |= invalid;
    return to.canonical();
  }
  if (x.kind == Number::infinite) return infinity(to, x.negative);
  return pack(to, x.negative, x.exponent, x.significand, false, mode, flags);
}

u64 from_unsigned(Format to, u64 value, Round mode, std::uint8_t& flags) {
  return pack(to, false, 0, value, false, mode, flags);
}

u64 from_signed(Format to, std::int64_t value, Round mode, std::uint8_t& flags) {
  return pack(to, value < 0, 0, value < 0 ? u64{0} - static_cast<u64>(value) : static_cast<u64>(value), false, mode,
              flags);
}

u64 to_integer(Format from, u64 a, int bits, bool is_signed, Round mode, std::uint8_t& flags) {
  const Number x = unpack(from, a);
  const u64 largest = (bits == 64 ? ~u64{0} : (u64{1} << bits) - 1) >> (is_signed ? 1 : 0);
  const u64 lowest = is_signed ? ~largest : 0;  // sign-extended
  const auto saturated = [&](bool negative) {
    flags |= invalid;
    return negative ? lowest : largest;
  };
  if (x.kind == Number::nan) return saturated(false);
  if (x.kind == Number::infinite) return saturated(x.negative);
  if (x.kind == Number::zero) return 0;
  if (x.exponent > 0) return saturated(x.negative);  // 2^64 or larger
  const Rounded r = drop_bits(x.significand, false, -x.exponent, mode, x.negative);
  const u128 limit = x.negative ? (is_signed ? u128{largest} + 1 : 0) : u128{largest};
  if (r.value > limit) return saturated(x.negative);
  if (r.inexact) flags |= inexact;
  const u64 magnitude = static_cast<u64>(r.value);
  return x.negative ? u64{0} - magnitude : magnitude;
}

bool equal(Format f, u64 a, u64 b, std::uint8_t& flags) {
  if (is_signalling(f, a) || is_signalling(f, b)) flags |= invalid;
  return !is_nan(f, a) && !is_nan(f, b) && order(f, a, b) == 0;
}

bool less(Format f, u64 a, u64 b, std::uint8_t& flags) {
  if (!is_nan(f, a) && !is_nan(f, b)) return order(f, a, b) < 0;
  flags |= invalid;
  return false;
}

bool less_equal(Format f, u64 a, u64 b, std::uint8_t& flags) {
  if (!is_nan(f, a) && !is_nan(f, b)) return order(f, a, b) <= 0;
  flags |= invalid;
  return false;
}

u64 smaller(Format f, u64 a, u64 b, std::uint8_t& flags) { return choose(f, a, b, false, flags); }
u64 larger(Format f, u64 a, u64 b, std::uint8_t& flags) { return choose(f, a, b, true, flags); }

u64 classify(Format f, u64 a) {
  if (is_nan(f, a)) return u64{1} << (is_signalling(f, a) ? 8 : 9);
  const Number x = unpack(f, a);
  if (x.kind == Number::infinite) return x.negative ? 1 : u64{1} << 7;
  if (x.kind == Number::zero) return u64{1} << (x.negative ? 3 : 4);
  const bool subnormal = (a & f.infinity()) == 0;
  if (subnormal) return u64{1} << (x.negative ? 2 : 5);
  return u64{1} << (x.negative ? 1 : 6);
}

}  // namespace tilesim::isa::soft
