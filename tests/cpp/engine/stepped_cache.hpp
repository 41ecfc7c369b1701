// The reference for a slice of a cache: every cycle looked at, every rule asked in each. It shares the settings with
// the slice under test, and nothing else. Below it is a channel that is advanced cycle by cycle too.
#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <set>
#include <vector>

#include "tilesim/engine/dram/channel.hpp"
#include "tilesim/engine/dram/mapping.hpp"
#include "tilesim/machine/machine.hpp"

namespace stepped {

using Time = std::int64_t;

struct Ask {
  Time due = 0;
  std::uint64_t address = 0;
  std::int64_t bytes = 0;
  bool write = false, bypass = false;
};

/// What is below: requests in order, data that returns.
class Line {
 public:
  virtual ~Line() = default;
  virtual void put(Time from, std::uint64_t address, std::int64_t bytes, bool write, int number) = 0;
  virtual void step(Time cycle) = 0;  ///< everything up to and including this cycle
  virtual std::size_t refused() const = 0;
  /// Cycle at which all of a read's data is there, or -1 if that is not known yet.
  virtual Time there(int number) const = 0;
};

/// A real channel, one tick at a time; it has a reference of its own.
class DramLine final : public Line {
 public:
  explicit DramLine(const tilesim::engine::dram::Part& part) : channel_(part), map_(part), burst_(part.burst_bytes) {
    channel_.report_to(&done_);
  }
  void put(Time from, std::uint64_t address, std::int64_t bytes, bool write, int number) override {
    for (std::int64_t i = 0; i < bytes; i += burst_) {
      const std::uint64_t at = address + static_cast<std::uint64_t>(i);
      const auto place = map_.locate(at);
      channel_.offer(
          {from, at, place.row, static_cast<std::uint32_t>(number), static_cast<std::uint8_t>(place.bank), write});
      if (!write) ++missing_[number];
    }
  }
  void step(Time cycle) override {
    channel_.advance(cycle);
    for (const auto& one : done_)
      if (!one.write)
        --missing_[static_cast<int>(one.tag)],
            latest_[static_cast<int>(one.tag)] = std::max(latest_[static_cast<int>(one.tag)], one.tick);
    done_.clear();
  }
  std::size_t refused() const override { return channel_.waiting(); }
  Time there(int number) const override { return missing_.at(number) > 0 ? -1 : latest_.at(number); }

 private:
  tilesim::engine::dram::Channel channel_;
  tilesim::engine::dram::AddressMap map_;
  std::int64_t burst_;
  std::vector<tilesim::engine::dram::Completion> done_;
  std::map<int, int> missing_;
  std::map<int, Time> latest_;
};

/// Latency and bandwidth, byte by byte: `rate` bytes in `per` cycles.
class ByteLine final : public Line {
 public:
  ByteLine(std::int64_t rate, std::int64_t per, Time latency, std::int64_t buffer)
      : rate_(rate), per_(per), latency_(latency), buffer_(buffer) {}
  void put(Time from, std::uint64_t, std::int64_t bytes, bool write, int number) override {
    items_.push_back({from, bytes, number, write, false});
  }
  void step(Time cycle) override {
    for (; (byte_ + 1) * per_ <= cycle * rate_; ++byte_) pass();
    std::int64_t ahead = passing(cycle) ? -1 : 0;  // a byte that is being passed does not wait
    bool open = true;
    for (Item& item : items_) {
      open = open && (item.accepted || (item.from <= cycle && ahead <= buffer_));
      item.accepted = item.accepted || open;
      ahead += item.left;
    }
    while (!items_.empty() && items_.front().left == 0 && items_.front().accepted) items_.pop_front();
  }
  std::size_t refused() const override {
    std::size_t count = 0;
    for (const Item& item : items_) count += !item.accepted;
    return count;
  }
  Time there(int number) const override {
    const auto found = there_.find(number);
    return found == there_.end() ? -1 : found->second;
  }

 private:
  struct Item {
    Time from = 0;
    std::int64_t left = 0;
    int number = 0;
    bool write = false, accepted = false;
  };
  bool passing(Time cycle) const {
    for (const Item& item : items_)
      if (item.left > 0) return item.from * rate_ <= byte_ * per_ && byte_ * per_ < cycle * rate_;
    return false;
  }
  /// One byte's time, from byte_ * per / rate on.
  void pass() {
    for (Item& item : items_) {
      if (item.left == 0) continue;
      if (item.from * rate_ > byte_ * per_) return;  // not there at the beginning of this byte's time
      if (--item.left == 0 && !item.write) {
        const Time whole = ((byte_ + 1) * per_ + rate_ - 1) / rate_;
        there_[item.number] = std::max(whole + latency_, item.from + 1);
      }
      return;
    }
  }
  std::int64_t rate_, per_;
  Time latency_;
  std::int64_t buffer_, byte_ = 0;
  std::deque<Item> items_;
  std::map<int, Time> there_;
};

struct CacheOutcome {
  std::vector<Time> entered, answered;  ///< per request; answered: -1 for writes
  std::vector<bool> hit;
  std::int64_t fetched = 0, written = 0, dirty = 0;
};

class Cache {
 public:
  Cache(const tilesim::CacheSpec& spec, Line& line)
      : spec_(spec),
        line_(line),
        ports_(static_cast<std::size_t>(spec.ports), 0),
        sets_(static_cast<std::size_t>(spec.sets)) {}

  CacheOutcome run(const std::vector<Ask>& asks) {
    out_.answered.assign(asks.size(), -1);
    std::size_t next = 0;
    for (Time cycle = 0; next < asks.size() || !open_.empty(); ++cycle) {
      line_.step(cycle);
      arrive(cycle);
      while (next < asks.size() && enters(asks[next], cycle)) serve(asks[next], next, cycle), ++next;
    }
    for (const auto& set : sets_)
      for (const auto& way : set) out_.dirty += static_cast<std::int64_t>(way.dirty.size()) * spec_.sector_bytes;
    return out_;
  }

 private:
  struct Way {
    std::uint64_t number = 0;
    std::set<std::uint64_t> valid, dirty;  ///< sectors by address
  };
  /// A register for a sector on its way, or a read that passes by.
  struct Open {
    std::uint64_t sector = 0;
    int number = 0;
    std::int64_t targets = 1;
    bool bypass = false;
    std::vector<std::pair<std::size_t, Time>> readers;
  };

  void arrive(Time cycle) {
    for (auto one = open_.begin(); one != open_.end();) {
      const Time there = line_.there(one->number);
      if (there < 0 || there > cycle) {
        ++one;
        continue;
      }
      for (const auto& [index, asked] : one->readers)
        out_.answered[index] = one->bypass ? there : std::max(there, asked + spec_.hit_cycles);
      one = open_.erase(one);
    }
  }
  std::uint64_t sector_of(const Ask& ask) const {
    return ask.address - ask.address % static_cast<std::uint64_t>(spec_.sector_bytes);
  }
  std::list<Way>& set_of(std::uint64_t sector) {
    return sets_[sector / static_cast<std::uint64_t>(spec_.line_bytes) % sets_.size()];
  }
  Way* way_of(std::uint64_t sector) {
    for (Way& way : set_of(sector))
      if (way.number == sector / static_cast<std::uint64_t>(spec_.line_bytes)) return &way;
    return nullptr;
  }
  Open* register_of(std::uint64_t sector) {
    for (Open& one : open_)
      if (!one.bypass && one.sector == sector) return &one;
    return nullptr;
  }
  bool hits(const Ask& ask) {
    const Way* way = way_of(sector_of(ask));
    return way && way->valid.count(sector_of(ask));
  }
  bool must_fetch(const Ask& ask) {
    if (hits(ask)) return false;
    return ask.write ? spec_.write_allocate && ask.bytes < spec_.sector_bytes : true;
  }
  bool enters(const Ask& ask, Time cycle) {
    if (ask.due > cycle || static_cast<std::int64_t>(line_.refused()) >= spec_.mshrs) return false;
    bool port = false;
    for (const Time free : ports_) port = port || free <= cycle;
    if (!port) return false;
    if (ask.bypass) return true;
    const Open* own = register_of(sector_of(ask));
    std::int64_t used = 0;
    for (const Open& one : open_) used += !one.bypass;
    if (own && (must_fetch(ask) || own->targets >= spec_.mshr_targets)) return false;
    return !must_fetch(ask) || used < spec_.mshrs;
  }
  void serve(const Ask& ask, std::size_t index, Time cycle) {
    const std::int64_t width = spec_.bytes_per_cycle > 0 ? spec_.bytes_per_cycle : spec_.sector_bytes;
    for (Time& free : ports_)
      if (free <= cycle) {
        free = cycle + (ask.bytes + width - 1) / width;
        break;
      }
    out_.entered.push_back(cycle);
    const Time later = cycle + spec_.hit_cycles;
    if (ask.bypass) {
      out_.hit.push_back(false);
      line_.put(later, ask.address, ask.bytes, ask.write, ++numbers_);
      if (!ask.write) open_.push_back({0, numbers_, 1, true, {{index, cycle}}});
      return;
    }
    const bool hit = hits(ask), fetch = must_fetch(ask);
    out_.hit.push_back(hit);
    const std::uint64_t sector = sector_of(ask);
    if (hit) {
      if (Open* own = register_of(sector)) {
        ++own->targets;
        if (!ask.write) own->readers.emplace_back(index, cycle);
      } else if (!ask.write) {
        out_.answered[index] = later;
      }
    }
    if (hit || !ask.write || spec_.write_allocate) keep(sector, ask.write && spec_.write_back, later);
    if (fetch) {
      line_.put(later, sector, spec_.sector_bytes, false, ++numbers_);
      open_.push_back({sector, numbers_, 1, false, {}});
      if (!ask.write) open_.back().readers.emplace_back(index, cycle);
      out_.fetched += spec_.sector_bytes;
    }
    if (ask.write && (!spec_.write_back || (!hit && !spec_.write_allocate))) {
      line_.put(later, ask.address, ask.bytes, true, ++numbers_);
      out_.written += ask.bytes;
    }
  }
  void keep(std::uint64_t sector, bool dirty, Time later) {
    std::list<Way>& set = set_of(sector);
    const std::uint64_t number = sector / static_cast<std::uint64_t>(spec_.line_bytes);
    auto own = set.begin();
    while (own != set.end() && own->number != number) ++own;
    if (own == set.end()) {
      if (static_cast<std::int64_t>(set.size()) == spec_.ways) {
        for (const std::uint64_t gone : set.back().dirty) {
          line_.put(later, gone, spec_.sector_bytes, true, ++numbers_);
          out_.written += spec_.sector_bytes;
        }
        set.pop_back();
      }
      set.push_front({number, {}, {}});
    } else {
      set.splice(set.begin(), set, own);
    }
    set.front().valid.insert(sector);
    if (dirty) set.front().dirty.insert(sector);
  }

  tilesim::CacheSpec spec_;
  Line& line_;
  std::vector<Time> ports_;
  std::vector<std::list<Way>> sets_;  ///< most recent first
  std::list<Open> open_;
  int numbers_ = 0;
  CacheOutcome out_;
};

}  // namespace stepped
