// Switch allocation: iSLIP with one iteration (McKeown, 1999), and the path of a flit through the switch. Requests
// without conflict at input and output take a fast path; other requests go through grant and accept. Both paths move
// the same pointers.
#include <algorithm>

#include "tilesim/engine/noc/fabric.hpp"

namespace tilesim::engine::noc {

/// Moves a flit that won the switch: it leaves its buffer, whose credit returns, and uses a credit of the output VC.
inline void Fabric::pass(InputVc& channel) {
  InputPort& in = *channel.input;
  OutputPort& out = *channel.output;
  OutputVc& through = *channel.through;
  const auto cycle = static_cast<std::uint32_t>(now_);
  const std::uint32_t slot = channel.packets[channel.head];
  in.requests = 0;
  in.wants = 0;
  in.vc_pointer = static_cast<std::uint16_t>(channel.number - in.first_number + 1);
  in.output_pointer = static_cast<std::uint16_t>(out.number + 1);
  out.input_pointer = static_cast<std::uint16_t>(in.number + 1);
  ++out.flits;
  credits_.push(cycle + in.credit_delay, channel.upstream);
  if (out.downstream == nullptr) {
    ejections_.push(cycle + out.delay, slot);
    if (gated_) [[unlikely]] {
      --through.credits;
      at_gate_[slot].exit = &through;
    } else if (sink_credit_delay_ != 0) {
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

void Fabric::allocate_switch() {
  if (wide_) {
    allocate_wide_switch();
    return;
  }
  for (const InputVc* channel : ready_) {
    InputPort& in = *channel->input;
    ++in.requests;
    in.wants |= 1U << (channel->number - in.first_number);
    channel->output->asks |= std::uint64_t{1} << in.number;
  }
  contested_.clear();
  asked_.clear();
  for (InputVc* channel : ready_) {
    OutputPort& out = *channel->output;
    if (channel->input->requests == 1 && (out.asks & (out.asks - 1)) == 0) {
      out.asks = 0;
      pass(*channel);
    } else {
      contested_.push(channel);
      asked_.push_if(&out, out.switch_requests == 0);
      out.switch_requests = 1;
    }
  }
  if (!contested_.empty()) allocate_contested_switch();
}

/// Every output grants the first input at or after its pointer. Every input accepts the first output at or after its
/// pointer; of its VCs that request this output, the first at or after the VC pointer wins.
void Fabric::allocate_contested_switch() {
  granted_.clear();
  for (OutputPort* out : asked_) {
    InputPort& in = inputs_[out->first_input + next_port(out->asks, out->input_pointer)];
    granted_.push_if(&in, in.offers == 0);
    in.offers |= std::uint64_t{1} << out->number;
    out->asks = out->switch_requests = 0;
  }
  for (InputPort* in : granted_) {
    const OutputPort* const out = in->first_output + next_port(in->offers, in->output_pointer);
    in->offers = 0;
    std::uint32_t vc = next_bit(in->wants, in->vc_pointer);
    while (in->vcs[vc].output != out) vc = next_bit(in->wants, vc + 1);
    in->winner = &in->vcs[vc];
  }
  for (InputVc* channel : contested_) {
    InputPort& in = *channel->input;
    next_ready_.push_if(channel, in.winner != channel);
    in.requests = 0;
    in.wants = 0;
  }
  for (InputPort* in : granted_) {
    pass(*in->winner);
    in->winner = nullptr;
  }
}

void Fabric::allocate_wide_switch() {
  for (const InputVc* channel : ready_) {
    ++channel->input->requests;
    ++channel->output->switch_requests;
  }
  contested_.clear();
  for (InputVc* channel : ready_) {
    if (channel->input->requests + channel->output->switch_requests == 2) {
      channel->output->switch_requests = 0;
      pass(*channel);
    } else {
      contested_.push(channel);
    }
  }
  if (!contested_.empty()) allocate_contested_wide_switch();
}

/// Like allocate_contested_switch, but with offers instead of masks, for any number of ports.
void Fabric::allocate_contested_wide_switch() {
  for (const InputVc* channel : contested_) {
    const OutputPort& out = *channel->output;
    std::uint64_t& best = best_input_[out.id];
    best = std::min(
        best, offer(channel->input->number, out.input_pointer, sizes_[channel->input->id].inputs, channel->input->id));
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
    const std::uint64_t mine =
        offer(std::uint32_t{channel->number} - in.first_number, in.vc_pointer, vcs_, channel->id);
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
    best_input_[out.id] = best_output_[in.id] = best_vc_[in.id] = no_offer;
    in.requests = out.switch_requests = 0;
  }
  for (InputVc* channel : winners_) pass(*channel);
}

/// In the next cycle, repeats the requests of VCs that wait for a free VC of the output.
void Fabric::wake_parked(OutputPort& out) {
  for (InputVc* at = out.parked; at != nullptr; at = parked_[at->id]) next_waiting_.push(at);
  out.parked = nullptr;
}

/// Delays switch requests for slow links that are busy during the whole cycle.
void Fabric::hold_paced() {
  InputVc** kept = ready_.begin();
  for (InputVc* channel : ready_) {
    const std::int32_t pace = pace_of_[channel->output->id];
    const bool waits = pace >= 0 && paces_[static_cast<std::size_t>(pace)].free >=
                                        (now_ + 1) * paces_[static_cast<std::size_t>(pace)].per_cycle;
    *kept = channel;
    kept += !waits;
    next_ready_.push_if(channel, waits);
  }
  ready_.cut(kept);
}

void Fabric::note_paced() {
  for (Pace& pace : paces_) {
    if (pace.output->flits == pace.flits) continue;
    pace.flits = pace.output->flits;
    pace.free = std::max(pace.free, now_ * pace.per_cycle) + pace.per_flit;
  }
}

}  // namespace tilesim::engine::noc
