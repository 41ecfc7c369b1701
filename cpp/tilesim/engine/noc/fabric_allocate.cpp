// VC allocation: iSLIP with one iteration (McKeown, 1999). Requests without conflict take a fast path; other requests
// go through grant and accept. Both paths move the same pointers.
#include <algorithm>
#include <bit>

#include "tilesim/engine/noc/fabric.hpp"

namespace tilesim::engine::noc {

/// Routes the packet that became the first in its VC.
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

/// Gives an input VC the first usable output VC at or after its pointer.
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

/// Allocates the VCs of an output that several input VCs request: every free VC grants the first input VC at or after
/// its pointer.
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
    for (std::uint32_t v = 0; v < vcs_; ++v) best[v] = no_offer;
    channel->output->vc_requests = 0;
    if (*grants != 0) {
      give_vc(*channel, *grants);
    } else {
      next_waiting_.push(channel);
    }
    ++grants;
  }
}

}  // namespace tilesim::engine::noc
