// Memory in several regions (chiplets) with links between them: address -> placement -> region -> channel.
#include <algorithm>
#include <vector>

#include "tilesim/base/shape.hpp"
#include "tilesim/engine/memory/memory.hpp"
#include "tilesim/engine/memory/region_map.hpp"

namespace tilesim::engine {

namespace {

class RegionMemory final : public MemorySystem {
 public:
  RegionMemory(const Machine& machine, const std::function<std::unique_ptr<MemorySystem>(const Machine&)>& make)
      : core_(machine.core.clock),
        network_(machine.network),
        map_(machine),
        regions_(map_.regions()),
        ports_(machine),
        links_(static_cast<std::size_t>(regions_ * regions_)) {
    Machine part = machine;
    part.memory.regions = 1;
    part.memory.channels = map_.channels();
    part.memory.bytes_per_second = std::max<std::int64_t>(1, machine.memory.bytes_per_second / regions_);
    part.memory.capacity_bytes = machine.memory.capacity_bytes / regions_;
    // Requests to all regions pass the ports here, so regions have unlimited ports.
    part.network.port_bytes_per_cycle = std::int64_t{1} << 40;
    part.network.buffer_bytes = std::int64_t{1} << 60;
    for (std::int64_t i = 0; i < regions_; ++i) parts_.push_back(make(part));
    further_ = cycles_at_or_after({network_.region_latency_cycles, network_.clock.hertz}, core_);
  }

  void place(std::int64_t low, std::int64_t high, std::int32_t placement) override { map_.place(low, high, placement); }
  void forget(std::int64_t low, std::int64_t high) override { map_.forget(low, high); }

  Offered offer(const Request& request, std::uint64_t /*tag*/, std::int64_t now) override {
    const std::int64_t home = map_.home(request.core);
    const std::int64_t here = cycles_at_or_after({now, core_.hertz}, network_.clock);
    std::int64_t retry = now + 1;
    if (!ports_.has_room(request.core, now, retry)) return Offered::refuse(retry);
    split(request, home);
    for (const RegionRange& piece : ranges_)
      if (piece.region != home && refused(link(request, home, piece).free, here, now, retry))
        return Offered::refuse(retry);
    std::int64_t finish = ports_.pass(request.core, request.bytes, now);
    bool first = true;
    for (const RegionRange& piece : ranges_) {
      const Offered offered = serve(request, piece, piece.region == home, now, first);
      if (!offered.accepted()) {
        ports_.undo(request.core, request.bytes);
        return offered;
      }
      first = false;
      Link& way = link(request, home, piece);
      way.bytes += piece.bytes;
      std::int64_t complete = offered.completion.cycle();
      if (piece.region != home) {
        way.free = std::max(way.free, here) + ceil_div(piece.bytes, network_.region_bytes_per_cycle);
        const std::int64_t through = cycles_at_or_after({way.free, network_.clock.hertz}, core_);
        complete = std::max(complete, through) + (request.write ? 0 : further_);
      }
      finish = std::max(finish, complete);
    }
    return Offered::complete(finish);
  }

  std::vector<Channel> channels() const override {
    std::vector<Channel> all;
    for (const auto& part : parts_) {
      const std::vector<Channel> own = part->channels();
      all.insert(all.end(), own.begin(), own.end());
    }
    return all;
  }

  std::vector<Energy> energy() const override {
    std::vector<Energy> sum;
    for (const auto& part : parts_) {
      const std::vector<Energy> own = part->energy();
      if (sum.empty())
        sum = own;
      else
        for (std::size_t i = 0; i < own.size(); ++i) sum[i].count += own[i].count;
    }
    return sum;
  }

  void add_caches(std::vector<const cache::Level*>& levels) const override {
    for (const auto& part : parts_) part->add_caches(levels);
  }

  Ports* ports() override { return &ports_; }

  std::int64_t cross(std::int64_t from, std::int64_t to, std::int64_t bytes, std::int64_t now) override {
    const std::int64_t source = map_.home(from), sink = map_.home(to);
    if (source == sink) return now;
    Link& way = links_[static_cast<std::size_t>(source * regions_ + sink)];
    const std::int64_t here = cycles_at_or_after({now, core_.hertz}, network_.clock);
    way.free = std::max(way.free, here) + ceil_div(bytes, network_.region_bytes_per_cycle);
    way.sent += bytes;
    return cycles_at_or_after({way.free, network_.clock.hertz}, core_) + further_;
  }

  std::vector<MemorySystem::Link> links() const override {
    std::vector<MemorySystem::Link> all;
    for (std::int64_t from = 0; from < regions_; ++from)
      for (std::int64_t to = 0; to < regions_; ++to) {
        const Link& way = links_[static_cast<std::size_t>(from * regions_ + to)];
        const std::int64_t cycles = from == to ? 0 : (way.bytes + way.sent) / network_.region_bytes_per_cycle;
        all.push_back({from, to, way.bytes, cycles_at_or_after({cycles, network_.clock.hertz}, core_), way.sent});
      }
    return all;
  }

 private:
  struct Link { std::int64_t free = 0, bytes = 0, sent = 0; };  ///< network cycles; bytes of memory, of sends
  using RegionRange = RegionMap::RegionRange;

  /// Whether more than a buffer waits in front of a link.
  bool refused(std::int64_t free, std::int64_t here, std::int64_t now, std::int64_t& retry) const {
    const std::int64_t buffered = network_.buffer_bytes / network_.region_bytes_per_cycle;
    if (free - here <= buffered) return false;
    retry = std::max(now + 1, cycles_at_or_after({free - buffered, network_.clock.hertz}, core_));
    return true;
  }

  /// The link for a piece's data: from the region to the core's home for reads, back for writes.
  Link& link(const Request& request, std::int64_t home, const RegionRange& piece) {
    const std::int64_t from = request.write ? home : piece.region, to = request.write ? piece.region : home;
    return links_[static_cast<std::size_t>(from * regions_ + to)];
  }

  /// Offers a piece to its region. Only the first piece of a request may be rejected; others wait at the region.
  Offered serve(const Request& request, const RegionRange& piece, bool is_local, std::int64_t now, bool first) {
    MemorySystem& part = *parts_[static_cast<std::size_t>(piece.region)];
    Request own{request.core, piece.address, piece.bytes, request.write};
    own.pattern = request.pattern;
    own.placed = true;
    const std::int64_t way = is_local ? 0 : further_;
    std::int64_t at = now + way;
    Offered offered = part.offer(own, 0, at);
    if (!offered.accepted() && first) return Offered::refuse(std::max(now + 1, offered.retry - way));
    while (!offered.accepted()) {
      at = std::max(at + 1, offered.retry);
      offered = part.offer(own, 0, at);
    }
    return offered;
  }

  void add(std::int64_t region, std::int64_t address, std::int64_t bytes) {
    for (RegionRange& piece : ranges_)
      if (piece.region == region && piece.address + piece.bytes == address) {
        piece.bytes += bytes;
        return;
      }
    ranges_.push_back({region, address, bytes});
  }

  /// Splits a request into contiguous pieces with addresses within regions.
  void split(const Request& request, std::int64_t home) {
    ranges_.clear();
    if (request.pattern == nullptr || !request.pattern->known) return split(request.address, request.bytes, home);
    request.pattern->for_runs(request.offset, request.bytes,
                              [&](std::int64_t address, std::int64_t bytes) { split(address, bytes, home); });
  }

  void split(std::int64_t address, std::int64_t size, std::int64_t home) {
    map_.split(address, size, home, [&](const RegionRange& piece) { add(piece.region, piece.address, piece.bytes); });
  }

  Clock core_;
  NetworkSpec network_;
  RegionMap map_;
  std::int64_t regions_, further_ = 0;
  Ports ports_;
  std::vector<Link> links_;  ///< by from * regions + to
  std::vector<std::unique_ptr<MemorySystem>> parts_;
  std::vector<RegionRange> ranges_;
};

}  // namespace

std::unique_ptr<MemorySystem> region_memory(const Machine& machine,
                                            const std::function<std::unique_ptr<MemorySystem>(const Machine&)>& make) {
  return std::make_unique<RegionMemory>(machine, make);
}

}  // namespace tilesim::engine
