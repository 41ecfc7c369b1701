// Off-chip memory as DRAM channels with banks, behind the same network ports as the simple one.
//
// Requests of a channel are accepted in order: a later one waits behind an earlier one that finds its queue full. So a
// channel can be run to the acceptance of a request's last burst as soon as the request is known, whatever comes later.
// A write is complete there. When a read's data returns depends on what the channel does with the entries of its
// queues: that is taken from a copy that runs on alone, so later requests delay nothing that was answered before.
#include <algorithm>
#include <utility>

#include "tilesim/base/error.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/engine/dram/channel.hpp"
#include "tilesim/engine/dram/mapping.hpp"
#include "tilesim/engine/memory.hpp"

namespace tilesim::engine {

namespace {

class BankMemory final : public MemorySystem {
 public:
  BankMemory(const Machine& machine, const dram::Part& part)
      : core_(machine.core.clock),
        clock_ps_(part.clock_ps),
        burst_(part.burst_bytes),
        burst_cycles_(part.burst_cycles),
        count_(part.banks()),
        capacity_(static_cast<Int128>(part.capacity_bytes()) * machine.memory.channels),
        // What may wait in front of a channel, in ticks of its data bus.
        patience_(ceil_div(machine.memory.buffer_bytes, burst_) * burst_cycles_),
        map_(part),
        spread_(machine.memory.channels, std::max(machine.memory.interleave_bytes, burst_), false),
        ports_(machine),
        channels_(static_cast<std::size_t>(machine.memory.channels), dram::Channel(part)),
        trial_(part),
        touched_(channels_.size(), false),
        series_(channels_.size(), machine.core.clock.hertz) {}

  std::optional<std::int64_t> submit(const Request& request, std::int64_t now, std::int64_t& retry) override {
    check(request);
    if (!ports_.has_room(request.core, now, retry)) return std::nullopt;
    const std::int64_t one_way = ports_.one_way(), arrival = tick_of(now + one_way);
    std::int64_t latest = 0;
    for_bursts(request,
               [&](std::size_t channel, std::uint64_t) { latest = std::max(latest, channels_[channel].now()); });
    if (latest - arrival > patience_) {
      retry = std::max(now + 1, cycle_of(latest - patience_) - one_way);
      return std::nullopt;
    }
    const std::int64_t through = ports_.pass(request.core, request.bytes, now);
    const std::int64_t served = std::max(cycle_of(serve(request, arrival)), through);
    for (std::size_t which = 0; which < channels_.size(); ++which)
      if (moved_[which] != 0) series_.add(which, served, std::exchange(moved_[which], 0));
    return served + (request.write ? 0 : one_way);
  }

  Ports* ports() override { return &ports_; }

  std::vector<Channel> channels() const override {
    std::vector<Channel> result;
    for (const dram::Channel& channel : channels_) {
      const auto& commands = channel.counters().commands;
      const std::int64_t bursts = commands[0] + commands[1];
      result.push_back({cycle_of(bursts * burst_cycles_), bursts * burst_});
    }
    return result;
  }

  std::vector<Bank> banks() const override {
    std::vector<Bank> result;
    for (const dram::Channel& channel : channels_)
      for (std::size_t b = 0; b < static_cast<std::size_t>(count_); ++b)
        result.push_back({channel.banks()[b].activates, channel.banks()[b].columns});
    return result;
  }
  const BandwidthSeries* series() const override { return &series_; }

 private:
  static constexpr Int128 picoseconds = 1000000000000;

  std::int64_t tick_of(std::int64_t cycle) const {
    const Int128 per = static_cast<Int128>(core_.hertz) * clock_ps_;
    return static_cast<std::int64_t>((cycle * picoseconds + per - 1) / per);
  }
  std::int64_t cycle_of(std::int64_t tick) const {
    return static_cast<std::int64_t>((static_cast<Int128>(tick) * clock_ps_ * core_.hertz + picoseconds - 1) /
                                     picoseconds);
  }

  void check(const Request& request) const {
    if (static_cast<Int128>(request.address) + request.bytes > capacity_)
      throw UserError({"the program's tensors lie outside the memory",
                       "memory.channels",
                       std::to_string(request.address + request.bytes) + " B",
                       std::to_string(static_cast<std::int64_t>(capacity_)) + " B in all channels",
                       {}});
  }

  template <class Visit>
  void for_bursts(const Request& request, Visit visit) const {
    const auto burst = static_cast<std::uint64_t>(burst_);
    const auto end = static_cast<std::uint64_t>(request.address + request.bytes);
    for (std::uint64_t at = static_cast<std::uint64_t>(request.address) / burst * burst; at < end; at += burst) {
      const dram::ChannelMap::Target target = spread_.locate(at);
      visit(static_cast<std::size_t>(target.channel), target.address);
    }
  }

  /// Tick at which the last burst is complete.
  std::int64_t serve(const Request& request, std::int64_t arrival) {
    for_bursts(request, [&](std::size_t which, std::uint64_t address) {
      const dram::AddressMap::Location place = map_.locate(address);
      channels_[which].offer({arrival, address, place.row, 0, static_cast<std::uint8_t>(place.bank), request.write});
      touched_[which] = true;
      moved_[which] += burst_;
    });
    std::int64_t last = 0;
    for (std::size_t which = 0; which < channels_.size(); ++which) {
      if (!touched_[which]) continue;
      touched_[which] = false;
      dram::Channel& channel = channels_[which];
      channel.advance_until_accepted();
      if (request.write) {
        last = std::max(last, channel.accepted_at() + 1);
      } else {
        trial_ = channel;
        last = std::max(last, trial_.finish());
      }
    }
    return last;
  }

  Clock core_;
  std::int64_t clock_ps_, burst_, burst_cycles_, count_;
  Int128 capacity_;
  std::int64_t patience_;
  dram::AddressMap map_;
  dram::ChannelMap spread_;
  Ports ports_;
  std::vector<dram::Channel> channels_;
  dram::Channel trial_;
  std::vector<bool> touched_;
  BandwidthSeries series_;
  std::vector<std::int64_t> moved_ = std::vector<std::int64_t>(channels_.size(), 0);  ///< by the request at hand
};

}  // namespace

std::unique_ptr<MemorySystem> bank_memory(const Machine& machine, const dram::Part& part) {
  return std::make_unique<BankMemory>(machine, part);
}

}  // namespace tilesim::engine
