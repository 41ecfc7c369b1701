#include "tilesim/compile/passes/addresses.hpp"

#include <algorithm>

#include "tilesim/base/shape.hpp"
#include "tilesim/compile/passes/numbers.hpp"
#include "tilesim/compile/passes/residency.hpp"
#include "tilesim/program/visit.hpp"

namespace tilesim::lower {

namespace {

std::int64_t bytes_of(const program::Slot& slot) {
  return round_up(packed_bytes(slot.dtype, slot.elements), 64) * slot.depth;
}

std::int64_t& memory_of(Held& bytes, const program::Slot& slot) {
  return slot.accumulator ? bytes.accumulator : bytes.scratchpad;
}

Held& operator+=(Held& bytes, const Held& more) {
  bytes.scratchpad += more.scratchpad;
  bytes.accumulator += more.accumulator;
  return bytes;
}

Held own_bytes(const program::Scope& scope) {
  Held bytes;
  for (const program::Slot& slot : scope.slots) memory_of(bytes, slot) += bytes_of(slot);
  return bytes;
}

/// Assigns addresses to the slots of the scope and its inner scopes, from `first` on.
void place(program::Scope& scope, Held first) {
  const auto place_own = [](program::Scope& own, Held& at) {
    for (program::Slot& slot : own.slots) {
      std::int64_t& address = memory_of(at, slot);
      slot.address = address;
      address += bytes_of(slot);
    }
  };
  place_own(scope, first);
  program::for_each_knowing(scope.body, first, [&](program::Statement& statement, const Held& around) {
    Held next = around;
    if (auto* inner = std::get_if<program::Scope>(&statement.action)) place_own(*inner, next);
    return program::inside(statement, next);
  });
}

enum class End : std::uint8_t { low, high };

/// Assigns addresses to the slots of a kernel at one end of each memory's free range. Slots of an inner scope follow
/// those of the enclosing scopes; consecutive scopes share addresses.
void place_slots(program::Scope& kernel, const Share& machine, const Span& scratchpad, End end) {
  if (end == End::low) return place(kernel, {scratchpad.low, 0});
  const Held bytes = held(kernel);
  const auto left = [](std::int64_t capacity, std::int64_t used) {
    return std::max<std::int64_t>(0, (capacity - used) / 64 * 64);
  };
  place(kernel, {std::max(scratchpad.low, left(scratchpad.high, bytes.scratchpad)),
                 left(machine.core.scratchpad.accumulator_bytes, bytes.accumulator)});
}

}  // namespace

Held held(const program::Scope& scope) {
  Held most = own_bytes(scope);
  program::for_each_knowing(scope.body, most, [&](const program::Statement& statement, const Held& around) {
    Held here = around;
    if (const auto* inner = std::get_if<program::Scope>(&statement.action)) here += own_bytes(*inner);
    most.scratchpad = std::max(most.scratchpad, here.scratchpad);
    most.accumulator = std::max(most.accumulator, here.accumulator);
    return program::inside(statement, here);
  });
  return most;
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

void give_addresses(program::Program& program, const Share& machine, const std::vector<Resident>& residents) {
  const KernelNumbers numbers(program);
  program::for_each_function(program, [&](program::Block& body, const std::string& function) {
    std::int64_t before = 0;
    for_each_kernel_of(body, [&](program::Statement& statement, std::int64_t number) {
      if (auto* kernel = std::get_if<program::Scope>(&statement.action)) {
        const bool alone = machine.core.kernel_barrier || KernelNumbers::runs_functions(kernel->body);
        const Span free =
            free_beside(residents, function, number, held(*kernel).scratchpad, machine.core.scratchpad.bytes);
        place_slots(*kernel, machine, free, alone || before % 2 == 0 ? End::low : End::high);
      }
      before += numbers.kernels_in(statement);
    });
  });
}

}  // namespace tilesim::lower
