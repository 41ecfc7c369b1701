// Layouts of tensors over the prime factors ("atoms") of a mesh's axes. Propagation and resharding work on them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tilesim/graph/graph.hpp"
#include "tilesim/graph/sharding.hpp"

namespace tilesim::partitioning {

/// Indices of a Grid's atoms, major first.
using Atoms = std::vector<int>;

bool contains(const Atoms& atoms, int atom);
bool is_prefix(const Atoms& shorter, const Atoms& longer);

/// A mesh whose axes are split into prime parts, so that every part of an axis is a list of them.
class Grid {
 public:
  /// Splits axes at the boundaries of the parts in `shardings`. Throws UserError if two parts overlap within an axis.
  Grid(const Mesh& mesh, std::span<const Sharding* const> shardings);

  const Mesh& mesh() const { return mesh_; }
  std::int64_t devices() const { return devices_; }
  std::int64_t parts(const Atoms& atoms) const;
  std::int64_t size(int atom) const { return atoms_[static_cast<std::size_t>(atom)].size; }
  /// Index of a grid position among `parts(atoms)`.
  std::int64_t index(std::int64_t place, const Atoms& atoms) const;
  /// The same for every device, in order of their numbers.
  std::vector<std::int64_t> index_of_devices(const Atoms& atoms) const;
  /// Devices that differ only in `atoms`, in order of their index, group after group.
  std::vector<std::int64_t> groups(const Atoms& atoms) const;
  Atoms atoms(const std::vector<AxisPart>& parts) const;
  std::vector<AxisPart> axis_parts(const Atoms& atoms) const;

 private:
  struct Atom {
    std::size_t axis;
    std::int64_t before, size, stride;
  };
  Mesh mesh_;
  std::int64_t devices_ = 1;
  std::vector<Atom> atoms_;
};

/// Atoms that shard each axis of a tensor, and atoms over which every device has a partial result.
struct Layout {
  std::vector<Atoms> axes;
  Atoms partial;
  std::string combiner;  ///< of `partial`
  bool uses(int atom) const;
  friend bool operator==(const Layout&, const Layout&) = default;
};

Layout whole(std::size_t rank);
Sharding to_sharding(const Grid& grid, const Layout& layout);
/// Extent of an axis padded so that all devices' parts are equal: parts * ceil(extent / parts).
std::int64_t padded(std::int64_t extent, std::int64_t parts);
TensorType local_type(const Grid& grid, const TensorType& type, const Layout& layout);

// reshard.cpp: moves of a tensor from one layout to another, and the bytes that they send.

struct Move {
  enum class Sort : std::uint8_t { pad, cut, slice, all_gather, all_to_all, permute, all_reduce, reduce_scatter };
  Sort sort = Sort::slice;
  int axis = -1;       ///< padded, cut, sharded (slice, scatter, target of all_to_all) or gathered axis
  int from_axis = -1;  ///< all_to_all: gathered axis
  Atoms atoms{};       ///< atoms of the group
  Layout before{}, after{};
  std::int64_t extent = 0;  ///< pad, cut: local extent of the axis afterwards
  double bytes = 0;         ///< bytes sent per device
  bool settled = false;     ///< the tensor then has the padding of its layout
};

/// Moves from `from` to `to`; the latter has no partial results.
std::vector<Move> moves(const Grid& grid, const TensorType& type, const Layout& from, const Layout& to);
double wire_bytes(const std::vector<Move>& moves);
/// Source and target device of every pair of a permutation of full parts.
std::vector<std::int64_t> permute_pairs(const Grid& grid, const Layout& from, const Layout& to);

}  // namespace tilesim::partitioning
