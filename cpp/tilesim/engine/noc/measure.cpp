#include "tilesim/engine/noc/measure.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include "tilesim/base/error.hpp"
#include "tilesim/engine/noc/traffic.hpp"

namespace tilesim::engine::noc {

namespace {

struct Sums {
  std::int64_t packets = 0, latency = 0, network_latency = 0, hops = 0, longest = 0, replies = 0, reply_latency = 0;
  double mean(std::int64_t sum) const {
    return packets == 0 ? 0 : static_cast<double>(sum) / static_cast<double>(packets);
  }
};

class Run {
 public:
  Run(const Topology& topology, const RouterSpec& spec, const Experiment& experiment)
      : experiment_(experiment),
        network_(experiment.simple ? simple_network(topology, spec, experiment.simple_spec)
                                   : flit_network(topology, spec, experiment.seed)),
        traffic_(topology, experiment.traffic, experiment.load, experiment.packet_flits, experiment.seed),
        nodes_(static_cast<double>(topology.nodes.size())) {}

  Measurement measure() {
    const auto begin = std::chrono::steady_clock::now();
    result_.stable = sample() && drain();
    result_.packets = sums_.packets;
    result_.packet_latency = sums_.mean(sums_.latency);
    result_.network_latency = sums_.mean(sums_.network_latency);
    result_.reply_latency =
        static_cast<double>(sums_.reply_latency) / static_cast<double>(std::max<std::int64_t>(1, sums_.replies));
    result_.hops = sums_.mean(sums_.hops);
    result_.longest_latency = sums_.longest;
    result_.cycles = network_->now();
    result_.flit_hops = network_->flit_hops();
    result_.link_flits = network_->link_flits();
    result_.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return result_;
  }

 private:
  /// Runs warm-up and measured periods. Returns false if the network is saturated.
  bool sample() {
    double latency = 0, accepted = 0;
    int in_a_row = 0;
    for (int period = 0; period < experiment_.most_periods && in_a_row < experiment_.settled_periods; ++period) {
      if (period == experiment_.warmup_periods) {
        measured_from_ = network_->now();
        started_before_ = created_ - network_->queued();
      }
      if (period == experiment_.warmup_periods || (period < experiment_.warmup_periods && period % 2 == 0)) restart();
      run(network_->now() + experiment_.period_cycles);
      const double new_latency = sums_.mean(sums_.latency);
      result_.accepted = static_cast<double>(network_->flits_delivered() - delivered_before_) /
                         (nodes_ * static_cast<double>(network_->now() - restarted_));
      if (gives_up()) return false;
      const bool settled = std::abs(new_latency - latency) <= experiment_.settled * new_latency &&
                           std::abs(result_.accepted - accepted) <= experiment_.settled * result_.accepted;
      latency = new_latency, accepted = result_.accepted;
      if (period >= experiment_.warmup_periods) in_a_row = settled ? in_a_row + 1 : 0;
    }
    return true;
  }

  /// Continues to inject packets until every measured packet has arrived. Returns false if the network is saturated.
  bool drain() {
    drained_from_ = network_->now();
    outstanding_ = created_ - started_before_ - sums_.packets;
    while (outstanding_ > 0) {
      run(network_->now() + 1000);
      if (gives_up()) return false;
    }
    return true;
  }

  void run(std::int64_t until) {
    while (network_->now() < until && outstanding_ > 0) {
      if (++steps_ % 256 == 0 && experiment_.cancel != nullptr) experiment_.cancel->poll();
      inject();
      const std::int64_t next = std::min(until, traffic_.next_cycle());
      if (experiment_.reply_flits == 0) {
        network_->advance(next);
      } else {
        network_->advance_to_delivery(next);
      }
      take();
    }
  }

  /// Injects the packets of the current cycle.
  void inject() {
    for (const Packet& packet : answers_) network_->inject(packet, network_->now());
    created_ += static_cast<std::int64_t>(answers_.size());
    answers_.clear();
    if (network_->now() == traffic_.next_cycle()) created_ += traffic_.inject(*network_);
  }

  void answer(const Packet& request) {
    answers_.push_back({request.destination, request.source, experiment_.reply_flits, 1, 0});
  }

  void restart() {
    sums_ = {};
    delivered_before_ = network_->flits_delivered();
    restarted_ = network_->now();
  }

  /// Counts packets that became the first in their source's queue after the warm-up (during the warm-up, all packets)
  /// and that were created before the drain.
  void take() {
    for (const Delivery& delivery : network_->deliveries()) {
      if (experiment_.reply_flits != 0 && delivery.packet.message_class == 0) answer(delivery.packet);
      if (delivery.started < measured_from_ || delivery.created >= drained_from_) continue;
      ++sums_.packets;
      sums_.latency += delivery.delivered - delivery.created;
      sums_.network_latency += delivery.delivered - delivery.sent;
      sums_.hops += delivery.hops;
      if (delivery.packet.message_class == 1) {
        ++sums_.replies;
        sums_.reply_latency += delivery.delivered - delivery.created;
      }
      sums_.longest = std::max(sums_.longest, delivery.delivered - delivery.created);
      if (drained_from_ != never) --outstanding_;
    }
    network_->deliveries().clear();
  }

  bool gives_up() const {
    const Backlog backlog = network_->backlog();
    const auto count = static_cast<double>(sums_.packets + backlog.flits);
    return static_cast<double>(sums_.latency + backlog.age_cycles) > experiment_.give_up_latency_cycles * count;
  }

  static constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();
  Experiment experiment_;
  std::unique_ptr<Network> network_;
  BernoulliTraffic traffic_;
  double nodes_;
  Sums sums_;
  Measurement result_;
  std::int64_t measured_from_ = 0, drained_from_ = never, restarted_ = 0, delivered_before_ = 0;
  std::int64_t created_ = 0, started_before_ = 0, outstanding_ = never, steps_ = 0;
  std::vector<Packet> answers_;  ///< replies that are created in the next cycle
};

void check(const Experiment& experiment, const RouterSpec& spec) {
  const auto refuse = [](const char* what, const std::string& value, const char* allowed) {
    throw UserError({what, "experiment", value, allowed, {}});
  };
  if (experiment.period_cycles < 1 || experiment.period_cycles > 1'000'000'000)
    refuse("cycles of a sample period out of range", std::to_string(experiment.period_cycles), "1 ... 1000000000");
  if (experiment.warmup_periods < 0 || experiment.warmup_periods > 1000)
    refuse("warm-up periods out of range", std::to_string(experiment.warmup_periods), "0 ... 1000");
  if (experiment.reply_flits > 0 && spec.classes.size() < 2)
    refuse("answers need a separate message class", std::to_string(spec.classes.size()), "two classes");
  if (experiment.most_periods <= experiment.warmup_periods || experiment.most_periods > 100'000)
    refuse("no period is left to measure", std::to_string(experiment.most_periods), "more than the warm-up periods");
}

}  // namespace

Measurement measure(const Topology& topology, const RouterSpec& spec, const Experiment& experiment) {
  check(experiment, spec);
  return Run(topology, spec, experiment).measure();
}

}  // namespace tilesim::engine::noc
