// The interface of on-chip networks: it takes packets and returns deliveries, in cycles of the network's clock.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tilesim/base/units.hpp"
#include "tilesim/engine/noc/topology.hpp"

namespace tilesim::engine::noc {

struct Packet {
  std::uint32_t source = 0, destination = 0;  ///< nodes; they may be equal
  std::uint32_t flits = 1;                    ///< 1 to 65535
  std::uint32_t message_class = 0;
  std::uint64_t tag = 0;  ///< not used by the network
};

struct Delivery {
  Packet packet;
  std::int64_t created = 0;    ///< cycle in which the packet entered its source's queue
  std::int64_t started = 0;    ///< cycle in which it became the first of this queue
  std::int64_t sent = 0;       ///< cycle in which the source sent the head flit
  std::int64_t delivered = 0;  ///< cycle in which the tail flit reached the destination
  std::uint32_t hops = 0;      ///< number of routers on the path
};

/// Undelivered flits of packets that have left their source's queue: number, and sum of ages in cycles.
struct Backlog { std::int64_t flits = 0, age_cycles = 0; };

class Network {
 public:
  virtual ~Network() = default;
  /// Puts a packet into the unbounded queue of its source at `cycle` >= now(). Throws UserError for an unknown node or
  /// class, or a wrong number of flits.
  virtual void inject(const Packet& packet, std::int64_t cycle) = 0;
  /// Simulates cycles now() to until - 1 and appends to deliveries(). Idle cycles take no host time.
  virtual void advance(std::int64_t until) = 0;
  /// Simulates until a packet is delivered or until cycle `limit`. Returns now().
  virtual std::int64_t advance_to_delivery(std::int64_t limit) = 0;
  virtual std::int64_t now() const = 0;
  /// Whether the network and its queues contain no packets.
  virtual bool idle() const = 0;
  /// Deliveries in order of time; the caller clears the list.
  virtual std::vector<Delivery>& deliveries() = 0;
  /// Limits a node's memory for a message class to `places` packets (at least 1). A packet occupies a place from its
  /// head flit on (simple network: before it starts) until the caller calls give_back(). Flits of packets without a
  /// place stay in the network. Call it before the first packet.
  virtual void limit(std::uint32_t node, std::uint32_t message_class, std::int64_t places) = 0;
  virtual void give_back(std::uint32_t node, std::uint32_t message_class) = 0;  ///< frees a place at now()
  /// Number of packets of the class in the source's queue, including the packet that the source is sending.
  virtual std::int64_t line(std::uint32_t node, std::uint32_t message_class) const = 0;
  virtual std::int64_t queued() const = 0;  ///< packets in source queues, without each queue's first
  virtual Backlog backlog() const = 0;
  virtual std::int64_t flits_delivered() const = 0;  ///< total since the start
  virtual std::int64_t flit_hops() const = 0;        ///< sum over flits of the routers they passed
  /// Number of flits sent on each link, in the topology's order of links.
  virtual std::vector<std::int64_t> link_flits() const = 0;
  /// Numbers of flits that a node has sent and received.
  struct NodeFlits { std::int64_t sent = 0, taken = 0; };
  virtual std::vector<NodeFlits> node_flits() const = 0;
};

/// Input-queued virtual-channel routers with credits, simulated by cycle. One iteration of iSLIP allocates VCs and the
/// switch. `seed` determines the direction on a torus if both directions are equally long.
std::unique_ptr<Network> flit_network(const Topology& topology, const RouterSpec& spec, std::uint64_t seed);

/// Cycles from the departure of a packet's head to its arrival in an empty flit-level network: 3 per router, 3 for the
/// node, and the link latencies (6 through one router). The tail arrives flits - 1 cycles later.
std::int64_t head_latency(const Topology& topology, const RouterSpec& spec, std::size_t from, std::size_t to);

struct SimpleSpec {
  int flits_per_cycle = 1;  ///< in each direction of a node's port
  int buffer_flits = 64;    ///< per destination; a packet starts once the buffer has space for all its flits
};

/// A network with one latency for all pairs of nodes, port bandwidth and finite buffers, but no contention inside.
/// Throws UserError for numbers below 1. A packet must fit the buffer.
std::unique_ptr<Network> simple_network(std::size_t nodes, std::int32_t latency_cycles, const SimpleSpec& spec);
/// A simple network whose latencies are those of an empty flit-level network.
std::unique_ptr<Network> simple_network(const Topology& topology, const RouterSpec& router, const SimpleSpec& spec);

/// Adapts a network to a caller with another clock. Each event takes effect in the other clock's first cycle that does
/// not begin before the event.
class ClockedNetwork {
 public:
  ClockedNetwork(std::unique_ptr<Network> network, Clock own, Clock caller);
  void inject(const Packet& packet, std::int64_t cycle);
  /// Processes all events before cycle `until` of the caller's clock.
  void advance(std::int64_t until);
  /// Deliveries in order, with times in the caller's cycles; the caller clears the list.
  std::vector<Delivery>& deliveries() { return deliveries_; }
  const Network& network() const { return *network_; }

 private:
  std::int64_t to_caller(std::int64_t own_cycle) const;
  std::unique_ptr<Network> network_;
  Clock own_, caller_;
  std::vector<Delivery> deliveries_;
};

}  // namespace tilesim::engine::noc
