// Assembles the Result of a simulation.
#include "tilesim/engine/results/results.hpp"

#include <algorithm>

namespace tilesim::engine {

Share largest(std::initializer_list<Share> shares) {
  Share best{"latency", 0};
  for (const Share& share : shares)
    if (share.value > best.value) best = share;
  return best.value < 0.5 ? Share{"latency", best.value} : best;
}

double ratio(std::int64_t part, std::int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
}

namespace {

/// End of the last stream. If jobs are running, the current time or the end of started work, whichever is later.
std::int64_t total_cycles(const RunState& run) {
  std::int64_t total = run.jobs.finish();
  if (run.jobs.live().empty()) return total;
  total = std::max(total, run.agenda.now());
  for (const Unit& unit : run.units.all()) total = std::max(total, unit.busy_until);
  return total;
}

void add_totals(const RunState& run, Result& result) {
  result.machine = run.chip.machine.name;
  result.cycles = total_cycles(run);
  result.hertz = run.chip.machine.core.clock.hertz;
  result.tile_operations = run.totals.tile_operations;
  result.events = run.agenda.taken();
  result.memory_read_bytes = run.totals.read_bytes;
  result.memory_written_bytes = run.totals.written_bytes;
  result.network_bytes = run.totals.network_bytes;
  result.on_chip_bytes = run.totals.on_chip_bytes;
  result.hashes["machine"] = run.chip.machine.hash();
  result.configuration = run.chip.machine.to_json();
  if (const program::CompiledProgram* first = run.jobs.first()) {
    result.program = first->program().name;
    result.hashes["program"] = hash_text(first->program().to_json().dump());
  }
}

void add_bound(const Busiest& busiest, Result& result) {
  const std::int64_t whole = result.cycles;
  const Share bound = largest({{"compute", ratio(busiest.array, whole)},
                               {"vector", ratio(busiest.vector, whole)},
                               {"memory", ratio(busiest.memory, whole)},
                               {"cache", ratio(busiest.cache, whole)},
                               {"network", ratio(busiest.network, whole)},
                               {"dma", ratio(busiest.dma, whole)},
                               {"launch", ratio(busiest.launch, whole)}});
  result.bottleneck = bound.name;
  result.bottleneck_share = std::min(1.0, bound.value);
}

/// Reports the numbers of lookups to the latency books.
void tell_books(const Chip& chip) {
  for (const std::unique_ptr<CoreKind>& kind : chip.kinds()) {
    const auto found = chip.options.sort_latencies.find(kind->name);
    LatencyBook* book = found != chip.options.sort_latencies.end() ? found->second.get() : chip.options.latencies.get();
    if (book == nullptr) continue;
    kind->latencies().tell_counts();
    book->memory_hits = kind->latencies().hits();
    book->memory_misses = kind->latencies().misses();
  }
}

}  // namespace

Result result_of(const RunState& run) {
  Result result;
  Busiest busiest;
  add_totals(run, result);
  add_units(run, result, busiest);
  add_channels(run, result, busiest);
  add_cache(run, result, busiest);
  add_links(run, result, busiest);
  const Programs programs = programs_of(run.jobs);
  add_jobs(run, programs, result, busiest);
  add_bound(busiest, result);
  add_energy(run, programs, result);
  add_fidelity(run, result);
  tell_books(run.chip);
  add_sources(run, result);
  add_views(run, result);
  add_intervals(run, result);
  return result;
}

}  // namespace tilesim::engine
