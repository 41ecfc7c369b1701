// Kernels of running sums: equal to what the compute means, and no faster than their units.
#include <array>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <random>

#include "kernels.hpp"
#include "shared.hpp"
#include "tilesim/base/error.hpp"
#include "tilesim/isa/latency/executor.hpp"

using namespace tilesim;
using namespace tilesim::isa;

namespace {

/// x [+ y], a running sum, [+ z], to one result; beside it perhaps the sum of all.
struct ScanTrial : KernelTrial {
  explicit ScanTrial(std::uint32_t seed) : KernelTrial(seed), zeros(seed % 4 == 3) { make(); }

  DType type_of_values() {
    static constexpr std::array types{DType::f32, DType::bf16, DType::f16, DType::i32, DType::i16,
                                      DType::i8,  DType::u8,   DType::u32, DType::u16, DType::boolean,
                                      DType::i64, DType::u64,  DType::f64, DType::i64, DType::f64};
    return types[static_cast<std::size_t>(below(types.size()))];
  }

  TileView view(DType dtype, const std::vector<bool>& repeats) {
    TileView made;
    made.dtype = dtype;
    std::int64_t stride = 1;
    std::vector<std::size_t> order(extents.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), random);
    made.dims.resize(extents.size());
    for (const std::size_t i : order) {
      made.dims[i] = {extents[i], repeats[i] ? 0 : stride};
      if (!repeats[i]) stride *= std::max<std::int64_t>(1, extents[i] + below(2));
    }
    // sums of small whole numbers and products of powers of two are exact in any order
    std::vector<float> values(static_cast<std::size_t>(stride));
    static constexpr std::array powers{1.0F, -1.0F, 2.0F, 0.5F};
    for (float& value : values) {
      value = static_cast<float>(below(9) - 4);
      if (combiner == Combiner::multiply) value = powers[static_cast<std::size_t>(below(4))];
      const std::int64_t odd = below(40);
      if (!is_float(dtype)) value = odd == 0 ? 100 : odd < 20 ? 0 : value;
      if (bits(dtype) == 64 && odd % 3 == 1) value *= 0x1p40F;  // beyond 32 bits, exact in sums
      if (is_float(dtype) && odd == 0) value = NAN;
      if (is_float(dtype) && odd == 1) value = INFINITY;
      if (is_float(dtype) && odd == 2) value = -0.0F;
      if (is_float(dtype) && zeros && (combiner == Combiner::maximum || combiner == Combiner::minimum))
        value = odd % 2 == 0 ? 0.0F : odd % 5 == 0 ? -1.0F : -0.0F;
    }
    memories.emplace_back(values.size() * static_cast<std::size_t>(host_bytes(dtype)));
    convert(values.data(), DType::f32, memories.back().data(), dtype, stride);
    return made;
  }

  void add_input(DType dtype, bool may_repeat) {
    std::vector<bool> repeats(extents.size());
    for (std::size_t d = 0; d < repeats.size(); ++d) repeats[d] = may_repeat && below(3) == 0;
    compute.inputs.push_back(view(dtype, repeats));
    compute.nodes.push_back({.op = VectorNode::Op::input, .index = static_cast<int>(compute.inputs.size()) - 1});
  }
  void add_sum(int a, int b) {
    compute.nodes.push_back({.op = VectorNode::Op::function, .function = Function::add, .arguments = {a, b, -1}});
  }
  int last() const { return static_cast<int>(compute.nodes.size()) - 1; }

  void make() {
    extents.resize(static_cast<std::size_t>(below(3) + 1));
    for (std::int64_t& extent : extents) extent = below(6) == 0 ? 1 : below(40) == 0 ? 0 : below(22) + 1;
    if (below(3) == 0) extents[static_cast<std::size_t>(below(static_cast<std::int64_t>(extents.size())))] = 70;
    compute.extents = extents;
    const auto rank = static_cast<std::int64_t>(extents.size());
    compute.lane = below(2) == 0 ? -1 : static_cast<int>(below(rank));
    combiner = static_cast<Combiner>(below(6));
    const DType dtype = type_of_values();
    const bool logical = combiner == Combiner::logical_and || combiner == Combiner::logical_or;
    add_input(dtype, below(4) == 0);
    const bool product = combiner == Combiner::multiply;  // 3 is no power of two
    if (below(3) == 0 && is_float(dtype) && !logical && !product) add_input(dtype, true), add_sum(0, 1);
    VectorNode scan;
    scan.op = VectorNode::Op::scan, scan.index = static_cast<int>(below(rank)), scan.combiner = combiner;
    scan.reverse = below(2) == 0, scan.exclusive = below(2) == 0;
    scan.arguments = {last(), -1, -1}, scan.dtype = dtype;
    compute.nodes.push_back(scan);
    const int total = last();
    const bool more = below(3) == 0 && is_float(dtype);
    if (more) add_input(dtype, true), add_sum(total, last());
    VectorOutput output;
    output.node = last();
    const DType wide = bits(dtype) == 64 ? DType::i64 : DType::i32;
    const DType stored = is_float(dtype) ? (below(2) == 0 ? DType::f32 : dtype) : below(2) == 0 ? wide : dtype;
    output.view = view(stored, std::vector<bool>(extents.size()));
    compute.outputs.push_back(output);
    if (below(4) == 0 && is_float(dtype) && !logical) {
      VectorOutput all;
      all.node = scan.arguments[0], all.reduce = {scan.index}, all.combiner = combiner;
      std::vector<bool> reduced(extents.size());
      reduced[static_cast<std::size_t>(scan.index)] = true;
      all.view = view(DType::f32, reduced);
      compute.outputs.push_back(all);
    }
  }

  std::vector<std::vector<std::byte>> run(TileExecutor& executor) {
    std::vector<std::vector<std::byte>> own = memories;
    VectorCompute pointed = compute;
    for (std::size_t i = 0; i < compute.inputs.size(); ++i) pointed.inputs[i].data = own[i].data();
    for (std::size_t o = 0; o < compute.outputs.size(); ++o)
      pointed.outputs[o].view.data = own[own.size() - compute.outputs.size() + o].data();
    executor.run(pointed);
    return own;
  }

  std::string text() const {
    std::string all = " extents";
    for (const std::int64_t extent : extents) all += " " + std::to_string(extent);
    all += " lane " + std::to_string(compute.lane);
    for (const VectorNode& node : compute.nodes)
      if (node.op == VectorNode::Op::scan)
        all += " along " + std::to_string(node.index) + (node.reverse ? " reverse" : "") +
               (node.exclusive ? " exclusive " : " ") + std::string(name(combiner)) + " " +
               std::string(name(node.dtype));
    return all + " results " + std::to_string(compute.outputs.size());
  }

  bool zeros;  ///< maxima and minima: of both signs, and little else
  Combiner combiner = Combiner::add;
  std::vector<std::int64_t> extents;
  VectorCompute compute;
};

/// Zeros with equal signs too.
bool same_zeros(const std::vector<std::byte>& a, const std::vector<std::byte>& b, DType dtype) {
  const auto count = a.size() / static_cast<std::size_t>(host_bytes(dtype));
  std::vector<double> left(count), right(count);
  convert(a.data(), dtype, left.data(), DType::f64, static_cast<std::int64_t>(count));
  convert(b.data(), dtype, right.data(), DType::f64, static_cast<std::int64_t>(count));
  for (std::size_t i = 0; i < count; ++i)
    if (left[i] == 0 && std::signbit(left[i]) != std::signbit(right[i])) return false;
  return true;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(scan_kernels)

BOOST_AUTO_TEST_CASE(random_running_sums_equal_their_meaning) {
  const Machine machines[] = {kernel_machine(8, 4), kernel_machine(16, 1), kernel_machine(4, 8), kernel_machine(64, 2)};
  const std::uint32_t many = trials(300);
  std::int64_t kernels = 0;
  std::map<std::string, std::int64_t> others;
  for (std::uint32_t trial = 0; trial < many; ++trial) {
    ScanTrial made(trial);
    DirectExecutor direct;
    const auto want = made.run(direct);
    // sums begin with 0, which takes the sign of a -0
    const bool of_order = made.combiner == Combiner::maximum || made.combiner == Combiner::minimum;
    KernelExecutor executor(machines[trial % 4]);
    for (int turn = 0; turn < 5; ++turn) {
      const auto found = made.run(executor);
      for (std::size_t o = 0; o < made.compute.outputs.size(); ++o) {
        const std::size_t at = want.size() - made.compute.outputs.size() + o;
        BOOST_TEST_CONTEXT("trial " << trial << " shape " << turn << " result " << o << made.text()) {
          BOOST_TEST(same_values(want[at], found[at], made.compute.outputs[o].view.dtype));
          if (of_order) BOOST_TEST(same_zeros(want[at], found[at], made.compute.outputs[o].view.dtype));
        }
      }
    }
    kernels += executor.by_kernel() > 0 ? 1 : 0;
    for (const auto& [why, count] : executor.others()) others[why] += count;
  }
  for (const auto& [why, count] : others) BOOST_TEST_MESSAGE(count << " " << why);
  BOOST_TEST(kernels >= many * 17 / 18);
}

BOOST_AUTO_TEST_SUITE_END()
