// State that an NPU core adds to a standard hart: arrays, DMA, and properties that software may query.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "tilesim/base/numerics.hpp"

namespace tilesim::isa {

inline constexpr std::uint64_t scratchpad_base = 0x8'0000'0000, accumulator_base = 0xC'0000'0000,
                               off_chip_base = 0x100'0000'0000;

/// Properties of a core, from its machine.
struct NpuSpec {
  unsigned lanes = 0, arrays = 0, rows = 0, columns = 0, core = 0, sequencer = 0;
  std::uint64_t scratchpad_bytes = 0, accumulator_bytes = 0, off_chip_bytes = 0;
  unsigned load_queues = 0, store_queues = 0;  ///< of DMA
  unsigned result_rows = 0;                    ///< rows that may wait for `mx.pop`
  Numerics numerics;
};

/// Weights of one array: the set in use, and the set being loaded.
template <class T>
struct ArrayValues {
  std::vector<T> weights, shadow;  ///< rows × columns
  std::size_t filled = 0;          ///< loaded elements of the shadow set
};

/// Results of one array in the order of its rows: bits of 32-bit sums.
struct ArrayResults {
  std::deque<std::uint32_t> waiting;
  std::uint64_t target = 0;  ///< address to which results are written; 0: they wait for `mx.pop`
  bool adds = false;         ///< adds to the values at `target`
};

/// DMA: queues 0 … load_queues − 1 load, the others store. Data moves at once; a timed run's observer decides when a
/// transfer is complete.
struct Moves {
  unsigned load_queues = 0, store_queues = 0;
  std::uint64_t tickets = 0;  ///< number of tickets so far; the first ticket is 1
  std::uint64_t bytes = 0;    ///< bytes of tensor elements moved
};

struct Npu {
  explicit Npu(const NpuSpec& of) : spec(of), floats(of.arrays), integers(of.arrays), results(of.arrays) {
    moves.load_queues = of.load_queues, moves.store_queues = of.store_queues;
  }

  NpuSpec spec;
  std::vector<ArrayValues<float>> floats;
  std::vector<ArrayValues<std::int64_t>> integers;
  Moves moves;
  std::vector<ArrayResults> results;
};

}  // namespace tilesim::isa
