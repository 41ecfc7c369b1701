#include "tilesim/engine/jobs/signed.hpp"

#include "tilesim/base/index.hpp"
#include "tilesim/program/run/operation.hpp"

namespace tilesim::engine {

void SignedComputes::describe(const program::Cursor& cursor, const program::Instruction& instruction) {
  key_.clear();
  const auto add = [&](const CompiledExpr& number) { key_.push_back(cursor.value(number)); };
  const std::vector<program::CompiledView>& views = instruction.views;
  for (std::size_t i = 0; i < views.size(); ++i) {
    for (const auto& [extent, stride] : views[i].dims) add(extent), add(stride);
    // For views of the same version: the distance between both views.
    for (std::size_t j = 0; j < i; ++j)
      if (views[j].slot == views[i].slot && views[j].back == views[i].back)
        key_.push_back(cursor.value(views[i].offset) - cursor.value(views[j].offset));
  }
  for (const CompiledExpr& extent : instruction.extents) add(extent);
  for (const CompiledExpr& accumulate : instruction.accumulates) key_.push_back(cursor.value(accumulate) != 0 ? 1 : 0);
  if (instruction.opcode == program::Opcode::mma) key_.push_back(cursor.value(instruction.count) != 0 ? 1 : 0);
  if (instruction.opcode == program::Opcode::opaque) add(instruction.count);
}

const SignedCompute& SignedComputes::find(const program::Cursor& cursor, std::int64_t core,
                                          const program::Instruction& instruction) {
  if (by_instruction_.empty()) by_instruction_.resize(program_.instructions().size());
  OfInstruction& own = by_instruction_[at(&instruction - program_.instructions().data())];
  describe(cursor, instruction);
  if (own.last && own.last->first == key_) return own.last->second;
  auto found = own.cached.find(key_);
  if (found == own.cached.end())
    found = own.cached.try_emplace(key_, program::tile_compute(program_, cursor, core, instruction)).first;
  own.last = &*found;
  return found->second;
}

}  // namespace tilesim::engine
