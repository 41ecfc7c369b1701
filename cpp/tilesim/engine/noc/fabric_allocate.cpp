// VC and switch allocation: iSLIP with one iteration (McKeown, 1999). A request that meets no other takes a short way;
// the others go through grant and accept together. Both move the same pointers.
#include <algorithm>
#include <bit>

#include "tilesim/engine/noc/fabric.hpp"

namespace tilesim::engine::noc {

namespace {

constexpr std::uint64_t nothing = ~std::uint64_t{0};

/// An offer: how far `number` lies behind `pointer`, going round, then who it is. The smallest wins.
std::uint64_t offer(std::uint32_t number, std::uint32_t pointer, std::uint32_t count, std::uint32_t who) {
  const std::uint32_t distance = number >= pointer ? number - pointer : number + count - pointer;
  return std::uint64_t{distance} << 32 | who;
}

std::uint32_t who(std::uint64_t best) { return static_cast<std::uint32_t>(best); }

}  // namespace

/// The first packet of a VC has come to its front: where it goes.
inline void Fabric::route(std::uint32_t input_vc) {
  InputVc& channel = input_vcs_[input_vc];
  const InputPort& in = inputs_[channel.input];
  Live& packet = live_packets_[packets_[input_vc * queue_size_ + channel.head]];
  const Hop hop = topology_.hops[in.first_hop + packet.destination];
  ++packet.hops;
  channel.remaining = packet.flits;
  channel.output = in.first_output + hop.output(packet.code);
  channel.allowed = masks_[packet.first_mask + hop.vc_group(packet.code)];
  ++outputs_[channel.output].vc_requests;
}

void Fabric::allocate_vcs() {
  contested_.count = 0;
  for (std::uint32_t i = 0; i < waiting_.count; ++i) ++outputs_[input_vcs_[waiting_.items[i]].output].vc_requests;
  for (std::uint32_t i = 0; i < heads_.count; ++i) route(heads_.items[i]);
  for (std::uint32_t i = 0; i < heads_.count; ++i) allocate_vc(heads_.items[i]);
  for (std::uint32_t i = 0; i < waiting_.count; ++i) allocate_vc(waiting_.items[i]);
  if (contested_.count != 0) allocate_contested_vcs();
}

inline void Fabric::allocate_vc(std::uint32_t input_vc) {
  const InputVc& channel = input_vcs_[input_vc];
  OutputPort& out = outputs_[channel.output];
  const std::uint32_t usable = out.free & channel.allowed;
  if (out.vc_requests != 1) {
    contested_.items[contested_.count++] = input_vc;
  } else if (usable == 0) {
    out.vc_requests = 0;
    parked_[input_vc] = out.parked;
    out.parked = input_vc;
  } else {
    give_vc(input_vc, usable);
  }
}

/// Of the VCs that granted it, the input VC accepts the first at or after its pointer.
inline void Fabric::give_vc(std::uint32_t input_vc, std::uint32_t usable) {
  InputVc& channel = input_vcs_[input_vc];
  OutputPort& out = outputs_[channel.output];
  const std::uint32_t first = out.number * vcs_, place = channel.pointer - first;
  const std::uint32_t vc = next_bit(usable, place < vcs_ ? place : 0);
  OutputVc& given = output_vcs_[channel.output * vcs_ + vc];
  channel.output_vc = channel.output * vcs_ + vc;
  channel.state = granted;
  channel.pointer = static_cast<std::uint16_t>(first + vc + 1);
  given.pointer = static_cast<std::uint16_t>(channel.number + 1);
  given.owner = input_vc;
  out.free &= ~(1U << vc);
  out.vc_requests = 0;
  next_ready_.items[next_ready_.count] = input_vc;
  next_ready_.count += given.credits != 0;
}

/// Several input VCs ask for VCs of one output: every free VC grants the first at or after its pointer.
void Fabric::allocate_contested_vcs() {
  const std::uint32_t* const items = contested_.items.data();
  const std::uint32_t count = contested_.count;
  for (std::uint32_t i = 0; i < count; ++i) {
    const InputVc& channel = input_vcs_[items[i]];
    const std::uint32_t input_vcs = inputs_[channel.input].input_vcs;
    for (std::uint32_t bits = outputs_[channel.output].free & channel.allowed; bits != 0; bits &= bits - 1) {
      const std::size_t vc = channel.output * vcs_ + static_cast<std::uint32_t>(std::countr_zero(bits));
      best_requester_[vc] =
          std::min(best_requester_[vc], offer(channel.number, output_vcs_[vc].pointer, input_vcs, items[i]));
    }
  }
  std::uint32_t* const grants = clean_.items.data();
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::size_t first = input_vcs_[items[i]].output * std::size_t{vcs_};
    grants[i] = 0;
    for (std::uint32_t v = 0; v < vcs_; ++v)
      grants[i] |= std::uint32_t{who(best_requester_[first + v]) == items[i]} << v;
  }
  for (std::uint32_t i = 0; i < count; ++i) {
    const InputVc& channel = input_vcs_[items[i]];
    std::fill_n(&best_requester_[channel.output * std::size_t{vcs_}], vcs_, nothing);
    outputs_[channel.output].vc_requests = 0;
    if (grants[i] != 0) {
      give_vc(items[i], grants[i]);
    } else {
      next_waiting_.items[next_waiting_.count++] = items[i];
    }
  }
}

void Fabric::allocate_switch() {
  const std::uint32_t* const items = ready_.items.data();
  const std::uint32_t count = ready_.count;
  for (std::uint32_t i = 0; i < count; ++i) {
    ++inputs_[input_vcs_[items[i]].input].requests;
    ++outputs_[input_vcs_[items[i]].output].switch_requests;
  }
  std::uint32_t contested = 0;
  std::uint32_t* const several = contested_.items.data();
  for (std::uint32_t i = 0; i < count; ++i) {
    const InputVc& channel = input_vcs_[items[i]];
    if (inputs_[channel.input].requests + outputs_[channel.output].switch_requests == 2) {
      pass(items[i]);
    } else {
      several[contested++] = items[i];
    }
  }
  contested_.count = contested;
  if (contested != 0) allocate_contested_switch();
}

/// Every output grants the first input at or after its pointer, every input accepts the first output at or after its
/// own; of the input's VCs that ask for this output the first at or after the VC pointer goes.
void Fabric::allocate_contested_switch() {
  const std::uint32_t* const items = contested_.items.data();
  const std::uint32_t count = contested_.count;
  for (std::uint32_t i = 0; i < count; ++i) {
    const InputVc& channel = input_vcs_[items[i]];
    const OutputPort& out = outputs_[channel.output];
    std::uint64_t& best = best_input_[channel.output];
    best = std::min(best, offer(inputs_[channel.input].number, out.input_pointer, out.inputs, channel.input));
  }
  for (std::uint32_t i = 0; i < count; ++i) {
    const InputVc& channel = input_vcs_[items[i]];
    const InputPort& in = inputs_[channel.input];
    std::uint64_t& best = best_output_[channel.input];
    const std::uint64_t mine = offer(outputs_[channel.output].number, in.output_pointer, in.outputs, channel.output);
    best = who(best_input_[channel.output]) == channel.input ? std::min(best, mine) : best;
  }
  for (std::uint32_t i = 0; i < count; ++i) {
    const InputVc& channel = input_vcs_[items[i]];
    std::uint64_t& best = best_vc_[channel.input];
    const std::uint64_t mine = offer(channel.vc, inputs_[channel.input].vc_pointer, vcs_, items[i]);
    best = who(best_output_[channel.input]) == channel.output ? std::min(best, mine) : best;
  }
  std::uint32_t winners = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    const InputVc& channel = input_vcs_[items[i]];
    const bool wins = who(best_vc_[channel.input]) == items[i];
    clean_.items[winners] = next_ready_.items[next_ready_.count] = items[i];
    winners += wins;
    next_ready_.count += !wins;
  }
  for (std::uint32_t i = 0; i < count; ++i) {
    const InputVc& channel = input_vcs_[items[i]];
    best_input_[channel.output] = best_output_[channel.input] = best_vc_[channel.input] = nothing;
    inputs_[channel.input].requests = outputs_[channel.output].switch_requests = 0;
  }
  for (std::uint32_t i = 0; i < winners; ++i) pass(clean_.items[i]);
}

/// A flit wins the switch: it leaves the buffer, takes a credit, and is on its way; its own credit goes back.
inline void Fabric::pass(std::uint32_t input_vc) {
  InputVc& channel = input_vcs_[input_vc];
  InputPort& in = inputs_[channel.input];
  OutputPort& out = outputs_[channel.output];
  OutputVc& through = output_vcs_[channel.output_vc];
  const auto cycle = static_cast<std::uint32_t>(now_);
  const std::uint32_t vc = channel.output_vc - channel.output * vcs_;
  const std::uint32_t slot = packets_[input_vc * queue_size_ + channel.head];
  in.requests = out.switch_requests = 0;
  in.vc_pointer = static_cast<std::uint16_t>(channel.vc + 1);
  in.output_pointer = static_cast<std::uint16_t>(out.number + 1);
  out.input_pointer = static_cast<std::uint16_t>(in.number + 1);
  ++out.flits;
  credits_.push(cycle + in.credit_delay, in.upstream + channel.vc);
  if (out.downstream == node_sink_) {
    ejections_.push(cycle + out.delay, slot);
    if (sink_credit_delay_ != 0) {
      --through.credits;
      credits_.push(cycle + sink_credit_delay_, channel.output_vc);
    }
  } else {
    const std::uint32_t next = out.downstream + vc;
    InputVc& there = input_vcs_[next];
    packets_[next * queue_size_ + there.tail] = slot;
    there.tail = static_cast<std::uint16_t>((there.tail + (channel.state == granted)) & (queue_size_ - 1));
    --through.credits;
    arrivals_.push(cycle + out.delay, next);
  }
  const bool more = --channel.occupancy != 0;
  if (--channel.remaining == 0) {
    channel.head = static_cast<std::uint16_t>((channel.head + 1U) & (queue_size_ - 1));
    channel.state = more ? waiting : idle_vc;
    out.free |= 1U << vc;
    next_heads_.items[next_heads_.count] = input_vc;
    next_heads_.count += more;
    if (out.parked != none) wake_parked(out);
  } else {
    channel.state = active;
    next_ready_.items[next_ready_.count] = input_vc;
    next_ready_.count += more & (through.credits != 0);
  }
}

/// A VC of the output is free: whoever waited for one asks again in the next cycle.
void Fabric::wake_parked(OutputPort& out) {
  for (std::uint32_t at = out.parked; at != none; at = parked_[at]) next_waiting_.items[next_waiting_.count++] = at;
  out.parked = none;
}

}  // namespace tilesim::engine::noc
