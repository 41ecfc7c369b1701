// How busy the way between cores and memory is: the cores' DMA and network ports, routers' links.
#include <algorithm>

#include "tilesim/base/shape.hpp"
#include "tilesim/engine/simulator.hpp"

namespace tilesim::engine {

std::int64_t Simulator::network_busy() const {
  std::int64_t longest = 0;
  for (const UnitCounters& unit : units_) {
    if (unit.kind != "load" && unit.kind != "store") continue;
    const CoreKind& kind = *kind_of_core_[static_cast<std::size_t>(unit.core)];
    longest = std::max(longest, kind.after(0, unit.bytes / kind.core.dma.bytes_per_cycle));
  }
  if (machine_.memory.kind == "ideal" && !routed_) return 0;
  if (!routed_) {
    const Ports* ports = memory_->ports();
    return std::max(longest, (ports ? *ports : send_ports_).longest_busy());
  }
  // An endpoint passes one flit per cycle, each way, a link as many as its topology says.
  std::int64_t flits = 0;
  const std::vector<std::int64_t> of_links = routed_->network().link_flits();
  for (std::size_t i = 0; i < of_links.size(); ++i) {
    const noc::Topology::Link& link = routed_->topology().links[i];
    flits = std::max(flits, ceil_div(of_links[i] * link.per_flit, std::int64_t{link.per_cycle}));
  }
  for (const noc::Network::NodeFlits& node : routed_->network().node_flits())
    flits = std::max({flits, node.sent, node.taken});
  return std::max(longest, cycles_at_or_after({flits, machine_.network.clock.hertz}, machine_.core.clock));
}

/// Of one kernel, from its bytes: the DMA engines and ports of its job's cores, and behind routers those of the
/// channels.
std::int64_t Simulator::network_busy(const KernelCounters& kernel, const JobState& job) const {
  if (machine_.memory.kind == "ideal" && !routed_) return 0;
  const NetworkSpec& network = machine_.network;
  const std::int64_t cores = job.job.program->program().cores;
  const CoreKind& kind = *kind_of_core_[static_cast<std::size_t>(job.job.cores.front())];
  const DmaSpec& dma = kind.core.dma;
  const std::int64_t loads = kernel.load_bytes / cores, stores = kernel.store_bytes / cores;
  const std::int64_t engines =
      std::max(loads / (dma.bytes_per_cycle * dma.load_queues), stores / (dma.bytes_per_cycle * dma.store_queues));
  std::int64_t cycles = 0;
  if (!routed_) {
    cycles = (loads + stores) / network.port_bytes_per_cycle;
  } else {
    const std::int64_t data = std::max(network.packet_bytes, machine_.memory.burst_bytes);
    const std::int64_t flits = ceil_div(data + network.header_bytes, network.flit_bytes);  // of a packet with data
    const std::int64_t ports = std::min(network.ports_per_core * cores, machine_.memory.channels);
    cycles = std::max(kernel.load_bytes, kernel.store_bytes) / data * flits / ports;
  }
  return std::max(kind.after(0, engines), cycles_at_or_after({cycles, network.clock.hertz}, machine_.core.clock));
}

}  // namespace tilesim::engine
