// Adds the cache in front of memory to a Result, in total and per tensor.
#include <algorithm>

#include "tilesim/engine/results/results.hpp"

namespace tilesim::engine {

namespace {

Json tensor_json(const cache::TensorUse& use) {
  Json json = Json::object();
  json.set("tensor", use.name);
  json.set("resident", use.resident);
  json.set("bytes", use.bytes);
  json.set("read_bytes", use.read_bytes);
  json.set("written_bytes", use.written_bytes);
  json.set("hits", use.hits);
  json.set("misses", use.misses);
  json.set("fetched_bytes", use.fetched_bytes);
  json.set("returned_bytes", use.returned_bytes);
  json.set("bypassed_bytes", use.bypassed_bytes);
  return json;
}

}  // namespace

/// Adds the counters of all slices. With a cache, memory traffic is the traffic of the channels.
void add_cache(const RunState& run, Result& result, Busiest& busiest) {
  const cache::Tensors* const tensors = run.memory.tensors();
  if (!tensors) return;
  const Machine& machine = run.chip.machine;
  const std::int64_t finish = result.cycles;
  const std::vector<const cache::Level*> levels = run.memory.caches();
  cache::Counters sum;
  std::int64_t slices = 0;
  for (const cache::Level* level : levels)
    for (std::size_t i = 0; i < level->size(); ++i, ++slices) {
      const cache::Counters own = level->slice(i).counters();
      sum.add(own);
      UnitUse use;
      use.unit = "memory.cache" + std::to_string(slices);
      use.kind = "cache";
      const std::int64_t cycles =
          cycles_at_or_after({own.port_cycles / level->spec().ports, machine.network.clock.hertz}, machine.core.clock);
      use.cycles[static_cast<std::size_t>(UnitState::busy)] = std::min(cycles, finish);
      use.cycles[static_cast<std::size_t>(UnitState::idle)] = finish - use.cycles[0];
      use.operations = own.reads + own.writes + own.bypassed;
      use.bytes = 0;
      busiest.cache = std::max(busiest.cache, use.cycles[0]);
      result.units.push_back(use);
    }
  Json json = Json::object();
  json.set("slices", slices);
  json.set("capacity_bytes", machine.memory.cache.bytes() * slices);
  json.set("managed", machine.memory.cache.software ? "software" : "hardware");
  json.set("hits", sum.hits);
  json.set("misses", sum.misses);
  json.set("merged", sum.merged);
  json.set("fetched_bytes", sum.fetched_bytes);
  json.set("returned_bytes", sum.written_bytes);
  json.set("bypassed_bytes", sum.bypass_read_bytes + sum.bypass_written_bytes);
  json.set("dirty_bytes", sum.dirty_bytes);
  json.set("stalled_cycles", sum.stalled_cycles);
  Json rows = Json::array();
  for (const cache::TensorUse& use : tensors->uses)
    if (use.read_bytes + use.written_bytes > 0 || use.resident) rows.push(tensor_json(use));
  json.set("tensors", std::move(rows));
  result.cache = std::move(json);
  if (levels.empty()) return;  // ideal memory has no caches
  result.memory_read_bytes = sum.fetched_bytes + sum.bypass_read_bytes;
  result.memory_written_bytes = sum.written_bytes + sum.bypass_written_bytes;
}

void add_cache_fidelity(const RunState& run, Result& result) {
  const CacheSpec& spec = run.chip.machine.memory.cache;
  const cache::Tensors* const tensors = run.memory.tensors();
  if (spec.sets == 0) return;
  std::vector<std::string>& said = result.approximations;
  if (!tensors) {
    result.fidelity["cache"] = "none: managed by software, without resident tensors";
    return;
  }
  if (run.memory.caches().empty()) {
    result.fidelity["cache"] = "none: ideal memory";
    said.emplace_back("cache: none before an ideal memory");
    return;
  }
  result.fidelity["cache"] = tensors->plan ? "residency plan" : "least recently used";
  said.emplace_back(std::string("cache: sectors in time, requests of a slice in order, ") +
                    (tensors->plan ? "tensors of the plan laid out without conflicts between sets, fetched when first "
                                     "read; all else bypasses the cache"
                                   : "least recently used lines are replaced") +
                    "; fills take no port; rows gathered by index bypass the cache; dirty lines stay at the end");
}

}  // namespace tilesim::engine
