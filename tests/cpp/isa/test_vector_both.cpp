// Computes that give each element and totals of them: weights of attention and their sums, queries over the lanes.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <random>
#include <span>
#include <vector>

#include "kernels.hpp"
#include "tilesim/isa/latency/executor.hpp"

namespace tilesim::isa {

namespace {

/// (x − shift of the lane) through `functions` negations: each, and added up over the keys to what is there. All are
/// small whole numbers: sums are exact in any order.
struct Both {
  Both(std::int64_t keys, std::int64_t width, int functions) : x(keys * width), shift(width), each(keys * width, 9) {
    std::mt19937 random(static_cast<std::uint32_t>(keys * 131 + width));
    for (float& value : x) value = static_cast<float>(random() % 64) - 31;
    for (float& value : shift) value = static_cast<float>(random() % 8);
    total = shift;
    compute.extents = {keys, width};
    const auto view = [&](std::vector<float>& of, std::int64_t stride) {
      return TileView{std::as_writable_bytes(std::span(of)).data(), DType::f32, {{keys, stride}, {width, 1}}, -1, {}};
    };
    compute.inputs = {view(x, width), view(shift, 0)};
    compute.nodes = {{.op = VectorNode::Op::input, .index = 0}, {.op = VectorNode::Op::input, .index = 1}};
    VectorNode node;
    node.op = VectorNode::Op::function, node.function = Function::subtract, node.arguments = {0, 1, -1};
    compute.nodes.push_back(node);
    for (int i = 0; i < functions; ++i) {
      node.function = Function::negate, node.arguments = {static_cast<int>(compute.nodes.size()) - 1, -1, -1};
      compute.nodes.push_back(node);
    }
    VectorOutput output;
    output.node = static_cast<int>(compute.nodes.size()) - 1, output.view = view(each, width);
    compute.outputs.push_back(output);
    output.view = view(total, 0), output.reduce = {0}, output.combiner = Combiner::add, output.accumulate = true;
    compute.outputs.push_back(output);
  }

  std::vector<float> x, shift, each, total;
  VectorCompute compute;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(vector_both)

BOOST_AUTO_TEST_CASE(both_equal_their_meaning) {
  for (const std::int64_t keys : {2, 7, 32, 100})
    for (const std::int64_t width : {3, 8, 20, 32, 40, 64, 100}) {
      Both both(keys, width, 1);
      KernelExecutor executor(kernel_machine(8, 4));
      std::vector<float> totals = both.total;
      for (int turn = 0; turn < 6; ++turn) {
        std::ranges::fill(both.each, 9.0F);
        executor.run(both.compute);
        bool same = true;
        for (std::int64_t key = 0; key < keys; ++key)
          for (std::int64_t lane = 0; lane < width; ++lane) {
            const auto at = static_cast<std::size_t>(key * width + lane), of = static_cast<std::size_t>(lane);
            const float wanted = both.shift[of] - both.x[at];
            totals[of] += wanted, same = same && both.each[at] == wanted;
          }
        BOOST_TEST_CONTEXT(keys << " keys, " << width << " lanes, turn " << turn) {
          BOOST_TEST(same);
          BOOST_TEST(both.total == totals);
        }
      }
      BOOST_TEST(executor.by_kernel() == 6);
    }
}

/// Not a kernel for each result, one behind the other, though longer registers would combine their own rows.
BOOST_AUTO_TEST_CASE(what_both_take_is_computed_once) {
  constexpr std::int64_t keys = 512, width = 32, functions = 6, most = 80;  // a register for each key
  const Both both(keys, width, functions);
  const KernelSource source(both.compute);
  Descriptor d;
  d.kind = ComputeKind::vector, d.elements = keys * width, d.lane_extent = width;
  const std::int64_t busy = InstructionLatency(kernel_machine(8, 4)).latency(d, {}, source).busy;
  // the subtraction, negations and addition of each
  BOOST_TEST(busy >= keys * (functions + 2));
  BOOST_TEST(busy <= keys * (functions + 2) + most);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace tilesim::isa
