// The share of a machine that one of its cores has, as a value. Nothing copies a machine in order to change it.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tilesim/machine/machine.hpp"

namespace tilesim {

/// The view that one working core, or a context of it, has of a machine. Its fields are those of Machine; fields that
/// sharing changes have the values of the share, all others refer to the machine, which must outlive it.
struct Share {
  struct Core {
    explicit Core(const CoreSpec& spec);
    std::int64_t count;         ///< working cores; contexts, if each counts as a core
    ScratchpadSpec scratchpad;  ///< of this core, or this context's part of it
    const Clock& clock;
    const ArraySpec& array;
    const VectorSpec& vector;
    const CrossLaneSpec& cross_lane;
    const DmaSpec& dma;
    const IsaSpec& isa;
    std::int64_t contexts;
    std::int64_t kernel_launch_cycles;
    bool kernel_barrier;
  };
  struct Network {
    explicit Network(const NetworkSpec& spec);
    const std::string& kind;
    const Clock& clock;
    std::int64_t latency_cycles, port_bytes_per_cycle, buffer_bytes, ports_per_core, flit_bytes;
    std::int64_t region_latency_cycles;
    std::int64_t region_bytes_per_cycle;  ///< part of a link between regions
    bool multicast;                       ///< whether these cores can multicast to each other
  };
  struct Memory {
    explicit Memory(const MemorySpec& spec);
    std::int64_t bytes_per_second;  ///< part of the peak of all channels
    double efficiency;
    std::int64_t latency_ps, burst_bytes, interleave_bytes, buffer_bytes, channels, regions;
    const std::string &placement, &channel_hash;
  };
  /// Cores of a machine with several core types: their common features, and the types. Null: all cores are equal.
  struct Cores {
    CoreSpec core;
    std::vector<CoreSort> sorts;
  };

  /// The whole machine, without sharing.
  Share(const Machine& machine);  // NOLINT(google-explicit-constructor): a machine is a share of itself
  Share(Machine&&) = delete;      // the machine must outlive its share
  /// The same share for other cores.
  Share(const Share& share, std::shared_ptr<const Cores> cores);

  /// Only the cores of type number `sort`, with the number of arrays on which they run kernels shared with other types.
  Share of_sort(std::size_t sort) const;

  const Machine& whole;
  const std::string& name;
  Core core;
  std::span<const CoreSort> sorts;  ///< empty: all cores are equal
  Network network;
  Memory memory;
  const LayoutSpec& layout;

 private:
  std::shared_ptr<const Cores> cores_;  ///< owns the target of `core` and `sorts` if no machine does
};

}  // namespace tilesim
