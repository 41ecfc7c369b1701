#include "tilesim/isa/latency/narrower.hpp"

#include <algorithm>
#include <iterator>

#include "tilesim/base/error.hpp"

namespace tilesim::isa {

namespace {

constexpr std::int64_t few = 8;        // limit on registers of a compute
constexpr Ticks slowest = 16 * cycle;  // limit on the time of a register in a unit

constexpr std::int64_t least_bits = 1024;  // minimum length of registers for movement

std::int64_t bits_of(const TileView& view) {
  std::int64_t all = bits(view.dtype);
  for (const ViewDim& dim : view.dims) all *= dim.extent;
  return all;
}

template <class Make>
std::vector<Kernel> of_cores(const CoreTiming& core, std::int64_t bits, Make make) {
  std::vector<Kernel> all;
  for (const CoreTiming& one : shorter_cores(core, bits, least_bits)) {
    std::vector<Kernel> more = make(one);
    std::move(more.begin(), more.end(), std::back_inserter(all));
  }
  return all;
}

Ticks& passing_of(CoreTiming& core, std::size_t timing_class) { return core.classes[timing_class].passing; }

/// Ticks of the slowest unit for one register.
Ticks slowest_pass(const CoreTiming& core) {
  Ticks most = 0;
  for (const ClassTiming& one : core.classes) most = std::max(most, one.passing * core.vlen / 8 / 1024);
  return most;
}

void slower_units(const CoreTiming& core, std::vector<CoreTiming>& all) {
  CoreTiming slower = core;
  while (slowest_pass(slower) > 0 && 2 * slowest_pass(slower) <= slowest) {
    for (std::size_t i = 0; i < timing_classes; ++i) passing_of(slower, i) *= 2;
    all.push_back(slower);
  }
  slower = core;
  while (2 * slower.port_beat <= slowest / 4) slower.port_beat *= 2, all.push_back(slower);
}

}  // namespace

std::vector<CoreTiming> shorter_cores(const CoreTiming& core, std::int64_t bits, std::int64_t least) {
  std::vector<CoreTiming> all{core};
  while (all.back().vlen >= 2 * least && all.back().vlen > 128 && bits <= few * all.back().vlen) {
    all.push_back(all.back());
    all.back().vlen /= 2;
  }
  return all;
}

std::vector<CoreTiming> narrower_cores(const CoreTiming& core, const VectorCompute& compute, std::int64_t lanes) {
  std::int64_t bits = 32;
  for (const std::int64_t extent : compute.extents) bits *= extent;
  std::vector<CoreTiming> all;
  CoreTiming one = core;
  for (one.pipes[0] = core.pipes[0]; one.pipes[0] > 0; one.pipes[0] /= 2)
    for (one.pipes[1] = core.pipes[1]; one.pipes[1] > 0; one.pipes[1] /= 2)
      for (one.pipes[2] = core.pipes[2]; one.pipes[2] > 0; one.pipes[2] /= 2)
        for (CoreTiming& shorter : shorter_cores(one, bits, 32 * lanes)) all.push_back(std::move(shorter));
  if (bits <= 4 * few * core.vlen) slower_units(core, all);
  return all;
}

std::vector<VectorKernel> kernels_of_core(const InstructionSet& set, const std::vector<CoreTiming>& cores,
                                          std::size_t number, const VectorCompute& compute, std::int64_t lanes,
                                          const VectorAddresses& at) {
  try {
    return vector_kernels(set, cores[number], compute, lanes, at);
  } catch (const Unsupported&) {
    if (number == 0) throw;
    return {};
  }
}

std::vector<Kernel> permutes_of_cores(const InstructionSet& set, const CoreTiming& core, const Permute& compute,
                                      const PermuteAddresses& at) {
  return of_cores(core, bits_of(compute.out),
                  [&](const CoreTiming& one) { return permute_kernels(set, one, compute, at); });
}

std::vector<Kernel> indexed_of_cores(const InstructionSet& set, const CoreTiming& core, const Indexed& compute,
                                     const IndexedAddresses& at) {
  return of_cores(core, bits_of(compute.scatter ? compute.in : compute.out),
                  [&](const CoreTiming& one) { return indexed_kernels(set, one, compute, at); });
}

}  // namespace tilesim::isa
