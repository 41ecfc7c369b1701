// Structural check of a program: memory capacity, rings, and an order across cores without deadlock.
#include <algorithm>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tilesim/base/error.hpp"
#include "tilesim/base/interrupt.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/program/byte_ranges.hpp"
#include "tilesim/program/data_steps.hpp"
#include "tilesim/program/flat/cursor.hpp"
#include "tilesim/program/memory_lifetimes.hpp"
#include "tilesim/program/run/text_run.hpp"
#include "tilesim/program/visit.hpp"

namespace tilesim::program {

namespace {

constexpr std::int64_t statement_limit = 2'000'000;
constexpr std::int64_t race_limit = 20'000;  ///< limit on statements: event sets grow with their number
constexpr double race_places = 16e6;         ///< limit on elements of tensors and buffers; execution checks larger ones

/// Checks the bytes of slots that exist at the same time, through scopes and calls.
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

  /// Limit in bytes; the contexts of a core share its memories equally.
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

  /// Visits a called function, unless it was visited with only the program's slots in existence, or its visit is open.
  void visit_call(const std::string& name) {
    if (!visited_.emplace(name, alive_).second) return;
    if (const auto found = bodies_.find(name); found != bodies_.end()) visit(*found->second);
    if (alive_ > program_.slots.size()) visited_.erase({name, alive_});
  }

  const Program& program_;
  const ScratchpadSpec* memories_;
  std::unordered_map<std::string, const Block*> bodies_;
  ByteRanges<const Slot*> taken_;
  std::size_t alive_ = 0;  ///< number of slots in existence
  std::set<std::pair<std::string, std::size_t>> visited_;
};

/// Checks that tensors in scratchpads fit, and overlap neither each other nor slots of kernels during their lifetime.
class Staying {
 public:
  Staying(const Program& program, const ScratchpadSpec* memories) : program_(program) {
    if (memories) limit_ = memories->bytes / program.contexts;
  }

  void run() {
    for (const Tensor& tensor : program_.tensors)
      if (tensor.level == Level::scratchpad) add(tensor);
    if (tensors_.empty()) return;
    for (const DataRead& read : data_reads(program_))
      for (const Tensor* tensor : tensors_)
        if (tensor->name == read.tensor)
          fail("Expressions, or addresses of rows, read a tensor that lies in scratchpads.", *tensor, "level memory");
    lifetimes_ = lifetimes(program_);
    if (!lifetimes_.known) fail("The lifetime of a tensor in scratchpads is unknown.", *tensors_[0], "level memory");
    for (std::size_t i = 0; i < tensors_.size(); ++i) apart(i);
  }

 private:
  [[noreturn]] static void fail(const std::string& what, const Tensor& tensor, const std::string& allowed) {
    throw UserError(
        {what,
         tensor.name,
         "bytes " + std::to_string(tensor.address) + " to " + std::to_string(tensor.address + tensor.core_bytes),
         allowed,
         {}});
  }

  void add(const Tensor& tensor) {
    if (tensor.role != Role::temporary || !tensor.alias_of.empty())
      fail("Only a temporary that is not an alias can stay in scratchpads.", tensor, "level memory");
    if (tensor.address + tensor.core_bytes > limit_)
      fail("A tensor exceeds the scratchpad.", tensor, "at most " + std::to_string(limit_));
    for (const HeldPart& part : tensor.parts) {
      std::int64_t elements = 1;
      for (std::size_t axis = 0; axis < part.low.size(); ++axis)
        elements *= std::max<std::int64_t>(0, part.high[axis] - part.low[axis] + 1);
      if (part.core >= program_.cores)
        fail("A part of a tensor lies in an unknown core.", tensor, "0 to " + std::to_string(program_.cores - 1));
      if (packed_bytes(tensor.dtype, elements) > tensor.core_bytes)
        fail("A part of a tensor exceeds the core's share of it.", tensor,
             "at most " + std::to_string(tensor.core_bytes) + " bytes (core_bytes)");
    }
    tensors_.push_back(&tensor);
  }

  const std::vector<Lifetime>& spans(const Tensor& tensor) const {
    static const std::vector<Lifetime> none;
    const auto found = lifetimes_.spans.find(tensor.name);
    return found == lifetimes_.spans.end() ? none : found->second;
  }

  void apart(std::size_t number) {
    const Tensor& tensor = *tensors_[number];
    for (const Slot& slot : program_.slots) meets(tensor, slot);
    for (const Lifetime& span : spans(tensor)) {
      for (std::int64_t kernel = span.first; kernel <= span.last; ++kernel)
        if (const Scope* scope = lifetimes_.kernels[static_cast<std::size_t>(kernel)]) slots_of(*scope, tensor);
      for (std::size_t other = 0; other < number; ++other)
        for (const Lifetime& theirs : spans(*tensors_[other]))
          if (span.first <= theirs.last && theirs.first <= span.last &&
              overlap(tensor, tensors_[other]->address, tensors_[other]->core_bytes))
            fail("Two tensors that stay in scratchpads at the same time overlap.", tensor,
                 "apart from " + tensors_[other]->name);
    }
  }

  static bool overlap(const Tensor& tensor, std::int64_t low, std::int64_t bytes) {
    return tensor.address < low + bytes && low < tensor.address + tensor.core_bytes;
  }

  static void meets(const Tensor& tensor, const Slot& slot) {
    const std::int64_t bytes = round_up(packed_bytes(slot.dtype, slot.elements), 64) * slot.depth;
    if (!slot.accumulator && overlap(tensor, slot.address, bytes))
      fail("A tensor that stays in scratchpads overlaps a slot of a concurrent kernel.", tensor,
           "apart from slot " + slot.name);
  }

  static void slots_of(const Scope& scope, const Tensor& tensor) {
    for (const Slot& slot : scope.slots) meets(tensor, slot);
    for_each(scope.body, [&](const Statement& statement) {
      if (const auto* inner = std::get_if<Scope>(&statement.action))
        for (const Slot& slot : inner->slots) meets(tensor, slot);
    });
  }

  const Program& program_;
  std::int64_t limit_ = std::int64_t{1} << 60;
  std::vector<const Tensor*> tensors_;
  Lifetimes lifetimes_;
};

/// Runs the program in text order; `races` tracks happens-before.
void walk(const CompiledProgram& compiled, std::int64_t limit, Races* races) {
  TextOptions options;
  options.must_release = true;
  options.statement_limit = limit;
  options.races = races;
  try {
    TextRun(compiled, options).run();
  } catch (const NeedsData&) {
    // Loops or addresses depend on tensors, so only an execution can check them.
  }
}

}  // namespace

void check(const Program& program, const ScratchpadSpec* memories) {
  const CompiledProgram compiled(&program);
  Capacity(program, memories).run();
  Staying(program, memories).run();
  walk(compiled, statement_limit, nullptr);
}

void check_races(const Program& program) {
  if (!data_reads(program).empty()) return;  // the accessed bytes depend on data
  const CompiledProgram compiled(&program);
  const std::int64_t streams = program.cores * program.contexts;
  double kept = static_cast<double>(streams) * static_cast<double>(compiled.queues.size() + compiled.slots.size());
  for (const CompiledSlot& slot : compiled.slots)
    kept += static_cast<double>(streams) * static_cast<double>(slot.depth) * static_cast<double>(slot.bytes);
  for (const CompiledTensor& tensor : compiled.tensors) kept += static_cast<double>(element_count(tensor.shape));
  if (kept > race_places) return;
  Races races(compiled, static_cast<std::size_t>(streams));
  walk(compiled, race_limit, &races);
}

}  // namespace tilesim::program
