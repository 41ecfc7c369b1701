// How many parts a divided kernel has, and where they lie on a machine whose memory has regions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tilesim/base/shape.hpp"
#include "tilesim/machine/share.hpp"

namespace tilesim {

/// Whether parts go to the regions in turn where they leave cores idle: each then has more of the links. Not where
/// cores are of several sorts, whose numbers say which they are, nor where they send to each other by number.
inline bool takes_regions_in_turn(const Share& machine, bool multicast) {
  const std::int64_t regions = machine.memory.regions;
  return regions > 1 && !multicast && machine.sorts.empty() && machine.core.count % regions == 0;
}

/// Of so many cores at work, those of the region that has most of them.
inline std::int64_t cores_of_region(const Share& machine, std::int64_t cores, bool multicast) {
  const std::int64_t regions = std::max<std::int64_t>(1, machine.memory.regions);
  if (takes_regions_in_turn(machine, multicast)) return ceil_div(cores, regions);
  return std::min(ceil_div(machine.core.count, regions), cores);
}

/// Parts per loop of a nest that leave the fewest trips to the busiest core; of those that do, the most of outer loops.
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
