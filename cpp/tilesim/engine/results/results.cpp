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

/// Until the last stream has ended; while jobs are under way until now, with what units have begun.
std::int64_t total_cycles(const Parts& parts) {
  std::int64_t total = parts.jobs.finish();
  if (parts.jobs.live().empty()) return total;
  total = std::max(total, parts.agenda.now());
  for (const Unit& unit : parts.units.all()) total = std::max(total, unit.busy_until);
  return total;
}

void add_totals(const Parts& parts, Result& result) {
  result.machine = parts.chip.machine.name;
  result.cycles = total_cycles(parts);
  result.hertz = parts.chip.machine.core.clock.hertz;
  result.tile_operations = parts.totals.tile_operations;
  result.events = parts.agenda.taken();
  result.memory_read_bytes = parts.totals.read_bytes;
  result.memory_written_bytes = parts.totals.written_bytes;
  result.network_bytes = parts.totals.network_bytes;
  result.on_chip_bytes = parts.totals.on_chip_bytes;
  result.hashes["machine"] = parts.chip.machine.hash();
  result.configuration = parts.chip.machine.to_json();
  if (const program::CompiledProgram* first = parts.jobs.first()) {
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

/// Of what was asked of the books of latencies.
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

Result result_of(const Parts& parts) {
  Result result;
  Busiest busiest;
  add_totals(parts, result);
  add_units(parts, result, busiest);
  add_channels(parts, result, busiest);
  add_cache(parts, result, busiest);
  add_links(parts, result, busiest);
  const Programs programs = programs_of(parts.jobs);
  add_jobs(parts, programs, result, busiest);
  add_bound(busiest, result);
  add_energy(parts, programs, result);
  add_fidelity(parts, result);
  tell_books(parts.chip);
  add_sources(parts, result);
  add_views(parts, result);
  add_intervals(parts, result);
  return result;
}

}  // namespace tilesim::engine
