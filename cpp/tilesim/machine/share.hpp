// The share of a machine that one working core has. A share replaces modified copies of the machine.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tilesim/machine/machine.hpp"

namespace tilesim {

/// A machine as one working core, or one context of a core, sees it. The fields are those of Machine. A field that
/// sharing changes has the share's value; other fields refer to the machine, which must outlive the share.
struct Share {
  struct Core {
    explicit Core(const CoreSpec& spec);
    std::int64_t count;         ///< number of working cores; of contexts, if each counts as a core
    ScratchpadSpec scratchpad;  ///< scratchpad of the core, or the context's part of it
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
    std::int64_t region_bytes_per_cycle;  ///< share of a link between regions
    bool multicast;                       ///< whether the working cores can multicast to each other
  };
  struct Memory {
    explicit Memory(const MemorySpec& spec);
    std::int64_t bytes_per_second;  ///< share of the peak of all channels
    double efficiency;
    std::int64_t latency_ps, burst_bytes, interleave_bytes, buffer_bytes, channels, regions;
    const std::string &placement, &channel_hash;
  };
  /// Settings common to the cores of a machine with several core types, and the types.
  struct Cores {
    CoreSpec core;
    std::vector<CoreSort> sorts;
  };

  /// The entire machine.
  Share(const Machine& machine);  // NOLINT(google-explicit-constructor): a machine is a share of itself
  Share(Machine&&) = delete;      // the machine must outlive its share
  /// The same share with other cores.
  Share(const Share& share, std::shared_ptr<const Cores> cores);

  /// The share with cores of type number `sort` only; the numbers of cores and arrays are those of this share.
  Share of_sort(std::size_t sort) const;

  const Machine& whole;
  const std::string& name;
  Core core;
  std::span<const CoreSort> sorts;  ///< empty: all cores are equal
  Network network;
  Memory memory;
  const LayoutSpec& layout;

 private:
  std::shared_ptr<const Cores> cores_;  ///< owner of the objects to which `core` and `sorts` refer; null: the machine
};

}  // namespace tilesim
