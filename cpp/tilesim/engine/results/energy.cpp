// Energy: counts × the machine's table, or what the memory's own part states.
#include "tilesim/engine/results/results.hpp"

namespace tilesim::engine {

void add_energy(const Parts& parts, Result& result) {
  const EnergySpec& table = parts.chip.machine.energy;
  std::int64_t scratchpad = 0;
  for (const Unit& unit : parts.units.all())
    if (unit.kind == UnitKind::load || unit.kind == UnitKind::store) scratchpad += unit.bytes;
  const auto add = [&](const char* part, double count, std::int64_t each) {
    const auto whole = static_cast<std::int64_t>(count);
    result.energy.push_back({part, whole, whole * each, each != 0});
  };
  add("multiply-adds", result.multiply_adds, table.mac);
  add("vector operations", result.vector_operations, table.vector_op);
  add("scratchpad bytes (DMA side)", static_cast<double>(scratchpad), table.scratchpad_byte);
  // A part's own energies count its commands; the machine's energy per byte would count them again.
  const std::vector<MemorySystem::Energy> commands = parts.memory.port().energy();
  for (const MemorySystem::Energy& one : commands)
    result.energy.push_back({one.part, one.count, one.count * one.each, true});
  if (commands.empty())
    add("memory bytes", static_cast<double>(result.memory_read_bytes + result.memory_written_bytes), table.memory_byte);
  add("network bytes", static_cast<double>(result.network_bytes), table.network_byte);
  const double picoseconds = result.seconds() * 1e12;
  result.energy.push_back({"static (ps)", static_cast<std::int64_t>(picoseconds),
                           static_cast<std::int64_t>(picoseconds * static_cast<double>(table.static_microwatts) * 1e-3),
                           table.static_microwatts != 0});
}

}  // namespace tilesim::engine
