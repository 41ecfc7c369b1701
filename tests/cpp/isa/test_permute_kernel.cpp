// Kernels of permutes: equal to what the compute means, byte by byte, and no faster than ports.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstring>
#include <random>

#include "kernels.hpp"
#include "tilesim/base/error.hpp"
#include "tilesim/isa/latency/executor.hpp"

using namespace tilesim;
using namespace tilesim::isa;

namespace {

constexpr DType moved_types[] = {DType::f32, DType::bf16, DType::f16,     DType::i8,     DType::f64, DType::i64,
                                 DType::u16, DType::c64,  DType::boolean, DType::f8e5m2, DType::u32, DType::i4};

/// A permute of random shape between strides of its own on both sides; the memories hold random bits.
struct PermuteTrial : KernelTrial {
  explicit PermuteTrial(std::uint32_t seed) : KernelTrial(seed) {}

  TileView view(bool repeats, bool neighbours) {
    TileView made;
    made.dtype = dtype;
    made.dims.resize(extents.size());
    std::vector<std::size_t> order(extents.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = order.size() - 1 - i;
    if (!neighbours) std::shuffle(order.begin(), order.end(), random);
    std::int64_t stride = 1, first = 0;
    for (const std::size_t i : order) {
      if (repeats && below(4) == 0) {
        made.dims[i] = {extents[i], 0};
        continue;
      }
      made.dims[i] = {extents[i], stride};
      stride *= extents[i];
      if (below(4) == 0 && stride > 1) stride += below(3) * (bits(dtype) < 8 ? 2 : 1);
      if (below(6) == 0 && bits(dtype) >= 8) {
        first += made.dims[i].stride * (extents[i] - 1);
        made.dims[i].stride = -made.dims[i].stride;
      }
    }
    std::vector<std::byte> memory(static_cast<std::size_t>(std::max<std::int64_t>(stride, 1) * host_bytes(dtype)));
    for (std::byte& byte : memory) {
      byte = static_cast<std::byte>(random() & (bits(dtype) < 8 ? 15U : dtype == DType::boolean ? 1U : 255U));
      if (below(9) == 0 && dtype != DType::boolean && bits(dtype) >= 8) byte = std::byte{0xFF};
    }
    made.address = first * bits(dtype) / 8;
    memories.push_back(std::move(memory));
    return made;
  }

  void make() {
    dtype = moved_types[below(std::size(moved_types))];
    extents.resize(static_cast<std::size_t>(below(5)));
    for (std::int64_t& extent : extents) extent = below(5) == 0 ? 1 : below(14) + 1;
    if (!extents.empty() && below(8) == 0) extents[0] = 90;
    if (!extents.empty() && below(8) == 0) extents.back() = below(3) == 0 ? 700 : 64;
    if (!extents.empty() && below(25) == 0) extents[static_cast<std::size_t>(below(std::ssize(extents)))] = 0;
    if (bits(dtype) < 8 && !extents.empty()) extents.back() = 2 * (below(20) + 1);
    const bool neighbours = bits(dtype) < 8 || below(4) == 0;
    permute.in = view(bits(dtype) >= 8, neighbours);
    permute.out = view(below(8) == 0 && bits(dtype) >= 8, neighbours);
    firsts = {permute.in.address, permute.out.address};
    // apart from each other, at any address that an element may have
    const std::int64_t shift = below(32) * std::max(8, bits(dtype)) / 8;
    permute.in.address += shift;
    permute.out.address += shift + 65536 + 8 * static_cast<std::int64_t>(memories[0].size() / 8);
    if (below(6) == 0) permute.in.address = permute.out.address = -1;
  }

  /// The result's memory after `run`.
  template <class Run>
  std::vector<std::byte> after(Run run) {
    std::vector<std::byte> result = memories[1];
    const std::int64_t width = std::max(8, bits(dtype)) / 8;
    const auto at = [&](std::int64_t bytes) { return bits(dtype) < 8 ? 2 * bytes : bytes / width * host_bytes(dtype); };
    permute.in.data = memories[0].data() + at(firsts[0]);
    permute.out.data = result.data() + at(firsts[1]);
    run(permute);
    return result;
  }

  DType dtype = DType::f32;
  std::vector<std::int64_t> extents;
  std::array<std::int64_t, 2> firsts{};
  Permute permute;
};

/// What the views say, without the code that is tested: index by index.
void by_hand(const Permute& permute) {
  std::vector<std::pair<std::int64_t, std::int64_t>> places{{0, 0}};
  for (std::size_t i = 0; i < permute.in.dims.size(); ++i) {
    std::vector<std::pair<std::int64_t, std::int64_t>> more;
    for (const auto& [in, out] : places)
      for (std::int64_t at = 0; at < permute.in.dims[i].extent; ++at)
        more.emplace_back(in + at * permute.in.dims[i].stride, out + at * permute.out.dims[i].stride);
    places = std::move(more);
  }
  const std::int64_t bytes = host_bytes(permute.in.dtype);
  std::vector<std::byte> all;
  for (const auto& [in, out] : places)
    all.insert(all.end(), permute.in.data + in * bytes, permute.in.data + (in + 1) * bytes);
  for (std::size_t i = 0; i < places.size(); ++i)
    std::memcpy(permute.out.data + places[i].second * bytes, all.data() + i * static_cast<std::size_t>(bytes),
                static_cast<std::size_t>(bytes));
}

TileLatency time_of(const Machine& machine, const Permute& permute) {
  InstructionLatency model(machine);
  Descriptor d;
  d.kind = ComputeKind::permute, d.dtype = permute.in.dtype, d.elements = 1;
  for (const ViewDim& dim : permute.in.dims) d.elements *= dim.extent;
  return model.latency(d, {}, KernelSource(permute));
}

}  // namespace

BOOST_AUTO_TEST_SUITE(permute_kernels_)

BOOST_AUTO_TEST_CASE(random_permutes_equal_their_meaning) {
  const Machine machines[] = {kernel_machine(8, 4), kernel_machine(16, 1), kernel_machine(128, 8),
                              kernel_machine(4, 1)};
  std::int64_t kernels = 0;
  std::map<std::string, std::int64_t> others;
  for (std::uint32_t trial = 0; trial < 400; ++trial) {
    PermuteTrial made(trial);
    made.make();
    const auto expected = made.after(by_hand);
    const auto meant = made.after([](const Permute& permute) { execute(permute); });
    KernelExecutor executor(machines[trial % 4]);
    BOOST_TEST_CONTEXT("trial " << trial << " " << name(made.dtype)) {
      BOOST_TEST((expected == meant));
      for (int turn = 0; turn < 4; ++turn)
        BOOST_TEST((expected == made.after([&](const Permute& permute) { executor.run(permute); })));
    }
    kernels += executor.by_kernel() > 0 ? 1 : 0;
    for (const auto& [why, count] : executor.others()) others[why] += count;
  }
  for (const auto& [why, count] : others) BOOST_TEST_MESSAGE(count << " " << why);
  BOOST_TEST(kernels >= 390);
}

/// Narrow elements that change direction, in whole squares and not, on machines of several register lengths.
BOOST_AUTO_TEST_CASE(narrow_elements_turn) {
  const Machine machines[] = {kernel_machine(8, 4), kernel_machine(16, 1), kernel_machine(128, 8), kernel_machine(4, 1),
                              kernel_machine(64, 2)};
  std::mt19937 random(3);
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
  };
  for (int trial = 0; trial < 120; ++trial) {
    const DType dtype = std::array{DType::i8, DType::bf16, DType::f32}[static_cast<std::size_t>(trial % 3)];
    const std::int64_t outer = below(3) + 1, rows = below(2) == 0 ? 8 * (below(20) + 1) : below(70) + 1,
                       columns = below(2) == 0 ? 8 * (below(20) + 1) : below(70) + 1, gap = below(3) == 0 ? 8 : 0;
    Permute permute;
    permute.in.dtype = permute.out.dtype = dtype;
    permute.in.dims = {{outer, rows * (columns + gap)}, {rows, columns + gap}, {columns, 1}};
    permute.out.dims = {{outer, rows * columns}, {rows, 1}, {columns, rows}};
    if (below(2) == 0) std::swap(permute.in, permute.out);
    permute.in.address = 0, permute.out.address = 1 << 20;
    const auto bytes = static_cast<std::size_t>(outer * rows * (columns + gap) * host_bytes(dtype));
    std::vector<std::byte> memory(bytes), expected(bytes), got(bytes);
    for (std::byte& byte : memory) byte = static_cast<std::byte>(random());
    permute.in.data = memory.data(), permute.out.data = expected.data();
    by_hand(permute);
    KernelExecutor executor(machines[trial % 5]);
    for (int turn = 0; turn < 3; ++turn) {
      std::fill(got.begin(), got.end(), std::byte{0});
      permute.out.data = got.data();
      executor.run(permute);
      BOOST_TEST_CONTEXT("trial " << trial << " " << name(dtype) << " " << outer << " " << rows << " " << columns)
      BOOST_TEST((expected == got));
    }
    BOOST_TEST(executor.by_kernel() == 3);
  }
}

/// What is read and written is the same place: all of it is read first.
BOOST_AUTO_TEST_CASE(in_place) {
  for (const std::int64_t rows : {3, 8, 130})
    for (const DType dtype : {DType::f32, DType::bf16}) {
      std::mt19937 random(7);
      std::vector<std::byte> memory(static_cast<std::size_t>(rows * 40 * host_bytes(dtype)));
      for (std::byte& byte : memory) byte = static_cast<std::byte>(random());
      std::vector<std::byte> expected = memory, got = memory;
      Permute permute;
      permute.in.dtype = permute.out.dtype = dtype;
      permute.in.dims = {{rows, 40}, {40, 1}}, permute.out.dims = {{rows, 1}, {40, rows}};
      permute.in.address = permute.out.address = 4096;
      permute.in.data = permute.out.data = expected.data();
      by_hand(permute);
      permute.in.data = permute.out.data = got.data();
      KernelExecutor executor(kernel_machine(8, 4));
      executor.run(permute);
      BOOST_TEST(executor.by_kernel() == 1);
      BOOST_TEST((expected == got));
    }
}

BOOST_AUTO_TEST_CASE(no_faster_than_ports) {
  // 32 elements of 4 bytes are a register
  const Machine machine = kernel_machine(8, 4);
  const auto moved = [](std::int64_t rows, std::int64_t columns, bool turned) {
    Permute permute;
    permute.in.dims = {{rows, columns}, {columns, 1}};
    permute.out.dims = turned ? std::vector<ViewDim>{{rows, 1}, {columns, rows}} : permute.in.dims;
    permute.in.address = 0, permute.out.address = 1 << 20;
    return permute;
  };
  const TileLatency copied = time_of(machine, moved(256, 32, false)), turned = time_of(machine, moved(256, 32, true));
  BOOST_TEST(copied.busy >= 256);  // a register passes the store port each cycle
  BOOST_TEST(copied.busy <= 256 + 12);
  BOOST_TEST(turned.busy >= 256 * 32 / 2 / 8);  // elements apart: one for each lane and cycle, on one side or the other
  BOOST_TEST(turned.busy <= 256 * 32 / 8 * 11 / 10);
  for (std::uint32_t trial = 0; trial < 120; ++trial) {
    PermuteTrial made(trial);
    made.make();
    if (made.dtype == DType::i4) continue;
    std::int64_t elements = 1, written = 1;
    for (std::size_t i = 0; i < made.extents.size(); ++i) {
      elements *= made.extents[i];
      if (made.permute.out.dims[i].stride != 0) written *= made.extents[i];
    }
    if (elements == 0) continue;
    BOOST_TEST(time_of(machine, made.permute).done >= (written * bits(made.dtype) / 8 + 127) / 128);
  }
}

BOOST_AUTO_TEST_SUITE_END()
