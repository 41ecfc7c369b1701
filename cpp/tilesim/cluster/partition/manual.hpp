// Regions whose tensors are a device's own over some axes of the mesh: where they begin, end, and what lies in them.
#pragma once

#include <optional>
#include <vector>

#include "tilesim/cluster/partition/layout.hpp"

namespace tilesim::partitioning {

/// A call at the border of a region, in the role "full_to_shard" or "shard_to_full".
struct Crossing {
  bool enters = true;
  std::vector<Atoms> axes;  ///< that divide each axis of the whole tensor into the devices' own ones
  Atoms own;                ///< all atoms over which tensors in the region are a device's own
};
bool crosses(const Op& op);
std::optional<Crossing> crossing_of(const Grid& grid, const Graph& graph, const Op& op);

/// Atoms over which each value is a device's own, by function and value; empty outside of regions. Unsupported for an
/// operation between devices that is in no region, or that leaves a region's axes.
std::vector<std::vector<Atoms>> own_atoms(const Grid& grid, const Graph& graph);

/// Layouts beyond a border, where they pass it without moves: atoms of `inside` that divide parts of equal size.
Layout inside_of(const Grid& grid, const Crossing& crossing, const Shape& inside, const Layout& layout);
Layout outside_of(const Crossing& crossing, const Layout& inside);

}  // namespace tilesim::partitioning
