// Synthetic traffic: sources, destinations and times of packets.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tilesim/engine/noc/network.hpp"
#include "tilesim/engine/noc/random.hpp"

namespace tilesim::engine::noc {

/// Determines the destination of each packet.
class Pattern {
 public:
  virtual ~Pattern() = default;
  virtual std::uint32_t destination(std::uint32_t source, Random& random) const = 0;
};

/// Creates a pattern by name: "uniform", "transpose", "bitcomp", "bitrev", "shuffle", "tornado", "neighbor",
/// "diagonal", "asymmetric", "permutation" (one random permutation per run), "hotspot" (node 0), "hotspot(3)" or
/// "hotspot(3,12)". Patterns of digits use the topology's extents. Throws UserError for another name or a number of
/// nodes that the pattern does not support.
std::unique_ptr<Pattern> make_pattern(const std::string& name, const Topology& topology, std::uint64_t seed);
/// Names of all patterns, for error messages.
std::vector<std::string> pattern_names();

/// In every cycle, each node injects a packet with a fixed probability, whatever its backlog. The trials form one
/// random sequence in order of (cycle, node); only the successes are computed.
class BernoulliTraffic {
 public:
  /// `load`: flits per node and cycle. Throws UserError for a load below 0 or above packet_flits.
  BernoulliTraffic(const Topology& topology, const std::string& pattern, double load, std::uint32_t packet_flits,
                   std::uint64_t seed);
  std::int64_t next_cycle() const { return cycle_; }
  /// Injects all packets of next_cycle(), which must equal network.now(). Returns their number.
  std::int64_t inject(Network& network);

 private:
  void draw();
  std::unique_ptr<Pattern> pattern_;
  Bernoulli trial_;
  Random times_, destinations_;
  std::int64_t nodes_, cycle_ = 0, node_ = -1;
  std::uint32_t packet_flits_;
};

}  // namespace tilesim::engine::noc
