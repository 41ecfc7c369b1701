// How other cores affect one core in the cost model: shared links and channels, and the position of the core's part.
#include <algorithm>
#include <cmath>

#include "tilesim/base/shape.hpp"
#include "tilesim/machine/parts.hpp"
#include "tilesim/mapping/cost.hpp"

namespace tilesim::mapping {

namespace {

/// Number of contiguous bytes in one region.
std::int64_t region_block(const Share::Memory& memory) {
  return std::max(memory.interleave_bytes, memory.burst_bytes) *
         std::max<std::int64_t>(1, memory.channels / memory.regions);
}

}  // namespace

void CostModel::add_regions(std::int64_t place, std::int64_t bytes, std::vector<std::int64_t>& held) const {
  const Share::Memory& memory = machine_.memory;
  const std::int64_t block = region_block(memory);
  held.resize(static_cast<std::size_t>(memory.regions), 0);
  if (const std::int64_t whole = bytes / (block * memory.regions); whole > 0) {
    for (std::int64_t& region : held) region += whole * block;
    bytes -= whole * block * memory.regions;
  }
  for (std::int64_t piece = 0; bytes > 0; place += piece, bytes -= piece) {
    piece = std::min(bytes, block - place % block);
    held[static_cast<std::size_t>(place / block % memory.regions)] += piece;
  }
}

/// Interleaved tensors cross the links, except for the part in the core's region; all links have equal traffic. Tensors
/// placed "local" do not cross links.
void CostModel::see_regions() {
  const Share::Network& network = machine_.network;
  const Share::Memory& memory = machine_.memory;
  if (memory.regions < 2 || memory.placement == "local") return;
  const double cycle = static_cast<double>(network.clock.hertz) / static_cast<double>(machine_.core.clock.hertz);
  further_ = static_cast<double>(network.region_latency_cycles) / cycle;
  link_rate_ = static_cast<double>(memory.regions * network.region_bytes_per_cycle) * cycle;
  const std::int64_t neighbours = cores_of_region(machine_, problem_.cores, problem_.multicast);
  at_home_ = 2 * static_cast<double>(region_block(memory));
  links_meet_ = problem_.cores > neighbours;
  link_room_ = static_cast<double>(network.buffer_bytes) /
               static_cast<double>(network.region_bytes_per_cycle * neighbours) / cycle;
}

/// Moves all accesses to the core's part of the tensors.
void CostModel::begin_at_part() {
  const std::vector<std::int64_t>& first = problem_.first;
  if (first.empty()) return;
  const auto move = [&](Access& access) {
    for (AxisAccess& axis : access.axes)
      for (const AxisAccess::Term& term : axis.terms)
        axis.constant += term.coefficient * first[static_cast<std::size_t>(term.dim)];
  };
  for (Access& operand : problem_.domain.operands) move(operand);
  for (Access& result : problem_.domain.results) move(result);
  for (Problem::Leaf& leaf : problem_.leaves) move(leaf.access);
  for (Problem::Output& output : problem_.outputs) move(output.access);
}

void CostModel::see_neighbours() {
  for (std::size_t d = 0; d < problem_.parts.size(); ++d) {
    if (problem_.parts[d] < 2) continue;
    for (std::size_t operand = 0; operand < tensors(); ++operand) {
      double bytes = 0;
      const std::vector<AxisAccess>& axes = access(operand).axes;
      for (std::size_t axis = 0; axis < axes.size(); ++axis)
        for (const AxisAccess::Term& term : axes[axis].terms)
          if (term.dim == static_cast<int>(d))
            bytes +=
                static_cast<double>(std::abs(term.coefficient) * problem_.domain.extents[d] * strides_[operand][axis]) /
                8;
      if (bytes == 0 && problem_.multicast) continue;
      apart_[operand].push_back({bytes, static_cast<double>(problem_.parts[d])});
    }
  }
}

double CostModel::meeting(std::size_t operand, double bytes) const {
  double cores = 1;
  for (const Apart& cut : apart_[operand])
    cores *= cut.bytes == 0 ? cut.parts : std::clamp(bytes / cut.bytes, 1.0, cut.parts);
  return cores;
}

}  // namespace tilesim::mapping
