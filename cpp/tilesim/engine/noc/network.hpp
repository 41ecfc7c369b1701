// The interface of all on-chip networks: packets in, deliveries out, in cycles of the network's clock.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tilesim/base/units.hpp"
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
  /// A node with a finite memory: it takes packets of the class only while one of `places` is free; a packet takes one
  /// with its head flit (simple network: before it starts) and keeps it until give_back(). Flits that find no place
  /// stay in the network. Before the first packet; at least 1 place.
  virtual void limit(std::uint32_t node, std::uint32_t message_class, std::int64_t places) = 0;
  virtual void give_back(std::uint32_t node, std::uint32_t message_class) = 0;  ///< a place, from now() on
  /// Packets in the source's line of the class, the one that is being sent included.
  virtual std::int64_t line(std::uint32_t node, std::uint32_t message_class) const = 0;
  virtual std::int64_t queued() const = 0;  ///< packets behind the first of their source's line
  virtual Backlog backlog() const = 0;
  virtual std::int64_t flits_delivered() const = 0;  ///< so far, of all packets
  virtual std::int64_t flit_hops() const = 0;        ///< flits that passed a router, so far
  /// Flits sent so far on each link of the topology, in its order.
  virtual std::vector<std::int64_t> link_flits() const = 0;
  /// Flits that each node has sent and taken so far.
  struct NodeFlits { std::int64_t sent = 0, taken = 0; };
  virtual std::vector<NodeFlits> node_flits() const = 0;
};

/// Routers of input-queued virtual channels with credits, one-iteration iSLIP for channels and switch, decided cycle by
/// cycle. `seed` decides which way packets go round a torus where both are equally long.
std::unique_ptr<Network> flit_network(const Topology& topology, const RouterSpec& spec, std::uint64_t seed);

/// Cycles from the departure of a packet's head to its arrival in an empty network of such routers; the tail follows
/// after flits - 1 more. 3 per router, the link latencies, 3 for the node's side: 6 through one router.
std::int64_t head_latency(const Topology& topology, const RouterSpec& spec, std::size_t from, std::size_t to);

struct SimpleSpec {
  int flits_per_cycle = 1;  ///< of a node's port, in and out
  int buffer_flits = 64;    ///< per destination; a packet leaves its source when all of it has a place there
};

/// Latency, port bandwidth and finite buffers; no contention inside. One latency for all pairs of nodes.
/// UserError for numbers below 1; packets larger than the buffer are rejected when injected.
std::unique_ptr<Network> simple_network(std::size_t nodes, std::int32_t latency_cycles, const SimpleSpec& spec);
/// The same with the latencies of an empty flit-level network.
std::unique_ptr<Network> simple_network(const Topology& topology, const RouterSpec& router, const SimpleSpec& spec);

/// A network with its own clock, driven in cycles of another: what is injected is seen at the first network cycle that
/// is not earlier, what is delivered at the first caller's cycle that is not earlier.
class ClockedNetwork {
 public:
  ClockedNetwork(std::unique_ptr<Network> network, Clock own, Clock caller);
  void inject(const Packet& packet, std::int64_t cycle);
  /// All that happens before the caller's cycle `until`.
  void advance(std::int64_t until);
  /// Deliveries so far, in order, times in the caller's cycles; the caller clears it.
  std::vector<Delivery>& deliveries() { return deliveries_; }
  const Network& network() const { return *network_; }

 private:
  std::int64_t to_caller(std::int64_t own_cycle) const;
  std::unique_ptr<Network> network_;
  Clock own_, caller_;
  std::vector<Delivery> deliveries_;
};

}  // namespace tilesim::engine::noc
