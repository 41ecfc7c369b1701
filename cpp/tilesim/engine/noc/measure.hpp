// Open-loop measurement of a network under synthetic traffic: warm-up, sample periods, drain and saturation.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tilesim/base/cancel.hpp"
#include "tilesim/engine/noc/network.hpp"

namespace tilesim::engine::noc {

struct Experiment {
  std::string traffic = "uniform";
  double load = 0.1;  ///< flits per node and cycle
  std::uint32_t packet_flits = 1;
  /// Flits of the answer (class 1) to each packet (class 0), one cycle after its arrival; 0: no answers.
  std::uint32_t reply_flits = 0;
  bool simple = false;  ///< use the simple network with the topology's latencies
  SimpleSpec simple_spec;
  std::uint64_t seed = 1;
  std::int64_t period_cycles = 10000;
  int warmup_periods = 3;
  int most_periods = 15;                 ///< including warm-up
  double settled = 0.05;                 ///< largest relative change of latency and accepted load between periods
  int settled_periods = 3;               ///< required number of consecutive periods
  double give_up_latency_cycles = 2000;  ///< saturated above this mean latency, including ages of waiting flits
  CancelToken* cancel = nullptr;
};

struct Measurement {
  bool stable = true;
  double packet_latency = 0, network_latency = 0;  ///< mean cycles per packet: from creation; from head departure
  double hops = 0;                                 ///< mean routers per packet
  double accepted = 0;                             ///< flits per node and cycle
  std::int64_t longest_latency = 0;                ///< longest latency of a packet
  std::int64_t packets = 0;                        ///< number of packets measured
  std::int64_t cycles = 0;                         ///< simulated cycles of all phases
  std::int64_t flit_hops = 0;                      ///< over all cycles
  double seconds = 0;                              ///< wall-clock time
  double reply_latency = 0;                        ///< mean packet latency of answers
  std::vector<std::int64_t> link_flits;            ///< over all cycles, per link of the topology
};

/// Measures a network. Throws UserError for an experiment without periods, a load out of range, or unsuitable traffic.
Measurement measure(const Topology& topology, const RouterSpec& spec, const Experiment& experiment);

}  // namespace tilesim::engine::noc
