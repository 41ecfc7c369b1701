#include "tilesim/machine/share.hpp"

#include <utility>

namespace tilesim {

Share::Core::Core(const CoreSpec& spec)
    : count(spec.count),
      scratchpad(spec.scratchpad),
      clock(spec.clock),
      array(spec.array),
      vector(spec.vector),
      cross_lane(spec.cross_lane),
      dma(spec.dma),
      isa(spec.isa),
      contexts(spec.contexts),
      kernel_launch_cycles(spec.kernel_launch_cycles),
      kernel_barrier(spec.kernel_barrier) {}

Share::Network::Network(const NetworkSpec& spec)
    : kind(spec.kind),
      clock(spec.clock),
      latency_cycles(spec.latency_cycles),
      port_bytes_per_cycle(spec.port_bytes_per_cycle),
      buffer_bytes(spec.buffer_bytes),
      ports_per_core(spec.ports_per_core),
      flit_bytes(spec.flit_bytes),
      region_latency_cycles(spec.region_latency_cycles),
      region_bytes_per_cycle(spec.region_bytes_per_cycle),
      multicast(spec.multicast) {}

Share::Memory::Memory(const MemorySpec& spec)
    : bytes_per_second(spec.bytes_per_second),
      efficiency(spec.efficiency),
      latency_ps(spec.latency_ps),
      burst_bytes(spec.burst_bytes),
      interleave_bytes(spec.interleave_bytes),
      buffer_bytes(spec.buffer_bytes),
      channels(spec.channels),
      regions(spec.regions),
      placement(spec.placement),
      channel_hash(spec.channel_hash) {}

Share::Share(const Machine& machine)
    : whole(machine),
      name(machine.name),
      core(machine.core),
      sorts(machine.sorts),
      network(machine.network),
      memory(machine.memory),
      layout(machine.layout) {}

Share::Share(const Share& share, std::shared_ptr<const Cores> cores)
    : whole(share.whole),
      name(share.name),
      core(cores->core),
      sorts(cores->sorts),
      network(share.network),
      memory(share.memory),
      layout(share.layout),
      cores_(std::move(cores)) {}

Share Share::of_sort(std::size_t sort) const {
  const auto own = std::make_shared<Cores>(Cores{sorts[sort].core, {}});
  own->core.count = core.count;
  own->core.array.count = core.array.count;
  return {*this, own};
}

}  // namespace tilesim
