// Off-chip memory behind a cache and the simple network.
//
// Requests enter a slice in order, so that it can advance to the entry of a request's last part as soon as the request
// is known. A write completes when its data is in the slice. A copy of the channel that runs on without further
// requests finds the return of a miss, as in bank_memory.cpp.
#include <algorithm>
#include <unordered_map>

#include "tilesim/engine/memory/cached.hpp"

namespace tilesim::engine {

namespace {

class CachedMemory final : public MemorySystem {
 public:
  CachedMemory(const Machine& machine, const dram::Part* part, cache::Tensors& tensors)
      : core_(machine.core.clock),
        network_(machine.network.clock),
        ports_(machine),
        one_way_(ports_.one_way()),
        cached_(machine, part, tensors),
        series_(cached_.level.size(), machine.core.clock.hertz),
        moved_(cached_.level.size(), 0) {}

  Offered offer(const Request& request, std::uint64_t /*tag*/, std::int64_t now) override {
    std::int64_t retry = now + 1;
    if (!ports_.has_room(request.core, now, retry)) return Offered::refuse(retry);
    const std::int64_t arrival = cycles_at_or_after({now + one_way_, core_.hertz}, network_);
    std::int64_t latest = 0;
    for_blocks(request, [&](std::size_t slice, std::uint64_t, std::int64_t) {
      latest = std::max(latest, cached_.level.slice(slice).now());
    });
    if (latest - arrival > cached_.patience_cycles) {
      return Offered::refuse(std::max(now + 1, to_core(latest - cached_.patience_cycles) - one_way_));
    }
    const std::int64_t through = ports_.pass(request.core, request.bytes, now);
    if (!request.write) return Offered::complete(read(request, arrival, through));
    const std::int64_t taken = enter(request, arrival, cache::no_tag).cycle;
    return Offered::complete(std::max(to_core(taken + cached_.level.spec().hit_cycles), through));
  }

  std::int64_t complete(std::uint32_t tag) override {
    for (std::size_t i = 0; i < cached_.level.size(); ++i) note(i);
    CacheRequest& piece = requests_[tag];
    if (piece.left > 0)
      for (std::size_t i = 0; i < cached_.level.size(); ++i) look_ahead(i);
    const std::int64_t complete = std::max(to_core(std::max(piece.last, piece.expected)), piece.through) + one_way_;
    drop(tag);
    return complete;
  }
  void drop(std::uint32_t tag) override {
    requests_[tag].open = false;
    if (requests_[tag].left == 0) free_.push_back(tag);
  }

  std::vector<Channel> channels() const override { return cached_.channels(); }
  std::vector<Energy> energy() const override { return cached_.energy(); }
  std::vector<Bank> banks() const override { return cached_.banks(); }
  Ports* ports() override { return &ports_; }
  const BandwidthSeries* series() const override { return &series_; }
  void add_caches(std::vector<const cache::Level*>& levels) const override { levels.push_back(&cached_.level); }

 private:
  /// The current transfer of a queue.
  struct Transfer {
    std::int64_t serial = 0, last = 0, through = 0;  ///< last: slice cycle of answers; through: core cycle
    std::vector<bool> slices;                        ///< slices of its requests
  };
  struct CacheRequest {
    Transfer* transfer = nullptr;
    std::int64_t serial = 0;  ///< of its transfer: the queue may have a later one
    std::int64_t left = 0, last = 0, expected = 0, through = 0;
    bool open = false;  ///< its completion may still be requested
  };

  std::int64_t to_core(std::int64_t cycle) const { return cycles_at_or_after({cycle, network_.hertz}, core_); }

  /// Visits contiguous bytes of one channel: slice, address within the channel, bytes.
  template <class Visit>
  void for_blocks(const Request& request, Visit visit) const {
    const auto contiguous = [&](std::int64_t address, std::int64_t bytes) {
      const std::int64_t end = address + bytes;
      for (std::int64_t at = address / cached_.burst * cached_.burst; at < end;) {
        const std::int64_t next = std::min(end, (at / cached_.unit + 1) * cached_.unit);
        const dram::ChannelMap::Target target = cached_.spread.locate(static_cast<std::uint64_t>(at));
        visit(static_cast<std::size_t>(target.channel), target.address, next - at);
        at = next;
      }
    };
    if (request.pattern && request.pattern->known && !request.placed)
      request.pattern->for_runs(request.offset, request.bytes, contiguous);
    else
      contiguous(request.address, request.bytes);
  }

  cache::Level::Taken enter(const Request& request, std::int64_t arrival, std::uint32_t tag) {
    const std::int32_t tensor = request.pattern ? request.pattern->tensor : -1;
    const bool known = request.pattern && request.pattern->known;
    cache::Level::Taken sum;
    for_blocks(request, [&](std::size_t slice, std::uint64_t address, std::int64_t bytes) {
      const cache::Level::Taken taken =
          cached_.level.request(slice, {arrival, address, bytes, request.write, tag, 0}, tensor, known);
      sum.cycle = std::max(sum.cycle, taken.cycle);
      sum.answers += taken.answers;
      sum.below += taken.below;
      const std::int64_t moved = cached_.level.below(slice).moved;
      series_.add(slice, to_core(cached_.level.slice(slice).now()), moved - moved_[slice]);
      moved_[slice] = moved;
    });
    if (request.pattern) request.pattern->below += sum.below;
    return sum;
  }

  /// When a transfer has all its data; if more pieces follow, the number of the read.
  Completion read(const Request& request, std::int64_t arrival, std::int64_t through) {
    if (free_.empty()) {
      free_.push_back(static_cast<std::uint32_t>(requests_.size()));
      requests_.emplace_back();
    }
    const std::uint32_t tag = free_.back();
    free_.pop_back();
    Transfer& transfer = transfers_[request.transfer];
    if (transfer.slices.empty()) {
      transfer.serial = ++serials_;
      transfer.slices.assign(cached_.level.size(), false);
    }
    transfer.through = std::max(transfer.through, through);
    requests_[tag] = {&transfer, transfer.serial, 0, 0, 0, through, true};
    for_blocks(request, [&](std::size_t slice, std::uint64_t, std::int64_t) { transfer.slices[slice] = true; });
    requests_[tag].left = enter(request, arrival, tag).answers;
    for (std::size_t i = 0; i < cached_.level.size(); ++i)
      if (transfer.slices[i]) note(i);
    if (request.more) return Completion::of_read(tag);
    std::int64_t last = 0;
    for (std::size_t i = 0; i < cached_.level.size(); ++i)
      if (transfer.slices[i]) last = std::max(last, look_ahead(i, transfer.serial));
    const std::int64_t complete = std::max(to_core(std::max(last, transfer.last)), transfer.through) + one_way_;
    requests_[tag].open = false;
    if (requests_[tag].left == 0) free_.push_back(tag);
    transfer = {};
    return Completion::at(complete);
  }

  /// Processes the answers of a slice.
  void note(std::size_t index) {
    std::vector<cache::Below::Returned>& answers = cached_.level.slice(index).answers;
    for (const cache::Below::Returned& one : answers) {
      CacheRequest& piece = requests_[one.tag];
      piece.last = std::max(piece.last, one.cycle);
      if (piece.transfer->serial == piece.serial) piece.transfer->last = std::max(piece.transfer->last, one.cycle);
      if (--piece.left == 0 && !piece.open) free_.push_back(one.tag);
    }
    answers.clear();
  }

  /// Finds when the waiting reads of a slice return if no further request arrives; returns the last of one transfer.
  std::int64_t look_ahead(std::size_t index, std::int64_t serial = -1) {
    cache::Slice& slice = cached_.level.slice(index);
    std::int64_t last = 0;
    if (slice.readers() == 0) return last;
    expected_.clear();
    slice.outlook(expected_);
    for (const cache::Below::Returned& one : expected_) {
      CacheRequest& piece = requests_[one.tag];
      piece.expected = std::max(piece.expected, one.cycle);
      if (piece.serial == serial) last = std::max(last, one.cycle);
    }
    return last;
  }

  Clock core_, network_;
  Ports ports_;
  std::int64_t one_way_;
  CachedChannels cached_;
  BandwidthSeries series_;
  std::vector<std::int64_t> moved_;
  std::unordered_map<std::int64_t, Transfer> transfers_;
  std::vector<CacheRequest> requests_;
  std::vector<std::uint32_t> free_;
  std::int64_t serials_ = 0;
  std::vector<cache::Below::Returned> expected_;
};

}  // namespace

std::unique_ptr<MemorySystem> cached_memory(const Machine& machine, const dram::Part* part, cache::Tensors& tensors) {
  return std::make_unique<CachedMemory>(machine, part, tensors);
}

}  // namespace tilesim::engine
