#include "tilesim/engine/cache/slice.hpp"

#include <algorithm>

#include "tilesim/base/error.hpp"
#include "tilesim/base/shape.hpp"

namespace tilesim::engine::cache {

void Counters::add(const Counters& other) {
  for (const auto member : {&Counters::reads, &Counters::writes, &Counters::hits, &Counters::misses, &Counters::merged,
                            &Counters::bypassed, &Counters::fetched_bytes, &Counters::written_bytes,
                            &Counters::bypass_read_bytes, &Counters::bypass_written_bytes, &Counters::stalled_cycles,
                            &Counters::latency_sum, &Counters::dirty_bytes, &Counters::port_cycles})
    this->*member += other.*member;
  latency_max = std::max(latency_max, other.latency_max);
}

Slice::Slice(const Spec& spec, Below& below)
    : spec_(spec),
      tags_(spec),
      below_(below),
      port_bytes_(spec.bytes_per_cycle > 0 ? spec.bytes_per_cycle : spec.sector_bytes),
      ports_(static_cast<std::size_t>(spec.ports), 0) {}

/// Returns the cycle in which a request enters the slice: not before earlier requests, and when a port is free.
std::int64_t Slice::enter(std::int64_t due) {
  now_ = std::max({now_, due, *std::min_element(ports_.begin(), ports_.end())});
  // Requests that the channel has not accepted wait here; their number is at most the number of MSHRs.
  if (below_.waiting() >= spec_.mshrs) {
    below_.advance(now_);
    const std::int64_t before = now_;
    while (below_.waiting() >= spec_.mshrs) below_.advance(++now_);
    counters_.stalled_cycles += now_ - before;
  }
  progress(now_);
  return now_;
}

void Slice::take_port(std::int64_t at, std::int64_t bytes) {
  const std::int64_t cycles = ceil_div(bytes, port_bytes_);
  *std::min_element(ports_.begin(), ports_.end()) = at + cycles;
  counters_.port_cycles += cycles;
}

void Slice::collect() {
  for (const Below::Returned& one : below_.returned) {
    last_ = std::max(last_, one.cycle);
    Pending& pending = pending_[one.tag];
    pending.ready = std::max(pending.ready, one.cycle);
    if (--pending.left > 0) continue;
    for (const PendingRead& reader : pending.readers)
      if (pending.fetch) {
        answer(reader, pending.ready);
      } else if (reader.tag != no_tag) {
        answers.push_back({reader.tag, pending.ready});
      }
    readers_ -= static_cast<std::int64_t>(pending.readers.size());
    pending.readers.clear();
    if (pending.fetch)
      come_.emplace(pending.ready, pending.sector);
    else
      free_.push_back(one.tag);
  }
  below_.returned.clear();
}

/// Frees the MSHRs of sectors that arrived by cycle `at`.
void Slice::progress(std::int64_t at) {
  if (fetches_.empty() && readers_ == 0) return;
  below_.advance(at);
  collect();
  while (!come_.empty() && come_.top().first <= at) {
    const auto gone = fetches_.find(come_.top().second);
    free_.push_back(gone->second);
    fetches_.erase(gone);
    come_.pop();
  }
}

void Slice::advance(std::int64_t cycle) {
  if (cycle >= now_) progress(cycle);
}

/// Delays the next request until an MSHR is free (`any`), or until `sector` has arrived. Returns the cycle.
std::int64_t Slice::wait_for(std::int64_t at, bool any, std::uint64_t sector) {
  // The channel knows a read's arrival cycle when it issues the burst, long before the arrival: steps cannot skip it.
  const auto waits = [&] { return any ? come_.empty() : pending_[fetches_.at(sector)].left > 0; };
  for (std::int64_t look = at; waits();) {
    below_.advance(++look);
    collect();
  }
  const std::int64_t until = std::max(at, any ? come_.top().first : pending_[fetches_.at(sector)].ready);
  counters_.stalled_cycles += until - at;
  now_ = std::max(now_, until);
  progress(now_);
  return now_;
}

std::int64_t Slice::wait_at_door(std::int64_t at, std::uint64_t sector, bool fetches) {
  for (;;) {
    const auto on_its_way = fetches_.find(sector);
    if (on_its_way != fetches_.end() && (fetches || pending_[on_its_way->second].targets >= spec_.mshr_targets))
      at = wait_for(at, false, sector);  // sector evicted before its arrival, or too many waiting requests
    else if (fetches && static_cast<std::int64_t>(fetches_.size()) >= spec_.mshrs)
      at = wait_for(at, true, sector);
    else
      return at;
  }
}

void Slice::answer(const PendingRead& reader, std::int64_t ready) {
  const std::int64_t latency = std::max(ready - reader.asked, spec_.hit_cycles);
  counters_.latency_sum += latency;
  counters_.latency_max = std::max(counters_.latency_max, latency);
  last_ = std::max(last_, reader.asked + latency);
  if (reader.tag != no_tag) answers.push_back({reader.tag, reader.asked + latency});
}

Slice::Pending& Slice::open(std::uint32_t& tag) {
  if (free_.empty()) {
    free_.push_back(static_cast<std::uint32_t>(pending_.size()));
    pending_.emplace_back();
  }
  tag = free_.back();
  free_.pop_back();
  Pending& pending = pending_[tag];
  pending.ready = -1;
  pending.targets = 0;
  return pending;
}

void Slice::fetch(std::int64_t at, std::uint64_t sector, const Access& request) {
  std::uint32_t tag = no_tag;
  Pending& pending = open(tag);
  fetches_[sector] = tag;
  pending.sector = sector;
  pending.fetch = true;
  pending.targets = 1;
  if (!request.write) pending.readers.push_back({at, request.tag}), ++readers_;
  pending.left = below_.offer(at + spec_.hit_cycles, sector, spec_.sector_bytes, false, tag);
  counters_.fetched_bytes += spec_.sector_bytes;
}

/// Serves a hit. The sector may still be in flight.
void Slice::serve_hit(std::int64_t at, std::uint64_t sector, const Access& request) {
  tags_.touch(sector, request.write && spec_.write_back);
  const auto on_its_way = fetches_.empty() ? fetches_.end() : fetches_.find(sector);
  if (on_its_way == fetches_.end()) {
    if (!request.write) answer({at, request.tag}, 0);
    return;
  }
  Pending& pending = pending_[on_its_way->second];
  ++counters_.merged;
  ++pending.targets;
  if (request.write) return;
  if (pending.left == 0)
    answer({at, request.tag}, pending.ready);
  else
    pending.readers.push_back({at, request.tag}), ++readers_;
}

Slice::Outcome Slice::access(const Access& request) {
  victims_.clear();
  const std::uint64_t sector = request.address & ~(static_cast<std::uint64_t>(spec_.sector_bytes) - 1);
  std::int64_t at = enter(request.due);
  const bool hit = tags_.holds(sector);
  const bool allocates = !request.write || spec_.write_allocate;
  // A write of a full sector does not need data from memory.
  const bool fetches = !hit && allocates && !(request.write && request.bytes == spec_.sector_bytes);
  if (!fetches_.empty()) at = wait_at_door(at, sector, fetches);
  take_port(at, request.bytes);
  ++(request.write ? counters_.writes : counters_.reads);
  ++(hit ? counters_.hits : counters_.misses);
  Outcome outcome{hit, at, 0, 0};
  if (hit) {
    serve_hit(at, sector, request);
  } else if (allocates) {
    for (const Tags::Victim& victim : tags_.insert(sector, request.write && spec_.write_back, request.owner)) {
      below_.offer(at + spec_.hit_cycles, victim.address, spec_.sector_bytes, true, no_tag);
      counters_.written_bytes += spec_.sector_bytes;
      victims_.push_back(victim);
    }
    if (fetches) fetch(at, sector, request), outcome.fetched = spec_.sector_bytes;
  }
  if (request.write && (!spec_.write_back || (!hit && !allocates))) {
    below_.offer(at + spec_.hit_cycles, request.address, request.bytes, true, no_tag);
    counters_.written_bytes += request.bytes;
    outcome.through = request.bytes;
  }
  last_ = std::max(last_, at + spec_.hit_cycles);
  if (!below_.returned.empty()) collect();
  return outcome;
}

std::int64_t Slice::bypass(const Access& request) {
  const std::int64_t at = enter(request.due);
  if (!spec_.software) take_port(at, request.bytes);
  ++counters_.bypassed;
  (request.write ? counters_.bypass_written_bytes : counters_.bypass_read_bytes) += request.bytes;
  // Software-managed memory has a separate address range, so other accesses skip the tag lookup.
  const std::int64_t leaves = at + (spec_.software ? 1 : spec_.hit_cycles);
  std::uint32_t tag = no_tag;
  if (!request.write && request.tag != no_tag) {
    Pending& pending = open(tag);
    pending.fetch = false;
    pending.readers.push_back({at, request.tag});
    ++readers_;
  }
  const std::int64_t parts = below_.offer(leaves, request.address, request.bytes, request.write, tag);
  if (tag != no_tag) pending_[tag].left = parts;
  if (!below_.returned.empty()) collect();
  return at;
}

void Slice::outlook(std::vector<Below::Returned>& found) {
  if (readers_ == 0) return;
  std::vector<Below::Returned> returns;
  below_.outlook(returns);
  for (const Below::Returned& one : returns) {  // a later part of the same tag replaces the earlier answer
    const Pending& pending = pending_[one.tag];
    for (const PendingRead& reader : pending.readers) {
      const std::int64_t ready = std::max(one.cycle, pending.ready);
      const std::int64_t cycle = pending.fetch ? std::max(ready, reader.asked + spec_.hit_cycles) : ready;
      if (reader.tag != no_tag) found.push_back({reader.tag, cycle});
    }
  }
}

std::int64_t Slice::finish() {
  const std::int64_t stop = below_.finish();
  collect();
  for (const Pending& pending : pending_)
    require(pending.readers.empty(), "a cache waits for a sector that never arrives");
  return std::max(stop, last_);
}

Counters Slice::counters() const {
  Counters all = counters_;
  all.dirty_bytes = tags_.dirty_sectors() * spec_.sector_bytes;
  return all;
}

}  // namespace tilesim::engine::cache
