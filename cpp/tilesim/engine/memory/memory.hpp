// The port of off-chip memory, with the network to it: ideal, simple, with banks, a cache, regions, routers.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "tilesim/base/cancel.hpp"
#include "tilesim/engine/memory/counts.hpp"
#include "tilesim/engine/memory/ports.hpp"
#include "tilesim/engine/memory/request.hpp"
#include "tilesim/machine/machine.hpp"

namespace tilesim::engine {

namespace dram {
struct Part;
}
namespace cache {
struct Tensors;
}

/// Where the bytes of a tensor lie in a memory of several regions: the number of a region, or one of these.
enum Placement : std::int32_t { interleaved = -1, local = -2 };

class MemorySystem : public MemoryCounts, public Answering {
 public:
  /// Bytes [low, high), whole pages of 4096, lie in a region, interleaved, or each page where it is touched first.
  virtual void place(std::int64_t /*low*/, std::int64_t /*high*/, std::int32_t /*placement*/) {}
  virtual void forget(std::int64_t /*low*/, std::int64_t /*high*/) {}  ///< nobody will ask for them again
  virtual Offered offer(const Request& request, std::uint64_t tag, std::int64_t now) = 0;
  virtual bool answers_later() const { return false; }  ///< everything, or nothing
  /// A cycle of `offer` below zero stands for a read whose completion nobody needed yet, as more of its transfer
  /// followed; the last piece's completion is not before it. This asks for it after all, once; others are given back.
  virtual std::int64_t completion(std::int64_t given) { return given; }
  /// Nobody will ask for it.
  virtual void drop(std::int64_t /*given*/) {}
  virtual Ports* ports() { return nullptr; }  ///< of the simple network, where sends share them
  /// A tile that core `from` sends to core `to` and that has left it at core cycle `now`: when it has passed the link
  /// between their regions.
  virtual std::int64_t cross(std::int64_t /*from*/, std::int64_t /*to*/, std::int64_t /*bytes*/, std::int64_t now) {
    return now;
  }
};

/// Latency plus bandwidth per channel; first come, first served; finite queues. Reads and writes share a channel.
std::unique_ptr<MemorySystem> simple_memory(const Machine& machine);
/// DRAM channels of a part: banks, rows, queues, refresh. Bandwidth and latency are the part's.
std::unique_ptr<MemorySystem> bank_memory(const Machine& machine, const dram::Part& part);
/// Either of them behind a cache; `part`: of DRAM channels, null for simple ones. `tensors` outlives the memory.
std::unique_ptr<MemorySystem> cached_memory(const Machine& machine, const dram::Part* part, cache::Tensors& tensors);
/// Regions, each a separate memory with its share of channels and bandwidth (made by `make` for a machine of one
/// region), joined by links. Remote requests pass the link between the two regions and its latency.
std::unique_ptr<MemorySystem> region_memory(const Machine& machine,
                                            const std::function<std::unique_ptr<MemorySystem>(const Machine&)>& make);
/// No queueing, no latency.
std::unique_ptr<MemorySystem> ideal_memory(const Machine& machine);

}  // namespace tilesim::engine
