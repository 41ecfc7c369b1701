// Cache of decoded code: straight-line instruction sequences by address, linked to their successors.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "tilesim/isa/state/memory.hpp"
#include "tilesim/isa/state/op.hpp"

namespace tilesim::isa {

class InstructionSet;

struct Block {
  Address begin = 0, end = 0;  ///< end: address after the last instruction
  std::vector<Op> ops;
  std::uint64_t work = 0;  ///< for polls: number of instructions, with a larger weight for vector instructions
  Block* next[2] = {};     ///< recent successors
};

class Blocks {
 public:
  explicit Blocks(std::uint32_t vlen) : vector_work_(std::max<std::uint64_t>(64, vlen / 16)) {}
  /// The block at `pc`, decoded if necessary. Throws Trap at its first instruction if the address cannot be fetched.
  Block* at(const InstructionSet& set, Memory& memory, Address pc);
  void clear();

 private:
  Block* decode(const InstructionSet& set, Memory& memory, Address pc);

  std::unordered_map<Address, std::unique_ptr<Block>> blocks_;
  std::uint64_t version_ = 0;
  const Memory* memory_ = nullptr;
  std::uint64_t vector_work_;  ///< work of a vector instruction, by register length
};

}  // namespace tilesim::isa
