// The addresses of an operand's tiles in memory, and the bytes that they move, as in the engine: full rows of lanes and
// layout tiles, or contiguous runs in full bursts.
#pragma once

#include <cstdint>
#include <vector>

#include "tilesim/mapping/vector/plan.hpp"

namespace tilesim::mapping {

struct Moved { std::int64_t address = 0, bytes = 0; };  ///< address relative to the tensor's start

/// The tiles of an operand: tiles per axis of the space, or window parts per axis.
using Cuts = std::vector<std::vector<Stretch>>;

class TensorMap {
 public:
  /// For an operand that has an access. Problem and operand must outlive the map.
  TensorMap(const VectorProblem& problem, const VectorOperand& operand, const Share& machine);

  /// Address and bytes of one tile, given by a stretch of one tile per axis. `taps`: current taps; empty: all.
  Moved moved(const std::vector<Stretch>& tile, const std::vector<Stretch>& taps) const;
  /// Bytes of all tiles, one per combination of positions on the axes, and the number of nonempty transfers.
  struct Sweep { double bytes = 0, transfers = 0; };
  Sweep sweep(const Cuts& tiles, const Cuts& taps) const;

 private:
  /// A dim on an axis of the tensor, with its coefficient. Several dims may share an axis.
  struct Dim {
    std::size_t axis = 0, place = 0;           ///< axis of the space; axis of the tensor, minor first
    std::int64_t coefficient = 1, stride = 1;  ///< elements per step; bits between adjacent elements
    bool alone = true;                         ///< whether it is the only dim on its tensor axis
  };
  /// The range of a tile along a dim: `low` and `high` on the tensor's axis, clipped to the axis if the dim is alone.
  struct Span { std::int64_t low = 0, high = 0, length = 1; };
  /// Tiles of equal length and equal alignment to bursts, or to rows and tiles of a layout.
  struct Class {
    std::int64_t length = 1, place = 0;
    bool to_end = false;  ///< ends at the tensor's end
    double count = 1;
  };
  using Classes = std::vector<Class>;

  Stretch taken(std::size_t axis, const Stretch& tile, const Stretch* tap) const;
  std::vector<Stretch> all_taken(std::size_t axis, const Cuts& tiles, const Cuts& taps) const;
  Span span(const Dim& dim, std::int64_t start, std::int64_t size) const;
  Class class_of(const Dim& dim, const Span& span) const;
  Classes classes(const Dim& dim, const std::vector<Stretch>& stretches) const;
  double dense_bytes(const std::vector<std::int64_t>& lengths, const Classes& places) const;
  void add_dense(const std::vector<Classes>& of_dims, std::vector<std::int64_t>& lengths, std::vector<Classes>& chosen,
                 Sweep& total) const;
  std::int64_t tiled_length(std::size_t place, std::int64_t low, std::int64_t high) const;
  Sweep tiled_axis(std::size_t place, const std::vector<std::vector<Stretch>>& taken) const;

  const VectorProblem& problem_;
  const VectorOperand& operand_;
  std::int64_t burst_;
  bool tiled_;
  std::vector<std::int64_t> strides_;  ///< in bits, minor first
  std::int64_t begin_ = 0;             ///< offset in bits of constants on axes without dims
  std::vector<Dim> dims_;              ///< ascending by stride
};

/// Strides in bits along each axis of the tensor, minor first.
std::vector<std::int64_t> strides_of(const VectorOperand& operand);

}  // namespace tilesim::mapping
