// Which tensors a cache keeps, what it did for each, and what the Result says of it.
#include <algorithm>

#include "tilesim/base/error.hpp"
#include "tilesim/engine/simulator.hpp"

namespace tilesim::engine {

void Simulator::add_tensors(JobState& job) {
  const program::CompiledProgram& program = *job.job.program;
  job.first_tensor = static_cast<std::int32_t>(tensors_->uses.size());
  std::vector<std::string> names;
  for (std::size_t i = 0; i < program.tensors.size(); ++i) {
    names.push_back(program.tensors[i].name);
    cache::TensorUse use;
    use.name = program.tensors[i].name;
    use.bytes = job.map->entries[i].bytes;
    tensors_->uses.push_back(std::move(use));
  }
  for (const std::string& name : options_.resident) {
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end())
      throw UserError({"a tensor that the program lacks cannot stay in the cache", program.program().name,
                       "'" + name + "'", join(names), nearest(name, names)});
    // Tensors that share their bytes stay together.
    const auto own = static_cast<std::size_t>(program.tensors[static_cast<std::size_t>(found - names.begin())].storage);
    tensors_->uses[static_cast<std::size_t>(job.first_tensor) + own].resident = true;
  }
  const std::int64_t capacity = machine_.memory.cache.bytes() * machine_.memory.channels;
  std::int64_t kept = 0;
  std::vector<std::string> sizes;
  for (const cache::TensorUse& use : tensors_->uses) {
    if (!use.resident) continue;
    kept += use.bytes;
    sizes.push_back(use.name + " (" + std::to_string(use.bytes) + " B)");
  }
  if (kept > capacity)
    throw UserError({"the resident tensors exceed the cache",
                     "resident",
                     std::to_string(kept) + " B: " + join(sizes),
                     "at most " + std::to_string(capacity) + " B in all slices",
                     {}});
}

std::int32_t Simulator::new_pattern(const JobState& job, const program::Cursor& cursor,
                                    const program::CompiledTransfer& transfer) {
  if (free_patterns_.empty()) {
    free_patterns_.push_back(static_cast<std::int32_t>(patterns_.size()));
    patterns_.emplace_back();
  }
  const std::int32_t place = free_patterns_.back();
  free_patterns_.pop_back();
  Pattern& pattern = patterns_[static_cast<std::size_t>(place)];
  pattern = Pattern{};
  const program::CompiledTensor& tensor =
      job.job.program->tensors[static_cast<std::size_t>(cursor.tensor(transfer.tensor))];
  pattern.tensor = job.first_tensor + tensor.storage;
  return place;
}

void Simulator::account_pattern(const Entry& entry, KernelCounters* kernel) {
  const Pattern& pattern = patterns_[static_cast<std::size_t>(entry.pattern)];
  free_patterns_.push_back(entry.pattern);
  if (!tensors_) return;
  cache::TensorUse& use = tensors_->uses[static_cast<std::size_t>(pattern.tensor)];
  (entry.opcode == program::Opcode::load ? use.read_bytes : use.written_bytes) += entry.bytes;
  if (kernel) kernel->below_bytes += pattern.below;
}

std::vector<const cache::Level*> Simulator::caches() const {
  std::vector<const cache::Level*> levels;
  if (routed_ && routed_->memory().cache()) levels.push_back(routed_->memory().cache());
  if (memory_) memory_->add_caches(levels);
  return levels;
}

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

/// Counters of all slices; what the channels moved is what of the traffic reached the memory.
void Simulator::add_cache(Result& result) const {
  if (!tensors_) return;
  const std::vector<const cache::Level*> levels = caches();
  cache::Counters sum;
  std::int64_t slices = 0;
  for (const cache::Level* level : levels)
    for (std::size_t i = 0; i < level->size(); ++i, ++slices) {
      const cache::Counters own = level->slice(i).counters();
      sum.add(own);
      UnitUse use;
      use.unit = "memory.cache" + std::to_string(slices);
      use.kind = "cache";
      const std::int64_t cycles = cycles_at_or_after(
          {own.port_cycles / level->spec().ports, machine_.network.clock.hertz}, machine_.core.clock);
      use.cycles[static_cast<std::size_t>(UnitState::busy)] = std::min(cycles, finish_);
      use.cycles[static_cast<std::size_t>(UnitState::idle)] = finish_ - use.cycles[0];
      use.operations = own.reads + own.writes + own.bypassed;
      use.bytes = 0;
      result.units.push_back(use);
    }
  Json json = Json::object();
  json.set("slices", slices);
  json.set("capacity_bytes", machine_.memory.cache.bytes() * slices);
  json.set("managed", machine_.memory.cache.software ? "software" : "hardware");
  json.set("hits", sum.hits);
  json.set("misses", sum.misses);
  json.set("merged", sum.merged);
  json.set("fetched_bytes", sum.fetched_bytes);
  json.set("returned_bytes", sum.written_bytes);
  json.set("bypassed_bytes", sum.bypass_read_bytes + sum.bypass_written_bytes);
  json.set("dirty_bytes", sum.dirty_bytes);
  json.set("stalled_cycles", sum.stalled_cycles);
  Json tensors = Json::array();
  for (const cache::TensorUse& use : tensors_->uses)
    if (use.read_bytes + use.written_bytes > 0 || use.resident) tensors.push(tensor_json(use));
  json.set("tensors", std::move(tensors));
  result.cache = std::move(json);
  if (levels.empty()) return;  // ideal memory
  result.memory_read_bytes = sum.fetched_bytes + sum.bypass_read_bytes;
  result.memory_written_bytes = sum.written_bytes + sum.bypass_written_bytes;
}

void Simulator::add_cache_fidelity(Result& result) const {
  const CacheSpec& cache = machine_.memory.cache;
  if (cache.sets == 0) return;
  std::vector<std::string>& said = result.approximations;
  if (!tensors_) {
    result.fidelity["cache"] = "none: managed by software, no tensor is resident";
    return;
  }
  if (caches().empty()) {
    result.fidelity["cache"] = "none: ideal memory";
    said.emplace_back("cache: none before an ideal memory");
    return;
  }
  result.fidelity["cache"] = tensors_->plan ? "residency plan" : "least recently used";
  said.emplace_back(std::string("cache: sectors in time, requests of a slice in order, ") +
                    (tensors_->plan ? "tensors of the plan laid out without conflicts between sets, fetched when first "
                                      "read, all else passes by"
                                    : "least recently used lines go first") +
                    "; data that comes from memory takes no port; rows gathered by index pass by; what is dirty at the "
                    "end stays");
}

}  // namespace tilesim::engine
