// contract: order of axes, accumulators, numerics.
#include <boost/test/unit_test.hpp>
#include <cstdint>

#include "kernels/graphs.hpp"

using namespace tilesim;
using test::floats;
using Integers = std::vector<std::int64_t>;

namespace {

Array matmul(const Array& a, const Array& b, DType dtype, const Numerics& numerics = {}) {
  return test::run(Kind::contract, {a, b},
                   {{"a_batch", Integers{}},
                    {"b_batch", Integers{}},
                    {"a_contract", Integers{1}},
                    {"b_contract", Integers{0}},
                    {"dtype", dtype}},
                   numerics);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(products)

BOOST_AUTO_TEST_CASE(axes_in_any_order) {
  // a[k, b, m] and b[n, k, b] -> [b, m, n]
  const Array a = test::small_integers({5, 2, 3}, 1), b = test::small_integers({4, 5, 2}, 2);
  const Array y = test::run(Kind::contract, {a, b},
                            {{"a_batch", Integers{1}},
                             {"b_batch", Integers{2}},
                             {"a_contract", Integers{0}},
                             {"b_contract", Integers{1}},
                             {"dtype", DType::f32}});
  BOOST_TEST_REQUIRE((y.shape() == Shape{2, 3, 4}));
  for (std::int64_t i = 0; i < y.size(); ++i) {
    const std::int64_t n = i % 4, m = i / 4 % 3, batch = i / 12;
    double sum = 0;
    for (std::int64_t k = 0; k < 5; ++k) sum += a.at((k * 2 + batch) * 3 + m) * b.at((n * 5 + k) * 2 + batch);
    BOOST_TEST(y.at(i) == sum);
  }
}

BOOST_AUTO_TEST_CASE(integers_accumulate_wide_and_wrap) {
  const Array a = floats({1, 3}, {127, 127, 127}, DType::i8), b = floats({3, 1}, {127, 127, 127}, DType::i8);
  BOOST_TEST(matmul(a, b, DType::i32).int_at(0) == 3 * 127 * 127);
  const Array c = floats({1, 2}, {2147483647, 2147483647}, DType::i32), d = floats({2, 1}, {1, 1}, DType::i32);
  BOOST_TEST(matmul(c, d, DType::i64).int_at(0) == 4294967294);
  BOOST_TEST(matmul(c, d, DType::i32).int_at(0) == -2);
}

BOOST_AUTO_TEST_CASE(numerics_round_the_operands) {
  const double above = 1 + 0x1p-9;  // rounds to 1 in bf16
  const Array a = floats({1, 1}, {above}), b = floats({1, 1}, {1});
  Numerics bf16;
  bf16.multiply = DType::bf16;
  Numerics tf32;
  tf32.multiply_tf32 = true;
  BOOST_TEST(matmul(a, b, DType::f32).at(0) == above);
  BOOST_TEST(matmul(a, b, DType::f32, bf16).at(0) == 1);
  BOOST_TEST(matmul(a, b, DType::f32, tf32).at(0) == above);
  const Array fine = floats({1, 1}, {1 + 0x1p-12});
  BOOST_TEST(matmul(fine, b, DType::f32, tf32).at(0) == 1);
}

BOOST_AUTO_TEST_CASE(narrow_floats_accumulate_in_f32) {
  const Array ones(floats({1, 1024}, std::vector<double>(1024, 1), DType::bf16));
  const Array column = floats({1024, 1}, std::vector<double>(1024, 1), DType::bf16);
  BOOST_TEST(matmul(ones, column, DType::bf16).at(0) == 1024);
}

BOOST_AUTO_TEST_CASE(nothing_to_sum_is_zero) {
  const Array y = matmul(Array(DType::f32, {2, 0}), Array(DType::f32, {0, 3}), DType::f32);
  BOOST_TEST((y.shape() == Shape{2, 3}));
  BOOST_TEST(test::values(y) == std::vector<double>(6, 0), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(rows_meet_the_matrix_of_their_group) {
  const Array a = test::small_integers({5, 3}, 1), b = test::small_integers({3, 3, 2}, 2);
  const Array sizes = floats({3}, {2, 0, 2}, DType::i32);
  const Array y = test::run(Kind::ragged_contract, {a, b, sizes}, {});
  BOOST_TEST_REQUIRE((y.shape() == Shape{5, 2}));
  const std::int64_t groups[] = {0, 0, 2, 2};
  for (std::int64_t row = 0; row < 5; ++row)
    for (std::int64_t n = 0; n < 2; ++n) {
      double sum = 0;
      for (std::int64_t k = 0; row < 4 && k < 3; ++k) sum += a.at(row * 3 + k) * b.at((groups[row] * 3 + k) * 2 + n);
      BOOST_TEST(y.at(row * 2 + n) == sum);
    }
  const Array turned = test::run(Kind::transpose, {b}, {{"permutation", Integers{0, 2, 1}}});
  const Array z = test::run(Kind::ragged_contract, {a, turned, sizes}, {{"b_transposed", true}});
  for (std::int64_t i = 0; i < y.size(); ++i) BOOST_TEST(z.at(i) == y.at(i));
}

BOOST_AUTO_TEST_CASE(groups_that_do_not_fit_are_refused) {
  const Array a = floats({2, 1}, {1, 2}), b = floats({2, 1, 1}, {3, 4});
  BOOST_CHECK_THROW(test::run(Kind::ragged_contract, {a, b, floats({2}, {1, 2}, DType::i32)}, {}), UserError);
  BOOST_CHECK_THROW(test::run(Kind::ragged_contract, {a, b, floats({2}, {-1, 1}, DType::i32)}, {}), UserError);
  BOOST_CHECK_THROW(test::run(Kind::ragged_contract, {a, b, floats({3}, {1, 1, 0}, DType::i32)}, {}), UserError);
}

BOOST_AUTO_TEST_SUITE_END()
