#include "tilesim/engine/chip/chip.hpp"

#include "tilesim/base/error.hpp"
#include "tilesim/base/units.hpp"
#include "tilesim/machine/settings.hpp"

namespace tilesim::engine {

namespace {

MemoryKind memory_kind(const std::string& kind) {
  const std::vector<std::string> kinds{"ideal", "simple", "bank"};
  for (std::size_t i = 0; i < kinds.size(); ++i)
    if (kinds[i] == kind) return static_cast<MemoryKind>(i);
  throw UserError({"unknown memory fidelity", "memory", "'" + kind + "'", join(kinds), nearest(kind, kinds)});
}

}  // namespace

Chip::Chip(const Machine& given, SimulateOptions asked)
    : machine(given),
      options(std::move(asked)),
      memory(memory_kind(options.memory.value_or(given.memory.kind))),
      routed(options.network.value_or(given.network.kind) != "simple") {
  machine.memory.kind = options.memory.value_or(given.memory.kind);
  if (memory == MemoryKind::bank && !options.dram)
    throw UserError({"memory of fidelity bank needs a DRAM part", "memory.part", {}, "a part of configs/dram", {}});
  check_cache(machine, "memory.cache");
  if (machine.memory.cache.sets == 0 && !options.resident.empty())
    throw UserError({"tensors cannot stay in a cache: the machine has none",
                     "resident",
                     "'" + options.resident[0] + "'",
                     "a machine with memory.cache",
                     {}});
  machine.network.kind = options.network.value_or(given.network.kind);
  if (routed && !options.topology)
    throw UserError({"a network of routers needs its topology",
                     "network.kind",
                     "'" + machine.network.kind + "'",
                     "simple, or a topology beside the machine",
                     {}});
  kinds_ = core_kinds(machine, options, of_core_);
}

std::int64_t Chip::signal_cycles(std::int64_t from, std::int64_t to) const {
  if (memory == MemoryKind::ideal) return 0;
  const NetworkSpec& network = machine.network;
  const auto region = [&](std::int64_t core) { return core * machine.memory.regions / machine.core.count; };
  const std::int64_t further = region(from) == region(to) ? 0 : network.region_latency_cycles;
  return cycles_at_or_after({network.latency_cycles + further, network.clock.hertz}, machine.core.clock);
}

}  // namespace tilesim::engine
