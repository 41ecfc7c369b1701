// Structural check of a program: capacity, rings, a text order across cores.
#include <algorithm>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tilesim/base/error.hpp"
#include "tilesim/base/interrupt.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/program/flat/cursor.hpp"
#include "tilesim/program/run/byte_ranges.hpp"
#include "tilesim/program/run/text_run.hpp"
#include "tilesim/program/visit.hpp"

namespace tilesim::program {

namespace {

constexpr std::int64_t statement_limit = 2'000'000;

/// Bytes of slots that are alive together, through scopes and calls.
class Capacity {
 public:
  Capacity(const Program& program, const ScratchpadSpec* memories) : program_(program), memories_(memories) {
    for (const Function& function : program.functions) bodies_.emplace(function.name, &function.body);
  }

  void run() {
    declare(program_.slots, program_.name.empty() ? "program" : program_.name);
    visit(program_.body);
  }

 private:
  void declare(const std::vector<Slot>& slots, const std::string& where) {
    for (const Slot& slot : slots) {
      const std::int64_t bytes = round_up(packed_bytes(slot.dtype, slot.elements), 64);
      if (slot.depth > limit(slot.accumulator) / bytes + 1) too_large(slot, where, bytes);
      const std::int64_t high = slot.address + bytes * slot.depth;
      if (high > limit(slot.accumulator)) too_large(slot, where, high);
      if (const auto* other = taken_.overlapping(slot.accumulator, slot.address, high))
        throw UserError({"Two slots that are alive together overlap.",
                         where,
                         slot.name + " and " + (*other)->name,
                         "separate addresses",
                         {}});
      taken_.take(slot.accumulator, slot.address, high, &slot);
      ++alive_;
    }
  }

  /// Contexts of a core share its memories evenly.
  std::int64_t limit(bool accumulator) const {
    if (!memories_) return std::int64_t{1} << 60;
    return (accumulator ? memories_->accumulator_bytes : memories_->bytes) / program_.contexts;
  }

  [[noreturn]] void too_large(const Slot& slot, const std::string& where, std::int64_t bytes) const {
    throw UserError({slot.accumulator ? "The slots exceed the accumulator." : "The slots exceed the scratchpad.",
                     where + ", slot " + slot.name,
                     std::to_string(bytes) + " bytes",
                     "at most " + std::to_string(limit(slot.accumulator)),
                     {}});
  }

  void visit(const Block& block) {
    for (const Statement& statement : block) {
      if (const auto* call = std::get_if<Call>(&statement.action)) visit_call(call->function);
      const auto* scope = std::get_if<Scope>(&statement.action);
      if (scope) declare(scope->slots, scope->kernel);
      for_each_body(statement, [&](const Block& body) { visit(body); });
      if (scope) {
        for (const Slot& slot : scope->slots) taken_.free(slot.accumulator, slot.address);
        alive_ -= scope->slots.size();
      }
    }
  }

  /// A function called again above the same slots is not visited again.
  void visit_call(const std::string& name) {
    if (!visited_.emplace(name, alive_).second) return;
    if (const auto found = bodies_.find(name); found != bodies_.end()) visit(*found->second);
    if (alive_ > program_.slots.size()) visited_.erase({name, alive_});
  }

  const Program& program_;
  const ScratchpadSpec* memories_;
  std::unordered_map<std::string, const Block*> bodies_;
  ByteRanges<const Slot*> taken_;
  std::size_t alive_ = 0;  ///< slots
  std::set<std::pair<std::string, std::size_t>> visited_;
};

}  // namespace

void check(const Program& program, const ScratchpadSpec* memories) {
  const CompiledProgram compiled(&program);
  Capacity(program, memories).run();
  TextOptions options;
  options.must_release = true;
  options.statement_limit = statement_limit;
  try {
    TextRun(compiled, options).run();
  } catch (const NeedsData&) {
    // Loops or addresses depend on tensors: only execution can tell.
  }
}

}  // namespace tilesim::program
