#include <boost/test/unit_test.hpp>

#include "tilesim/base/array.hpp"
#include "tilesim/base/error.hpp"
#include "tilesim/base/shape.hpp"

using namespace tilesim;

BOOST_AUTO_TEST_SUITE(shape)

BOOST_AUTO_TEST_CASE(counts) {
  BOOST_TEST(element_count({}) == 1);
  BOOST_TEST(element_count({2, 3, 4}) == 24);
  BOOST_TEST(element_count({5, 0, 7}) == 0);
  BOOST_TEST(element_count({std::int64_t{1} << 28, std::int64_t{1} << 28}) == std::int64_t{1} << 56);
  BOOST_CHECK_THROW(element_count({std::int64_t{1} << 31, std::int64_t{1} << 32}), UserError);
  BOOST_CHECK_THROW(element_count({std::int64_t{1} << 40, std::int64_t{1} << 40}), UserError);
  BOOST_CHECK_THROW(element_count({-1}), UserError);
}

BOOST_AUTO_TEST_CASE(strides_and_text) {
  BOOST_TEST((row_major_strides({2, 3, 4}) == Shape{12, 4, 1}));
  BOOST_TEST((row_major_strides({}).empty()));
  BOOST_TEST(to_string(Shape{2, 3}) == "[2, 3]");
  BOOST_TEST(to_string(Shape{}) == "[]");
}

BOOST_AUTO_TEST_CASE(broadcasting_as_numpy) {
  BOOST_TEST((broadcast_shapes({3, 1}, {4}) == Shape{3, 4}));
  BOOST_TEST((broadcast_shapes({}, {2, 5}) == Shape{2, 5}));
  BOOST_TEST((broadcast_shapes({0}, {1}) == Shape{0}));
  BOOST_TEST((broadcast_shapes({7, 1, 5}, {6, 1}) == Shape{7, 6, 5}));
  BOOST_CHECK_THROW(broadcast_shapes({3}, {4}), UserError);
  BOOST_CHECK_THROW(broadcast_shapes({0}, {2}), UserError);
}

BOOST_AUTO_TEST_CASE(integer_helpers) {
  for (std::int64_t a = -20; a <= 20; ++a)
    for (std::int64_t b = 1; b <= 7; ++b) {
      BOOST_TEST(floor_div(a, b) * b + floor_mod(a, b) == a);
      BOOST_TEST((floor_mod(a, b) >= 0 && floor_mod(a, b) < b));
    }
  BOOST_TEST(ceil_div(std::int64_t{7}, std::int64_t{3}) == 3);
  BOOST_TEST(round_up(7, 4) == 8);
}

BOOST_AUTO_TEST_CASE(arrays_own_or_share_memory) {
  Array array(DType::f32, {2, 3});
  BOOST_TEST(array.nbytes() == 24);
  BOOST_TEST(reinterpret_cast<std::uintptr_t>(array.bytes()) % 64 == 0u);
  for (std::int64_t i = 0; i < array.size(); ++i) BOOST_TEST(array.at(i) == 0);
  array.as<float>()[4] = 2.5F;
  const Array view = array.reshaped({6});
  BOOST_TEST(view.at(4) == 2.5);
  const Array copy = array.clone();
  array.as<float>()[4] = 1;
  BOOST_TEST(view.at(4) == 1);
  BOOST_TEST(copy.at(4) == 2.5);
  BOOST_TEST(copy.to(DType::i8).int_at(4) == 2);
  BOOST_TEST(copy.to(DType::f32).bytes() == copy.bytes());
  BOOST_CHECK_THROW(array.reshaped({5}), UserError);
  BOOST_CHECK_THROW(array.at(6), InternalError);
  BOOST_CHECK_THROW(Array(DType::f64, {std::int64_t{1} << 62}), UserError);
  BOOST_TEST(Array(DType::f64, {3, 0}).size() == 0);
  BOOST_TEST(Array().clone().empty());
  BOOST_TEST(Array().to(DType::i8).empty());
  float memory[2] = {1, 2};
  BOOST_TEST(Array(DType::f32, {2}, memory, nullptr).at(1) == 2);
}

BOOST_AUTO_TEST_SUITE_END()
