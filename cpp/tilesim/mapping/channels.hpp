// Memory channels and DMA queues in an estimate. The model is coarser than the engine: times are doubles in core
// cycles, and there are no events.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tilesim/base/shape.hpp"
#include "tilesim/machine/share.hpp"

namespace tilesim::mapping {

/// Ports of cores, links between regions, and channels, each with a rate in bytes per core cycle. Consecutive
/// interleaving units go to adjacent channels, or to hashed ones if the memory hashes. `walked` of the `workers` (cores
/// or contexts) send requests; the others use an average share of each channel. `machine` has one core's share of the
/// bandwidth.
class Channels {
 public:
  Channels(const Share& machine, double workers, double contexts, std::size_t walked = 1)
      : unit_(machine.memory.interleave_bytes),
        crowd_(workers / static_cast<double>(walked)),
        spreads_(machine.memory.channel_hash != "none"),
        free_(static_cast<std::size_t>(machine.memory.channels), 0),
        regions_(machine.memory.regions),
        port_free_(walked, 0) {
    const auto hertz = static_cast<double>(machine.core.clock.hertz);
    rate_ = static_cast<double>(machine.memory.bytes_per_second) * machine.memory.efficiency / hertz *
            static_cast<double>(machine.core.count) / static_cast<double>(free_.size());
    const auto ratio = hertz / static_cast<double>(machine.network.clock.hertz);
    port_ = static_cast<double>(machine.network.port_bytes_per_cycle) / ratio / contexts;
    one_way_ = static_cast<double>(machine.network.latency_cycles) * ratio;
    latency_ = static_cast<double>(machine.memory.latency_ps) * 1e-12 * hertz;
    channel_room_ = static_cast<double>(machine.memory.buffer_bytes) / rate_;
    port_room_ = static_cast<double>(machine.network.buffer_bytes) / port_;
    if (regions_ <= 1) return;
    const auto regions = static_cast<double>(regions_);
    apart_ = static_cast<double>(machine.network.region_latency_cycles) * ratio;
    link_ = (walked > 1 ? 1.0 : std::max(1.0, workers / regions)) /
            std::max(1.0, static_cast<double>(machine.network.region_bytes_per_cycle)) * ratio;
    link_room_ = static_cast<double>(machine.network.buffer_bytes) * link_;
    // Stores of one core to other regions use the link directions that loads of those regions' cores use.
    both_ways_ = walked == 1 && workers >= regions;
    links_.assign(static_cast<std::size_t>(regions_ * regions_), 0);
    in_region_.assign(static_cast<std::size_t>(regions_), 0);
    const bool in_turn = walked < static_cast<std::size_t>(machine.core.count);  // some cores are idle: takes turns
    for (std::int64_t core = 0; core < static_cast<std::int64_t>(walked); ++core)
      homes_.push_back(in_turn ? core % regions_ : core * regions_ / machine.core.count);
  }

  /// Earliest time, not before `now`, at which the buffers of port, links and channels have space for a request.
  double room(std::int64_t address, std::int64_t bytes, double now, bool write, std::size_t core) {
    const auto count = static_cast<std::int64_t>(free_.size());
    const std::int64_t first = address / unit_, units = std::min(ceil_div(address % unit_ + bytes, unit_), count);
    double at = std::max(now, port_free_[core] - port_room_);
    if (regions_ > 1) {
      const std::int64_t home = homes_[core];
      count_regions(first, units);
      for (std::int64_t region = 0; region < regions_; ++region)
        if (region != home && in_region_[static_cast<std::size_t>(region)] > 0)
          at = std::max(at, link_between(home, region, write) - link_room_);
    }
    for (std::int64_t i = 0; i < units; ++i)
      at = std::max(at, free_[static_cast<std::size_t>(channel(first + i, units < count))] - channel_room_ - one_way_);
    return at;
  }

  /// Completion time of a request that leaves the core at `now`.
  double request(std::int64_t address, std::int64_t bytes, double now, bool write, std::size_t core = 0) {
    const auto count = static_cast<std::int64_t>(free_.size());
    const std::int64_t first = address / unit_, units = std::min(ceil_div(address % unit_ + bytes, unit_), count);
    port_free_[core] = std::max(port_free_[core], now) + static_cast<double>(bytes) / port_;
    double finish = port_free_[core];
    const double further = regions_ > 1 && cross_links(first, units, bytes, now, write, core, finish) ? apart_ : 0;
    const double arrival = now + one_way_ + further;
    const double crowd = std::max(1.0, crowd_ * static_cast<double>(units) / static_cast<double>(count));
    std::int64_t left = bytes, room = unit_ - address % unit_;
    for (std::int64_t i = 0; i < units; ++i, room = unit_) {
      const double here = units == count ? static_cast<double>(bytes) / static_cast<double>(count)
                                         : static_cast<double>(std::min(left, room));
      const double share = crowd * here / rate_;
      left -= room;
      double& free = free_[static_cast<std::size_t>(channel(first + i, units < count))];
      free = std::max(free, arrival) + share;
      finish = std::max(finish, free);
    }
    return finish + latency_ + (write ? 0 : one_way_ + further);
  }

 private:
  /// Moves the request's bytes in other regions over the links; returns whether there are such bytes.
  bool cross_links(std::int64_t first, std::int64_t units, std::int64_t bytes, double now, bool write, std::size_t core,
                   double& finish) {
    const std::int64_t home = homes_[core];
    count_regions(first, units);
    bool any = false;
    for (std::int64_t region = 0; region < regions_; ++region) {
      const std::int64_t there = in_region_[static_cast<std::size_t>(region)];
      if (region == home || there == 0) continue;
      any = true;
      double& link = link_between(home, region, write);
      link = std::max(link, now) + static_cast<double>(bytes * there) / static_cast<double>(units) * link_;
      finish = std::max(finish, link);
    }
    return any;
  }

  double& link_between(std::int64_t home, std::int64_t region, bool write) {
    const bool out = write && !both_ways_;
    return links_[static_cast<std::size_t>(out ? home * regions_ + region : region * regions_ + home)];
  }

  void count_regions(std::int64_t first, std::int64_t units) {
    const auto count = static_cast<std::int64_t>(free_.size()), here = count / regions_;
    in_region_.assign(in_region_.size(), 0);
    for (std::int64_t i = 0; i < units; ++i) ++in_region_[static_cast<std::size_t>((first + i) % count / here)];
  }

  /// The channel of an interleaving unit; hashing stays within a region.
  std::int64_t channel(std::int64_t unit, bool few) const {
    const auto count = static_cast<std::int64_t>(free_.size());
    const std::int64_t place = unit % count, row = unit / count, each = count / regions_;
    return spreads_ && few ? place / each * each + (place + row + row / each) % each : place;
  }

  std::int64_t unit_;
  double crowd_;
  bool spreads_, both_ways_ = false;
  std::vector<double> free_;
  std::int64_t regions_;
  double rate_ = 1, port_ = 1, one_way_ = 0, latency_ = 0, apart_ = 0, link_ = 0;
  double channel_room_ = 0, port_room_ = 0, link_room_ = 0;  ///< cycles of data that fit the buffers in front of them
  std::vector<double> port_free_, links_;                    ///< per core; per pair of regions
  std::vector<std::int64_t> in_region_, homes_;
};

/// A DMA queue. Transfers run in order, as requests of bounded size, with a bounded number in flight.
class Queue {
 public:
  Queue(const Share& machine, bool write) : dma_(machine.core.dma), write_(write) {
    const std::int64_t whole = std::max<std::int64_t>(16384, machine.memory.interleave_bytes * machine.memory.channels);
    chunk_ = std::max<std::int64_t>(1, std::min(whole, dma_.outstanding_bytes));
    in_flight_.assign(static_cast<std::size_t>(std::clamp<std::int64_t>(dma_.outstanding_bytes / chunk_, 1, 64)), 0);
  }

  bool within() const { return left_ > 0; }  ///< whether a transfer is in progress
  double done() const { return done_; }      ///< completion of the last transfer
  /// Earliest time of the next request, if its transfer may begin at `wanted`.
  double ready(double wanted) const {
    const double issued = std::max(free_, wanted) + static_cast<double>(dma_.issue_cycles);
    return std::max({within() ? free_ : issued, in_flight_[sent_ % in_flight_.size()], refused_until_});
  }
  /// Whether memory accepts the next request at `now`; if not, `ready` returns a later time.
  bool accepted(Channels& channels, double now, std::size_t core) {
    const double at = left_ > 0 ? channels.room(address_, std::min(left_, chunk_), now, write_, core) : now;
    if (at > now) refused_until_ = std::max(at, now + 1);
    return at <= now;
  }
  void begin(std::int64_t at, std::int64_t bytes) {
    left_ = bytes;
    address_ = at;
    finish_ = 0;
  }
  /// Sends one request; returns whether it is the last request of its transfer.
  bool send(Channels& channels, double now, std::size_t core = 0) {
    const std::int64_t size = std::min(left_, chunk_);
    if (size > 0) {
      double& slot = in_flight_[sent_++ % in_flight_.size()];
      slot = channels.request(address_, size, now, write_, core);
      finish_ = std::max(finish_, slot);
    }
    free_ = now + static_cast<double>(ceil_div(size, dma_.bytes_per_cycle));
    finish_ = std::max(finish_, free_);  // the last byte also has to pass the DMA engine
    left_ -= size;
    address_ += size;
    if (left_ > 0) return false;
    done_ = std::max(done_, finish_ + static_cast<double>(dma_.latency_cycles));
    return true;
  }

 private:
  const DmaSpec& dma_;
  bool write_;
  std::int64_t chunk_ = 1, left_ = 0, address_ = 0;
  double free_ = 0, done_ = 0, finish_ = 0, refused_until_ = 0;
  std::vector<double> in_flight_;  ///< completion times of the latest requests
  std::size_t sent_ = 0;
};

}  // namespace tilesim::mapping
