#include "tilesim/compile/passes/addresses.hpp"

#include <algorithm>

#include "tilesim/base/shape.hpp"
#include "tilesim/program/visit.hpp"

namespace tilesim::lower {

namespace {

std::int64_t bytes_of(const program::Slot& slot) {
  return round_up(packed_bytes(slot.dtype, slot.elements), 64) * slot.depth;
}

std::int64_t& memory_of(Held& bytes, const program::Slot& slot) {
  return slot.accumulator ? bytes.accumulator : bytes.scratchpad;
}

/// Calls `call` with each scope directly inside of a block.
template <class Statements, class Call>
void for_each_scope(Statements& block, const Call& call) {
  for (auto& statement : block) {
    if (auto* scope = std::get_if<program::Scope>(&statement.action)) {
      call(*scope);
      continue;
    }
    program::for_each_body(statement, [&](auto& body) { for_each_scope(body, call); });
  }
}

void place(program::Scope& scope, Held next) {
  for (program::Slot& slot : scope.slots) {
    std::int64_t& address = memory_of(next, slot);
    slot.address = address;
    address += bytes_of(slot);
  }
  for_each_scope(scope.body, [&](program::Scope& inner) { place(inner, next); });
}

}  // namespace

Held held(const program::Scope& scope) {
  Held own, inside;
  for (const program::Slot& slot : scope.slots) memory_of(own, slot) += bytes_of(slot);
  for_each_scope(scope.body, [&](const program::Scope& inner) {
    const Held bytes = held(inner);
    inside.scratchpad = std::max(inside.scratchpad, bytes.scratchpad);
    inside.accumulator = std::max(inside.accumulator, bytes.accumulator);
  });
  return {own.scratchpad + inside.scratchpad, own.accumulator + inside.accumulator};
}

std::optional<Refusal> misfit(const program::Scope& kernel, const Share& machine) {
  const Held bytes = held(kernel);
  const ScratchpadSpec& memory = machine.core.scratchpad;
  const auto refusal = [&](const char* what, std::int64_t need, std::int64_t have) {
    return Refusal{{std::string("the tiles of this operation do not fit the ") + what,
                    join(kernel.operation, "+"),
                    std::to_string(need) + " bytes",
                    "at most " + std::to_string(have) + " bytes",
                    {}}};
  };
  if (bytes.scratchpad > memory.bytes) return refusal("scratchpad", bytes.scratchpad, memory.bytes);
  if (bytes.accumulator > memory.accumulator_bytes)
    return refusal("accumulator", bytes.accumulator, memory.accumulator_bytes);
  return std::nullopt;
}

void place_slots(program::Scope& kernel, const Share& machine, End end) {
  if (end == End::low) return place(kernel, {});
  const Held bytes = held(kernel);
  const ScratchpadSpec& memory = machine.core.scratchpad;
  const auto left = [](std::int64_t capacity, std::int64_t used) {
    return std::max<std::int64_t>(0, (capacity - used) / 64 * 64);
  };
  place(kernel, {left(memory.bytes, bytes.scratchpad), left(memory.accumulator_bytes, bytes.accumulator)});
}

}  // namespace tilesim::lower
