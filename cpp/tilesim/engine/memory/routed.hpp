// Memory behind a network of routers: packets contend, so a piece's time is known when it completes.
//
// A read is a request packet to the channel's node and an answer with the data; a write is a packet with the data and
// an acknowledgement. Requests and answers have separate virtual channels, so that answers can always advance. A core
// takes every answer. A channel's node has places for a limited number of packets; a packet keeps its place from the
// arrival of the request's head until the answer enters the network. Pieces wait in queues at the core's ports, whose
// length is limited by the outstanding bytes of the DMA queues.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "tilesim/base/cancel.hpp"
#include "tilesim/engine/dram/channel.hpp"
#include "tilesim/engine/dram/mapping.hpp"
#include "tilesim/engine/memory/memory.hpp"
#include "tilesim/engine/memory/nodes.hpp"
#include "tilesim/engine/memory/region_map.hpp"
#include "tilesim/engine/noc/network.hpp"
#include "tilesim/machine/machine.hpp"

namespace tilesim::engine {

class RoutedMemory final : public MemorySystem {
 public:
  /// Throws UserError if the network has too few nodes for the machine's ports and channels.
  RoutedMemory(const Machine& machine, const noc::Topology& topology, std::unique_ptr<MemoryNodes> memory);

  void place(std::int64_t low, std::int64_t high, std::int32_t placement) override {
    regions_.place(low, high, placement);
  }
  void forget(std::int64_t low, std::int64_t high) override { regions_.forget(low, high); }
  /// Offers a request; it completes when the last answer is at the core.
  Offered offer(const Request& request, std::uint64_t tag, std::int64_t now) override;
  /// Sends a tile between cores; the send completes when all of it has arrived.
  void send(std::int64_t from, std::int64_t to, std::int64_t bytes, std::uint64_t tag, std::int64_t now);
  void drain(std::int64_t until, CancelToken* cancel, std::vector<Done>& done) override;
  bool idle() const override { return open_pieces_ == 0; }
  bool answers_later() const override { return true; }
  std::vector<Link> links() const override;  ///< traffic between regions; empty for one region
  /// Bytes of bursts beyond the requests: two pieces that share a burst both move it.
  std::int64_t padding() const override { return padding_; }
  std::vector<Channel> channels() const override { return memory_->channels(core_); }
  std::vector<Energy> energy() const override { return memory_->energy(); }
  std::vector<Bank> banks() const override { return memory_->banks(); }
  const BandwidthSeries* series() const override { return &memory_->series; }
  void add_caches(std::vector<const cache::Level*>& levels) const override {
    if (memory_->cache()) levels.push_back(memory_->cache());
  }

  const noc::Network& network() const { return *network_; }
  const noc::Topology& topology() const { return topology_; }
  /// Nodes of the endpoints: ports of core 0, of core 1, ..., then channels.
  const std::vector<std::uint32_t>& places() const { return places_; }
  struct Traffic { std::int64_t packets = 0, latency_cycles = 0; };  ///< network cycles from creation to arrival
  const Traffic& traffic(std::size_t message_class) const { return traffic_[message_class]; }

 private:
  enum Kind : std::uint8_t { read, write, message };
  /// Consecutive bytes of a piece for one channel (or core).
  struct Run {
    std::uint64_t address = 0;
    std::uint32_t piece = 0, bytes = 0, target = 0;  ///< target: channel, or core
  };
  struct Port {
    std::deque<Run> lines[3];  ///< by kind
    std::uint32_t node = 0, core = 0, number = 0;
    Kind last = write;
    bool active = false, loads_first = false, stores_first = false;
  };
  struct RoutedRequest {
    std::uint64_t tag = 0;
    std::int64_t left = 0;  ///< in bytes
    Pattern* pattern = nullptr;
  };
  struct Packet {
    std::uint64_t address = 0;
    std::uint32_t piece = 0, bytes = 0, port = 0, target = 0;
    Kind kind = read;
  };

  void place_nodes(std::int64_t endpoints);
  void place_region(std::int64_t region, std::int64_t first_node, std::int64_t ports, std::int64_t channels);
  void add_run(std::uint32_t piece, const Request& request, std::int64_t begin, std::int64_t end);
  std::uint32_t new_piece(std::uint64_t tag, std::int64_t bytes, std::int64_t now);
  void add(std::uint32_t port, Kind kind, const Run& run);
  void cycle();
  bool inject(Port& port);
  bool inject_line(Port& port, std::uint32_t id, Kind kind);
  bool request_line(Port& port, Kind& kind) const;
  void answer();
  void deliver();
  std::uint32_t flits(std::int64_t data) const;
  std::int64_t quiet_until(std::int64_t limit) const;

  Clock core_;
  NetworkSpec spec_;
  std::int64_t cores_, channels_, interleave_, packet_bytes_, burst_;
  noc::Topology topology_;
  std::unique_ptr<noc::Network> network_;
  std::unique_ptr<MemoryNodes> memory_;
  RegionMap regions_;
  dram::ChannelMap spread_;                 ///< map to the channels of a region
  std::vector<std::int64_t> region_bytes_;  ///< index: from * regions + to
  std::vector<std::uint32_t> places_;
  std::vector<Port> ports_;
  std::vector<std::uint32_t> active_ports_;
  std::vector<RoutedRequest> requests_;
  std::vector<Packet> packets_;
  std::vector<std::uint32_t> free_requests_, free_packets_;
  std::vector<Done> done_;
  Traffic traffic_[2];
  std::int64_t open_pieces_ = 0, boundary_ = -1, quiet_ = 0, padding_ = 0;
};

}  // namespace tilesim::engine
