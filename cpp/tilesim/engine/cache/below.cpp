#include "tilesim/engine/cache/below.hpp"

#include <algorithm>

namespace tilesim::engine::cache {

Scale::Scale(Int128 numerator, Int128 denominator) {
  Int128 a = numerator, b = denominator;
  while (b != 0) {
    const Int128 rest = a % b;
    a = b;
    b = rest;
  }
  numerator_ = numerator / a;
  denominator_ = denominator / a;
  same_ = numerator_ == denominator_;
}

BankBelow::BankBelow(dram::Channel& channel, const dram::AddressMap& map, std::int64_t burst, const Scale& to_ticks)
    : channel_(channel), map_(map), burst_(burst), to_ticks_(to_ticks), to_cycles_(to_ticks.inverse()) {
  channel_.report_to(&completions_);
}

std::int64_t BankBelow::offer(std::int64_t cycle, std::uint64_t address, std::int64_t bytes, bool write,
                              std::uint32_t tag) {
  const std::int64_t tick = to_ticks_.up(cycle);
  std::int64_t bursts = 0;
  for (std::int64_t done = 0; done < bytes; done += burst_, ++bursts) {
    const std::uint64_t burst = address + static_cast<std::uint64_t>(done);
    const dram::AddressMap::Location place = map_.locate(burst);
    channel_.offer({tick, burst, place.row, tag, static_cast<std::uint8_t>(place.bank), write});
  }
  moved += bytes;
  padding += bursts * burst_ - bytes;
  return bursts;
}

void BankBelow::collect(std::vector<Returned>& into) {
  for (const dram::Completion& one : completions_)
    if (!one.write && one.tag != no_tag) into.push_back({one.tag, to_cycles_.up(one.tick)});
  completions_.clear();
}

void BankBelow::advance(std::int64_t cycle) {
  channel_.advance(to_ticks_.down(cycle));
  if (!completions_.empty()) collect(returned);
}

std::int64_t BankBelow::finish() {
  const std::int64_t stop = channel_.finish();
  collect(returned);
  return to_cycles_.up(stop);
}

void BankBelow::outlook(std::vector<Returned>& found) {
  if (trial_)
    *trial_ = channel_;
  else
    trial_ = std::make_unique<dram::Channel>(channel_);
  std::vector<dram::Completion> tried;
  trial_->report_to(&tried);
  trial_->finish();
  for (const dram::Completion& one : tried)
    if (!one.write && one.tag != no_tag) found.push_back({one.tag, to_cycles_.up(one.tick)});
}

std::int64_t SimpleBelow::offer(std::int64_t cycle, std::uint64_t, std::int64_t bytes, bool write, std::uint32_t tag) {
  const std::int64_t arrival = to_bytes_.up(cycle);
  // The channel accepts in the first cycle with at most `buffer_bytes` waiting; a byte in transfer does not count.
  const std::int64_t beyond = free_ - spec_.buffer_bytes;
  const std::int64_t accepted = beyond <= 0 ? cycle : std::max(cycle, to_cycles_.down(beyond - 1) + 1);
  accepted_.push_back(accepted_.empty() ? accepted : std::max(accepted, accepted_.back()));
  free_ = std::max(free_, arrival) + bytes;
  moved += bytes;
  const std::int64_t done = std::max(to_cycles_.up(free_) + spec_.latency_cycles, cycle + 1);
  last_ = std::max(last_, write ? accepted_.back() : done);
  if (!write && tag != no_tag) returned.push_back({tag, done});
  return 1;
}

}  // namespace tilesim::engine::cache
