#include "tilesim/engine/memory/memory.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "tilesim/base/shape.hpp"
#include "tilesim/engine/dram/mapping.hpp"

namespace tilesim::engine {

namespace {

/// Simulates a channel in cycles of one byte each: bandwidth is exact, without a rounded period.
class SimpleMemory final : public MemorySystem {
 public:
  explicit SimpleMemory(const Machine& machine)
      : core_(machine.core.clock),
        memory_(machine.memory),
        ports_(machine),
        channels_(static_cast<std::size_t>(machine.memory.channels)),
        series_(channels_.size(), machine.core.clock.hertz) {
    const double achieved =
        static_cast<double>(memory_.bytes_per_second) * memory_.efficiency / static_cast<double>(memory_.channels);
    bytes_.hertz = std::max<std::int64_t>(1, static_cast<std::int64_t>(std::floor(achieved)));
    const Int128 latency = static_cast<Int128>(memory_.latency_ps) * core_.hertz;
    constexpr std::int64_t in_a_second = 1000000000000;
    latency_ = static_cast<std::int64_t>((latency + in_a_second - 1) / in_a_second);
    if (const auto hash = dram::channel_hash_of(memory_.channel_hash); hash != dram::ChannelHash::none)
      spread_.emplace(memory_.channels, memory_.interleave_bytes, hash);
  }

  Offered offer(const Request& request, std::uint64_t /*tag*/, std::int64_t now) override {
    std::int64_t retry = now + 1;
    if (!ports_.has_room(request.core, now, retry)) return Offered::refuse(retry);
    const std::int64_t one_way = ports_.one_way();
    const std::int64_t arrival = cycles_at_or_after({now + one_way, core_.hertz}, bytes_);
    std::int64_t free_at = 0;
    if (request.pattern && request.pattern->known && !request.placed) find_rows(request);
    for_channels(request, [&](Channel_& channel, std::int64_t) { free_at = std::max(free_at, channel.free); });
    if (free_at - arrival > memory_.buffer_bytes) {
      return Offered::refuse(
          std::max(now + 1, cycles_at_or_after({free_at - memory_.buffer_bytes, bytes_.hertz}, core_) - one_way));
    }
    const std::int64_t through = ports_.pass(request.core, request.bytes, now);
    std::int64_t finish = 0;
    for_channels(request, [&](Channel_& channel, std::int64_t bytes) {
      channel.free = std::max(channel.free, arrival) + bytes;
      channel.bytes += bytes;
      finish = std::max(finish, channel.free);
    });
    const std::int64_t moved = cycles_at_or_after({finish, bytes_.hertz}, core_);
    for_channels(request, [&](Channel_& channel, std::int64_t bytes) {
      series_.add(static_cast<std::size_t>(&channel - channels_.data()), moved, bytes);
    });
    const std::int64_t served = std::max(moved, through) + latency_;
    return Offered::complete(served + (request.write ? 0 : one_way));
  }

  Ports* ports() override { return &ports_; }

  std::vector<Channel> channels() const override {
    std::vector<Channel> result;
    for (const Channel_& channel : channels_)
      result.push_back(
          {static_cast<std::int64_t>(static_cast<Int128>(channel.bytes) * core_.hertz / bytes_.hertz), channel.bytes});
    return result;
  }

  const BandwidthSeries* series() const override { return &series_; }

 private:
  struct Channel_ { std::int64_t free = 0, bytes = 0; };

  std::int64_t channel_of(std::int64_t unit) const {
    if (!spread_) return unit % memory_.channels;
    return spread_->locate(static_cast<std::uint64_t>(unit * memory_.interleave_bytes)).channel;
  }

  /// Visits the channels of a request: consecutive `interleave` bytes are on one channel.
  template <class Visit>
  void for_channels(const Request& request, Visit visit) {
    if (request.pattern && request.pattern->known && !request.placed) {
      for (std::size_t i = 0; i < rows_.size(); ++i)
        if (rows_[i] > 0) visit(channels_[i], rows_[i]);
      return;
    }
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
      visit(channels_[static_cast<std::size_t>(channel_of(first + i))], bytes);
      left -= bytes;
    }
  }

  /// Fills `rows_` with the bytes of each run of a pattern, by channel.
  void find_rows(const Request& request) {
    rows_.assign(channels_.size(), 0);
    request.pattern->for_runs(request.offset, request.bytes, [&](std::int64_t address, std::int64_t bytes) {
      const std::int64_t unit = memory_.interleave_bytes;
      for (const std::int64_t end = address + bytes; address < end;) {
        const std::int64_t next = std::min(end, (address / unit + 1) * unit);
        rows_[static_cast<std::size_t>(channel_of(address / unit))] += next - address;
        address = next;
      }
    });
  }

  Clock core_, bytes_;
  MemorySpec memory_;
  Ports ports_;
  std::vector<std::int64_t> rows_;          ///< bytes of the current request, per channel
  std::optional<dram::ChannelMap> spread_;  ///< set if channels are hashed
  std::int64_t latency_ = 0;
  std::vector<Channel_> channels_;  ///< in byte times
  BandwidthSeries series_;
};

class IdealMemory final : public MemorySystem {
 public:
  explicit IdealMemory(const Machine& machine)
      : ports_(machine), bytes_(static_cast<std::size_t>(machine.memory.channels), 0) {}
  Offered offer(const Request& request, std::uint64_t /*tag*/, std::int64_t now) override {
    bytes_[0] += request.bytes;
    return Offered::complete(now);
  }
  Ports* ports() override { return &ports_; }
  std::vector<Channel> channels() const override {
    std::vector<Channel> result;
    for (std::int64_t bytes : bytes_) result.push_back({0, bytes});
    return result;
  }

 private:
  Ports ports_;  ///< for sends only
  std::vector<std::int64_t> bytes_;
};

}  // namespace

std::unique_ptr<MemorySystem> simple_memory(const Machine& machine) { return std::make_unique<SimpleMemory>(machine); }
std::unique_ptr<MemorySystem> ideal_memory(const Machine& machine) { return std::make_unique<IdealMemory>(machine); }

}  // namespace tilesim::engine
