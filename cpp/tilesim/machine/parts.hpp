// The parts of a split kernel, and their cores if the memory has regions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tilesim/base/shape.hpp"
#include "tilesim/machine/share.hpp"

namespace tilesim {

/// Whether consecutive parts go to different regions if there are fewer parts than cores, so that each part has a
/// larger share of the links. False if core numbers matter: with several core types, or if cores send to each other by
/// number.
inline bool takes_regions_in_turn(const Share& machine, bool multicast) {
  const std::int64_t regions = machine.memory.regions;
  return regions > 1 && !multicast && machine.sorts.empty() && machine.core.count % regions == 0;
}

/// Number of working cores in the region that has most of them.
inline std::int64_t cores_of_region(const Share& machine, std::int64_t cores, bool multicast) {
  const std::int64_t regions = std::max<std::int64_t>(1, machine.memory.regions);
  if (takes_regions_in_turn(machine, multicast)) return ceil_div(cores, regions);
  return std::min(ceil_div(machine.core.count, regions), cores);
}

/// Number of parts per loop of a nest that minimises the trips of the busiest core; ties prefer parts of outer loops.
inline std::vector<std::int64_t> parts_of_loops(const std::vector<std::int64_t>& extents, std::int64_t cores) {
  std::vector<std::int64_t> best(extents.size(), 1), current = best;
  double least = -1;
  const auto search = [&](const auto& self, std::size_t i, std::int64_t left, double trips) -> void {
    if (i == extents.size()) {
      if (least < 0 || trips < least) least = trips, best = current;
      return;
    }
    for (std::int64_t parts = std::min(left, extents[i]); parts >= 1; --parts) {
      current[i] = parts;
      self(self, i + 1, left / parts, trips * static_cast<double>(ceil_div(extents[i], parts)));
    }
  };
  search(search, 0, cores, 1);
  return best;
}

}  // namespace tilesim
