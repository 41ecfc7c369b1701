#include "tilesim/engine/chip/off_chip.hpp"

#include <algorithm>
#include <bit>
#include <numeric>

#include "tilesim/base/error.hpp"
#include "tilesim/base/index.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/engine/memory/region_map.hpp"

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

std::vector<std::int32_t> placements_of(const program::CompiledProgram& program, const Chip& chip,
                                        const std::vector<std::string>& names) {
  const std::int64_t regions = chip.machine.memory.regions;
  const auto& given = chip.options.placement;
  for (const auto& [name, text] : given) {
    if (std::find(names.begin(), names.end(), name) == names.end())
      throw UserError({"a placement names a tensor that is missing in the program", program.program().name,
                       "'" + name + "'", join(names), nearest(name, names)});
    placement_of(text, regions, name);
  }
  std::vector<std::int32_t> placements;
  for (std::size_t i = 0; regions > 1 && i < names.size(); ++i) {
    const auto found = given.find(names[i]);
    placements.push_back(
        placement_of(found == given.end() ? chip.machine.memory.placement : found->second, regions, names[i]));
  }
  return placements;
}

/// Per tensor: whether it is resident. Tensors that share bytes are resident together.
std::vector<bool> resident_of(const program::CompiledProgram& program, const Chip& chip,
                              const std::vector<std::string>& names) {
  std::vector<bool> resident(names.size(), false);
  for (const std::string& name : chip.options.resident) {
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end())
      throw UserError({"a tensor that stays in the cache is missing in the program", program.program().name,
                       "'" + name + "'", join(names), nearest(name, names)});
    resident[at(program.tensors[static_cast<std::size_t>(found - names.begin())].storage)] = true;
  }
  return resident;
}

std::vector<std::string> names_of(const program::CompiledProgram& program) {
  std::vector<std::string> names;
  for (const program::CompiledTensor& tensor : program.tensors) names.push_back(tensor.name);
  return names;
}

std::unique_ptr<MemorySystem> simple_network(const Chip& chip, cache::Tensors* tensors) {
  const auto make = [&](const Machine& machine) -> std::unique_ptr<MemorySystem> {
    if (chip.memory == MemoryKind::ideal) return ideal_memory(machine);
    const dram::Part* part = chip.memory == MemoryKind::bank ? chip.options.dram.get() : nullptr;
    if (tensors) return cached_memory(machine, part, *tensors);
    return part ? bank_memory(machine, *part) : simple_memory(machine);
  };
  const bool regions = chip.machine.memory.regions > 1 && chip.memory != MemoryKind::ideal;
  return regions ? region_memory(chip.machine, make) : make(chip.machine);
}

std::unique_ptr<MemoryNodes> nodes(const Chip& chip, cache::Tensors* tensors) {
  const dram::Part* part = chip.memory == MemoryKind::bank ? chip.options.dram.get() : nullptr;
  if (tensors) return cached_nodes(chip.machine, part, *tensors);
  if (part) return bank_nodes(chip.machine, *part);
  return chip.memory == MemoryKind::ideal ? ideal_nodes(chip.machine) : simple_nodes(chip.machine);
}

/// Whether tensors have the addresses of the memory plan: if addresses affect time and no option names single tensors.
bool shares_bytes(const Chip& chip) {
  const bool cached = chip.machine.memory.cache.sets > 0;
  return (cached || chip.memory == MemoryKind::bank) && chip.machine.memory.regions <= 1 &&
         chip.options.resident.empty();
}

}  // namespace

TensorPlan::TensorPlan(const program::CompiledProgram& program, const Chip& chip)
    : map(program, shares_bytes(chip)),
      names(names_of(program)),
      placements(placements_of(program, chip, names)),
      resident(resident_of(program, chip, names)) {
  for (std::size_t i = 0; i < names.size(); ++i)
    if (program.tensors[i].storage == static_cast<int>(i)) owners.push_back(i);
}

OffChip::OffChip(const Chip& chip) : chip_(chip), send_ports_(chip.machine) {
  const CacheSpec& cache = chip.machine.memory.cache;
  if (cache.sets > 0 && (!cache.software || !chip.options.resident.empty())) {
    tensors_ = std::make_unique<cache::Tensors>();
    tensors_->plan = !chip.options.resident.empty();
  }
  if (!chip.routed) {
    memory_ = simple_network(chip, tensors_.get());
    return;
  }
  auto routed = std::make_unique<RoutedMemory>(chip.machine, *chip.options.topology, nodes(chip, tensors_.get()));
  routed_ = routed.get();
  memory_ = std::move(routed);
}

/// A tensor that shares bytes has its owner's address. Every job begins on the first channel, at a multiple of a power
/// of two that is not below its size, so that its bytes are on the same channels as in a standalone run.
OffChip::JobMemory OffChip::place(TensorPlan& plan) {
  const MemorySpec& memory = chip_.machine.memory;
  const std::int64_t turn = std::max(memory.interleave_bytes, memory.burst_bytes) * memory.channels;
  const std::int64_t whole = std::lcm(RegionMap::page, std::max<std::int64_t>(1, turn));
  const auto own = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(plan.map.end)));
  JobMemory place{round_up(next_base_, std::lcm(whole, own)), 0};
  next_base_ = place.base + plan.map.end;
  for (const std::size_t i : plan.owners) {
    if (plan.placements.empty()) break;
    const MemoryMap::MappedTensor& entry = plan.map.entries[i];
    const std::int64_t low = place.base + entry.base;
    memory_->place(low, low + entry.bytes, plan.placements[i]);
  }
  if (!tensors_) return place;
  if (plan.free_tensors.empty()) plan.free_tensors.push_back(add_tensors(plan));
  place.first_tensor = plan.free_tensors.back();
  plan.free_tensors.pop_back();
  return place;
}

void OffChip::forget(TensorPlan& plan, const JobMemory& place) {
  if (tensors_) plan.free_tensors.push_back(place.first_tensor);
  if (plan.placements.empty()) return;
  memory_->forget(place.base, place.base + plan.map.end);
}

void OffChip::drop(std::span<const Completion> completions) {
  for (const Completion& one : completions)
    if (!one.known()) memory_->drop(one.read());
}

std::int32_t OffChip::add_tensors(const TensorPlan& plan) {
  const auto first = static_cast<std::int32_t>(tensors_->uses.size());
  for (std::size_t i = 0; i < plan.names.size(); ++i) {
    cache::TensorUse use;
    use.name = plan.names[i];
    use.bytes = plan.map.entries[i].bytes;
    use.resident = plan.resident[i];
    tensors_->uses.push_back(std::move(use));
  }
  const std::int64_t capacity = chip_.machine.memory.cache.bytes() * chip_.machine.memory.channels;
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
  return first;
}

std::int32_t OffChip::new_pattern(std::int32_t tensor) {
  if (free_patterns_.empty()) {
    free_patterns_.push_back(static_cast<std::int32_t>(patterns_.size()));
    patterns_.emplace_back();
  }
  const std::int32_t place = free_patterns_.back();
  free_patterns_.pop_back();
  pattern(place) = Pattern{};
  pattern(place).tensor = tensor;
  return place;
}

std::int64_t OffChip::drop_pattern(std::int32_t number, bool read, std::int64_t bytes) {
  free_patterns_.push_back(number);
  if (!tensors_) return 0;
  cache::TensorUse& use = tensors_->uses[at(pattern(number).tensor)];
  (read ? use.read_bytes : use.written_bytes) += bytes;
  return pattern(number).below;
}

Ports& OffChip::ports() { return memory_->ports() ? *memory_->ports() : send_ports_; }

std::int64_t OffChip::longest_port() const {
  return (memory_->ports() ? *memory_->ports() : send_ports_).longest_busy();
}

std::vector<const cache::Level*> OffChip::caches() const {
  std::vector<const cache::Level*> levels;
  memory_->add_caches(levels);
  return levels;
}

}  // namespace tilesim::engine
