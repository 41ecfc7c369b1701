// Which memory a simulation has, and where a job's tensors lie in it.
#include <algorithm>

#include "tilesim/base/error.hpp"
#include "tilesim/engine/simulator.hpp"
#include "tilesim/machine/settings.hpp"

namespace tilesim::engine {

namespace {

std::int32_t placement_of(const std::string& text, std::int64_t regions, const std::string& where) {
  if (text == "interleaved") return interleaved;
  if (text == "local") return local;
  const bool number = !text.empty() && text.size() < 5 && text.find_first_not_of("0123456789") == std::string::npos;
  if (!number || std::stoll(text) >= regions)
    throw UserError({"no such placement in memory",
                     where,
                     "'" + text + "'",
                     "interleaved, local, or a region from 0 to " + std::to_string(regions - 1),
                     {}});
  return static_cast<std::int32_t>(std::stoll(text));
}

}  // namespace

void Simulator::make_memory() {
  const std::string kind = options_.memory.value_or(machine_.memory.kind);
  if (kind != "ideal" && kind != "simple" && kind != "bank") {
    const std::vector<std::string> kinds{"ideal", "simple", "bank"};
    throw UserError({"unknown memory fidelity", "memory", "'" + kind + "'", join(kinds), nearest(kind, kinds)});
  }
  machine_.memory.kind = kind;
  banks_ = kind == "bank";
  if (kind == "bank" && !options_.dram)
    throw UserError({"memory of fidelity bank needs a DRAM part", "memory.part", {}, "a part of configs/dram", {}});
  check_cache(machine_, "memory.cache");
  if (machine_.memory.cache.sets > 0 && (!machine_.memory.cache.software || !options_.resident.empty())) {
    tensors_ = std::make_unique<cache::Tensors>();
    tensors_->plan = !options_.resident.empty();
  } else if (!options_.resident.empty()) {
    throw UserError({"tensors cannot stay in a cache that the machine lacks",
                     "resident",
                     "'" + options_.resident[0] + "'",
                     "a machine with memory.cache",
                     {}});
  }
  if (options_.network) machine_.network.kind = *options_.network;
  if (machine_.network.kind != "simple") {
    add_routed_memory();
    return;
  }
  const auto make = [&](const Machine& machine) -> std::unique_ptr<MemorySystem> {
    if (tensors_ && kind != "ideal")
      return cached_memory(machine, kind == "bank" ? options_.dram.get() : nullptr, *tensors_);
    if (kind == "bank") return bank_memory(machine, *options_.dram);
    return kind == "ideal" ? ideal_memory(machine) : simple_memory(machine);
  };
  memory_ = machine_.memory.regions > 1 && kind != "ideal" ? region_memory(machine_, make) : make(machine_);
}

/// Tensors that share their bytes lie where the one that owns them does.
void Simulator::place_tensors(const JobState& job) {
  const program::CompiledProgram& program = *job.job.program;
  const std::int64_t regions = machine_.memory.regions;
  std::vector<std::string> names;
  for (const program::CompiledTensor& tensor : program.tensors) names.push_back(tensor.name);
  for (const auto& [name, text] : options_.placement) {
    placement_of(text, regions, name);
    if (std::find(names.begin(), names.end(), name) == names.end())
      throw UserError({"a placement is given for a tensor that the program lacks", program.program().name,
                       "'" + name + "'", join(names), nearest(name, names)});
  }
  if (regions < 2) return;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (program.tensors[i].storage != static_cast<int>(i)) continue;
    const MemoryMap::Entry& entry = job.map->entries[i];
    const auto given = options_.placement.find(names[i]);
    const std::string& text = given == options_.placement.end() ? machine_.memory.placement : given->second;
    const std::int32_t where = placement_of(text, regions, names[i]);
    if (routed_)
      routed_->place(entry.base, entry.base + entry.bytes, where);
    else
      memory_->place(entry.base, entry.base + entry.bytes, where);
  }
}

}  // namespace tilesim::engine
