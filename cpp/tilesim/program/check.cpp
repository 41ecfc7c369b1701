// Structural check of a program: capacity, rings, a text order across cores.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tilesim/base/error.hpp"
#include "tilesim/base/interrupt.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/program/flat/cursor.hpp"
#include "tilesim/program/run/text_run.hpp"

namespace tilesim::program {

namespace {

constexpr std::int64_t statement_limit = 2'000'000;

/// Bytes of slots that are alive together, through scopes and calls.
class Capacity {
 public:
  Capacity(const Program& program, const Machine* machine) : program_(program), machine_(machine) {}

  void run() {
    declare(program_.slots, program_.name.empty() ? "program" : program_.name);
    visit(program_.body);
  }

 private:
  struct Range {
    std::string slot;
    std::int64_t low, high;
    bool accumulator;
  };

  void declare(const std::vector<Slot>& slots, const std::string& where) {
    for (const Slot& slot : slots) {
      const std::int64_t bytes = round_up(packed_bytes(slot.dtype, slot.elements), 64);
      if (slot.depth > limit(slot.accumulator) / bytes + 1) too_large(slot, where, bytes);
      const Range range{slot.name, slot.address, slot.address + bytes * slot.depth, slot.accumulator};
      if (range.high > limit(slot.accumulator)) too_large(slot, where, range.high);
      for (const Range& other : alive_) {
        if (other.accumulator == range.accumulator && other.low < range.high && other.high > range.low) {
          throw UserError({"Two slots that are alive together overlap.",
                           where,
                           slot.name + " and " + other.slot,
                           "separate addresses",
                           {}});
        }
      }
      alive_.push_back(range);
    }
  }

  /// Contexts of a core share its memories evenly.
  std::int64_t limit(bool accumulator) const {
    if (!machine_) return std::int64_t{1} << 60;
    const ScratchpadSpec& memory = machine_->core.scratchpad;
    return (accumulator ? memory.accumulator_bytes : memory.bytes) / program_.contexts;
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
      if (const auto* loop = std::get_if<For>(&statement.action)) visit(loop->body);
      if (const auto* branch = std::get_if<If>(&statement.action)) {
        visit(branch->then);
        visit(branch->otherwise);
      }
      if (const auto* call = std::get_if<Call>(&statement.action)) visit_call(call->function);
      if (const auto* scope = std::get_if<Scope>(&statement.action)) {
        const std::size_t before = alive_.size();
        declare(scope->slots, scope->kernel);
        visit(scope->body);
        alive_.resize(before);
      }
    }
  }

  /// A function called again above the same slots is not visited again.
  void visit_call(const std::string& name) {
    if (!visited_.emplace(name, alive_.size()).second) return;
    for (const Function& function : program_.functions) {
      if (function.name == name) visit(function.body);
    }
    if (alive_.size() > program_.slots.size()) visited_.erase({name, alive_.size()});
  }

  const Program& program_;
  const Machine* machine_;
  std::vector<Range> alive_;
  std::set<std::pair<std::string, std::size_t>> visited_;
};

}  // namespace

void check(const Program& program, const Machine* machine) {
  const CompiledProgram compiled(program);
  Capacity(program, machine).run();
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
