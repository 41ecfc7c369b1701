// The addresses of an operand's tiles in memory and the bytes that they move, by the rule of the engine: whole rows of
// lanes and tiles of a layout, or contiguous runs in whole bursts.
#pragma once

#include <cstdint>
#include <vector>

#include "tilesim/mapping/vector/plan.hpp"

namespace tilesim::mapping {

struct Moved { std::int64_t address = 0, bytes = 0; };  ///< from the tensor's beginning

/// Tiles per axis of the space, or parts of a window per axis.
using Cuts = std::vector<std::vector<Stretch>>;

class TensorMap {
 public:
  /// Of an operand whose access is known. Problem and operand outlive it.
  TensorMap(const VectorProblem& problem, const VectorOperand& operand, const Share& machine);

  /// One tile: a stretch of one per axis. `taps`: those at hand; empty: all of them.
  Moved moved(const std::vector<Stretch>& tile, const std::vector<Stretch>& taps) const;
  /// Of all tiles, one for each of every axis: bytes, and transfers that move any.
  struct Sweep { double bytes = 0, transfers = 0; };
  Sweep sweep(const Cuts& tiles, const Cuts& taps) const;

 private:
  /// Elements along an axis of the tensor, a coefficient apart; several may share it.
  struct Dim {
    std::size_t axis = 0, place = 0;           ///< of the space; of the tensor, minor first
    std::int64_t coefficient = 1, stride = 1;  ///< elements; bits from one to the next
    bool alone = true;                         ///< on its axis of the tensor
  };
  /// What a tile has along a dim: `low` and `high` on the tensor's axis, inside of it where the dim is alone there.
  struct Span { std::int64_t low = 0, high = 0, length = 1; };
  /// Tiles that have as many elements and lie alike within bursts, or within rows and tiles of a layout.
  struct Class {
    std::int64_t length = 1, place = 0;
    bool to_end = false;  ///< up to the tensor's end
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
  std::vector<std::int64_t> strides_;  ///< bits, minor first
  std::int64_t begin_ = 0;             ///< bits, of the constants of axes whose dims do not count them
  std::vector<Dim> dims_;              ///< from small strides to large ones
};

/// Bits from one element of the tensor to the next along each of its axes, minor first.
std::vector<std::int64_t> strides_of(const VectorOperand& operand);

}  // namespace tilesim::mapping
