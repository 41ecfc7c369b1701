// Kernels of sorts: equal to what the compute means, and no faster than their units.
#include <algorithm>
#include <array>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <random>

#include "kernels.hpp"
#include "shared.hpp"
#include "tilesim/base/error.hpp"
#include "tilesim/isa/latency/executor.hpp"
#include "tilesim/tile/sort_plan.hpp"

using namespace tilesim;
using namespace tilesim::isa;

namespace {

constexpr std::array sorted_types{
    DType::f32,        DType::bf16,       DType::f16,          DType::f8e4m3fn, DType::f8e5m2, DType::i32,
    DType::i16,        DType::i8,         DType::u32,          DType::u16,      DType::u8,     DType::boolean,
    DType::f8e4m3fnuz, DType::f8e5m2fnuz, DType::f8e8m0fnu,    DType::i64,      DType::u64,    DType::f64,
    DType::f8e4m3ieee, DType::f8e3m4,     DType::f8e4m3b11fnuz};

struct SortTrial : KernelTrial {
  explicit SortTrial(std::uint32_t seed, std::int64_t longest) : KernelTrial(seed) {
    const DType dtype = sorted_types[seed % sorted_types.size()];
    const std::int64_t rows = below(4) == 0 ? 1 : below(40) + 1, outer = below(3) == 0 ? below(3) : 1;
    std::int64_t n = below(10) == 0 ? below(3) : below(longest) + 1;
    const std::int64_t k = below(2) == 0 ? n : below(3) == 0 ? below(n + 1) : below(std::min<std::int64_t>(n, 9) + 1);
    sort.descending = below(2) == 0;
    sort.in = view(dtype, {outer, rows, n});
    sort.keys = view(dtype, {outer, rows, k});
    sort.positions = view(below(3) == 0 ? DType::i64 : DType::i32, {outer, rows, k});
    fill(dtype);
  }
  TileView view(DType dtype, std::array<std::int64_t, 3> extents) {
    TileView made;
    made.dtype = dtype;
    made.dims.resize(3);
    std::array<std::size_t, 3> order{0, 1, 2};
    std::shuffle(order.begin(), order.end(), random);
    std::int64_t stride = 1;
    for (const std::size_t i : order) {
      made.dims[i] = {extents[i], stride};
      stride *= std::max<std::int64_t>(1, extents[i] + below(2));
    }
    memories.emplace_back(static_cast<std::size_t>(stride * host_bytes(dtype)));
    return made;
  }

  /// Few different values, so that many are equal.
  void fill(DType dtype) {
    std::vector<float> values(memories[0].size() / static_cast<std::size_t>(host_bytes(dtype)));
    const std::int64_t many = below(2) == 0 ? 7 : 400;
    for (float& value : values) {
      value = static_cast<float>(below(many) - many / 2) * 0.5F;
      const std::int64_t odd = below(30);
      if (!is_float(dtype)) continue;
      if (odd == 0) value = NAN;
      if (odd == 1) value = -0.0F;
      if (odd == 2) value = below(2) == 0 ? INFINITY : -INFINITY;
      if (odd == 3) value = std::array{240.0F, 448.0F, 57344.0F, -240.0F}[static_cast<std::size_t>(below(4))];
    }
    convert(values.data(), DType::f32, memories[0].data(), dtype, std::ssize(values));
    if (is_float(dtype)) return;
    // all bits take part
    for (std::byte& byte : memories[0])
      if (dtype != DType::boolean && below(6) == 0) byte = static_cast<std::byte>(below(256));
  }

  std::vector<std::vector<std::byte>> run(TileExecutor& executor) {
    std::vector<std::vector<std::byte>> own = memories;
    tilesim::Sort pointed = sort;
    pointed.in.data = own[0].data(), pointed.keys.data = own[1].data(), pointed.positions.data = own[2].data();
    executor.run(pointed);
    return own;
  }

  std::string text() const {
    std::string all = " " + std::string(name(sort.in.dtype)) + (sort.descending ? " descending" : "");
    for (const ViewDim& dim : sort.in.dims) all += " " + std::to_string(dim.extent);
    return all + " kept " + std::to_string(sort.keys.dims.back().extent);
  }

  tilesim::Sort sort;
};

/// Bits but for those of NaN.
bool same_keys(const std::vector<std::byte>& a, const std::vector<std::byte>& b, DType dtype) {
  if (!is_float(dtype)) return a == b;
  const auto bytes = static_cast<std::size_t>(host_bytes(dtype));
  const std::size_t count = a.size() / bytes;
  std::vector<float> left(count), right(count);
  convert(a.data(), dtype, left.data(), DType::f32, static_cast<std::int64_t>(count));
  convert(b.data(), dtype, right.data(), DType::f32, static_cast<std::int64_t>(count));
  for (std::size_t i = 0; i < count; ++i) {
    if (std::isnan(left[i]) && std::isnan(right[i])) continue;
    if (!std::equal(&a[i * bytes], &a[i * bytes] + bytes, &b[i * bytes])) return false;
  }
  return true;
}

void check_trial(std::uint32_t seed, std::int64_t longest, const Machine& machine, std::int64_t& kernels) {
  SortTrial made(seed, longest);
  DirectExecutor direct;
  const auto want = made.run(direct);
  KernelExecutor executor(machine);
  const auto found = made.run(executor);
  BOOST_TEST_CONTEXT("trial " << seed << " lanes " << machine.core.vector.lanes << made.text()) {
    BOOST_TEST(same_keys(want[1], found[1], made.sort.in.dtype));
    BOOST_TEST((want[2] == found[2]));
    for (const auto& [why, count] : executor.others()) BOOST_TEST_MESSAGE(why << made.text());
  }
  kernels += executor.by_kernel();
}

}  // namespace

BOOST_AUTO_TEST_SUITE(sort_kernels)

BOOST_AUTO_TEST_CASE(random_sorts_equal_their_meaning) {
  const Machine machines[] = {kernel_machine(8, 4), kernel_machine(16, 1), kernel_machine(4, 1), kernel_machine(64, 2)};
  const std::uint32_t many = trials(160), long_ones = trials(24);
  std::int64_t kernels = 0;
  for (std::uint32_t trial = 0; trial < many; ++trial) check_trial(trial, 70, machines[trial / 18 % 4], kernels);
  for (std::uint32_t trial = 1000; trial < 1000 + long_ones; ++trial)
    check_trial(trial, 700, machines[trial % 4], kernels);
  BOOST_TEST(kernels == many + long_ones);
}

BOOST_AUTO_TEST_CASE(no_faster_than_comparisons_and_ports) {
  for (const auto& [rows, n, k] :
       {std::array<std::int64_t, 3>{256, 64, 64}, {3, 1000, 1000}, {1, 300, 5}, {64, 20, 3}}) {
    tilesim::Sort sort;
    sort.in = {nullptr, DType::f32, {{rows, n}, {n, 1}}, -1, {}};
    sort.keys = {nullptr, DType::f32, {{rows, k}, {k, 1}}, -1, {}};
    sort.positions = {nullptr, DType::i32, {{rows, k}, {k, 1}}, -1, {}};
    const KernelSource source(sort);
    Descriptor d;
    d.kind = ComputeKind::sort, d.elements = rows * n, d.lane_extent = n, d.k = k;
    const Machine machine = kernel_machine(8, 4);
    InstructionLatency model(machine), slow(machine);
    slow.every_trip();
    const TileLatency latency = model.latency(d, {}, source);
    BOOST_TEST(latency.done == slow.latency(d, {}, source).done);
    // a kept element is compared with others at least as often as it takes to tell it from the rest, two lanes of 32
    // bits each time; every key is loaded once
    const double comparisons = static_cast<double>(rows * k) * std::log2(static_cast<double>(n));
    BOOST_TEST(static_cast<double>(latency.busy) >= 2 * comparisons / 32 / 2);
    BOOST_TEST(latency.busy >= rows * n / 32);
    BOOST_TEST(latency.busy <= latency.done);
  }
}

BOOST_AUTO_TEST_SUITE_END()
