// Adds units, channels and links to a Result: states, bytes and work.
#include <algorithm>

#include "tilesim/base/error.hpp"
#include "tilesim/base/index.hpp"
#include "tilesim/engine/results/results.hpp"

namespace tilesim::engine {

namespace {

constexpr auto idle = static_cast<std::size_t>(UnitState::idle);

/// A unit whose states are busy and idle only.
UnitUse part(std::string name, const char* kind, std::int64_t busy, std::int64_t finish, std::int64_t bytes) {
  UnitUse use;
  use.unit = std::move(name);
  use.kind = kind;
  use.cycles[static_cast<std::size_t>(UnitState::busy)] = std::min(busy, finish);
  use.cycles[idle] = finish - use.cycles[0];
  use.bytes = bytes;
  return use;
}

}  // namespace

void add_units(const RunState& run, Result& result, Busiest& busiest) {
  for (const Unit& unit : run.units.all()) {
    UnitUse use;
    use.unit = run.units.name(unit);
    use.kind = name(unit.kind);
    use.core = unit.core;
    std::int64_t counted = 0;
    for (std::size_t i = 0; i < unit.cycles.size(); ++i) counted += use.cycles[i] = unit.cycles[i];
    use.cycles[idle] += result.cycles - counted;
    require(use.cycles[idle] >= 0 || run.chip.machine.core_at(unit.core).contexts > 1,
            "the states of a unit exceed the total time");
    use.operations = unit.operations;
    use.bytes = unit.bytes;
    use.work = unit.work;
    const std::int64_t own = unit.cycles[static_cast<std::size_t>(UnitState::busy)];
    if (unit.kind == UnitKind::array) result.multiply_adds += unit.work, busiest.array = std::max(busiest.array, own);
    if (unit.kind == UnitKind::vector)
      result.vector_operations += unit.work, busiest.vector = std::max(busiest.vector, own);
    result.units.push_back(use);
  }
  std::sort(result.units.begin(), result.units.end(),
            [](const UnitUse& a, const UnitUse& b) { return a.unit < b.unit; });
}

void add_channels(const RunState& run, Result& result, Busiest& busiest) {
  const auto channels = run.memory.port().channels();
  for (std::size_t i = 0; i < channels.size(); ++i) {
    const MemorySystem::Channel& channel = channels[i];
    result.units.push_back(
        part("memory.channel" + std::to_string(i), "channel", channel.busy, result.cycles, channel.bytes));
    result.memory_merged_bytes += channel.merged;
    result.memory_forwarded_bytes += channel.forwarded;
    result.memory_padding_bytes += channel.padding;
    busiest.memory = std::max(busiest.memory, result.units.back().cycles[0]);
  }
  result.memory_padding_bytes += run.memory.port().padding();
}

void add_links(const RunState& run, Result& result, Busiest& busiest) {
  busiest.network = network_busy(run);
  busiest.dma = run.units.longest_passing() / 1000;
  const RoutedMemory* const routed = run.memory.routed();
  for (const MemorySystem::Link& link : run.memory.port().links()) {
    (link.from == link.to ? result.memory_local_bytes : result.memory_remote_bytes) += link.bytes;
    if (link.from == link.to || (routed && routed->topology().router_regions.empty())) continue;
    result.units.push_back(part("link.region" + std::to_string(link.from) + "to" + std::to_string(link.to),
                                "region_link", link.busy, result.cycles, link.bytes + link.sent));
    busiest.network = std::max(busiest.network, result.units.back().cycles[0]);
  }
}

void add_intervals(const RunState& run, Result& result) {
  result.intervals = run.timeline.intervals();
  result.labels = run.timeline.labels();
  result.intervals_dropped = run.timeline.dropped();
  if (!run.timeline.wanted()) return;
  // Intervals contain the index of their unit in the sorted list.
  const std::vector<Unit>& units = run.units.all();
  std::vector<std::int32_t> place(units.size());
  for (std::size_t i = 0; i < units.size(); ++i)
    for (std::size_t j = 0; j < result.units.size(); ++j)
      if (result.units[j].unit == run.units.name(units[i])) place[i] = static_cast<std::int32_t>(j);
  for (Interval& interval : result.intervals) interval.unit = place[at(interval.unit)];
}

}  // namespace tilesim::engine
