// Busy time of the network between cores and memory: the cores' ports, and the links of routers.
#include <algorithm>

#include "tilesim/base/shape.hpp"
#include "tilesim/engine/results/results.hpp"

namespace tilesim::engine {

std::int64_t network_busy(const RunState& run) {
  const Machine& machine = run.chip.machine;
  const RoutedMemory* const routed = run.memory.routed();
  if (run.chip.memory == MemoryKind::ideal && !routed) return 0;
  if (!routed) return run.memory.longest_port();
  // A node passes one flit per cycle and direction; a link passes its rate in the topology.
  std::int64_t flits = 0;
  const std::vector<std::int64_t> of_links = routed->network().link_flits();
  for (std::size_t i = 0; i < of_links.size(); ++i) {
    const noc::Topology::Link& link = routed->topology().links[i];
    flits = std::max(flits, ceil_div(of_links[i] * link.per_flit, std::int64_t{link.per_cycle}));
  }
  for (const noc::Network::NodeFlits& node : routed->network().node_flits())
    flits = std::max({flits, node.sent, node.taken});
  return cycles_at_or_after({flits, machine.network.clock.hertz}, machine.core.clock);
}

std::int64_t network_busy(const RunState& run, const KernelCounters& kernel, const ProgramRow& program) {
  const Machine& machine = run.chip.machine;
  const bool routed = run.chip.routed;
  if (run.chip.memory == MemoryKind::ideal && !routed) return 0;
  const NetworkSpec& network = machine.network;
  const std::int64_t cores = program.cores;
  std::int64_t cycles = 0;
  if (!routed) {
    cycles = (kernel.load_bytes + kernel.store_bytes) / cores / network.port_bytes_per_cycle;
  } else {
    const std::int64_t data = std::max(network.packet_bytes, machine.memory.burst_bytes);
    const std::int64_t flits = ceil_div(data + network.header_bytes, network.flit_bytes);  // per packet with data
    const std::int64_t ports = std::min(network.ports_per_core * cores, machine.memory.channels);
    cycles = std::max(kernel.load_bytes, kernel.store_bytes) / data * flits / ports;
  }
  return cycles_at_or_after({cycles, network.clock.hertz}, machine.core.clock);
}

}  // namespace tilesim::engine
