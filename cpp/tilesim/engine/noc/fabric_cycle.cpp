// One cycle of the flit-level network: first arrivals, then allocation of output VCs by their state at the start of the
// cycle, then allocation of the switch among VCs that were active at the start. A VC that the switch frees is available
// from the next cycle on. Loops avoid branches that the processor would mispredict: they write each list entry and add
// a condition to the length.
#include <algorithm>
#include <bit>

#include "tilesim/base/interrupt.hpp"
#include "tilesim/engine/noc/fabric.hpp"

namespace tilesim::engine::noc {

void Fabric::advance(std::int64_t until) {
  while (now_ < until) {
    worked(512);
    skip(until);
    if (now_ < until) cycle();
  }
}

std::int64_t Fabric::advance_to_delivery(std::int64_t limit) {
  const std::size_t before = deliveries_.size();
  while (now_ < limit && deliveries_.size() == before) {
    worked(512);
    skip(limit);
    if (now_ < limit) cycle();
  }
  return now_;
}

void Fabric::skip(std::int64_t until) {
  if (!heads_.empty() || !waiting_.empty() || !ready_.empty() || !sending_.empty() || !freed_.empty()) return;
  for (std::size_t ahead = 0; ahead < arrivals_.cycles(); ++ahead, ++now_) {
    const auto cycle = static_cast<std::uint32_t>(now_);
    const bool later = !later_.empty() && later_.top().cycle == now_;
    if (now_ == until || later || arrivals_.used(cycle) || credits_.used(cycle) || ejections_.used(cycle)) return;
  }
  now_ = later_.empty() ? until : std::min(until, later_.top().cycle);
}

void Fabric::cycle() {
  while (!later_.empty() && later_.top().cycle == now_) {
    enqueue(later_.top().packet);
    later_.pop();
  }
  eject();
  take_credits();
  take_arrivals();
  if (!sending_.empty()) send_from_nodes();
  allocate_vcs();
  if (!paces_.empty()) hold_paced();
  allocate_switch();
  if (!paces_.empty()) note_paced();
  heads_.swap(next_heads_), next_heads_.clear();
  waiting_.swap(next_waiting_), next_waiting_.clear();
  ready_.swap(next_ready_), next_ready_.clear();
  ++now_;
}

void Fabric::eject() {
  if (gated_) {
    eject_at_gates();
    return;
  }
  auto& slot = ejections_.at(static_cast<std::uint32_t>(now_));
  flits_delivered_ += slot.end - slot.begin;
  for (const std::uint32_t* item = slot.begin; item != slot.end; ++item)
    if (--live_packets_[*item].left == 0) deliver(*item);
  slot.end = slot.begin;
}

void Fabric::take_credits() {
  auto& slot = credits_.at(static_cast<std::uint32_t>(now_));
  for (OutputVc** item = slot.begin; item != slot.end; ++item)
    if ((*item)->credits++ == 0) [[unlikely]]
      first_credit(**item);
  slot.end = slot.begin;
}

/// Handles the first credit of an output VC that had no credits.
void Fabric::first_credit(OutputVc& channel) {
  if (channel.node != none) {
    usable_[channel.node] |= 1U << (&channel - outputs_[node_outputs_ + channel.node].vcs);
    wake_node(channel.node);
  } else if (channel.owner != nullptr) {
    const InputVc& owner = *channel.owner;
    ready_.push_if(channel.owner, owner.state >= granted && owner.through == &channel && owner.occupancy != 0);
  }
}

void Fabric::take_arrivals() {
  auto& slot = arrivals_.at(static_cast<std::uint32_t>(now_));
  for (InputVc** item = slot.begin; item != slot.end; ++item) {
    InputVc& channel = **item;
    const bool was_empty = channel.occupancy++ == 0;
    if (channel.state == idle_vc) {
      channel.state = waiting;
      heads_.push(&channel);
    } else {
      ready_.push_if(&channel, was_empty && channel.state >= granted && channel.through->credits != 0);
    }
  }
  slot.end = slot.begin;
}

void Fabric::wake_node(std::uint32_t node) {
  if (is_sending_[node] != 0) return;
  is_sending_[node] = 1;
  sending_.push_back(node);
}

void Fabric::send_from_nodes() {
  for (std::size_t i = 0; i < sending_.size();) {
    if (send_from(sending_[i])) {
      ++i;
    } else {
      is_sending_[sending_[i]] = 0;
      sending_[i] = sending_.back();
      sending_.pop_back();
    }
  }
}

/// Sends a flit from a node. Returns false if the node has none to send or waits for a credit.
bool Fabric::send_from(std::uint32_t node) {
  const auto classes = static_cast<std::uint32_t>(spec_.classes.size());
  Stream* const streams = &streams_[std::size_t{node} * classes];
  for (std::uint32_t c = 0; c < classes; ++c)
    if (streams[c].slot == none && streams[c].waits()) start_next(streams[c], node, c);
  if (classes == 1)
    return streams->slot != none && send_flit(*streams, node, 0) && (streams->slot != none || streams->waits());
  std::uint32_t next = class_pointer_[node];
  for (std::uint32_t tried = 0; tried < classes; ++tried) {
    const std::uint32_t c = next;
    next = c + 1 == classes ? 0 : c + 1;
    if (streams[c].slot == none || !send_flit(streams[c], node, c)) continue;
    class_pointer_[node] = static_cast<std::uint16_t>(next);
    return std::any_of(streams, streams + classes, [](const Stream& s) { return s.slot != none || s.waits(); });
  }
  return false;
}

/// Sends a flit of a packet. Returns false if there is no credit.
bool Fabric::send_flit(Stream& stream, std::uint32_t node, std::size_t message_class) {
  OutputPort& out = outputs_[node_outputs_ + node];
  const bool head = stream.vc == none;
  if (head) {
    const std::uint32_t usable = usable_[node] & masks_[message_class * vc_groups + all_vcs];
    if (usable == 0) return false;
    stream.vc = stream.last_vc = next_bit(usable, stream.last_vc + 1);
  } else if ((usable_[node] >> stream.vc & 1U) == 0) {
    return false;
  }
  ++out.flits;
  const std::uint32_t left = --out.vcs[stream.vc].credits;
  usable_[node] &= ~(std::uint32_t{left == 0} << stream.vc);
  InputVc& next = out.downstream[stream.vc];
  arrivals_.push(static_cast<std::uint32_t>(now_) + out.delay, &next);
  if (head) {
    next.packets[next.tail] = stream.slot;
    next.tail = static_cast<std::uint16_t>((next.tail + 1U) & queue_mask_);
    times_[stream.slot].sent = now_;
  }
  if (--stream.left == 0) stream.slot = stream.vc = none;
  return true;
}

}  // namespace tilesim::engine::noc
