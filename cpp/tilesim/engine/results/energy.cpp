// Counts of what takes energy, and the machine's table of energies; the report multiplies.
#include "tilesim/engine/results/results.hpp"

namespace tilesim::engine {

namespace {

/// By kernel, and what is left: what no kernel caused.
void count_by_kernel(Result& result, const Count& total, double OperationUse::* number) {
  std::vector<Caused> caused;
  for (const OperationUse& use : result.operations) caused.push_back({use.name, use.*number});
  add_counts(result.counts, total, caused);
}

EnergyRate rate_of(const char* item, std::int64_t femtojoules) {
  return {item, static_cast<double>(femtojoules), femtojoules != 0};
}

void add_memory(const Parts& parts, Result& result, std::vector<EnergyRate>& table) {
  // A part's own energies count its commands; the machine's energy per byte would count them again.
  const std::vector<MemorySystem::Energy> commands = parts.memory.port().energy();
  for (const MemorySystem::Energy& one : commands) {
    result.counts.push_back({"memory", one.part, "DRAM", {}, static_cast<double>(one.count)});
    table.push_back({one.part, static_cast<double>(one.each)});
  }
  if (!commands.empty()) return;
  const std::int64_t bytes = result.memory_read_bytes + result.memory_written_bytes;
  result.counts.push_back({"memory", "memory bytes", "DRAM", {}, static_cast<double>(bytes)});
  table.push_back(rate_of("memory bytes", parts.chip.machine.energy.memory_byte));
}

}  // namespace

void add_energy(const Parts& parts, Result& result) {
  const EnergySpec& energy = parts.chip.machine.energy;
  std::int64_t scratchpad = 0;
  for (const Unit& unit : parts.units.all())
    if (unit.kind == UnitKind::load || unit.kind == UnitKind::store) scratchpad += unit.bytes;
  constexpr const char* dma = "scratchpad bytes (DMA side)";
  std::vector<EnergyRate> table{rate_of("multiply-adds", energy.mac), rate_of("vector operations", energy.vector_op),
                                rate_of(dma, energy.scratchpad_byte)};
  count_by_kernel(result, {"arrays", "multiply-adds", {}, {}, result.multiply_adds}, &OperationUse::multiply_adds);
  count_by_kernel(result, {"vector unit", "vector operations", {}, {}, result.vector_operations},
                  &OperationUse::vector_operations);
  result.counts.push_back({"scratchpad", dma, "scratchpad", {}, static_cast<double>(scratchpad)});
  add_memory(parts, result, table);
  result.counts.push_back({"network", "network bytes", {}, {}, static_cast<double>(result.network_bytes)});
  table.push_back(rate_of("network bytes", energy.network_byte));
  result.counts.push_back({"static", "static (ps)", {}, {}, result.seconds() * 1e12});
  const auto microwatts = static_cast<double>(energy.static_microwatts);
  table.push_back({"static (ps)", microwatts * 1e-3, microwatts != 0, false});
  result.energy = energy_of(result.counts, table);
}

}  // namespace tilesim::engine
