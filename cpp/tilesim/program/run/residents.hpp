// Values that stay in the scratchpads of cores: which core has which elements, and until when.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tilesim/program/run/operation.hpp"
#include "tilesim/program/run/tensors.hpp"

namespace tilesim::program {

/// Tracks tensors in scratchpads. A core (context) may read elements that it stored itself until other data overwrite
/// the bytes. If the tensor has parts, it may also read the parts of other cores.
class Residents {
 public:
  struct ResidentTensor {
    int tensor = -1;                 ///< the tensor that owns the bytes
    std::int64_t low = 0, high = 0;  ///< range of bytes in the scratchpad
    bool shared = false;             ///< whether it has parts that other cores read
  };

  /// `holders`: whether to track which core has each element, for execution on data.
  Residents(const CompiledProgram& program, std::size_t streams, bool holders);

  const std::vector<ResidentTensor>& places() const { return places_; }
  /// The scratchpad bytes of a tensor or an alias; null if it is in off-chip memory.
  const ResidentTensor* find(int tensor) const;
  /// Calls `call(place)` with each tensor that has bytes in [low, high) of the scratchpads.
  template <class Call>
  void overlapping(std::int64_t low, std::int64_t high, const Call& call) const {
    for (const ResidentTensor& place : places_)
      if (place.low < high && low < place.high) call(place);
  }

  /// Records that a slot uses bytes of the stream's scratchpad: values in these bytes are lost, and poisoned.
  void take(std::size_t stream, std::int64_t low, std::int64_t high, Tensors* tensors);
  /// Checks a load or store before it runs. Throws UserError if the stream does not have the elements, or if it stores
  /// more elements than fit the tensor's bytes in its scratchpad.
  void access(std::size_t stream, const Operation& op, Tensors* tensors);

 private:
  struct Held {
    std::vector<std::int16_t> holder;  ///< per unit: stream that has it; -1: none
    std::vector<std::int64_t> count;   ///< per stream: number of units that it has
    std::int64_t unit = 0;             ///< host bytes per unit
    std::vector<std::int16_t> part;    ///< per unit: core that owns it; empty: any core
  };
  void give_parts(Held& held, const CompiledTensor& tensor) const;
  void drop(std::size_t stream, const ResidentTensor& place, Tensors* tensors);

  const CompiledProgram& program_;
  std::vector<ResidentTensor> places_;
  std::vector<int> place_of_;  ///< by tensor id; -1: off-chip memory
  std::vector<Held> held_;
};

}  // namespace tilesim::program
