// Values that stay in the scratchpads of cores: which core holds which elements, and until when.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tilesim/program/run/operation.hpp"
#include "tilesim/program/run/tensors.hpp"

namespace tilesim::program {

/// Tracks tensors in scratchpads. A core (context) reads elements that it stored itself, until other data take the
/// bytes; of a tensor in parts, it also reads the parts of other cores.
class Residents {
 public:
  struct ResidentTensor {
    int tensor = -1;                 ///< the tensor that owns the bytes
    std::int64_t low = 0, high = 0;  ///< bytes of the scratchpad
    bool shared = false;             ///< in parts that other cores read
  };

  /// `holders`: tracks which core holds each element, for execution on data.
  Residents(const CompiledProgram& program, std::size_t streams, bool holders);

  const std::vector<ResidentTensor>& places() const { return places_; }
  /// The place of a tensor or its alias; null if it is in off-chip memory.
  const ResidentTensor* find(int tensor) const;
  /// Calls `call(place)` with each value that has bytes in [low, high) of scratchpads.
  template <class Call>
  void overlapping(std::int64_t low, std::int64_t high, const Call& call) const {
    for (const ResidentTensor& place : places_)
      if (place.low < high && low < place.high) call(place);
  }

  /// A slot takes bytes of the stream's scratchpad: values in them are lost, and poisoned.
  void take(std::size_t stream, std::int64_t low, std::int64_t high, Tensors* tensors);
  /// Checks a load or store before it runs. Throws UserError for elements that the stream does not hold, or if it holds
  /// more of them than its scratchpad has bytes for.
  void access(std::size_t stream, const Operation& op, Tensors* tensors);

 private:
  struct Held {
    std::vector<std::int16_t> holder;  ///< per unit: stream that holds it; -1: no stream
    std::vector<std::int64_t> count;   ///< per stream: number of units that it holds
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
