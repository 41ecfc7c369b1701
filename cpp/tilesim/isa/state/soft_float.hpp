// IEEE 754 arithmetic on bits, exact in every rounding mode, with RISC-V's flags and canonical NaNs. It covers half
// precision, ties away from zero, and rounding modes other than the host's.
#pragma once

#include <cstdint>

#include "tilesim/isa/state/hart.hpp"

namespace tilesim::isa::soft {

struct Format {
  int fraction, exponent;  ///< number of bits
  constexpr int bits() const { return 1 + exponent + fraction; }
  constexpr int bias() const { return (1 << (exponent - 1)) - 1; }
  constexpr std::uint64_t sign() const { return std::uint64_t{1} << (bits() - 1); }
  constexpr std::uint64_t infinity() const { return ((std::uint64_t{1} << exponent) - 1) << fraction; }
  constexpr std::uint64_t quiet() const { return std::uint64_t{1} << (fraction - 1); }
  constexpr std::uint64_t canonical() const { return infinity() | quiet(); }  ///< the NaN that operations return
};

inline constexpr Format f16{10, 5}, bf16{7, 8}, f32{23, 8}, f64{52, 11};

constexpr bool is_nan(Format f, std::uint64_t a) {
  return (a & ~f.sign() & (f.sign() | (f.sign() - 1))) > f.infinity();
}
constexpr bool is_signalling(Format f, std::uint64_t a) { return is_nan(f, a) && (a & f.quiet()) == 0; }

/// Rounds once by `mode` (0 … 4) and adds to `flags`.
std::uint64_t add(Format f, std::uint64_t a, std::uint64_t b, Round mode, std::uint8_t& flags);
std::uint64_t subtract(Format f, std::uint64_t a, std::uint64_t b, Round mode, std::uint8_t& flags);
std::uint64_t multiply(Format f, std::uint64_t a, std::uint64_t b, Round mode, std::uint8_t& flags);
std::uint64_t divide(Format f, std::uint64_t a, std::uint64_t b, Round mode, std::uint8_t& flags);
std::uint64_t square_root(Format f, std::uint64_t a, Round mode, std::uint8_t& flags);
std::uint64_t multiply_add(Format f, std::uint64_t a, std::uint64_t b, std::uint64_t c, Round mode,
                           std::uint8_t& flags);

std::uint64_t convert(Format from, Format to, std::uint64_t a, Round mode, std::uint8_t& flags);
std::uint64_t from_signed(Format to, std::int64_t value, Round mode, std::uint8_t& flags);
std::uint64_t from_unsigned(Format to, std::uint64_t value, Round mode, std::uint8_t& flags);
/// Saturates to `bits` bits, setting only the invalid flag; NaN gives the largest. Sign-extended if `is_signed`.
std::uint64_t to_integer(Format from, std::uint64_t a, int bits, bool is_signed, Round mode, std::uint8_t& flags);

/// Comparisons: `equal` signals signaling NaNs only, the others any NaN.
bool equal(Format f, std::uint64_t a, std::uint64_t b, std::uint8_t& flags);
bool less(Format f, std::uint64_t a, std::uint64_t b, std::uint8_t& flags);
bool less_equal(Format f, std::uint64_t a, std::uint64_t b, std::uint8_t& flags);
/// minimumNumber and maximumNumber of IEEE 754-2019: −0 is less than +0; a NaN operand is ignored.
std::uint64_t smaller(Format f, std::uint64_t a, std::uint64_t b, std::uint8_t& flags);
std::uint64_t larger(Format f, std::uint64_t a, std::uint64_t b, std::uint8_t& flags);
std::uint64_t classify(Format f, std::uint64_t a);  ///< the ten bits of fclass

}  // namespace tilesim::isa::soft
