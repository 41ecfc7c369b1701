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
inline void Fabric::route(InputVc& channel) {
  const InputPort& in = *channel.input;
  Live& packet = live_packets_[channel.packets[channel.head]];
  const Hop hop = in.hops[packet.destination];
  ++packet.hops;
  channel.remaining = packet.flits;
  channel.output = in.first_output + hop.output(packet.code);
  channel.allowed = masks_[packet.first_mask + hop.vc_group(packet.code)];
  ++channel.output->vc_requests;
}

void Fabric::allocate_vcs() {
  contested_.clear();
  for (const InputVc* channel : waiting_) ++channel->output->vc_requests;
  for (InputVc* channel : heads_) route(*channel);
  for (InputVc* channel : heads_) allocate_vc(*channel);
  for (InputVc* channel : waiting_) allocate_vc(*channel);
  if (!contested_.empty()) allocate_contested_vcs();
}

inline void Fabric::allocate_vc(InputVc& channel) {
  OutputPort& out = *channel.output;
  const std::uint32_t usable = out.free & channel.allowed;
  if (out.vc_requests != 1) {
    contested_.push(&channel);
  } else if (usable == 0) {
    out.vc_requests = 0;
    parked_[channel.id] = out.parked;
    out.parked = &channel;
  } else {
    give_vc(channel, usable);
  }
}

/// Of the VCs that granted it, the input VC accepts the first at or after its pointer.
inline void Fabric::give_vc(InputVc& channel, std::uint32_t usable) {
  OutputPort& out = *channel.output;
  const std::uint32_t place = std::uint32_t{channel.pointer} - out.first_vc;
  const std::uint32_t vc = next_bit(usable, place < vcs_ ? place : 0);
  OutputVc& given = out.vcs[vc];
  channel.given = static_cast<std::uint16_t>(vc);
  channel.through = &given;
  channel.state = granted;
  channel.pointer = static_cast<std::uint16_t>(out.first_vc + vc + 1);
  given.pointer = static_cast<std::uint16_t>(channel.number + 1);
  given.owner = &channel;
  out.free &= ~(1U << vc);
  out.vc_requests = 0;
  next_ready_.push_if(&channel, given.credits != 0);
}

/// Several input VCs ask for VCs of one output: every free VC grants the first at or after its pointer.
void Fabric::allocate_contested_vcs() {
  for (const InputVc* channel : contested_) {
    const OutputPort& out = *channel->output;
    for (std::uint32_t bits = out.free & channel->allowed; bits != 0; bits &= bits - 1) {
      const auto vc = static_cast<std::uint32_t>(std::countr_zero(bits));
      std::uint64_t& best = best_requester_[out.id * std::size_t{vcs_} + vc];
      best = std::min(best,
                      offer(channel->number, out.vcs[vc].pointer, sizes_[channel->input->id].input_vcs, channel->id));
    }
  }
  grants_.clear();
  for (const InputVc* channel : contested_) {
    const std::uint64_t* const best = &best_requester_[channel->output->id * std::size_t{vcs_}];
    std::uint32_t grants = 0;
    for (std::uint32_t v = 0; v < vcs_; ++v) grants |= std::uint32_t{who(best[v]) == channel->id} << v;
    grants_.push(grants);
  }
  const std::uint32_t* grants = grants_.begin();
  for (InputVc* channel : contested_) {
    std::uint64_t* const best = &best_requester_[channel->output->id * std::size_t{vcs_}];
    for (std::uint32_t v = 0; v < vcs_; ++v) best[v] = nothing;
    channel->output->vc_requests = 0;
    if (*grants != 0) {
      give_vc(*channel, *grants);
    } else {
      next_waiting_.push(channel);
    }
    ++grants;
  }
}

void Fabric::allocate_switch() {
  for (const InputVc* channel : ready_) {
    ++channel->input->requests;
    ++channel->output->switch_requests;
  }
  contested_.clear();
  for (InputVc* channel : ready_) {
    if (channel->input->requests + channel->output->switch_requests == 2) {
      pass(*channel);
    } else {
      contested_.push(channel);
    }
  }
  if (!contested_.empty()) allocate_contested_switch();
}

/// Every output grants the first input at or after its pointer, every input accepts the first output at or after its
/// own; of the input's VCs that ask for this output the first at or after the VC pointer goes.
void Fabric::allocate_contested_switch() {
  for (const InputVc* channel : contested_) {
    const OutputPort& out = *channel->output;
    std::uint64_t& best = best_input_[out.id];
    best = std::min(best, offer(channel->input->number, out.input_pointer, out.inputs, channel->input->id));
  }
  for (const InputVc* channel : contested_) {
    const InputPort& in = *channel->input;
    const OutputPort& out = *channel->output;
    std::uint64_t& best = best_output_[in.id];
    const std::uint64_t mine = offer(out.number, in.output_pointer, sizes_[in.id].outputs, out.id);
    best = who(best_input_[out.id]) == in.id ? std::min(best, mine) : best;
  }
  for (const InputVc* channel : contested_) {
    const InputPort& in = *channel->input;
    std::uint64_t& best = best_vc_[in.id];
    const std::uint64_t mine = offer(channel->number, in.vc_pointer, vcs_, channel->id);
    best = who(best_output_[in.id]) == channel->output->id ? std::min(best, mine) : best;
  }
  winners_.clear();
  for (InputVc* channel : contested_) {
    const bool wins = who(best_vc_[channel->input->id]) == channel->id;
    winners_.push_if(channel, wins);
    next_ready_.push_if(channel, !wins);
  }
  for (const InputVc* channel : contested_) {
    InputPort& in = *channel->input;
    OutputPort& out = *channel->output;
    best_input_[out.id] = best_output_[in.id] = best_vc_[in.id] = nothing;
    in.requests = out.switch_requests = 0;
  }
  for (InputVc* channel : winners_) pass(*channel);
}

/// A flit wins the switch: it leaves the buffer, takes a credit, and is on its way; its own credit goes back.
inline void Fabric::pass(InputVc& channel) {
  InputPort& in = *channel.input;
  OutputPort& out = *channel.output;
  OutputVc& through = *channel.through;
  const auto cycle = static_cast<std::uint32_t>(now_);
  const std::uint32_t slot = channel.packets[channel.head];
  in.requests = out.switch_requests = 0;
  in.vc_pointer = static_cast<std::uint16_t>(channel.number + 1);
  in.output_pointer = static_cast<std::uint16_t>(out.number + 1);
  out.input_pointer = static_cast<std::uint16_t>(in.number + 1);
  ++out.flits;
  credits_.push(cycle + in.credit_delay, channel.upstream);
  if (out.downstream == nullptr) {
    ejections_.push(cycle + out.delay, slot);
    if (sink_credit_delay_ != 0) {
      --through.credits;
      credits_.push(cycle + sink_credit_delay_, &through);
    }
  } else {
    InputVc& there = out.downstream[channel.given];
    there.packets[there.tail] = slot;
    there.tail = static_cast<std::uint16_t>((there.tail + (channel.state == granted)) & queue_mask_);
    --through.credits;
    arrivals_.push(cycle + out.delay, &there);
  }
  const bool more = --channel.occupancy != 0;
  if (--channel.remaining == 0) {
    channel.head = static_cast<std::uint16_t>((channel.head + 1U) & queue_mask_);
    channel.state = more ? waiting : idle_vc;
    out.free |= 1U << channel.given;
    next_heads_.push_if(&channel, more);
    if (out.parked != nullptr) wake_parked(out);
  } else {
    channel.state = active;
    next_ready_.push_if(&channel, more && through.credits != 0);
  }
}

/// A VC of the output is free: whoever waited for one asks again in the next cycle.
void Fabric::wake_parked(OutputPort& out) {
  for (InputVc* at = out.parked; at != nullptr; at = parked_[at->id]) next_waiting_.push(at);
  out.parked = nullptr;
}

}  // namespace tilesim::engine::noc
