// Soft floats beside the processor's, in the modes and formats that it has; ties away by hand.
#include <bit>
#include <boost/test/unit_test.hpp>
#include <cfenv>
#include <cmath>
#include <cstdint>
#include <random>

#include "tilesim/isa/state/soft_float.hpp"

using namespace tilesim::isa;

namespace {

constexpr Round modes[] = {Round::nearest_even, Round::zero, Round::down, Round::up};
constexpr int hosts[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};

std::uint8_t host_flags() {
  std::uint8_t flags = 0;
  if (std::fetestexcept(FE_INEXACT) != 0) flags |= inexact;
  if (std::fetestexcept(FE_UNDERFLOW) != 0) flags |= underflow;
  if (std::fetestexcept(FE_OVERFLOW) != 0) flags |= overflow;
  if (std::fetestexcept(FE_DIVBYZERO) != 0) flags |= divide_by_zero;
  if (std::fetestexcept(FE_INVALID) != 0) flags |= invalid;
  return flags;
}

template <class T>
struct Of;
template <>
struct Of<float> {
  using Bits = std::uint32_t;
  static constexpr soft::Format format = soft::f32;
};
template <>
struct Of<double> {
  using Bits = std::uint64_t;
  static constexpr soft::Format format = soft::f64;
};

/// Few significant bits and near exponents, so that ties, cancellation and the ends of the range appear.
template <class T>
T drawn(std::mt19937_64& random) {
  using Bits = typename Of<T>::Bits;
  constexpr soft::Format f = Of<T>::format;
  const std::uint64_t raw = random();
  const auto sign = static_cast<Bits>((raw & 1) << (f.bits() - 1));
  const auto fraction =
      static_cast<Bits>((random() & ((std::uint64_t{1} << f.fraction) - 1)) >> f.fraction / 2 << f.fraction / 2);
  Bits exponent = 0;
  switch (raw >> 1 & 7) {
    case 0:
      exponent = static_cast<Bits>(raw >> 8 & 3);
      break;  // subnormal and near it
    case 1:
      exponent = static_cast<Bits>((1 << f.exponent) - 1 - (raw >> 8 & 3));
      break;  // infinite, NaN, large
    case 2:
      exponent = static_cast<Bits>(raw >> 8 & ((1 << f.exponent) - 1));
      break;
    default:
      exponent = static_cast<Bits>(f.bias() - 8 + static_cast<int>(raw >> 8 & 15));
  }
  const Bits kept = (raw >> 20 & 3) == 0 ? 0 : fraction;
  return std::bit_cast<T>(static_cast<Bits>(sign | exponent << f.fraction | kept));
}

/// Fails unless both results and flags agree; NaNs of the processor carry payloads.
template <class T, class Host, class Soft>
void compare(const char* name, Round mode, int host, const Host& on_host, const Soft& by_hand) {
  std::fesetround(host);
  std::feclearexcept(FE_ALL_EXCEPT);
  volatile T result = on_host();
  const std::uint8_t raised = host_flags();
  std::fesetround(FE_TONEAREST);
  const T value = result;
  std::uint8_t flags = 0;
  const std::uint64_t soft = by_hand(mode, flags);
  using Bits = typename Of<T>::Bits;
  const std::uint64_t wanted = value != value ? Of<T>::format.canonical() : std::bit_cast<Bits>(value);
  BOOST_REQUIRE_MESSAGE(soft == wanted && flags == raised, name << " " << std::hex << soft << " " << wanted << " flags "
                                                                << int{flags} << " " << int{raised});
}

template <class T>
void arithmetic(int count) {
  std::mt19937_64 random(5);
  constexpr soft::Format f = Of<T>::format;
  using Bits = typename Of<T>::Bits;
  for (int i = 0; i < count; ++i) {
    volatile T a = drawn<T>(random), b = drawn<T>(random), c = drawn<T>(random);
    const std::uint64_t x = std::bit_cast<Bits>(T{a}), y = std::bit_cast<Bits>(T{b}), z = std::bit_cast<Bits>(T{c});
    for (int m = 0; m < 4; ++m) {
      const Round mode = modes[m];
      compare<T>(
          "add", mode, hosts[m], [&] { return a + b; }, [&](Round r, auto& g) { return soft::add(f, x, y, r, g); });
      compare<T>(
          "sub", mode, hosts[m], [&] { return a - b; },
          [&](Round r, auto& g) { return soft::subtract(f, x, y, r, g); });
      compare<T>(
          "mul", mode, hosts[m], [&] { return a * b; },
          [&](Round r, auto& g) { return soft::multiply(f, x, y, r, g); });
      compare<T>(
          "div", mode, hosts[m], [&] { return a / b; }, [&](Round r, auto& g) { return soft::divide(f, x, y, r, g); });
      compare<T>(
          "sqrt", mode, hosts[m], [&] { return std::sqrt(T{a}); },
          [&](Round r, auto& g) { return soft::square_root(f, x, r, g); });
      // processors differ on infinity · 0 + NaN
      if (!soft::is_nan(f, z))
        compare<T>(
            "fma", mode, hosts[m], [&] { return std::fma(T{a}, T{b}, T{c}); },
            [&](Round r, auto& g) { return soft::multiply_add(f, x, y, z, r, g); });
    }
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(soft_float)

BOOST_AUTO_TEST_CASE(singles_equal_the_processor) { arithmetic<float>(20000); }
BOOST_AUTO_TEST_CASE(doubles_equal_the_processor) { arithmetic<double>(20000); }

BOOST_AUTO_TEST_CASE(conversions_equal_the_processor) {
  std::mt19937_64 random(6);
  for (int i = 0; i < 50000; ++i) {
    volatile double a = drawn<double>(random);
    volatile float b = drawn<float>(random);
    volatile std::int64_t n = static_cast<std::int64_t>(random() >> random() % 64);
    for (int m = 0; m < 4; ++m) {
      compare<float>(
          "narrow", modes[m], hosts[m], [&] { return static_cast<float>(a); },
          [&](Round r, auto& g) {
            return soft::convert(soft::f64, soft::f32, std::bit_cast<std::uint64_t>(double{a}), r, g);
          });
      compare<float>(
          "integer", modes[m], hosts[m], [&] { return static_cast<float>(n); },
          [&](Round r, auto& g) { return soft::from_signed(soft::f32, n, r, g); });
    }
    compare<double>(
        "widen", modes[0], hosts[0], [&] { return static_cast<double>(b); },
        [&](Round r, auto& g) {
          return soft::convert(soft::f32, soft::f64, std::bit_cast<std::uint32_t>(float{b}), r, g);
        });
  }
}

BOOST_AUTO_TEST_CASE(ties_go_away_from_zero) {
  std::uint8_t flags = 0;
  const auto bits = [](float v) { return std::uint64_t{std::bit_cast<std::uint32_t>(v)}; };
  const auto half = [&](float v) { return soft::to_integer(soft::f32, bits(v), 32, true, Round::nearest_away, flags); };
  BOOST_TEST(half(2.5F) == 3U);
  BOOST_TEST(half(-2.5F) == static_cast<std::uint64_t>(-3));
  BOOST_TEST(half(2.25F) == 2U);
  BOOST_TEST(int{flags} == int{inexact});
  // 1 + 2^-24 lies between 1 and its neighbour
  const std::uint64_t one = bits(1.0F), tiny = bits(std::ldexp(1.0F, -24));
  BOOST_TEST(soft::add(soft::f32, one, tiny, Round::nearest_away, flags) == one + 1);
  BOOST_TEST(soft::add(soft::f32, one, tiny, Round::nearest_even, flags) == one);
}

BOOST_AUTO_TEST_CASE(integers_saturate) {
  const auto bits = [](double v) { return std::bit_cast<std::uint64_t>(v); };
  const auto to = [&](double v, int width, bool with_sign, std::uint8_t wanted) {
    std::uint8_t flags = 0;
    const std::uint64_t value = soft::to_integer(soft::f64, bits(v), width, with_sign, Round::zero, flags);
    BOOST_TEST(int{flags} == int{wanted});
    return value;
  };
  BOOST_TEST(to(-1.0, 32, false, invalid) == 0U);
  BOOST_TEST(to(-0.5, 32, false, inexact) == 0U);
  BOOST_TEST(to(4294967295.0, 32, false, 0) == 4294967295U);
  BOOST_TEST(to(4294967296.0, 32, false, invalid) == 4294967295U);
  BOOST_TEST(to(-2147483649.0, 32, true, invalid) == 0xFFFFFFFF80000000U);
  BOOST_TEST(to(std::nan(""), 64, true, invalid) == 0x7FFFFFFFFFFFFFFFU);
  BOOST_TEST(to(9.3e18, 64, true, invalid) == 0x7FFFFFFFFFFFFFFFU);
  BOOST_TEST(to(1.5e19, 64, false, 0) == 15000000000000000000U);
  BOOST_TEST(to(-INFINITY, 64, true, invalid) == 0x8000000000000000U);
}

BOOST_AUTO_TEST_SUITE_END()
