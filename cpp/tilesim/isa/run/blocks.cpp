#include "tilesim/isa/run/blocks.hpp"

#include "tilesim/isa/table/instruction_set.hpp"

namespace tilesim::isa {

namespace {

constexpr std::size_t longest = 64;  ///< limit on instructions per block

std::uint32_t fetch(Memory& memory, Address pc) {
  const std::uint32_t low = memory.fetch(pc);
  if ((low & 3) != 3) return low;
  return low | std::uint32_t{memory.fetch(pc + 2)} << 16;
}

}  // namespace

void Blocks::clear() { blocks_.clear(); }

Block* Blocks::at(const InstructionSet& set, Memory& memory, Address pc) {
  if (version_ != memory.version() || memory_ != &memory) {
    blocks_.clear();
    version_ = memory.version(), memory_ = &memory;
  }
  const auto found = blocks_.find(pc);
  return found != blocks_.end() ? found->second.get() : decode(set, memory, pc);
}

Block* Blocks::decode(const InstructionSet& set, Memory& memory, Address pc) {
  if ((pc & 1) != 0) throw Trap{Cause::fetch_misaligned, pc, ""};
  auto block = std::make_unique<Block>();
  block->begin = block->end = pc;
  while (block->ops.size() < longest) {
    std::uint32_t bits = 0;
    try {
      bits = fetch(memory, block->end);
    } catch (const Trap&) {
      if (block->ops.empty()) throw;
      break;
    }
    const Op op = set.decode(bits, block->end);
    block->ops.push_back(op);
    block->end += op.length;
    const InstructionInfo* info = op.id == 0xFFFF ? nullptr : &set.info(op.id);
    block->work += info != nullptr && info->is(is_vector) ? vector_work_ : 1;
    if (info == nullptr || info->is(ends_block)) break;
  }
  Block* made = block.get();
  blocks_[pc] = std::move(block);
  return made;
}

}  // namespace tilesim::isa
