// One cycle of the flit-level network. The order inside a cycle: what arrives, output VCs as they were at its start,
// the switch among VCs that were active at its start; VCs freed by the switch can be given away from the next cycle on.
// Bodies avoid branches that data would mispredict: a list entry is written always and counted by a condition.
#include <algorithm>
#include <bit>

#include "tilesim/engine/noc/fabric.hpp"

namespace tilesim::engine::noc {

void Fabric::advance(std::int64_t until) {
  while (now_ < until) {
    skip(until);
    if (now_ < until) cycle();
  }
}

std::int64_t Fabric::advance_to_delivery(std::int64_t limit) {
  const std::size_t before = deliveries_.size();
  while (now_ < limit && deliveries_.size() == before) {
    skip(limit);
    if (now_ < limit) cycle();
  }
  return now_;
}

void Fabric::skip(std::int64_t until) {
  if (heads_.count + waiting_.count + ready_.count + sending_.size() != 0) return;
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
  allocate_switch();
  std::swap(heads_, next_heads_);
  std::swap(waiting_, next_waiting_);
  std::swap(ready_, next_ready_);
  next_heads_.count = next_waiting_.count = next_ready_.count = 0;
  ++now_;
}

void Fabric::eject() {
  Ring::Slot& slot = ejections_.at(static_cast<std::uint32_t>(now_));
  flits_delivered_ += slot.end - slot.begin;
  for (const std::uint32_t* item = slot.begin; item != slot.end; ++item) {
    Live& live = live_packets_[*item];
    if (--live.left != 0) continue;
    const Times& times = times_[*item];
    deliveries_.push_back({{times.source, live.destination, live.flits, live.message_class, times.tag},
                           times.created,
                           times.started,
                           times.sent,
                           now_,
                           live.hops});
    free_slots_.push_back(*item);
    --live_;
  }
  slot.end = slot.begin;
}

void Fabric::take_credits() {
  Ring::Slot& slot = credits_.at(static_cast<std::uint32_t>(now_));
  OutputVc* const channels = output_vcs_.data();
  for (const std::uint32_t* item = slot.begin; item != slot.end; ++item)
    if (channels[*item].credits++ == 0) [[unlikely]]
      first_credit(*item);
  slot.end = slot.begin;
}

/// An output VC that had none has a credit again.
void Fabric::first_credit(std::uint32_t output_vc) {
  if (output_vc >= node_outputs_ * vcs_) {
    wake_node(output_vc / vcs_ - node_outputs_);
    return;
  }
  const std::uint32_t number = output_vcs_[output_vc].owner;
  const InputVc& owner = input_vcs_[number];
  if (owner.state >= granted && owner.output_vc == output_vc && owner.occupancy != 0)
    ready_.items[ready_.count++] = number;
}

void Fabric::take_arrivals() {
  Ring::Slot& slot = arrivals_.at(static_cast<std::uint32_t>(now_));
  InputVc* const channels = input_vcs_.data();
  const OutputVc* const outputs = output_vcs_.data();
  std::uint32_t *const heads = heads_.items.data(), *const ready = ready_.items.data();
  std::uint32_t head_count = heads_.count, ready_count = ready_.count;
  for (const std::uint32_t* item = slot.begin; item != slot.end; ++item) {
    InputVc& channel = channels[*item];
    const bool was_empty = channel.occupancy++ == 0, was_idle = channel.state == idle_vc;
    heads[head_count] = *item;
    head_count += was_idle;
    ready[ready_count] = *item;
    ready_count += was_empty & (channel.state >= granted) & (outputs[channel.output_vc].credits != 0);
    channel.state = was_idle ? waiting : channel.state;
  }
  heads_.count = head_count;
  ready_.count = ready_count;
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

/// False if the node has nothing to send or waits for a credit.
bool Fabric::send_from(std::uint32_t node) {
  const std::size_t classes = spec_.classes.size();
  Stream* const streams = &streams_[node * classes];
  for (std::size_t c = 0; c < classes; ++c)
    if (streams[c].slot == none && streams[c].waits()) start_packet(node, c);
  std::size_t next = class_pointer_[node];
  for (std::size_t tried = 0; tried < classes; ++tried) {
    const std::size_t c = next;
    next = c + 1 == classes ? 0 : c + 1;
    if (streams[c].slot == none || !send_flit(node, c)) continue;
    class_pointer_[node] = static_cast<std::uint16_t>(next);
    return std::any_of(streams, streams + classes, [](const Stream& s) { return s.slot != none || s.waits(); });
  }
  return false;
}

/// False without a credit.
bool Fabric::send_flit(std::uint32_t node, std::size_t message_class) {
  Stream& stream = streams_[node * spec_.classes.size() + message_class];
  const OutputPort& out = outputs_[node_outputs_ + node];
  OutputVc* const channels = &output_vcs_[(node_outputs_ + node) * std::size_t{vcs_}];
  const bool head = stream.vc == none;
  if (head) {
    const std::uint32_t mask = masks_[message_class * vc_groups + all_vcs];
    std::uint32_t usable = 0;
    for (std::uint32_t v = 0; v < vcs_; ++v) usable |= std::uint32_t{channels[v].credits != 0} << v;
    if ((usable & mask) == 0) return false;
    stream.vc = stream.last_vc = next_bit(usable & mask, stream.last_vc + 1);
  } else if (channels[stream.vc].credits == 0) {
    return false;
  }
  --channels[stream.vc].credits;
  const std::uint32_t input_vc = out.downstream + stream.vc;
  arrivals_.push(static_cast<std::uint32_t>(now_) + out.delay, input_vc);
  if (head) {
    InputVc& next = input_vcs_[input_vc];
    packets_[input_vc * queue_size_ + next.tail] = stream.slot;
    next.tail = static_cast<std::uint16_t>((next.tail + 1U) & (queue_size_ - 1));
    times_[stream.slot].sent = now_;
  }
  if (--stream.left == 0) stream.slot = stream.vc = none;
  return true;
}

}  // namespace tilesim::engine::noc
