// What every on-chip network offers, at whatever fidelity: packets in, deliveries out, by cycles of its own clock.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tilesim/engine/noc/topology.hpp"

namespace tilesim::engine::noc {

struct Packet {
  std::uint32_t source = 0, destination = 0;  ///< nodes; equal is legal
  std::uint32_t flits = 1;                    ///< 1 ... 65535
  std::uint32_t message_class = 0;
  std::uint64_t tag = 0;  ///< the caller's own
};

struct Delivery {
  Packet packet;
  std::int64_t created = 0;    ///< cycle of injection into the source's queue
  std::int64_t started = 0;    ///< cycle at which it became the first of its source's line
  std::int64_t sent = 0;       ///< cycle at which the source sent its head flit
  std::int64_t delivered = 0;  ///< cycle at which its tail reached the destination
  std::uint32_t hops = 0;      ///< routers passed
};

/// Flits of packets that have left their source's line and have not been delivered: how many, and the sum of their
/// ages.
struct Backlog { std::int64_t flits = 0, age_cycles = 0; };

class Network {
 public:
  virtual ~Network() = default;
  /// Puts a packet into its source's unbounded queue at `cycle` >= now(). UserError for an unknown node or class, or
  /// another number of flits.
  virtual void inject(const Packet& packet, std::int64_t cycle) = 0;
  /// Runs the cycles now() ... until - 1; cycles in which nothing happens cost nothing. Appends to deliveries().
  virtual void advance(std::int64_t until) = 0;
  /// Runs until something is delivered, or until `limit`; returns now().
  virtual std::int64_t advance_to_delivery(std::int64_t limit) = 0;
  virtual std::int64_t now() const = 0;
  /// No packet anywhere.
  virtual bool idle() const = 0;
  /// In order of delivery; the caller clears it.
  virtual std::vector<Delivery>& deliveries() = 0;
  virtual std::int64_t queued() const = 0;  ///< packets behind the first of their source's line
  virtual Backlog backlog() const = 0;
  virtual std::int64_t flits_delivered() const = 0;  ///< so far, of all packets
  virtual std::int64_t flit_hops() const = 0;        ///< flits that passed a router, so far
  /// Flits sent so far on each link of the topology, in its order.
  virtual std::vector<std::int64_t> link_flits() const = 0;
};

/// Routers of input-queued virtual channels with credits, one-iteration iSLIP for channels and switch, decided cycle by
/// cycle. `seed` decides which way packets go round a torus where both are equally long.
std::unique_ptr<Network> flit_network(const Topology& topology, const RouterSpec& spec, std::uint64_t seed);

}  // namespace tilesim::engine::noc
