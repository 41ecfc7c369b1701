// The interface of off-chip memory with its network. Implementations: ideal, simple, with banks, with a cache, with
// regions and with routers.
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

/// Placement of a tensor in a memory with several regions: a region's number, or one of these.
enum Placement : std::int32_t { interleaved = -1, local = -2 };

class MemorySystem : public MemoryCounts, public Answering {
 public:
  /// Places bytes [low, high), full pages of 4096: in a region, interleaved, or each page by its first access.
  virtual void place(std::int64_t /*low*/, std::int64_t /*high*/, std::int32_t /*placement*/) {}
  virtual void forget(std::int64_t /*low*/, std::int64_t /*high*/) {}  ///< bytes that will not be accessed again
  virtual Offered offer(const Request& request, std::uint64_t tag, std::int64_t now) = 0;
  virtual bool answers_later() const { return false; }  ///< true: all requests are answered later; false: none
  /// The cycle at which a read completes that was not the last piece of its transfer: `offer` returned its number. To
  /// be called once.
  virtual std::int64_t complete(std::uint32_t /*read*/) { return 0; }
  /// Declares that the completion of a read will not be requested.
  virtual void drop(std::uint32_t /*read*/) {}
  virtual Ports* ports() { return nullptr; }  ///< ports of the simple network, if sends share them
  /// The cycle at which a tile sent by core `from` at core cycle `now` has passed the link to the region of core `to`.
  virtual std::int64_t cross(std::int64_t /*from*/, std::int64_t /*to*/, std::int64_t /*bytes*/, std::int64_t now) {
    return now;
  }
};

/// Memory with latency and bandwidth per channel; first come, first served, with finite queues. Reads and writes share
/// a channel.
std::unique_ptr<MemorySystem> simple_memory(const Machine& machine);
/// DRAM channels with banks, rows, queues and refresh. Bandwidth and latency follow from the part.
std::unique_ptr<MemorySystem> bank_memory(const Machine& machine, const dram::Part& part);
/// A cache in front of DRAM channels of `part`, or of simple channels if null. `tensors` must outlive the memory.
std::unique_ptr<MemorySystem> cached_memory(const Machine& machine, const dram::Part* part, cache::Tensors& tensors);
/// Regions connected by links. Each is a separate memory with a share of channels and bandwidth, which `make` creates
/// for a machine with one region. Remote requests pass the link between two regions.
std::unique_ptr<MemorySystem> region_memory(const Machine& machine,
                                            const std::function<std::unique_ptr<MemorySystem>(const Machine&)>& make);
/// Memory without queueing and latency.
std::unique_ptr<MemorySystem> ideal_memory(const Machine& machine);

}  // namespace tilesim::engine
