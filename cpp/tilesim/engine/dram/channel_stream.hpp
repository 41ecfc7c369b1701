// Fast path for runs of column commands of the selected queue. It equals the loop in channel_run.hpp without the cases
// that cannot occur here. Included only by channel_run.hpp.
#pragma once

#include "tilesim/engine/dram/channel_plan.hpp"

namespace tilesim::engine::dram {

/// Whether the next command is a column command that the fast path handles.
template <class Mask>
inline bool ChannelOf<Mask>::streams() const {
  const auto queue = static_cast<std::size_t>(drain_);
  return queues_.hit[queue] != 0 && queues_.opened[1 - queue] == 0 && columns_plan_ < rows_plan_ && !drain_flips();
}

/// Accepts requests due before the next command and before tick `limit`. Returns false if the fast path must end.
template <class Mask>
template <Bus bus>
[[gnu::always_inline]] inline bool ChannelOf<Mask>::accept_in_stream(std::size_t queue, Tick limit) {
  while (may_accept()) {
    const Request& request = offers_.front();
    const std::int64_t at = std::max({base_ + now_, next_offer_, request.not_before}) - base_;
    if (at >= std::min(limit, plan_tick(std::min(columns_plan_, rows_plan_)))) return true;
    if (static_cast<std::size_t>(request.write) != queue) return false;
    const auto c = static_cast<Tick>(at);
    const int bank = request.bank;
    if (!accept(request, c)) return true;
    offers_.pop_front();
    next_offer_ = base_ + at + 1;
    if (newcomer_leads_) plan_newcomer<bus>(queue, bank, c);
  }
  return !(ends_when_accepted_ && offers_.empty());
}

template <class Mask>
template <Bus bus>
void ChannelOf<Mask>::stream(Tick limit) {
  const auto queue = static_cast<std::size_t>(drain_);
  // If the queue is not longer than this, removing a request may change the write mode.
  const std::int64_t shortest = queue == Queues::reads ? 1 : queues_.count[0] > 0 ? drain_low_ + 1 : 0;
  while (accept_in_stream<bus>(queue, limit)) {
    const Tick t = plan_tick(columns_plan_);
    const bool opener = plan_is_opener(columns_plan_);
    if (t >= std::min(limit, plan_tick(rows_plan_)) || (!opener && queues_.count[queue] <= shortest)) return;
    const int bank = plan_bank<Mask>(columns_plan_);
    take_column(queue, bank, opener, t);
    readiness_.issue_column(queue, bank, t);
    replan_rows(bank, opener, t);
    now_ = t;
    columns_plan_ = plan_columns<bus>(t + 1);
    if (rows_plan_ == 0) rows_plan_ = plan_rows<bus>(t + 1);
  }
}

}  // namespace tilesim::engine::dram
