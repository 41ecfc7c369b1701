// Kernels of gathers and scatters: equal to what the compute means, and no faster than ports.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstring>
#include <random>

#include "kernels.hpp"
#include "shared.hpp"
#include "tilesim/base/error.hpp"
#include "tilesim/isa/latency/executor.hpp"

using namespace tilesim;
using namespace tilesim::isa;

namespace {

constexpr DType picked_types[] = {DType::f32, DType::bf16, DType::f16, DType::i8,  DType::f64,
                                  DType::i64, DType::u16,  DType::u8,  DType::i32, DType::boolean};
constexpr DType index_types[] = {DType::i32, DType::i64, DType::i32, DType::u8, DType::i16};

/// A gather or scatter of random shape; the memories hold in, index and out.
struct IndexedTrial : KernelTrial {
  explicit IndexedTrial(std::uint32_t seed) : KernelTrial(seed) {}

  std::byte some_bits() {
    if (indexed.in.dtype == DType::boolean) return static_cast<std::byte>(random() & 1);
    return below(9) == 0 ? std::byte{0xFF} : below(9) == 0 ? std::byte{0x80} : static_cast<std::byte>(random());
  }

  TileView view(std::int64_t rows, bool aside) {
    TileView made;
    made.dtype = indexed.in.dtype;
    made.dims.resize(row.size() + 1);
    std::int64_t stride = 1;
    std::vector<std::size_t> order(row.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = order.size() - i;
    if (below(3) == 0) std::shuffle(order.begin(), order.end(), random);
    for (const std::size_t i : order) {
      made.dims[i] = {row[i - 1], stride};
      stride *= std::max<std::int64_t>(row[i - 1], 1);
      if (below(4) == 0 && stride > 1) stride += below(3);
    }
    made.dims[0] = {rows, stride};
    std::vector<std::byte> memory(
        static_cast<std::size_t>((rows * stride + 1) * static_cast<std::int64_t>(host_bytes(made.dtype))));
    for (std::byte& byte : memory) byte = some_bits();
    memories.push_back(std::move(memory));
    made.address = 65536 * static_cast<std::int64_t>(memories.size()) * 64 + 8 * below(5);
    if (aside) made.address = -1;
    return made;
  }

  void make() {
    indexed.in.dtype = picked_types[below(std::size(picked_types))];
    indexed.scatter = below(2) == 0;
    const bool combines = indexed.scatter && below(2) == 0;
    if (combines) {
      constexpr Combiner all[] = {Combiner::add, Combiner::maximum, Combiner::minimum, Combiner::multiply};
      indexed.combiner = all[below(4)];
      if (indexed.in.dtype == DType::f64 && below(4) != 0) indexed.combiner = Combiner::add;
    }
    row.resize(static_cast<std::size_t>(below(4)));
    for (std::int64_t& extent : row) extent = below(5) == 0 ? 1 : below(7) + 1;
    if (!row.empty() && below(6) == 0) row.back() = below(2) == 0 ? 64 : 300;
    if (!row.empty() && below(30) == 0) row[0] = 0;
    const std::int64_t limit = below(6) == 0 ? 1 : below(40) + 1, count = below(12) == 0  ? 0
                                                                          : below(5) == 0 ? 200
                                                                                          : below(30) + 1;
    const bool unknown = below(6) == 0;
    indexed.in = view(indexed.scatter ? count : limit, unknown);
    indexed.index.dtype = index_types[below(std::size(index_types))];
    const std::int64_t step = below(4) == 0 ? 2 : 1;
    indexed.index.dims = {{count, step}};
    std::vector<std::int64_t> picks(static_cast<std::size_t>(count * step + 1));
    for (std::int64_t& pick : picks) pick = below(limit);
    if (outside >= 0 && count > 0) picks[static_cast<std::size_t>(below(count) * step)] = outside == 0 ? limit : -1;
    memories.emplace_back(picks.size() * static_cast<std::size_t>(host_bytes(indexed.index.dtype)));
    convert(picks.data(), DType::i64, memories.back().data(), indexed.index.dtype, std::ssize(picks));
    indexed.index.address = unknown ? -1 : 65536 * 1024;
    indexed.out = view(indexed.scatter ? limit : count, unknown);
  }

  /// The result's memory after `run`.
  template <class Run>
  std::vector<std::byte> after(Run run) {
    std::vector<std::byte> result = memories[2];
    indexed.in.data = memories[0].data(), indexed.index.data = memories[1].data(), indexed.out.data = result.data();
    run(indexed);
    return result;
  }

  std::string text() const {
    std::string all = std::string(name(indexed.in.dtype)) + (indexed.scatter ? " scatter" : " gather");
    if (indexed.combiner) all += " " + std::string(name(*indexed.combiner));
    for (const std::int64_t extent : row) all += " " + std::to_string(extent);
    return all + " by " + std::string(name(indexed.index.dtype)) + " x " + std::to_string(indexed.index.dims[0].extent);
  }

  int outside = -1;
  std::vector<std::int64_t> row;
  Indexed indexed;
};

double combined(Combiner combiner, double a, double b) {
  switch (combiner) {
    case Combiner::add:
      return a + b;
    case Combiner::multiply:
      return a * b;
    default:
      if (std::isnan(a) || std::isnan(b)) return NAN;
      return combiner == Combiner::maximum ? std::max(a, b) : std::min(a, b);
  }
}

/// What the views say, index by index; floats are rounded by the table of conversions, each step.
void indexed_by_hand(const Indexed& of) {
  const DType dtype = of.in.dtype;
  const std::int64_t bytes = host_bytes(dtype);
  std::vector<std::pair<std::int64_t, std::int64_t>> places{{0, 0}};
  for (std::size_t i = 1; i < of.in.dims.size(); ++i) {
    std::vector<std::pair<std::int64_t, std::int64_t>> more;
    for (const auto& [in, out] : places)
      for (std::int64_t at = 0; at < of.in.dims[i].extent; ++at)
        more.emplace_back(in + at * of.in.dims[i].stride, out + at * of.out.dims[i].stride);
    places = std::move(more);
  }
  for (std::int64_t i = 0; i < of.index.dims[0].extent; ++i) {
    std::int64_t pick = 0;
    convert(of.index.data + i * of.index.dims[0].stride * host_bytes(of.index.dtype), of.index.dtype, &pick, DType::i64,
            1);
    const std::int64_t from = (of.scatter ? i : pick) * of.in.dims[0].stride,
                       to = (of.scatter ? pick : i) * of.out.dims[0].stride;
    for (const auto& [in, out] : places) {
      const std::byte* a = of.in.data + (from + in) * bytes;
      std::byte* b = of.out.data + (to + out) * bytes;
      if (!of.combiner) {
        std::memcpy(b, a, static_cast<std::size_t>(bytes));
      } else if (is_float(dtype)) {
        double x = 0, y = 0;
        convert(a, dtype, &x, DType::f64, 1), convert(b, dtype, &y, DType::f64, 1);
        // a sum or product of two f32 is rounded once more than in f64 only where that is no f32's half way: compare so
        double z = combined(*of.combiner, y, x);
        if (dtype != DType::f64) {
          float once = 0;
          convert(&z, DType::f64, &once, DType::f32, 1);
          if (dtype == DType::f32)
            std::memcpy(b, &once, 4);
          else
            convert(&once, DType::f32, b, dtype, 1);
        } else {
          std::memcpy(b, &z, 8);
        }
      } else {
        std::int64_t x = 0, y = 0;
        convert(a, dtype, &x, DType::i64, 1), convert(b, dtype, &y, DType::i64, 1);
        const auto ux = static_cast<std::uint64_t>(x), uy = static_cast<std::uint64_t>(y);
        std::int64_t z = *of.combiner == Combiner::add        ? static_cast<std::int64_t>(ux + uy)
                         : *of.combiner == Combiner::multiply ? static_cast<std::int64_t>(ux * uy)
                         : *of.combiner == Combiner::maximum  ? std::max(x, y)
                                                              : std::min(x, y);
        convert(&z, DType::i64, b, dtype, 1);
      }
    }
  }
}

/// Bits, but for NaN that was computed.
bool same_results(const std::vector<std::byte>& a, const std::vector<std::byte>& b, const Indexed& of) {
  if (a == b) return true;
  if (!of.combiner || !is_float(of.in.dtype)) return false;
  const std::size_t bytes = static_cast<std::size_t>(host_bytes(of.in.dtype));
  for (std::size_t at = 0; at + bytes <= a.size(); at += bytes) {
    double x = 0, y = 0;
    convert(a.data() + at, of.in.dtype, &x, DType::f64, 1), convert(b.data() + at, of.in.dtype, &y, DType::f64, 1);
    if (std::memcmp(a.data() + at, b.data() + at, bytes) != 0 && !(std::isnan(x) && std::isnan(y))) return false;
  }
  return true;
}

TileLatency time_of_indexed(const Machine& machine, const Indexed& indexed) {
  InstructionLatency model(machine);
  Descriptor d;
  d.kind = ComputeKind::indexed, d.dtype = indexed.in.dtype, d.elements = 1;
  return model.latency(d, {}, KernelSource(indexed));
}

}  // namespace

BOOST_AUTO_TEST_SUITE(indexed_kernels_)

BOOST_AUTO_TEST_CASE(random_ones_equal_their_meaning) {
  const Machine machines[] = {kernel_machine(8, 4), kernel_machine(16, 1), kernel_machine(128, 8),
                              kernel_machine(4, 1)};
  const std::uint32_t many = trials(200);
  std::int64_t kernels = 0;
  std::map<std::string, std::int64_t> others;
  for (std::uint32_t trial = 0; trial < many; ++trial) {
    IndexedTrial made(trial);
    made.make();
    const auto expected = made.after(indexed_by_hand);
    const auto meant = made.after([](const Indexed& indexed) { execute(indexed); });
    KernelExecutor executor(machines[trial % 4]);
    BOOST_TEST_CONTEXT("trial " << trial << " " << made.text()) {
      BOOST_TEST(same_results(expected, meant, made.indexed));
      for (int turn = 0; turn < 3; ++turn)
        BOOST_TEST(
            same_results(expected, made.after([&](const Indexed& indexed) { executor.run(indexed); }), made.indexed));
    }
    kernels += executor.by_kernel() > 0 ? 1 : 0;
    for (const auto& [why, count] : executor.others()) others[why] += count;
  }
  for (const auto& [why, count] : others) BOOST_TEST_MESSAGE(count << " " << why);
  BOOST_TEST(kernels >= many * 47 / 50);
}

BOOST_AUTO_TEST_CASE(indices_outside_are_found) {
  for (std::uint32_t trial = 0; trial < 60; ++trial) {
    IndexedTrial made(trial);
    made.outside = static_cast<int>(trial % 2);
    made.make();
    if (made.indexed.index.dims[0].extent == 0 || made.indexed.index.dtype == DType::u8) continue;
    KernelExecutor executor(kernel_machine(8, 4));
    for (int turn = 0; turn < 2; ++turn) {
      const auto run = [&](const Indexed& indexed) { executor.run(indexed); };
      BOOST_TEST_CONTEXT("trial " << trial << " " << made.text())
      BOOST_CHECK_THROW(made.after(run), UserError);
      // the other kernel has its turn
      Indexed fine;
      float zero[2] = {};
      std::int32_t first = 0;
      fine.in = {reinterpret_cast<std::byte*>(&zero[0]), DType::f32, {{1, 1}}, -1, {}};
      fine.index = {reinterpret_cast<std::byte*>(&first), DType::i32, {{1, 1}}, -1, {}};
      fine.out = {reinterpret_cast<std::byte*>(&zero[1]), DType::f32, {{1, 1}}, -1, {}};
      executor.run(fine);
    }
  }
}

BOOST_AUTO_TEST_CASE(no_faster_than_ports_and_lanes) {
  // 32 elements of 4 bytes are a register; 8 lanes
  const Machine machine = kernel_machine(8, 4);
  const auto gathered = [](std::int64_t count, std::int64_t row) {
    Indexed indexed;
    indexed.in.dims = {{1000, row}, {row, 1}}, indexed.out.dims = {{count, row}, {row, 1}};
    indexed.index.dtype = DType::i32, indexed.index.dims = {{count, 1}};
    indexed.in.address = 0, indexed.index.address = 1 << 24, indexed.out.address = 1 << 25;
    return indexed;
  };
  const TileLatency single = time_of_indexed(machine, gathered(4096, 1)),
                    rows = time_of_indexed(machine, gathered(200, 256));
  BOOST_TEST(single.busy >= 4096 / 8);
  BOOST_TEST(single.busy <= 4096 / 8 + 4096 / 32 + 40);
  BOOST_TEST(rows.busy >= 200 * 8);  // eight registers each
  BOOST_TEST(rows.busy <= 200 * 8 + 40);
  Indexed added = gathered(200, 256);
  added.scatter = true, added.combiner = Combiner::add;
  std::swap(added.in, added.out);
  BOOST_TEST(time_of_indexed(machine, added).busy >= 2 * 200 * 8);  // the old ones are loaded too
}

BOOST_AUTO_TEST_SUITE_END()
