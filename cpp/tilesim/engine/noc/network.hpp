// The interface of on-chip networks: packets in, deliveries out, in cycles of the network's clock.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tilesim/base/units.hpp"
#include "tilesim/engine/noc/topology.hpp"

namespace tilesim::engine::noc {

struct Packet {
  std::uint32_t source = 0, destination = 0;  ///< nodes, may be equal
  std::uint32_t flits = 1;                    ///< number of flits, 1 to 65535
  std::uint32_t message_class = 0;
  std::uint64_t tag = 0;  ///< for the caller
};

struct Delivery {
  Packet packet;
  std::int64_t created = 0;    ///< cycle of injection into the source's queue
  std::int64_t started = 0;    ///< cycle at which it became the first in its source's queue
  std::int64_t sent = 0;       ///< cycle at which the source sent its head flit
  std::int64_t delivered = 0;  ///< cycle at which its tail reached the destination
  std::uint32_t hops = 0;      ///< routers passed
};

/// Flits of packets that have left their source's queue but are not delivered: number and sum of ages.
struct Backlog { std::int64_t flits = 0, age_cycles = 0; };

class Network {
 public:
  virtual ~Network() = default;
  /// Puts a packet into its source's unbounded queue at `cycle` >= now(). Throws UserError for an unknown node or
  /// class, or a wrong number of flits.
  virtual void inject(const Packet& packet, std::int64_t cycle) = 0;
  /// Simulates the cycles now() to until - 1; idle cycles cost no time. Appends to deliveries().
  virtual void advance(std::int64_t until) = 0;
  /// Runs until a packet is delivered, or until `limit`. Returns now().
  virtual std::int64_t advance_to_delivery(std::int64_t limit) = 0;
  virtual std::int64_t now() const = 0;
  /// Whether no packets are in the network.
  virtual bool idle() const = 0;
  /// Deliveries in order; the caller clears them.
  virtual std::vector<Delivery>& deliveries() = 0;
  /// Limits a node's memory: it accepts packets of the class only while one of `places` is free. A packet takes a place
  /// with its head flit (simple network: before it starts) and keeps it until give_back(). Flits without a place stay
  /// in the network. Call it before the first packet, with at least 1 place.
  virtual void limit(std::uint32_t node, std::uint32_t message_class, std::int64_t places) = 0;
  virtual void give_back(std::uint32_t node, std::uint32_t message_class) = 0;  ///< frees a place, from now() on
  /// Number of packets in the source's queue of the class, including the packet being sent.
  virtual std::int64_t line(std::uint32_t node, std::uint32_t message_class) const = 0;
  virtual std::int64_t queued() const = 0;  ///< number of packets in source queues, except each queue's first
  virtual Backlog backlog() const = 0;
  virtual std::int64_t flits_delivered() const = 0;  ///< total
  virtual std::int64_t flit_hops() const = 0;        ///< flits times routers passed, total
  /// Number of flits sent on each link of the topology, in its order.
  virtual std::vector<std::int64_t> link_flits() const = 0;
  /// Number of flits that a node has sent and received.
  struct NodeFlits { std::int64_t sent = 0, taken = 0; };
  virtual std::vector<NodeFlits> node_flits() const = 0;
};

/// Input-queued virtual-channel routers with credits and one-iteration iSLIP for VCs and switch, simulated by cycle.
/// `seed` selects the direction on a torus if both are equally long.
std::unique_ptr<Network> flit_network(const Topology& topology, const RouterSpec& spec, std::uint64_t seed);

/// Cycles from the departure of a packet's head to its arrival in an empty network of such routers; the tail arrives
/// flits - 1 cycles later. 3 cycles per router, plus link latencies, plus 3 for the node: 6 through one router.
std::int64_t head_latency(const Topology& topology, const RouterSpec& spec, std::size_t from, std::size_t to);

struct SimpleSpec {
  int flits_per_cycle = 1;  ///< per direction of a node's port
  int buffer_flits = 64;    ///< per destination; a packet leaves its source once all of it fits
};

/// A network with latency, port bandwidth and finite buffers, without contention inside; one latency for all pairs of
/// nodes. Throws UserError for numbers below 1; injecting a packet larger than the buffer fails.
std::unique_ptr<Network> simple_network(std::size_t nodes, std::int32_t latency_cycles, const SimpleSpec& spec);
/// The simple network with latencies of an empty flit-level network.
std::unique_ptr<Network> simple_network(const Topology& topology, const RouterSpec& router, const SimpleSpec& spec);

/// A network with its own clock, used in cycles of another clock: an injection takes effect at the first network cycle
/// that is not earlier; a delivery is reported at the first caller cycle that is not earlier.
class ClockedNetwork {
 public:
  ClockedNetwork(std::unique_ptr<Network> network, Clock own, Clock caller);
  void inject(const Packet& packet, std::int64_t cycle);
  /// Processes all events before the caller's cycle `until`.
  void advance(std::int64_t until);
  /// Deliveries in order, with times in the caller's cycles; the caller clears them.
  std::vector<Delivery>& deliveries() { return deliveries_; }
  const Network& network() const { return *network_; }

 private:
  std::int64_t to_caller(std::int64_t own_cycle) const;
  std::unique_ptr<Network> network_;
  Clock own_, caller_;
  std::vector<Delivery> deliveries_;
};

}  // namespace tilesim::engine::noc
