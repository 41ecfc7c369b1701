// Adds the fidelity of each model to a Result.
#include "tilesim/engine/results/results.hpp"

#include <map>
#include <utility>

#include "tilesim/tile/latency_book.hpp"

namespace tilesim::engine {

namespace {

using Said = std::vector<std::string>;

void say_memory(const RunState& run, Said& said) {
  const MemorySpec& memory = run.chip.machine.memory;
  switch (run.chip.memory) {
    case MemoryKind::ideal:
      said.emplace_back("memory: ideal, no latency, no queueing, unlimited bandwidth");
      return;
    case MemoryKind::bank:
      said.emplace_back(
          "memory: DRAM channels of " + run.chip.options.dram->name + " with banks, rows, queues and refresh; " +
          (run.chip.routed
               ? "a write is acknowledged up to a read's latency after its acceptance"
               : "the return time of a read is fixed at its acceptance, so later requests do not delay it"));
      return;
    case MemoryKind::simple:
      said.emplace_back(
          "memory: latency plus bandwidth per channel, first come first served; banks, rows and refresh are an "
          "efficiency factor of " +
          std::to_string(memory.efficiency));
  }
  if (!run.memory.patterned())
    said.emplace_back(
        "memory: a strided transfer takes the bursts of its pieces at consecutive addresses: the channels and banks of "
        "the individual pieces are not modelled");
}

void say_dram(const RunState& run, Said& said) {
  if (run.chip.memory != MemoryKind::bank) return;
  const dram::Part& part = *run.chip.options.dram;
  const Machine& machine = run.chip.machine;
  const Int128 capacity = static_cast<Int128>(part.capacity_bytes()) * machine.memory.channels;
  if (const std::int64_t end = run.memory.end(); end > capacity)
    said.emplace_back("memory: tensors take " + std::to_string(end) + " B, the parts of all channels hold " +
                      std::to_string(static_cast<std::int64_t>(capacity)) +
                      " B: higher addresses share rows with the lowest ones");
  if (part.energy.known() && part.energy.refresh_all < 0)
    said.emplace_back("DRAM energy: activations and bursts; the part states no refresh energy");
  if (!part.energy.known())
    said.emplace_back("DRAM energy: no figures per command of " + part.name + " are known; " +
                      (machine.energy.memory_byte > 0 ? "bytes count with energy.memory_byte"
                                                      : "memory bytes are listed without energy"));
}

void say_network(const RunState& run, const std::string& network, Said& said) {
  const Machine& machine = run.chip.machine;
  const bool regions = machine.memory.regions > 1;
  if (run.chip.routed) {
    said.emplace_back("network: " + network + ", every flit of " + std::to_string(machine.network.flit_bytes) +
                      " B in every router; a multicast is one packet per destination and piece; a DMA engine can "
                      "inject a packet at each port at once");
    if (regions)
      said.emplace_back(
          "memory regions: a packet takes the parallel link of its destination's part of the region; requests, "
          "responses and sends share these links");
    return;
  }
  if (run.chip.memory == MemoryKind::ideal) return;
  said.emplace_back("network: latency and bandwidth per core port; no routers, requests are not counted");
  if (!regions) return;
  said.emplace_back("memory regions: links carry data and sends, not requests");
  if (!run.memory.patterned())
    said.emplace_back("memory regions: the lookup treats a strided transfer as the same number of contiguous bytes");
}

/// Reports computes without a kernel: per reason their number, and the first one.
void say_refused(const std::map<std::string, std::string>& refused, Said& said) {
  constexpr std::size_t most_reasons = 8;
  std::map<std::string, std::pair<std::string, std::int64_t>> reasons;
  for (const auto& [compute, why] : refused) ++reasons.try_emplace(why, compute, 0).first->second.second;
  std::size_t left = most_reasons;
  for (const auto& [why, found] : reasons) {
    if (left-- == 0) {
      said.emplace_back("tile computes: " + std::to_string(reasons.size() - most_reasons) +
                        " further reasons for closed forms");
      break;
    }
    said.emplace_back("tile computes: closed forms for " + std::to_string(found.second) + " without a kernel, as '" +
                      found.first + "': " + why);
  }
}

/// Reports closed forms without loads and stores, because they differ from kernels whose time is mainly data movement.
void say_arithmetic_alone(const RunState& run, Said& said) {
  if (!run.totals.arithmetic_alone) return;
  Descriptor first = *run.totals.arithmetic_alone;
  first.signature = 0;
  said.emplace_back(
      "tile computes: closed forms of the arithmetic only for those that read 64-bit integers, accumulate, sort by 64 "
      "bits, or have complex elements or elements below a byte, as '" +
      compute_text(first, {}) +
      "': loads, stores, conversions and the further instructions of functions are not counted; level=\"instruction\" "
      "times their kernels");
}

void say_computes(const Chip& chip, Said& said) {
  if (chip.options.live) {
    const ComputeReport report = chip.options.computes->report();
    said.insert(said.end(), report.approximations.begin(), report.approximations.end());
    return say_refused(report.refused, said);
  }
  bool kernels = false;
  std::map<std::string, std::string> refused;
  for (const std::unique_ptr<CoreKind>& kind : chip.kinds()) {
    kernels |= kind->asks_kernels();
    if (kind->book()) refused.insert(kind->book()->refused.begin(), kind->book()->refused.end());
  }
  if (!kernels) {
    said.emplace_back("tile computes: closed forms; scratchpad ports and bank conflicts are not modelled");
    return;
  }
  said.emplace_back("tile computes: kernels, each timed on an otherwise idle core");
  say_refused(refused, said);
}

/// Adds the computes of a run at instruction level: text, number of executions, cycles added to their queue's end.
void add_live(const Chip& chip, Result& result) {
  if (!chip.options.live) return;
  const ComputeReport report = chip.options.computes->report();
  Json rows = Json::array();
  for (const auto& [text, ran] : report.computes) {
    Json row = Json::object();
    row.set("compute", text);
    row.set("count", ran.count);
    row.set("cycles", ran.cycles);
    if (const auto why = report.refused.find(text); why != report.refused.end()) row.set("closed_form", why->second);
    rows.push(std::move(row));
  }
  result.live = Json::object();
  result.live.set("computes", std::move(rows));
}

}  // namespace

void add_fidelity(const RunState& run, Result& result) {
  const Chip& chip = run.chip;
  const bool ideal = chip.memory == MemoryKind::ideal;
  const RoutedMemory* const routed = run.memory.routed();
  const std::string network = routed ? routed->topology().name : ideal ? "none" : "simple";
  result.fidelity = {
      {"memory", chip.machine.memory.kind},
      {"network", network},
      {"tile latency", chip.options.live ? "live" : std::string(chip.kinds().front()->latencies().name())}};
  Said& said = result.approximations;
  say_memory(run, said);
  add_cache_fidelity(run, result);
  say_dram(run, said);
  say_network(run, network, said);
  if (!chip.machine.sorts.empty())
    said.emplace_back("several core types: cycles are those of core.clock; clock-domain crossings are assumed free");
  say_computes(chip, said);
  if (result.fidelity.at("tile latency") == "closed form") say_arithmetic_alone(run, said);
  add_live(chip, result);
  said.emplace_back("instruction dispatch is assumed free");
}

}  // namespace tilesim::engine
