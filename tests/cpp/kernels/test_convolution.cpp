// Convolution against the sum written out, over every attribute; operands are small integers, so results are exact.
#include <boost/test/unit_test.hpp>

#include "kernels/graphs.hpp"

using namespace tilesim;
using test::floats;
using Integers = std::vector<std::int64_t>;

namespace {

struct Convolution {
  const char* name;
  Shape x, w;
  Integers strides{1, 1}, pads{0, 0, 0, 0}, window_dilation{1, 1}, input_dilation{1, 1};
  std::int64_t groups = 1, batch_groups = 1;
};

/// NCHW by definition, one output element.
double element(const Convolution& c, const Array& x, const Array& w, std::int64_t n, std::int64_t o, std::int64_t i,
               std::int64_t j, std::int64_t result_batch) {
  const std::int64_t depth = c.w[1], batch_group = o / (c.w[0] / c.batch_groups), group = o / (c.w[0] / c.groups);
  const std::int64_t image = c.batch_groups > 1 ? batch_group * result_batch + n : n;
  double sum = 0;
  for (std::int64_t d = 0; d < depth; ++d) {
    const std::int64_t channel = c.groups > 1 ? group * depth + d : d;
    for (std::int64_t a = 0; a < c.w[2]; ++a) {
      for (std::int64_t b = 0; b < c.w[3]; ++b) {
        const std::int64_t row = i * c.strides[0] + a * c.window_dilation[0] - c.pads[0];
        const std::int64_t column = j * c.strides[1] + b * c.window_dilation[1] - c.pads[2];
        if (row < 0 || column < 0 || row % c.input_dilation[0] != 0 || column % c.input_dilation[1] != 0) continue;
        const std::int64_t r = row / c.input_dilation[0], s = column / c.input_dilation[1];
        if (r >= c.x[2] || s >= c.x[3]) continue;
        sum += x.at(((image * c.x[1] + channel) * c.x[2] + r) * c.x[3] + s) *
               w.at(((o * depth + d) * c.w[2] + a) * c.w[3] + b);
      }
    }
  }
  return sum;
}

void compare(const Convolution& c, DType dtype, DType result) {
  BOOST_TEST_CONTEXT(c.name << " in " << name(dtype)) {
    const Array x = test::small_integers(c.x, 1, dtype), w = test::small_integers(c.w, 2, dtype);
    const Array y = test::run(Kind::convolution, {x, w},
                              {{"x_labels", std::string("NCHW")},
                               {"w_labels", std::string("OIHW")},
                               {"y_labels", std::string("NCHW")},
                               {"strides", c.strides},
                               {"pads", c.pads},
                               {"window_dilation", c.window_dilation},
                               {"input_dilation", c.input_dilation},
                               {"groups", c.groups},
                               {"batch_groups", c.batch_groups},
                               {"dtype", result}});
    const Shape& shape = y.shape();
    BOOST_TEST_REQUIRE(shape[0] == c.x[0] / c.batch_groups);
    BOOST_TEST_REQUIRE(y.size() > 0);
    for (std::int64_t i = 0; i < y.size(); ++i) {
      const std::int64_t column = i % shape[3], row = i / shape[3] % shape[2], o = i / shape[3] / shape[2] % shape[1];
      const std::int64_t n = i / shape[3] / shape[2] / shape[1];
      BOOST_TEST_REQUIRE(y.at(i) == element(c, x, w, n, o, row, column, shape[0]));
    }
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(convolution)

BOOST_AUTO_TEST_CASE(equals_its_definition) {
  const std::vector<Convolution> cases{
      {"plain", {2, 3, 7, 8}, {5, 3, 3, 2}},
      {"pointwise", {2, 6, 5, 5}, {4, 6, 1, 1}},
      {"pointwise, strided", {2, 6, 5, 5}, {4, 6, 1, 1}, {2, 2}},
      {"padded, strided", {1, 4, 9, 8}, {6, 4, 3, 3}, {2, 3}, {1, 2, 0, 3}},
      {"negative pads", {1, 3, 9, 9}, {4, 3, 3, 3}, {1, 1}, {-1, 2, -2, -1}},
      {"dilated window", {1, 3, 9, 9}, {4, 3, 3, 2}, {1, 2}, {2, 1, 1, 1}, {2, 3}},
      {"transposed", {2, 3, 4, 5}, {4, 3, 3, 3}, {1, 1}, {2, 2, 1, 2}, {1, 1}, {2, 3}},
      {"transposed, negative pads, strided", {1, 3, 5, 5}, {4, 3, 3, 3}, {2, 1}, {-1, 2, 1, -2}, {1, 2}, {3, 2}},
      {"grouped", {2, 6, 6, 6}, {4, 3, 3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}, {1, 1}, 2},
      {"depthwise", {2, 4, 6, 7}, {8, 1, 3, 3}, {2, 1}, {1, 1, 1, 1}, {1, 1}, {1, 1}, 4},
      {"depthwise, transposed", {1, 4, 4, 4}, {4, 1, 3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}, {2, 2}, 4},
      {"batch groups", {4, 3, 6, 6}, {6, 3, 3, 3}, {1, 1}, {1, 0, 0, 1}, {1, 1}, {1, 1}, 1, 2},
      {"window larger than the input", {1, 2, 2, 2}, {3, 2, 4, 4}, {1, 1}, {3, 3, 3, 3}},
      {"several blocks of columns", {1, 64, 40, 40}, {8, 64, 3, 3}, {1, 1}, {1, 1, 1, 1}},
  };
  for (const Convolution& c : cases) {
    compare(c, DType::f32, DType::f32);
    if (element_count(c.x) < 10000) compare(c, DType::i8, DType::i32);
  }
}

BOOST_AUTO_TEST_CASE(labels_name_the_axes) {
  const Array x = test::small_integers({2, 5, 6, 3}, 3), w = test::small_integers({3, 2, 3, 4}, 4);
  const auto run = [](const Array& image, const Array& window, const std::string& x_labels, const std::string& w_labels,
                      const std::string& y_labels) {
    return test::run(Kind::convolution, {image, window},
                     {{"x_labels", x_labels},
                      {"w_labels", w_labels},
                      {"y_labels", y_labels},
                      {"strides", Integers{1, 1}},
                      {"pads", Integers{1, 1, 0, 1}},
                      {"dtype", DType::f32}});
  };
  const auto moved = [](const Array& array, const Integers& permutation) {
    return test::run(Kind::transpose, {array}, {{"permutation", permutation}});
  };
  const Array nhwc = run(x, w, "NHWC", "HWIO", "NHWC");
  const Array nchw = run(moved(x, {0, 3, 1, 2}), moved(w, {3, 2, 0, 1}), "NCHW", "OIHW", "NCHW");
  BOOST_TEST(test::values(moved(nchw, {0, 2, 3, 1})) == test::values(nhwc), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(bias_is_added_before_rounding) {
  const Array x = floats({1, 1, 1, 1}, {256}, DType::bf16), w = floats({1, 1, 1, 1}, {1}, DType::bf16);
  const Array bias = floats({1}, {1.5}, DType::bf16);  // 257.5 is between 256 and 258
  const Array y = test::run(Kind::convolution, {x, w, bias},
                            {{"x_labels", std::string("NCHW")},
                             {"w_labels", std::string("OIHW")},
                             {"y_labels", std::string("NCHW")},
                             {"strides", Integers{1, 1}},
                             {"pads", Integers{0, 0, 0, 0}},
                             {"dtype", DType::bf16}});
  BOOST_TEST(y.at(0) == 258);
}

BOOST_AUTO_TEST_SUITE_END()
