// Open-loop measurement of a network under synthetic traffic: warm-up, measured periods, drain, and saturation test.
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
  /// Flits of the reply (class 1) to each packet (class 0), one cycle after the packet arrives; 0: no replies.
  std::uint32_t reply_flits = 0;
  bool simple = false;  ///< measure the simple network, with the topology's latencies
  SimpleSpec simple_spec;
  std::uint64_t seed = 1;
  std::int64_t period_cycles = 10000;
  int warmup_periods = 3;
  int most_periods = 15;    ///< includes warm-up periods
  double settled = 0.05;    ///< largest relative change of latency and accepted load between settled periods
  int settled_periods = 3;  ///< number of consecutive settled periods that ends the measurement
  double give_up_latency_cycles = 2000;  ///< mean latency of a saturated network; counts ages of waiting flits
  CancelToken* cancel = nullptr;
};

struct Measurement {
  bool stable = true;
  double packet_latency = 0, network_latency = 0;  ///< mean cycles from creation; from head departure
  double hops = 0;                                 ///< mean number of routers per packet
  double accepted = 0;                             ///< flits per node and cycle
  std::int64_t longest_latency = 0;                ///< largest packet latency in cycles
  std::int64_t packets = 0;                        ///< number of packets measured
  std::int64_t cycles = 0;                         ///< simulated cycles in all phases
  std::int64_t flit_hops = 0;                      ///< in all phases
  double seconds = 0;                              ///< wall-clock time
  double reply_latency = 0;                        ///< mean latency of replies in cycles
  std::vector<std::int64_t> link_flits;            ///< in all phases, per link of the topology
};

/// Measures a network. Throws UserError if the experiment has no periods, a load out of range, or unsuitable traffic.
Measurement measure(const Topology& topology, const RouterSpec& spec, const Experiment& experiment);

}  // namespace tilesim::engine::noc
