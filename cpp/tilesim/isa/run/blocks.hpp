// Decoded code: straight runs of instructions by address, and which follow each other.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "tilesim/isa/state/memory.hpp"
#include "tilesim/isa/state/op.hpp"

namespace tilesim::isa {

class InstructionSet;

struct Block {
  Address begin = 0, end = 0;  ///< end: of the instruction that follows the last
  std::vector<Op> ops;
  std::uint64_t work = 0;  ///< for polls: instructions, vector ones as more
  Block* next[2] = {};     ///< those that followed lately
};

class Blocks {
 public:
  /// The block at `pc`, decoded if it was not. Throws Trap where nothing can be fetched: then at its first instruction.
  Block* at(const InstructionSet& set, Memory& memory, Address pc);
  void clear();

 private:
  Block* decode(const InstructionSet& set, Memory& memory, Address pc);

  std::unordered_map<Address, std::unique_ptr<Block>> blocks_;
  std::uint64_t version_ = 0;
  const Memory* memory_ = nullptr;
};

}  // namespace tilesim::isa
