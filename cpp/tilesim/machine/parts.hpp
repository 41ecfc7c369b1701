// Where the parts of a divided kernel lie on a machine whose memory has regions.
#pragma once

#include <algorithm>
#include <cstdint>

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

}  // namespace tilesim
