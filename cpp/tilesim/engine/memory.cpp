#include "tilesim/engine/memory.hpp"

#include <algorithm>
#include <cmath>

#include "tilesim/base/shape.hpp"

namespace tilesim::engine {

namespace {

/// One cycle of a channel's clock passes one byte: bandwidth is exact, no period is rounded.
class SimpleMemory final : public MemorySystem {
 public:
  explicit SimpleMemory(const Machine& machine)
      : core_(machine.core.clock),
        network_(machine.network),
        memory_(machine.memory),
        ports_(static_cast<std::size_t>(machine.core.count), 0),
        channels_(static_cast<std::size_t>(machine.memory.channels)) {
    const double achieved =
        static_cast<double>(memory_.bytes_per_second) * memory_.efficiency / static_cast<double>(memory_.channels);
    bytes_.hertz = std::max<std::int64_t>(1, static_cast<std::int64_t>(std::floor(achieved)));
    const Int128 latency = static_cast<Int128>(memory_.latency_ps) * core_.hertz;
    constexpr std::int64_t picoseconds = 1000000000000;
    latency_ = static_cast<std::int64_t>((latency + picoseconds - 1) / picoseconds);
    one_way_ = cycles_at_or_after({network_.latency_cycles, network_.clock.hertz}, core_);
  }

  std::optional<std::int64_t> submit(const Request& request, std::int64_t now, std::int64_t& retry) override {
    const std::int64_t here = cycles_at_or_after({now, core_.hertz}, network_.clock);
    std::int64_t& port = ports_[static_cast<std::size_t>(request.core) % ports_.size()];
    const std::int64_t buffered = network_.buffer_bytes / network_.port_bytes_per_cycle;
    if (port - here > buffered) {
      retry = std::max(now + 1, cycles_at_or_after({port - buffered, network_.clock.hertz}, core_));
      return std::nullopt;
    }
    const std::int64_t arrival = cycles_at_or_after({now + one_way_, core_.hertz}, bytes_);
    std::int64_t free_at = 0;
    for_channels(request, [&](Channel_& channel, std::int64_t) { free_at = std::max(free_at, channel.free); });
    if (free_at - arrival > memory_.buffer_bytes) {
      retry = std::max(now + 1, cycles_at_or_after({free_at - memory_.buffer_bytes, bytes_.hertz}, core_) - one_way_);
      return std::nullopt;
    }
    port = std::max(port, here) + ceil_div(request.bytes, network_.port_bytes_per_cycle);
    std::int64_t finish = 0;
    for_channels(request, [&](Channel_& channel, std::int64_t bytes) {
      channel.free = std::max(channel.free, arrival) + bytes;
      channel.bytes += bytes;
      finish = std::max(finish, channel.free);
    });
    const std::int64_t through = cycles_at_or_after({port, network_.clock.hertz}, core_);
    const std::int64_t served = std::max(cycles_at_or_after({finish, bytes_.hertz}, core_), through) + latency_;
    return served + (request.write ? 0 : one_way_);
  }

  std::vector<Channel> channels() const override {
    std::vector<Channel> result;
    for (const Channel_& channel : channels_)
      result.push_back(
          {static_cast<std::int64_t>(static_cast<Int128>(channel.bytes) * core_.hertz / bytes_.hertz), channel.bytes});
    return result;
  }

 private:
  struct Channel_ { std::int64_t free = 0, bytes = 0; };

  /// Consecutive `interleave` bytes lie on one channel; a long request spreads over all of them.
  template <class Visit>
  void for_channels(const Request& request, Visit visit) {
    const std::int64_t unit = memory_.interleave_bytes, count = memory_.channels;
    const std::int64_t first = request.address / unit;
    const std::int64_t units = ceil_div(request.address % unit + request.bytes, unit);
    if (units >= count) {
      const std::int64_t share = request.bytes / count;
      std::int64_t rest = request.bytes - share * count;
      for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t extra = std::min(rest, unit);
        rest -= extra;
        visit(channels_[static_cast<std::size_t>((first + i) % count)], share + extra);
      }
      return;
    }
    std::int64_t left = request.bytes, room = unit - request.address % unit;
    for (std::int64_t i = 0; i < units; ++i, room = unit) {
      const std::int64_t bytes = std::min(left, room);
      visit(channels_[static_cast<std::size_t>((first + i) % count)], bytes);
      left -= bytes;
    }
  }

  Clock core_, bytes_;
  NetworkSpec network_;
  MemorySpec memory_;
  std::int64_t latency_ = 0, one_way_ = 0;
  std::vector<std::int64_t> ports_;  ///< network cycles
  std::vector<Channel_> channels_;   ///< byte times
};

class IdealMemory final : public MemorySystem {
 public:
  explicit IdealMemory(const Machine& machine) : bytes_(static_cast<std::size_t>(machine.memory.channels), 0) {}
  std::optional<std::int64_t> submit(const Request& request, std::int64_t now, std::int64_t&) override {
    bytes_[0] += request.bytes;
    return now;
  }
  std::vector<Channel> channels() const override {
    std::vector<Channel> result;
    for (std::int64_t bytes : bytes_) result.push_back({0, bytes});
    return result;
  }

 private:
  std::vector<std::int64_t> bytes_;
};

}  // namespace

std::unique_ptr<MemorySystem> simple_memory(const Machine& machine) { return std::make_unique<SimpleMemory>(machine); }
std::unique_ptr<MemorySystem> ideal_memory(const Machine& machine) { return std::make_unique<IdealMemory>(machine); }

}  // namespace tilesim::engine
