// The check of kernels on wide values finds what is wrong there alone, and nothing in what is right.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <vector>

#include "kernels.hpp"
#include "tilesim/isa/check/wide_check.hpp"

namespace tilesim::isa {

namespace {

/// The meaning, but for what a fault does to each 4 bytes of the first result.
class Faulty final : public TileExecutor {
 public:
  explicit Faulty(std::function<void(std::uint32_t&)> fault) : fault_(std::move(fault)) {}
  void run(const TileCompute& compute) override {
    execute(compute);
    const TileView& view = std::get<VectorCompute>(compute).outputs[0].view;
    for (std::int64_t i = 0; i < view.dims[0].extent * (view.dims[0].stride != 0 ? 1 : 0); ++i) change(view, i);
    if (view.dims[0].stride == 0) change(view, 0);
  }

 private:
  void change(const TileView& view, std::int64_t i) {
    std::uint32_t word = 0;
    std::memcpy(&word, view.data + 4 * i, 4);
    fault_(word);
    std::memcpy(view.data + 4 * i, &word, 4);
  }
  std::function<void(std::uint32_t&)> fault_;
};

/// Elements of x through a function, or their sum.
struct Given {
  Given(DType dtype, Function function, bool summed = false) {
    const auto view = [&](std::vector<std::uint32_t>& of, std::int64_t stride) {
      return TileView{std::as_writable_bytes(std::span(of)).data(), dtype, {{2000, stride}}, -1, {}};
    };
    compute.extents = {2000};
    compute.inputs = {view(x, 1)};
    VectorNode node;
    node.op = VectorNode::Op::input;
    compute.nodes = {node};
    node.op = VectorNode::Op::function, node.function = function, node.arguments = {0, -1, -1};
    compute.nodes.push_back(node);
    VectorOutput output;
    output.node = 1, output.view = view(y, summed ? 0 : 1);
    if (summed) output.reduce = {0};
    compute.outputs = {output};
  }
  std::vector<std::uint32_t> x = std::vector<std::uint32_t>(2000), y = x;
  VectorCompute compute;
};

std::size_t faults_of(const Given& given, std::function<void(std::uint32_t&)> fault) {
  const Machine machine = kernel_machine(8, 4);
  Faulty faulty(std::move(fault));
  WideCheck check(machine, faulty);
  check.run(given.compute);
  check.run(given.compute);  // not compared again
  return check.faults().size();
}

}  // namespace

BOOST_AUTO_TEST_SUITE(wide_check)

BOOST_AUTO_TEST_CASE(faults_at_ends_of_ranges_are_found) {
  const Given floats(DType::f32, Function::negate), integers(DType::i32, Function::negate);
  const auto when = [](std::uint32_t from, std::uint32_t to) {
    return [=](std::uint32_t& word) { word = word == from ? to : word; };
  };
  BOOST_TEST(faults_of(floats, [](std::uint32_t&) {}) == 0U);
  BOOST_TEST(faults_of(floats, when(0x80000000, 0)) == 1U);           // loses the sign of zero
  BOOST_TEST(faults_of(floats, when(0x7F800000, 0x7F7FFFFF)) == 1U);  // saturates
  BOOST_TEST(faults_of(floats, when(0x80000001, 0x80000000)) == 1U);  // flushes denormals
  BOOST_TEST(faults_of(floats, [](std::uint32_t& word) {
               if ((word & 0x7FFFFFFFU) > 0x7F800000U) word = 0;  // a NaN becomes a number
             }) == 1U);
  BOOST_TEST(faults_of(floats, [](std::uint32_t& word) {
               if ((word & 0x7FFFFFFFU) > 0x7F800000U) word ^= 1;  // another NaN is no fault
             }) == 0U);
  BOOST_TEST(faults_of(integers, when(0x80000000, 0x7FFFFFFF)) == 1U);
  BOOST_TEST(faults_of(integers, [](std::uint32_t&) {}) == 0U);
}

BOOST_AUTO_TEST_CASE(kernels_are_compared_once_and_are_right) {
  for (const Function function : {Function::negate, Function::abs, Function::relu, Function::sqrt, Function::exp})
    for (const bool summed : {false, true}) {
      const Given given(DType::f32, function, summed);
      WideCheck check(kernel_machine(8, 4));
      for (int turn = 0; turn < 2; ++turn) check.run(given.compute);
      BOOST_TEST(check.compared() == 1);
      BOOST_TEST(check.faults().empty());
    }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace tilesim::isa
