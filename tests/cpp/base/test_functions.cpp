#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>

#include "tilesim/base/error.hpp"
#include "tilesim/base/functions/integer.hpp"

using namespace tilesim;

namespace {

using F = Function;
constexpr std::int64_t lowest = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t highest = std::numeric_limits<std::int64_t>::max();

std::int64_t integer(F function, std::int64_t a, std::int64_t b = 0, std::int64_t c = 0) {
  const std::int64_t operands[] = {a, b, c};
  return evaluate(function, operands, DType::i64);
}

float real(F function, float a, float b = 0, float c = 0) {
  const float operands[] = {a, b, c};
  return evaluate(function, operands);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(functions)

BOOST_AUTO_TEST_CASE(table) {
  BOOST_TEST(function_names().size() == static_cast<std::size_t>(function_count));
  for (const std::string& name : function_names()) {
    const FunctionInfo& entry = info(parse_function(name));
    BOOST_TEST(entry.name == name);
    BOOST_TEST((entry.arity >= 1 && entry.arity <= 3));
    BOOST_TEST((entry.flops == 0) == (entry.flop_class == FlopClass::move));
  }
  BOOST_CHECK_THROW(parse_function("exq"), UserError);
}

BOOST_AUTO_TEST_CASE(integers) {
  BOOST_TEST(integer(F::divide, -7, 2) == -3);
  BOOST_TEST(integer(F::remainder, -7, 2) == -1);
  BOOST_TEST(integer(F::floor_divide, -7, 2) == -4);
  BOOST_TEST(integer(F::divide, lowest, -1) == lowest);
  BOOST_TEST(integer(F::remainder, lowest, -1) == 0);
  BOOST_TEST(integer(F::floor_divide, 7, -1) == -7);
  BOOST_CHECK_THROW(integer(F::divide, 1, 0), UserError);
  BOOST_TEST(integer(F::add, highest, 1) == lowest);
  BOOST_TEST(integer(F::negate, lowest) == lowest);
  BOOST_TEST(integer(F::power, 3, 5) == 243);
  BOOST_TEST(integer(F::power, -1, -3) == -1);
  BOOST_TEST(integer(F::power, 2, 64) == 0);
  BOOST_TEST(integer(F::shift_left, 1, 63) == lowest);
  BOOST_TEST(integer(F::shift_left, 1, 64) == 0);
  BOOST_TEST(integer(F::shift_right, -8, 1) == -4);
  BOOST_TEST(integer(F::shift_right, -8, 200) == -1);
  BOOST_TEST(integer(F::bitwise_not, 5) == -6);
  BOOST_TEST(integer(F::bitwise_xor, 6, 3) == 5);
  BOOST_TEST(integer(F::clamp, 0, -4, 10) == 0);
  BOOST_TEST(integer(F::select, 0, 1, 2) == 2);
  BOOST_TEST(integer(F::fma, 3, 4, 5) == 17);
  BOOST_CHECK_THROW(integer(F::exp, 1), UserError);
}

std::int64_t of(DType dtype, F function, std::int64_t a, std::int64_t b = 0) {
  const std::int64_t operands[] = {a, b, 0};
  return evaluate(function, operands, dtype);
}

BOOST_AUTO_TEST_CASE(integers_know_their_width) {
  for (const DType dtype : {DType::i4, DType::i8, DType::i16, DType::i32, DType::i64}) {
    BOOST_TEST(of(dtype, F::popcount, -1) == bits(dtype));
    BOOST_TEST(of(dtype, F::popcount, -2) == bits(dtype) - 1);
  }
  BOOST_TEST(of(DType::u64, F::popcount, -1) == 64);
  BOOST_TEST(of(DType::boolean, F::popcount, 1) == 1);
  BOOST_TEST(of(DType::boolean, F::bitwise_not, 1) == 0);
  BOOST_TEST(of(DType::boolean, F::add, 1, 1) == 1);
}

BOOST_AUTO_TEST_CASE(unsigned_64_bits_have_no_sign) {
  const std::int64_t all = -1;  // 2^64 - 1
  BOOST_TEST(of(DType::u64, F::divide, all, 2) == highest);
  BOOST_TEST(of(DType::u64, F::floor_divide, all, 2) == highest);
  BOOST_TEST(of(DType::u64, F::remainder, all, 10) == 5);  // ...551,615
  BOOST_TEST(of(DType::u64, F::maximum, all, 1) == all);
  BOOST_TEST(of(DType::u64, F::less, all, 1) == 0);
  BOOST_TEST(of(DType::u64, F::shift_right, all, 63) == 1);
  BOOST_TEST(of(DType::u64, F::shift_right, all, 64) == 0);
  BOOST_TEST(of(DType::u64, F::sign, all) == 1);
  BOOST_TEST(of(DType::u64, F::relu, all) == all);
  BOOST_TEST(of(DType::u64, F::power, all, all) == all);  // (-1)^odd
  BOOST_CHECK_THROW(of(DType::u64, F::divide, all, 0), UserError);
}

BOOST_AUTO_TEST_CASE(nan_is_kept) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  BOOST_TEST(std::isnan(real(F::maximum, nan, 1)));
  BOOST_TEST(std::isnan(real(F::maximum, 1, nan)));
  BOOST_TEST(std::isnan(real(F::minimum, 1, nan)));
  BOOST_TEST(std::isnan(real(F::relu, nan)));
  BOOST_TEST(std::isnan(real(F::clamp, 0, nan, 1)));
  BOOST_TEST(std::isnan(real(F::sign, nan)));
  BOOST_TEST(real(F::is_nan, nan) == 1);
  BOOST_TEST(real(F::equal, nan, nan) == 0);
}

BOOST_AUTO_TEST_CASE(safe_at_the_ends) {
  BOOST_TEST(real(F::sigmoid, -1000) == 0);
  BOOST_TEST(real(F::sigmoid, 1000) == 1);
  BOOST_TEST(real(F::softplus, 1000) == 1000);
  BOOST_TEST(real(F::softplus, -1000) == 0);
  BOOST_TEST(real(F::round_even, 2.5F) == 2);
  BOOST_TEST(real(F::round_even, 3.5F) == 4);
  BOOST_TEST(real(F::floor_divide, 1.0F, 0.1F) == 9);
  BOOST_CHECK_THROW(real(F::shift_left, 1, 1), UserError);
}

BOOST_AUTO_TEST_CASE(neutral_elements) {
  using C = Combiner;
  for (const C combiner : {C::add, C::multiply, C::maximum, C::minimum, C::logical_and, C::logical_or})
    BOOST_TEST((parse_combiner(name(combiner)) == combiner));
  BOOST_CHECK_THROW(parse_combiner("sum"), UserError);
  BOOST_TEST(identity_element(C::maximum, DType::f32) == -std::numeric_limits<double>::infinity());
  BOOST_TEST(identity_element(C::minimum, DType::i8) == 127);
  BOOST_TEST(identity_element(C::maximum, DType::u16) == 0);
  BOOST_TEST(identity_element(C::minimum, DType::u4) == 15);
  BOOST_TEST(integer_identity(C::minimum, DType::i64) == highest);
  BOOST_TEST(integer_identity(C::maximum, DType::i64) == lowest);
  BOOST_TEST(integer_identity(C::minimum, DType::u64) == -1);
  BOOST_TEST(integer_identity(C::maximum, DType::u64) == 0);
  BOOST_TEST(integer_identity(C::minimum, DType::boolean) == 1);
  BOOST_TEST(integer_identity(C::multiply, DType::i32) == 1);
}

BOOST_AUTO_TEST_SUITE_END()
