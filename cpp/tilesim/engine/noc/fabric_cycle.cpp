// One cycle of the flit-level network. The order inside a cycle: what arrives, output VCs as they were at its start,
// the switch among VCs that were active at its start; VCs freed by the switch can be given away from the next cycle on.
// Bodies avoid branches that data would mispredict: a list entry is written always and counted by a condition.
#include <algorithm>
#include <bit>

#include "tilesim/engine/noc/fabric.hpp"

namespace tilesim::engine::noc {

namespace {

/// First set bit at or after `from`, going round; `bits` is not 0.
std::uint32_t next_bit(std::uint32_t bits, std::uint32_t from) {
  const std::uint32_t above = bits & static_cast<std::uint32_t>(~std::uint64_t{0} << from);
  return static_cast<std::uint32_t>(std::countr_zero(above != 0 ? above : bits));
}

std::uint32_t after(std::uint32_t number, std::uint32_t count) { return number + 1 == count ? 0 : number + 1; }

/// How far `number` lies behind `pointer`, going round.
std::uint32_t distance(std::uint32_t number, std::uint32_t pointer, std::uint32_t count) {
  return number >= pointer ? number - pointer : number + count - pointer;
}

/// Orders by distance, then by identity; the smallest key wins.
std::uint64_t key(std::uint32_t far, std::uint32_t who) { return std::uint64_t{far} << 32 | who; }

}  // namespace

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
  for (std::uint32_t ahead = 0; ahead <= arrivals_.mask; ++ahead, ++now_) {
    const std::uint32_t slot = static_cast<std::uint32_t>(now_) & arrivals_.mask;
    const bool later = !later_.empty() && later_.top().cycle == now_;
    if (now_ == until || later || (arrivals_.counts[slot] | credits_.counts[slot] | ejections_.counts[slot]) != 0)
      return;
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
  send_from_nodes();
  route_heads();
  allocate_vcs();
  allocate_switch();
  std::swap(heads_, next_heads_);
  std::swap(waiting_, next_waiting_);
  std::swap(ready_, next_ready_);
  next_heads_.count = next_waiting_.count = next_ready_.count = 0;
  ++now_;
}

void Fabric::eject() {
  const std::uint32_t slot = static_cast<std::uint32_t>(now_) & ejections_.mask;
  const std::uint32_t* const items = ejections_.items.data() + std::size_t{slot} * ejections_.capacity;
  const std::uint32_t count = ejections_.counts[slot];
  flits_delivered_ += count;
  for (std::uint32_t i = 0; i < count; ++i) {
    Live& live = live_packets_[items[i]];
    if (--live.left != 0) continue;
    const Times& times = times_[items[i]];
    deliveries_.push_back({{times.source, live.destination, live.flits, live.message_class, times.tag},
                           times.created,
                           times.started,
                           times.sent,
                           now_,
                           live.hops});
    free_slots_.push_back(items[i]);
    --live_;
  }
  ejections_.counts[slot] = 0;
}

void Fabric::take_credits() {
  const std::uint32_t slot = static_cast<std::uint32_t>(now_) & credits_.mask;
  const std::uint32_t* const items = credits_.items.data() + std::size_t{slot} * credits_.capacity;
  const std::uint32_t count = credits_.counts[slot];
  for (std::uint32_t i = 0; i < count; ++i) {
    OutputVc& channel = output_vcs_[items[i]];
    if (channel.credits++ != 0) continue;
    if (items[i] >= node_outputs_ * vcs_) {
      wake_node(items[i] / vcs_ - node_outputs_);
      continue;
    }
    const InputVc& owner = input_vcs_[channel.owner];
    ready_.push_if(channel.owner, owner.state >= granted && owner.output_vc == items[i] && owner.occupancy != 0);
  }
  credits_.counts[slot] = 0;
}

void Fabric::take_arrivals() {
  const std::uint32_t slot = static_cast<std::uint32_t>(now_) & arrivals_.mask;
  const std::uint32_t* const items = arrivals_.items.data() + std::size_t{slot} * arrivals_.capacity;
  const std::uint32_t count = arrivals_.counts[slot];
  InputVc* const channels = input_vcs_.data();
  const OutputVc* const outputs = output_vcs_.data();
  std::uint32_t *const heads = heads_.items.data(), *const ready = ready_.items.data();
  std::uint32_t head_count = heads_.count, ready_count = ready_.count;
  for (std::uint32_t i = 0; i < count; ++i) {
    InputVc& channel = channels[items[i]];
    const bool was_empty = channel.occupancy++ == 0, was_idle = channel.state == idle_vc;
    channel.state = was_idle ? waiting : channel.state;
    heads[head_count] = items[i];
    head_count += was_idle;
    ready[ready_count] = items[i];
    ready_count += was_empty & (channel.state >= granted) & (outputs[channel.output_vc].credits != 0);
  }
  heads_.count = head_count;
  ready_.count = ready_count;
  arrivals_.counts[slot] = 0;
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
  bool left = false;
  for (std::size_t c = 0; c < classes; ++c)
    if (streams[c].slot == none && streams[c].first != streams[c].queue.size()) start_packet(node, c);
  std::size_t next = class_pointer_[node];
  for (std::size_t tried = 0; tried < classes; ++tried) {
    const std::size_t c = next;
    next = c + 1 == classes ? 0 : c + 1;
    if (streams[c].slot == none || !send_flit(node, c)) continue;
    class_pointer_[node] = static_cast<std::uint16_t>(next);
    for (std::size_t k = 0; k < classes; ++k)
      left |= streams[k].slot != none || streams[k].first != streams[k].queue.size();
    return left;
  }
  return false;
}

/// False without a credit.
bool Fabric::send_flit(std::uint32_t node, std::size_t message_class) {
  Stream& stream = streams_[node * spec_.classes.size() + message_class];
  OutputPort& out = outputs_[node_outputs_ + node];
  OutputVc* const channels = &output_vcs_[(node_outputs_ + node) * std::size_t{vcs_}];
  const bool head = stream.vc == none;
  if (head) {
    std::uint32_t usable = masks_[message_class * vc_groups + all_vcs];
    for (std::uint32_t v = 0; v < vcs_; ++v) usable &= ~(std::uint32_t{channels[v].credits == 0} << v);
    if (usable == 0) return false;
    stream.vc = stream.last_vc = next_bit(usable, stream.last_vc + 1);
  } else if (channels[stream.vc].credits == 0) {
    return false;
  }
  --channels[stream.vc].credits;
  const std::uint32_t input_vc = out.downstream + stream.vc;
  arrivals_.push_if(static_cast<std::uint32_t>(now_) + out.delay, input_vc, true);
  if (head) {
    InputVc& next = input_vcs_[input_vc];
    packets_[input_vc * queue_size_ + next.tail] = stream.slot;
    next.tail = static_cast<std::uint16_t>((next.tail + 1U) & queue_mask_);
    times_[stream.slot].sent = now_;
  }
  if (--stream.left == 0) stream.slot = stream.vc = none;
  return true;
}

void Fabric::route_heads() {
  const Hop* const hops = topology_.hops.data();
  for (std::uint32_t i = 0; i < heads_.count; ++i) {
    const std::uint32_t number = heads_.items[i];
    InputVc& channel = input_vcs_[number];
    const InputPort& in = inputs_[channel.input];
    Live& packet = live_packets_[packets_[number * queue_size_ + channel.head]];
    const Hop hop = hops[in.first_hop + packet.destination];
    ++packet.hops;
    channel.remaining = packet.flits;
    channel.output = in.first_output + hop.output(packet.code);
    channel.allowed = masks_[packet.message_class * vc_groups + hop.vc_group(packet.code)];
    waiting_.items[waiting_.count++] = number;
  }
}

void Fabric::allocate_vcs() {
  InputVc* const channels = input_vcs_.data();
  OutputPort* const outputs = outputs_.data();
  const std::uint32_t* const items = waiting_.items.data();
  const std::uint32_t count = waiting_.count;
  for (std::uint32_t i = 0; i < count; ++i) ++outputs[channels[items[i]].output].vc_requests;
  std::uint32_t clean = 0, contested = 0;
  std::uint32_t *const alone = clean_.items.data(), *const several = contested_.items.data();
  for (std::uint32_t i = 0; i < count; ++i) {
    const bool single = outputs[channels[items[i]].output].vc_requests == 1;
    alone[clean] = several[contested] = items[i];
    clean += single;
    contested += !single;
  }
  contested_.count = contested;
  for (std::uint32_t i = 0; i < clean; ++i) {
    const InputVc& channel = channels[alone[i]];
    OutputPort& out = outputs[channel.output];
    out.vc_requests = 0;
    const std::uint32_t usable = out.free & channel.allowed;
    if (usable == 0) {
      park(alone[i]);
      continue;
    }
    const std::uint32_t place = channel.pointer - out.number * vcs_;
    give_vc(alone[i], next_bit(usable, place < vcs_ ? place : 0));
  }
  if (contested != 0) allocate_contested_vcs();
}

/// Several input VCs ask for VCs of one output: every free VC grants the first at or after its pointer, every input VC
/// accepts the first at or after its own.
void Fabric::allocate_contested_vcs() {
  const std::uint32_t* const items = contested_.items.data();
  const std::uint32_t count = contested_.count;
  for (std::uint32_t i = 0; i < count; ++i) {
    const InputVc& channel = input_vcs_[items[i]];
    const InputPort& in = inputs_[channel.input];
    OutputVc* const channels = &output_vcs_[channel.output * std::size_t{vcs_}];
    const std::uint32_t local = items[i] - in.first_input_vc;
    for (std::uint32_t bits = outputs_[channel.output].free & channel.allowed; bits != 0; bits &= bits - 1) {
      OutputVc& out = channels[std::countr_zero(bits)];
      out.best = std::min(out.best, key(distance(local, out.pointer, in.input_vcs), items[i]));
    }
  }
  // `clean_` is free here: it takes the VCs that granted each requester.
  for (std::uint32_t i = 0; i < count; ++i) {
    const InputVc& channel = input_vcs_[items[i]];
    const OutputVc* const channels = &output_vcs_[channel.output * std::size_t{vcs_}];
    std::uint32_t grants = 0;
    for (std::uint32_t bits = outputs_[channel.output].free & channel.allowed; bits != 0; bits &= bits - 1) {
      const auto v = static_cast<std::uint32_t>(std::countr_zero(bits));
      grants |= std::uint32_t{static_cast<std::uint32_t>(channels[v].best) == items[i]} << v;
    }
    clean_.items[i] = grants;
  }
  for (std::uint32_t i = 0; i < count; ++i) {
    const InputVc& channel = input_vcs_[items[i]];
    OutputPort& out = outputs_[channel.output];
    for (std::uint32_t v = 0; v < vcs_; ++v)
      output_vcs_[channel.output * std::size_t{vcs_} + v].best = ~std::uint64_t{0};
    out.vc_requests = 0;
    if (clean_.items[i] != 0) {
      const std::uint32_t place = channel.pointer - out.number * vcs_;
      give_vc(items[i], next_bit(clean_.items[i], place < vcs_ ? place : 0));
    } else {
      next_waiting_.items[next_waiting_.count++] = items[i];
    }
  }
}

void Fabric::give_vc(std::uint32_t input_vc, std::uint32_t vc) {
  InputVc& channel = input_vcs_[input_vc];
  const InputPort& in = inputs_[channel.input];
  OutputPort& out = outputs_[channel.output];
  channel.output_vc = channel.output * vcs_ + vc;
  channel.state = granted;
  channel.pointer = static_cast<std::uint16_t>(after(out.number * vcs_ + vc, out.output_vcs));
  OutputVc& given = output_vcs_[channel.output_vc];
  given.pointer = static_cast<std::uint16_t>(after(input_vc - in.first_input_vc, in.input_vcs));
  given.owner = input_vc;
  out.free &= ~(1U << vc);
  next_ready_.push_if(input_vc, given.credits != 0);
}

/// No VC that the packet may use is free: it asks again when one of the output's VCs has become free.
void Fabric::park(std::uint32_t input_vc) {
  OutputPort& out = outputs_[input_vcs_[input_vc].output];
  input_vcs_[input_vc].parked = out.parked;
  out.parked = input_vc;
}

void Fabric::allocate_switch() {
  InputVc* const channels = input_vcs_.data();
  InputPort* const inputs = inputs_.data();
  OutputPort* const outputs = outputs_.data();
  const std::uint32_t* const items = ready_.items.data();
  const std::uint32_t count = ready_.count;
  for (std::uint32_t i = 0; i < count; ++i) {
    ++inputs[channels[items[i]].input].requests;
    ++outputs[channels[items[i]].output].switch_requests;
  }
  std::uint32_t clean = 0, contested = 0;
  std::uint32_t *const alone = clean_.items.data(), *const several = contested_.items.data();
  for (std::uint32_t i = 0; i < count; ++i) {
    const InputVc& channel = channels[items[i]];
    const bool single = inputs[channel.input].requests + outputs[channel.output].switch_requests == 2;
    alone[clean] = several[contested] = items[i];
    clean += single;
    contested += !single;
  }
  contested_.count = contested;
  for (std::uint32_t i = 0; i < clean; ++i) pass(alone[i]);
  if (contested != 0) allocate_contested_switch();
}

/// Every output grants the first input at or after its pointer, every input accepts the first output at or after its
/// own; of the input's VCs that ask for this output the first at or after the VC pointer goes.
void Fabric::allocate_contested_switch() {
  const std::uint32_t* const items = contested_.items.data();
  const std::uint32_t count = contested_.count;
  for (std::uint32_t i = 0; i < count; ++i) {
    const InputVc& channel = input_vcs_[items[i]];
    OutputPort& out = outputs_[channel.output];
    out.best =
        std::min(out.best, key(distance(inputs_[channel.input].number, out.input_pointer, out.inputs), channel.input));
  }
  for (std::uint32_t i = 0; i < count; ++i) {
    const InputVc& channel = input_vcs_[items[i]];
    InputPort& in = inputs_[channel.input];
    const OutputPort& out = outputs_[channel.output];
    const std::uint64_t offer = key(distance(out.number, in.output_pointer, in.outputs), channel.output);
    in.best = static_cast<std::uint32_t>(out.best) == channel.input ? std::min(in.best, offer) : in.best;
  }
  for (std::uint32_t i = 0; i < count; ++i) {
    const InputVc& channel = input_vcs_[items[i]];
    InputPort& in = inputs_[channel.input];
    const std::uint64_t offer = key(distance(items[i] - channel.input * vcs_, in.vc_pointer, vcs_), items[i]);
    in.best_vc = static_cast<std::uint32_t>(in.best) == channel.output ? std::min(in.best_vc, offer) : in.best_vc;
  }
  std::uint32_t winners = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    const bool wins = static_cast<std::uint32_t>(inputs_[input_vcs_[items[i]].input].best_vc) == items[i];
    clean_.items[winners] = items[i];
    winners += wins;
    next_ready_.push_if(items[i], !wins);
  }
  for (std::uint32_t i = 0; i < count; ++i) {
    const InputVc& channel = input_vcs_[items[i]];
    InputPort& in = inputs_[channel.input];
    OutputPort& out = outputs_[channel.output];
    in.best = in.best_vc = out.best = ~std::uint64_t{0};
    in.requests = out.switch_requests = 0;
  }
  for (std::uint32_t i = 0; i < winners; ++i) pass(clean_.items[i]);
}

/// A flit wins the switch: it leaves the buffer, takes a credit, and is on its way; its own credit goes back.
void Fabric::pass(std::uint32_t input_vc) {
  InputVc& channel = input_vcs_[input_vc];
  InputPort& in = inputs_[channel.input];
  OutputPort& out = outputs_[channel.output];
  OutputVc& through = output_vcs_[channel.output_vc];
  const auto cycle = static_cast<std::uint32_t>(now_);
  const std::uint32_t vc = input_vc - channel.input * vcs_, next_vc = channel.output_vc - channel.output * vcs_;
  in.requests = out.switch_requests = 0;
  in.vc_pointer = static_cast<std::uint16_t>(after(vc, vcs_));
  in.output_pointer = static_cast<std::uint16_t>(after(out.number, in.outputs));
  out.input_pointer = static_cast<std::uint16_t>(after(in.number, out.inputs));
  ++out.flits;
  through.credits = static_cast<std::uint16_t>(through.credits - out.counts_credits);

  const std::uint32_t slot = packets_[input_vc * queue_size_ + channel.head];
  const bool head = channel.state == granted, tail = channel.remaining == 1, ejects = out.ejects != 0;
  const std::uint32_t next = out.downstream + next_vc;
  InputVc& there = input_vcs_[next];
  packets_[next * queue_size_ + there.tail] = slot;
  there.tail = static_cast<std::uint16_t>((there.tail + head) & queue_mask_);
  arrivals_.push_if(cycle + out.delay, next, !ejects);
  ejections_.push_if(cycle + out.delay, slot, ejects);
  credits_.push_if(cycle + in.credit_delay, in.upstream + vc, true);
  credits_.push_if(cycle + out.credit_delay, channel.output_vc, ejects && out.counts_credits != 0);

  --channel.remaining;
  --channel.occupancy;
  channel.head = static_cast<std::uint16_t>((channel.head + tail) & queue_mask_);
  const bool more = channel.occupancy != 0;
  channel.state = tail ? (more ? waiting : idle_vc) : active;
  out.free |= std::uint32_t{tail} << next_vc;
  next_heads_.push_if(input_vc, tail & more);
  next_ready_.push_if(input_vc, !tail & more & (through.credits != 0));
  if (tail && out.parked != none) {
    std::uint32_t parked = out.parked;
    for (; parked != none; parked = input_vcs_[parked].parked) next_waiting_.items[next_waiting_.count++] = parked;
    out.parked = none;
  }
}

}  // namespace tilesim::engine::noc
