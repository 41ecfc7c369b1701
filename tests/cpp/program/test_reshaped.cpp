// Boxes through the shapes of aliases, against the elements one by one.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <numeric>
#include <random>
#include <set>

#include "tilesim/program/reshaped.hpp"

using namespace tilesim;
using namespace tilesim::program;

namespace {

std::set<std::int64_t> elements(const Box& box, const Shape& shape) {
  std::set<std::int64_t> found;
  for (std::int64_t element = 0; element < element_count(shape); ++element) {
    std::int64_t rest = element;
    bool inside = true;
    for (std::size_t axis = shape.size(); axis-- > 0; rest /= shape[axis])
      inside = inside && rest % shape[axis] >= box.low[axis] && rest % shape[axis] <= box.high[axis];
    if (inside) found.insert(element);
  }
  return found;
}

/// A product in a random order of factors, with axes of one in between.
Shape cut(std::int64_t count, std::mt19937& random) {
  Shape shape;
  for (std::int64_t rest = count; rest > 1 || random() % 3 == 0;) {
    std::vector<std::int64_t> factors;
    for (std::int64_t factor = 1; factor <= rest; ++factor)
      if (rest % factor == 0) factors.push_back(factor);
    shape.push_back(factors[random() % factors.size()]);
    rest /= shape.back();
  }
  return shape;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(reshaped_boxes)

BOOST_AUTO_TEST_CASE(heads_are_columns) {
  const Reshaped heads = reshaped({{128, 192, 0}, {255, 383, 0}}, {512, 768, 1}, {1, 512, 12, 64});
  BOOST_TEST(heads.exact);
  BOOST_TEST(heads.box.low == (Shape{0, 128, 3, 0}), boost::test_tools::per_element());
  BOOST_TEST(heads.box.high == (Shape{0, 255, 5, 63}), boost::test_tools::per_element());
  BOOST_TEST(reshaped({{0, 0}, {511, 31}}, {512, 768}, {512, 6, 128}).exact);
  BOOST_TEST(!reshaped({{0, 32}, {511, 159}}, {512, 768}, {512, 12, 64}).exact);
}

BOOST_AUTO_TEST_CASE(every_element_is_inside) {
  std::mt19937 random(7);
  int exact = 0, others = 0;
  for (int round = 0; round < 3000; ++round) {
    const std::int64_t count = std::vector<std::int64_t>{1, 12, 24, 36, 60, 96}[random() % 6];
    const Shape from = cut(count, random), to = cut(count, random);
    Box box;
    for (const std::int64_t extent : from) {
      const auto a = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(extent));
      const auto b =
          random() % 2 ? extent - 1 : static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(extent));
      box.low.push_back(random() % 2 ? 0 : std::min(a, b));
      box.high.push_back(std::max(a, b));
    }
    const Reshaped there = reshaped(box, from, to);
    const std::set<std::int64_t> wanted = elements(box, from), got = elements(there.box, to);
    BOOST_TEST(std::includes(got.begin(), got.end(), wanted.begin(), wanted.end()));
    if (there.exact) BOOST_TEST((got == wanted));
    ++(there.exact ? exact : others);
  }
  BOOST_TEST(exact > 500);
  BOOST_TEST(others > 500);
}

BOOST_AUTO_TEST_SUITE_END()
