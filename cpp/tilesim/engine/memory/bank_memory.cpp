// Off-chip memory with DRAM banks, behind the ports of the simple network.
//
// A channel accepts requests in order: later ones wait behind one that finds its queue full. So a channel can advance
// to the acceptance of a request's last burst as soon as the request is known, independent of later requests. A write
// completes then. The return of a read's data depends on the order in which the channel serves its queues. For the last
// piece of a transfer a copy of the channel runs on without further requests, so that later requests do not delay
// earlier answers.
#include <algorithm>
#include <array>
#include <unordered_map>
#include <utility>

#include "tilesim/base/error.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/engine/dram/channel.hpp"
#include "tilesim/engine/dram/mapping.hpp"
#include "tilesim/engine/memory/dram_energy.hpp"
#include "tilesim/engine/memory/dram_traffic.hpp"
#include "tilesim/engine/memory/memory.hpp"

namespace tilesim::engine {

namespace {

class BankMemory final : public MemorySystem {
 public:
  BankMemory(const Machine& machine, const dram::Part& part)
      : core_(machine.core.clock),
        energy_(part.energy),
        clock_ps_(part.clock_ps),
        burst_(part.burst_bytes),
        burst_cycles_(part.burst_cycles),
        // limit on the queue in front of a channel, in ticks of its data bus
        patience_(ceil_div(machine.memory.buffer_bytes, burst_) * burst_cycles_),
        unit_(std::max(machine.memory.interleave_bytes, burst_)),
        map_(part, machine.memory.mapping, dram::bank_hashes(machine.memory.bank_hash)),
        within_(map_.banks_within(static_cast<std::uint64_t>(unit_), static_cast<std::uint64_t>(burst_))),
        spread_(machine.memory.channels, unit_, dram::channel_hash_of(machine.memory.channel_hash)),
        ports_(machine),
        channels_(static_cast<std::size_t>(machine.memory.channels), dram::Channel(part)),
        trial_(part),
        touched_(channels_.size(), false),
        moved_(channels_.size(), 0),
        padding_(channels_.size(), 0),
        count_(part.banks()),
        series_(channels_.size(), machine.core.clock.hertz) {
    for (dram::Channel& channel : channels_) channel.report_to(&reported_);
    one_way_ = ports_.one_way();
  }

  Offered offer(const Request& request, std::uint64_t /*tag*/, std::int64_t now) override {
    std::int64_t retry = now + 1;
    if (!ports_.has_room(request.core, now, retry)) return Offered::refuse(retry);
    const std::int64_t arrival = tick_of(now + one_way_);
    std::int64_t latest = 0;
    find_blocks(request);
    for (const Block& block : blocks_) latest = std::max(latest, channels_[block.channel].now());
    if (latest - arrival > patience_) {
      return Offered::refuse(std::max(now + 1, cycle_of(latest - patience_) - one_way_));
    }
    const std::int64_t through = ports_.pass(request.core, request.bytes, now);
    if (!request.write) return Offered::complete(read(request, arrival, through));
    if (reported_.size() > most_reported) note();
    enqueue(request, arrival, 0);
    std::int64_t last = 0;
    for_touched([&](std::size_t which) {
      channels_[which].advance_until_accepted();
      last = std::max(last, channels_[which].accepted_at() + 1);
    });
    return Offered::complete(std::max(cycle_of(last), through));
  }

  std::int64_t complete(std::uint32_t tag) override {
    note();
    BankRequest& piece = requests_[tag];
    if (piece.left > 0)
      for (std::size_t which = 0; which < channels_.size(); ++which)
        try_alone(which, [&](std::uint32_t other, std::int64_t tick) {
          if (other == tag) piece.last = std::max(piece.last, tick);
        });
    const std::int64_t complete = std::max(cycle_of(piece.last), piece.through) + one_way_;
    drop(tag);
    return complete;
  }
  void drop(std::uint32_t tag) override {
    requests_[tag].open = false;
    if (requests_[tag].left == 0) free_.push_back(tag);
  }

  std::vector<Channel> channels() const override {
    std::vector<Channel> result;
    for (const dram::Channel& channel : channels_) {
      Channel one = traffic_of(drained(channel), burst_);
      one.busy = cycle_of(one.bytes / burst_ * burst_cycles_);
      one.padding = padding_[result.size()];
      result.push_back(one);
    }
    return result;
  }

  std::vector<Energy> energy() const override {
    if (!energy_.known()) return {};
    CommandCounts sum{};
    for (const dram::Channel& channel : channels_) add_commands(channel, sum);
    return command_energy(energy_, sum);
  }

  Ports* ports() override { return &ports_; }
  std::vector<Bank> banks() const override {
    std::vector<Bank> result;
    for (const dram::Channel& channel : channels_) add_banks(channel, count_, result);
    return result;
  }
  const BandwidthSeries* series() const override { return &series_; }

 private:
  static constexpr Int128 picoseconds = 1000000000000;
  static constexpr std::size_t most_reported = 4096;  ///< completions kept until they are read

  std::int64_t tick_of(std::int64_t cycle) const {
    const Int128 per = static_cast<Int128>(core_.hertz) * clock_ps_;
    return static_cast<std::int64_t>((cycle * picoseconds + per - 1) / per);
  }
  std::int64_t cycle_of(std::int64_t tick) const {
    return static_cast<std::int64_t>((static_cast<Int128>(tick) * clock_ps_ * core_.hertz + picoseconds - 1) /
                                     picoseconds);
  }

  /// The part of a request in one unit of the interleaving, in full bursts.
  struct Block {
    std::size_t channel = 0;
    std::uint64_t address = 0, bytes = 0;  ///< within the channel
    std::uint64_t asked = 0;               ///< bytes without padding to bursts
  };

  /// Fills `blocks_`; visits each run of a pattern separately.
  void find_blocks(const Request& request) {
    blocks_.clear();
    const auto contiguous = [&](std::int64_t address, std::int64_t bytes) {
      const auto burst = static_cast<std::uint64_t>(burst_), unit = static_cast<std::uint64_t>(unit_);
      const auto end = static_cast<std::uint64_t>(address + bytes);
      for (std::uint64_t at = static_cast<std::uint64_t>(address) / burst * burst; at < end;) {
        const std::uint64_t next = std::min(end, at / unit * unit + unit);
        const dram::ChannelMap::Target target = spread_.locate(at);
        const std::uint64_t from = std::max(at, static_cast<std::uint64_t>(address));
        blocks_.push_back({static_cast<std::size_t>(target.channel), target.address, next - at, next - from});
        at = next;
      }
    };
    if (request.pattern && request.pattern->known && !request.placed)
      request.pattern->for_runs(request.offset, request.bytes, contiguous);
    else
      contiguous(request.address, request.bytes);
  }

  /// The current transfer of a queue.
  struct Transfer {
    std::int64_t serial = 0, last = 0, through = 0;  ///< last: tick of returned data; through: cycle at the port
    std::vector<bool> channels;                      ///< channels of its requests
  };
  struct BankRequest {
    Transfer* transfer = nullptr;
    std::int64_t serial = 0;  ///< of its transfer: the queue may have a later one
    std::int64_t left = 0, last = 0, through = 0;
    bool open = false;  ///< its completion may still be requested
  };

  /// Offers the blocks' bursts and returns their number. Marks their channels in `touched_`.
  std::int64_t enqueue(const Request& request, std::int64_t arrival, std::uint32_t tag) {
    std::int64_t count = 0;
    for (const Block& block : blocks_) {
      touched_[block.channel] = true;
      moved_[block.channel] += static_cast<std::int64_t>(block.bytes);
      channels_[block.channel].visit([&](auto& channel) {
        const auto burst = static_cast<std::uint64_t>(burst_), unit = static_cast<std::uint64_t>(unit_);
        const std::uint64_t end = block.address + block.bytes;
        const std::int64_t bursts = ceil_div(static_cast<std::int64_t>(block.bytes), burst_);
        count += bursts;
        padding_[block.channel] += bursts * burst_ - static_cast<std::int64_t>(block.asked);
        if (within_.empty()) {
          for (std::uint64_t address = block.address; address < end; address += burst) {
            const dram::AddressMap::Location place = map_.locate(address);
            channel.offer({arrival, address, place.row, tag, static_cast<std::uint8_t>(place.bank), request.write});
          }
          return;
        }
        const dram::AddressMap::Location first = map_.locate(block.address & ~(unit - 1));
        const std::uint8_t* bank = &within_[(block.address & (unit - 1)) / burst];
        for (std::uint64_t address = block.address; address < end; address += burst, ++bank)
          channel.offer(
              {arrival, address, first.row, tag, static_cast<std::uint8_t>(first.bank ^ *bank), request.write});
      });
    }
    return count;
  }

  template <class Visit>
  void for_touched(Visit visit) {
    for (std::size_t which = 0; which < channels_.size(); ++which) {
      if (!touched_[which]) continue;
      touched_[which] = false;
      visit(which);
      series_.add(which, cycle_of(channels_[which].now()), std::exchange(moved_[which], 0));
    }
  }

  /// When a transfer has all its data; if more pieces follow, the number of the read.
  Completion read(const Request& request, std::int64_t arrival, std::int64_t through) {
    Transfer& transfer = transfers_[request.transfer];
    if (transfer.channels.empty()) {
      transfer.serial = ++serials_;
      transfer.channels.assign(channels_.size(), false);
    }
    transfer.through = std::max(transfer.through, through);
    if (free_.empty()) {
      free_.push_back(static_cast<std::uint32_t>(requests_.size()));
      requests_.emplace_back();
    }
    const std::uint32_t tag = free_.back();
    free_.pop_back();
    requests_[tag] = {&transfer, transfer.serial, 0, 0, through, true};
    requests_[tag].left = enqueue(request, arrival, tag);
    for_touched([&](std::size_t which) {
      channels_[which].advance_until_accepted();
      transfer.channels[which] = true;
    });
    note();
    if (request.more) return Completion::of_read(tag);
    for (std::size_t which = 0; which < channels_.size(); ++which)
      if (transfer.channels[which])
        try_alone(which, [&](std::uint32_t other, std::int64_t tick) {
          if (requests_[other].serial == transfer.serial) transfer.last = std::max(transfer.last, tick);
        });
    const std::int64_t complete = std::max(cycle_of(transfer.last), transfer.through) + one_way_;
    requests_[tag].open = false;
    if (requests_[tag].left == 0) free_.push_back(tag);
    transfer = {};
    return Completion::at(complete);
  }

  /// Processes completions reported by the channels.
  void note() {
    for (const dram::Completion& one : reported_) {
      if (one.write) continue;
      BankRequest& piece = requests_[one.tag];
      piece.last = std::max(piece.last, one.tick);
      if (piece.transfer->serial == piece.serial) piece.transfer->last = std::max(piece.transfer->last, one.tick);
      if (--piece.left == 0 && !piece.open) free_.push_back(one.tag);
    }
    reported_.clear();
  }

  /// Visits the waiting reads of a channel with their ticks of return if no further request arrives.
  template <class Visit>
  void try_alone(std::size_t which, Visit visit) {
    if (channels_[which].reads_waiting() == 0) return;
    trial_ = channels_[which];
    tried_.clear();
    trial_.report_to(&tried_);
    trial_.finish_reads();
    for (const dram::Completion& one : tried_)
      if (!one.write) visit(one.tag, one.tick);
  }

  Clock core_;
  dram::CommandEnergy energy_;
  std::int64_t clock_ps_, burst_, burst_cycles_;
  std::int64_t patience_, unit_, one_way_ = 0;
  dram::AddressMap map_;
  std::vector<std::uint8_t> within_;  ///< banks of a unit's bursts; empty if they have different rows
  dram::ChannelMap spread_;
  Ports ports_;
  std::vector<dram::Channel> channels_;
  dram::Channel trial_;
  std::vector<Block> blocks_;  ///< of the current request
  std::vector<bool> touched_;
  std::vector<std::int64_t> moved_;  ///< bytes of the current request by channel
  std::vector<std::int64_t> padding_;
  int count_;
  BandwidthSeries series_;
  std::vector<dram::Completion> reported_, tried_;
  std::unordered_map<std::int64_t, Transfer> transfers_;
  std::vector<BankRequest> requests_;  ///< by tag of their bursts
  std::vector<std::uint32_t> free_;
  std::int64_t serials_ = 0;
};

}  // namespace

std::unique_ptr<MemorySystem> bank_memory(const Machine& machine, const dram::Part& part) {
  return std::make_unique<BankMemory>(machine, part);
}

}  // namespace tilesim::engine
