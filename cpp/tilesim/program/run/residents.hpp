// Values that stay in the scratchpads of cores: which core holds which elements, and until when.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tilesim/program/run/operation.hpp"
#include "tilesim/program/run/tensors.hpp"

namespace tilesim::program {

/// Each core (context) has a separate scratchpad: it reads what it has stored itself, as long as nothing else has
/// taken the bytes; of a tensor in parts, also what the others have.
class Residents {
 public:
  struct ResidentTensor {
    int tensor = -1;                 ///< that owns the bytes
    std::int64_t low = 0, high = 0;  ///< bytes of the scratchpad
    bool shared = false;             ///< in parts, which other cores read
  };

  /// `holders`: where values are computed on: who holds which element.
  Residents(const CompiledProgram& program, std::size_t streams, bool holders);

  const std::vector<ResidentTensor>& places() const { return places_; }
  /// Of a tensor or its alias; null: it lies in memory.
  const ResidentTensor* find(int tensor) const;
  /// Calls `call(place)` with each value that has bytes in [low, high) of scratchpads.
  template <class Call>
  void overlapping(std::int64_t low, std::int64_t high, const Call& call) const {
    for (const ResidentTensor& place : places_)
      if (place.low < high && low < place.high) call(place);
  }

  /// A slot takes bytes of the stream's scratchpad: the values there are gone, and poisoned.
  void take(std::size_t stream, std::int64_t low, std::int64_t high, Tensors* tensors);
  /// Before a load or store of the stream is carried out. Throws UserError for elements that it does not hold, or more
  /// of them than its scratchpad has bytes for.
  void access(std::size_t stream, const Operation& op, Tensors* tensors);

 private:
  struct Held {
    std::vector<std::int16_t> holder;  ///< per unit; -1: nobody
    std::vector<std::int64_t> count;   ///< per stream: units that it holds
    std::int64_t unit = 0;             ///< bytes on the host
    std::vector<std::int16_t> part;    ///< per unit: whose part it is in; empty: anybody's
  };
  void give_parts(Held& held, const CompiledTensor& tensor) const;
  void drop(std::size_t stream, const ResidentTensor& place, Tensors* tensors);

  const CompiledProgram& program_;
  std::vector<ResidentTensor> places_;
  std::vector<int> place_of_;  ///< by tensor; -1: in memory
  std::vector<Held> held_;
};

}  // namespace tilesim::program
