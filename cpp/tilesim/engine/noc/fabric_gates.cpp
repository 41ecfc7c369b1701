// Nodes with finite memory: flits leave their buffers, and return credits, only if their packet has a place.
#include "tilesim/base/error.hpp"
#include "tilesim/engine/noc/fabric.hpp"

namespace tilesim::engine::noc {

void Fabric::limit(std::uint32_t node, std::uint32_t message_class, std::int64_t places) {
  require(live_ == 0 && queued_ == 0, "a node is limited while packets are under way");
  if (places < 1)
    throw UserError({"a node needs a place for a packet", "network", std::to_string(places), "at least 1", {}});
  if (!gated_) {
    gated_ = true;
    gates_.resize(topology_.nodes.size() * spec_.classes.size());
    // Flits that waited for a place return their credits in the same cycle.
    const auto held = topology_.nodes.size() * vcs_ * static_cast<std::size_t>(spec_.buffer_flits);
    credits_.resize(credits_.cycles(), outputs_.size() + held);
  }
  gates_.at(node * spec_.classes.size() + message_class).places = places;
}

void Fabric::give_back(std::uint32_t node, std::uint32_t message_class) {
  freed_.push_back(static_cast<std::uint32_t>(node * spec_.classes.size() + message_class));
}

inline void Fabric::take_flit(std::uint32_t slot) {
  credits_.push(static_cast<std::uint32_t>(now_) + gate_credit_delay_, at_gate_[slot].exit);
  ++flits_delivered_;
  if (--live_packets_[slot].left == 0) deliver(slot);
}

void Fabric::eject_at_gates() {
  opening_.swap(freed_);
  for (const std::uint32_t id : opening_) {
    Gate& gate = gates_[id];
    if (gate.waiting.empty()) {
      ++gate.places;
      continue;
    }
    const std::uint32_t slot = gate.waiting.front();
    gate.waiting.pop_front();
    AtGate& at = at_gate_[slot];
    at.has_place = true;
    for (std::uint32_t held = at.held; held > 0; --held) take_flit(slot);
  }
  opening_.clear();
  auto& arrived = ejections_.at(static_cast<std::uint32_t>(now_));
  for (const std::uint32_t* item = arrived.begin; item != arrived.end; ++item) {
    AtGate& at = at_gate_[*item];
    if (!at.has_place && at.held == 0) {
      const Live& live = live_packets_[*item];
      Gate& gate = gates_[live.destination * spec_.classes.size() + live.message_class];
      at.has_place = gate.places > 0 && gate.waiting.empty();
      if (at.has_place)
        --gate.places;
      else
        gate.waiting.push_back(*item);
    }
    if (at.has_place)
      take_flit(*item);
    else
      ++at.held;
  }
  arrived.end = arrived.begin;
}

}  // namespace tilesim::engine::noc
