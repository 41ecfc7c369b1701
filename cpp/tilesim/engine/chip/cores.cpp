#include "tilesim/engine/chip/cores.hpp"

#include <algorithm>

#include "tilesim/base/error.hpp"
#include "tilesim/base/shape.hpp"

namespace tilesim::engine {

namespace {

constexpr std::int64_t least_chunk = 16384, most_under_way = 64;

/// The machine with the cores of one type only.
Machine only(const Machine& machine, const CoreSort* sort) { return sort ? machine.only(sort->name) : machine; }

LatencyStore::Counted counting(LatencyBook& book) {
  return [&book](const Descriptor& descriptor, const History& history, std::int64_t times) {
    book.counts[compute_text(descriptor, history)] += times;
  };
}

}  // namespace

CoreKind::CoreKind(const Machine& whole, const CoreSort* sort, LatencyBook* book, const SimulateOptions& options)
    : name(sort ? sort->name : ""),
      machine(only(whole, sort)),
      core(machine.core),
      base_(whole.core.clock),
      same_clock_(machine.core.clock.hertz == base_.hertz),
      book_(book),
      signs_(options.live || (book && book->source() == instruction_source)),
      closed_form_(this->machine),
      kernels_(book && signs_ && options.kernels ? options.kernels(this->machine) : nullptr),
      booked_(book ? std::make_unique<BookedLatency>(*book, closed_form_, kernels_.get()) : nullptr),
      latencies_(booked_ ? static_cast<LatencyModel&>(*booked_) : closed_form_,
                 book && signs_ ? counting(*book) : nullptr) {
  chunk_bytes = std::max(least_chunk, machine.memory.interleave_bytes * machine.memory.channels);
  chunk_bytes = std::max<std::int64_t>(1, std::min(chunk_bytes, core.dma.outstanding_bytes));
  window = std::clamp<std::int64_t>(core.dma.outstanding_bytes / chunk_bytes, 1, most_under_way);
}

std::int64_t CoreKind::after_own(std::int64_t now, std::int64_t cycles) const {
  const auto edge =
      static_cast<std::int64_t>(static_cast<Int128>(now) * core.clock.hertz / static_cast<Int128>(base_.hertz));
  return std::max(now, cycles_at_or_after({edge + cycles, core.clock.hertz}, base_));
}

std::vector<std::unique_ptr<CoreKind>> core_kinds(const Machine& machine, const SimulateOptions& options,
                                                  std::vector<CoreKind*>& of_core) {
  std::vector<std::unique_ptr<CoreKind>> kinds;
  LatencyBook* const book = options.latencies.get();
  if (machine.sorts.empty()) {
    kinds.push_back(std::make_unique<CoreKind>(machine, nullptr, book, options));
    of_core.assign(static_cast<std::size_t>(machine.core.count), kinds.back().get());
    return kinds;
  }
  require(book == nullptr, "a chip of several core types needs a book of latencies for each");
  for (const CoreSort& sort : machine.sorts) {
    const auto own = options.sort_latencies.find(sort.name);
    LatencyBook* const of_sort = own == options.sort_latencies.end() ? nullptr : own->second.get();
    kinds.push_back(std::make_unique<CoreKind>(machine, &sort, of_sort, options));
    of_core.insert(of_core.end(), static_cast<std::size_t>(sort.core.count), kinds.back().get());
  }
  return kinds;
}

std::int64_t contexts_of(const program::CompiledProgram& program, const CoreKind& kind, std::int64_t number) {
  const std::int64_t wanted = program.program().contexts;
  const CoreSpec& core = kind.core;
  if (wanted > core.contexts)
    throw UserError({"the program needs more contexts than a core has",
                     program.program().name,
                     std::to_string(wanted),
                     "at most " + std::to_string(core.contexts),
                     {}});
  std::int64_t ends[2] = {0, 0};
  for (const program::CompiledSlot& slot : program.slots)
    ends[slot.accumulator ? 1 : 0] = std::max(ends[slot.accumulator ? 1 : 0], slot.address + slot.depth * slot.bytes);
  const std::int64_t sizes[2] = {core.scratchpad.bytes, core.scratchpad.accumulator_bytes};
  for (int i = 0; i < 2; ++i)
    if (!kind.name.empty() && ends[i] > sizes[i])
      throw UserError({i == 0 ? "the program's slots exceed the scratchpad of one of its cores"
                              : "the program's slots exceed the accumulator of one of its cores",
                       program.program().name, std::to_string(ends[i]) + " B",
                       std::to_string(sizes[i]) + " B on core " + std::to_string(number) + " (" + kind.name + ")",
                       "compile it with sort=\"" + kind.name + "\""});
  return ends[0] <= sizes[0] / core.contexts && ends[1] <= sizes[1] / core.contexts ? wanted : core.contexts;
}

}  // namespace tilesim::engine
