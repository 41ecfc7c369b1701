#include <utility>

#include "tilesim/base/error.hpp"
#include "tilesim/engine/noc/network.hpp"

namespace tilesim::engine::noc {

ClockedNetwork::ClockedNetwork(std::unique_ptr<Network> network, Clock own, Clock caller)
    : network_(std::move(network)), own_(own), caller_(caller) {
  if (own.hertz < 1 || caller.hertz < 1)
    throw UserError({"a clock needs a frequency", "network", std::to_string(own.hertz) + " Hz", "at least 1 Hz", {}});
}

void ClockedNetwork::inject(const Packet& packet, std::int64_t cycle) {
  network_->inject(packet, cycles_at_or_after({cycle, caller_.hertz}, own_));
}

void ClockedNetwork::advance(std::int64_t until) {
  network_->advance(cycles_at_or_after({until, caller_.hertz}, own_));
  for (Delivery delivery : network_->deliveries()) {
    for (std::int64_t* cycle : {&delivery.created, &delivery.started, &delivery.sent, &delivery.delivered})
      *cycle = to_caller(*cycle);
    deliveries_.push_back(delivery);
  }
  network_->deliveries().clear();
}

std::int64_t ClockedNetwork::to_caller(std::int64_t own_cycle) const {
  return cycles_at_or_after({own_cycle, own_.hertz}, caller_);
}

}  // namespace tilesim::engine::noc
