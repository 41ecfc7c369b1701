// State that an NPU core adds to a standard hart: arrays, and the facts that software may query about the core.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "tilesim/base/numerics.hpp"

namespace tilesim::isa {

inline constexpr std::uint64_t scratchpad_base = 0x8'0000'0000, accumulator_base = 0xC'0000'0000,
                               off_chip_base = 0x100'0000'0000;

/// Counts of a core, as its machine states them.
struct NpuSpec {
  unsigned lanes = 0, arrays = 0, rows = 0, columns = 0, core = 0, sequencer = 0;
  std::uint64_t scratchpad_bytes = 0, accumulator_bytes = 0, off_chip_bytes = 0;
  unsigned load_queues = 0, store_queues = 0;  ///< of DMA
  unsigned result_rows = 0;                    ///< that wait for `mx.pop`
  Numerics numerics;
};

/// Weights of one array: a set in use, and one that is being filled.
template <class T>
struct ArrayValues {
  std::vector<T> weights, shadow;  ///< rows × columns
  std::size_t filled = 0;          ///< elements of the shadow set
};

/// What comes out of one array, in the order of its rows whatever their types: bits of 32-bit sums.
struct ArrayResults {
  std::deque<std::uint32_t> waiting;
  std::uint64_t target = 0;  ///< where results go instead; 0: they wait to be taken
  bool adds = false;         ///< to what is there
};

/// DMA: queues 0 … load_queues − 1 bring data in, the others out. What a transfer moves is there at once; who
/// times the run says when it is over.
struct Moves {
  unsigned load_queues = 0, store_queues = 0;
  std::uint64_t tickets = 0;  ///< given so far; the first is 1
  std::uint64_t bytes = 0;    ///< of tensors' elements
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
