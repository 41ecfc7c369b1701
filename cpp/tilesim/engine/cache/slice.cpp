#include "tilesim/engine/cache/slice.hpp"

#include <algorithm>

#include "tilesim/base/error.hpp"

namespace tilesim::engine::cache {

namespace {

constexpr std::uint32_t no_fetch = 0xffffffff;  ///< tag of bursts that no MSHR waits for

}  // namespace

Slice::Slice(const Spec& spec, dram::Channel& channel, const dram::AddressMap& map, std::int64_t burst)
    : spec_(spec), tags_(spec), channel_(channel), map_(map), burst_(burst) {
  channel_.report_to(&reported_);
}

/// The cycle at which a request passes the door: in order, so many to a cycle.
std::int64_t Slice::enter(std::int64_t due) {
  if (due > now_) now_ = due, used_ports_ = 0;
  if (used_ports_ == spec_.ports) ++now_, used_ports_ = 0;
  // What the channel has not accepted waits here; not more than there are MSHRs.
  if (static_cast<std::int64_t>(channel_.waiting()) >= spec_.mshrs) channel_.advance(now_);
  while (static_cast<std::int64_t>(channel_.waiting()) >= spec_.mshrs) {
    channel_.advance(channel_.now() + 1);
    counters_.stalled_cycles += channel_.now() - now_;
    now_ = channel_.now();
    used_ports_ = 0;
  }
  progress(now_);
  return now_;
}

void Slice::collect() {
  for (const dram::Completion& one : reported_) {
    last_ = std::max(last_, one.tick);
    if (one.write || one.tag == no_fetch) continue;
    const std::uint64_t sector = sector_of_[one.tag];
    Fetch& fetch = fetches_.at(sector);
    fetch.ready = std::max(fetch.ready, one.tick);
    if (--fetch.left > 0) continue;
    free_tags_.push_back(one.tag);
    come_.emplace(fetch.ready, sector);
    for (const std::int64_t asked : fetch.readers) answer(asked, fetch.ready);
  }
  reported_.clear();
}

/// Data that came by cycle `at` frees its MSHRs.
void Slice::progress(std::int64_t at) {
  if (fetches_.empty()) return reported_.clear();
  channel_.advance(at);
  collect();
  while (!come_.empty() && come_.top().first <= at) {
    fetches_.erase(come_.top().second);
    come_.pop();
  }
}

/// The request stays at the door until an MSHR is free (`sector` none of them) or until that sector has come.
std::int64_t Slice::wait_for(std::int64_t at, std::uint64_t sector) {
  // Where a sector comes is known when its burst is issued, long before it does: no step goes beyond.
  const bool any = !fetches_.contains(sector);
  const auto waits = [&] { return any ? come_.empty() : fetches_.at(sector).left > 0; };
  while (waits()) {
    channel_.advance(std::max(at, channel_.now()) + 1);
    collect();
  }
  const std::int64_t until = std::max(at, any ? come_.top().first : fetches_.at(sector).ready);
  counters_.stalled_cycles += until - at;
  if (until > now_) now_ = until, used_ports_ = 0;
  progress(now_);
  return now_;
}

void Slice::offer(std::int64_t at, std::uint64_t address, std::int64_t bytes, bool write, std::uint32_t tag) {
  for (std::int64_t done = 0; done < bytes; done += burst_) {
    const std::uint64_t burst = address + static_cast<std::uint64_t>(done);
    const dram::AddressMap::Location place = map_.locate(burst);
    channel_.offer({at, burst, place.row, tag, static_cast<std::uint8_t>(place.bank), write});
  }
}

void Slice::answer(std::int64_t asked, std::int64_t ready) {
  const std::int64_t latency = std::max(ready, asked + spec_.hit_cycles) - asked;
  counters_.latency_sum += latency;
  counters_.latency_max = std::max(counters_.latency_max, latency);
  last_ = std::max(last_, asked + latency);
}

void Slice::fetch(std::int64_t at, std::uint64_t sector, bool reader) {
  if (free_tags_.empty()) {
    free_tags_.push_back(static_cast<std::uint32_t>(sector_of_.size()));
    sector_of_.push_back(0);
  }
  const std::uint32_t tag = free_tags_.back();
  free_tags_.pop_back();
  sector_of_[tag] = sector;
  Fetch& fetch = fetches_[sector];
  fetch.left = spec_.sector_bytes / burst_;
  fetch.targets = 1;
  if (reader) fetch.readers.push_back(at);
  offer(at + spec_.hit_cycles, sector, spec_.sector_bytes, false, tag);
  counters_.fetched_bytes += spec_.sector_bytes;
}

bool Slice::access(std::int64_t due, std::uint64_t address, bool write) {
  const std::uint64_t sector =
      address / static_cast<std::uint64_t>(spec_.sector_bytes) * static_cast<std::uint64_t>(spec_.sector_bytes);
  std::int64_t at = enter(due);
  const bool hit = tags_.holds(sector);
  const bool allocates = !write || spec_.write_allocate;
  // A write of a whole sector needs nothing of what was there.
  const bool fetches = !hit && allocates && !(write && spec_.sector_bytes == burst_);
  for (;;) {
    const auto on_its_way = fetches_.find(sector);
    if (on_its_way != fetches_.end() && (fetches || on_its_way->second.targets >= spec_.mshr_targets))
      at = wait_for(at, sector);  // evicted before it came, or too many wait for it
    else if (fetches && static_cast<std::int64_t>(fetches_.size()) >= spec_.mshrs)
      at = wait_for(at, ~0ULL);
    else
      break;
  }
  ++used_ports_;
  ++(write ? counters_.writes : counters_.reads);
  ++(hit ? counters_.hits : counters_.misses);
  const bool dirties = write && spec_.write_back;
  if (hit) {
    tags_.touch(sector, dirties);
    const auto on_its_way = fetches_.find(sector);
    if (on_its_way != fetches_.end()) ++counters_.merged, ++on_its_way->second.targets;
    if (!write) {
      if (on_its_way == fetches_.end())
        answer(at, 0);
      else if (on_its_way->second.left == 0)
        answer(at, on_its_way->second.ready);
      else
        on_its_way->second.readers.push_back(at);
    }
  } else if (allocates) {
    for (const std::uint64_t victim : tags_.insert(sector, dirties)) {
      offer(at + spec_.hit_cycles, victim, spec_.sector_bytes, true, no_fetch);
      counters_.written_bytes += spec_.sector_bytes;
    }
    if (fetches) fetch(at, sector, !write);
  }
  if (write && (!spec_.write_back || (!hit && !allocates))) {
    offer(at + spec_.hit_cycles, address, burst_, true, no_fetch);
    counters_.written_bytes += burst_;
  }
  last_ = std::max(last_, at + spec_.hit_cycles);
  return hit;
}

void Slice::bypass(std::int64_t due, std::uint64_t address, bool write) {
  const std::int64_t at = enter(due);
  ++used_ports_;
  ++counters_.bypassed;
  offer(at + spec_.hit_cycles, address, burst_, write, no_fetch);
}

std::int64_t Slice::finish() {
  const std::int64_t stop = channel_.finish();
  collect();
  counters_.dirty_bytes = tags_.dirty_sectors() * spec_.sector_bytes;
  for (const auto& [sector, fetch] : fetches_) require(fetch.left == 0, "a cache waits for a sector that never comes");
  return std::max(stop, last_);
}

}  // namespace tilesim::engine::cache
