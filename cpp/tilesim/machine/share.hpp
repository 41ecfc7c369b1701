// What cores that share a machine have of it, as a value: no machine is copied in order to change it.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tilesim/machine/machine.hpp"

namespace tilesim {

/// A machine as one of the cores at work has it, or a context of one. Reads as a Machine does: what sharing changes has
/// its numbers; all else is the machine's, which must outlive it.
struct Share {
  struct Core {
    explicit Core(const CoreSpec& spec);
    std::int64_t count;         ///< cores at work; contexts, where each counts as a core
    ScratchpadSpec scratchpad;  ///< this core's, or this context's part of it
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
    bool multicast;                       ///< whether those that share reach each other by one
  };
  struct Memory {
    explicit Memory(const MemorySpec& spec);
    std::int64_t bytes_per_second;  ///< part of the peak of all channels
    double efficiency;
    std::int64_t latency_ps, burst_bytes, interleave_bytes, buffer_bytes, channels, regions;
    const std::string &placement, &channel_hash;
  };
  /// Some of the cores of a machine of several sorts: what all of them have, and the sorts; none: they are alike.
  struct Cores {
    CoreSpec core;
    std::vector<CoreSort> sorts;
  };

  /// All of a machine, shared with nobody.
  Share(const Machine& machine);  // NOLINT(google-explicit-constructor): a machine is a share of itself
  Share(Machine&&) = delete;      // which would be gone
  /// The same share for other cores.
  Share(const Share& share, std::shared_ptr<const Cores> cores);

  /// With the cores of sort number `sort` alone, as they run what is shared with the other sorts: on as many arrays.
  Share of_sort(std::size_t sort) const;

  const Machine& whole;
  const std::string& name;
  Core core;
  std::span<const CoreSort> sorts;  ///< empty: all cores are alike
  Network network;
  Memory memory;
  const LayoutSpec& layout;

 private:
  std::shared_ptr<const Cores> cores_;  ///< keeps what `core` and `sorts` refer to where no machine has it
};

}  // namespace tilesim
