// The simple network: latency, bandwidth of node ports, finite buffers. It processes events per packet and port, not
// per flit.
#include <algorithm>
#include <deque>
#include <limits>
#include <queue>
#include <tuple>
#include <utility>

#include "tilesim/base/error.hpp"
#include "tilesim/base/interrupt.hpp"
#include "tilesim/engine/noc/network.hpp"

namespace tilesim::engine::noc {

namespace {

class Simple final : public Network {
 public:
  Simple(std::size_t nodes, std::vector<std::int32_t> latency, const SimpleSpec& spec)
      : latency_(std::move(latency)), spec_(spec), sources_(nodes), sinks_(nodes) {
    const auto refuse = [](const char* what, std::int64_t value) {
      throw UserError({std::string(what) + " out of range", "simple network", std::to_string(value), "at least 1", {}});
    };
    if (nodes < 1) refuse("number of nodes", static_cast<std::int64_t>(nodes));
    if (spec.flits_per_cycle < 1) refuse("flits per cycle of a port", spec.flits_per_cycle);
    if (spec.buffer_flits < 1) refuse("buffer flits of a node", spec.buffer_flits);
    for (const std::int32_t cycles : latency_)
      if (cycles < 1) refuse("latency", cycles);
    for (Sink& sink : sinks_) sink.free = spec.buffer_flits;
  }

  void inject(const Packet& packet, std::int64_t cycle) override {
    const auto refuse = [](const char* what, std::int64_t value, std::int64_t low, std::int64_t high) {
      throw UserError(
          {what, "packet", std::to_string(value), std::to_string(low) + " ... " + std::to_string(high), {}});
    };
    const auto nodes = static_cast<std::int64_t>(sources_.size());
    if (packet.source >= nodes) refuse("unknown source node", packet.source, 0, nodes - 1);
    if (packet.destination >= nodes) refuse("unknown destination node", packet.destination, 0, nodes - 1);
    if (packet.flits < 1 || packet.flits > static_cast<std::uint32_t>(std::min(spec_.buffer_flits, 65535)))
      refuse("a packet must fit the buffer of a node", packet.flits, 1, std::min(spec_.buffer_flits, 65535));
    if (cycle < now_) refuse("the packet's cycle is in the past", cycle, now_, std::int64_t{1} << 62);
    if (free_slots_.empty()) {
      free_slots_.push_back(static_cast<std::uint32_t>(live_.size()));
      live_.emplace_back();
    }
    const std::uint32_t slot = free_slots_.back();
    free_slots_.pop_back();
    live_[slot] = {packet, cycle, -1, -1};
    ++queued_, ++packets_;
    push(cycle, create, packet.source, slot);
  }

  void advance(std::int64_t until) override {
    while (!events_.empty() && events_.top().cycle < until) {
      worked(32);
      process();
    }
    now_ = std::max(now_, until);
  }

  std::int64_t advance_to_delivery(std::int64_t limit) override {
    const std::size_t before = deliveries_.size();
    while (!events_.empty() && events_.top().cycle < limit) {
      worked(32);
      // Finish the cycle of the delivery, so that now() is the next cycle.
      if (deliveries_.size() != before && events_.top().cycle != deliveries_.back().delivered) break;
      process();
    }
    now_ = deliveries_.size() != before ? deliveries_.back().delivered + 1 : std::max(now_, limit);
    return now_;
  }

  std::int64_t now() const override { return now_; }
  bool idle() const override { return packets_ == 0; }
  std::vector<Delivery>& deliveries() override { return deliveries_; }
  std::int64_t queued() const override { return queued_; }
  std::int64_t flits_delivered() const override { return flits_delivered_; }
  std::int64_t flit_hops() const override { return flits_delivered_; }
  std::vector<std::int64_t> link_flits() const override { return {}; }
  std::vector<NodeFlits> node_flits() const override {
    std::vector<NodeFlits> flits;
    for (std::size_t n = 0; n < sources_.size(); ++n) flits.push_back({sources_[n].flits, sinks_[n].flits});
    return flits;
  }

  void limit(std::uint32_t node, std::uint32_t, std::int64_t places) override {
    require(packets_ == 0, "a node is limited while packets are under way");
    if (places < 1)
      throw UserError({"a node needs a place for a packet", "network", std::to_string(places), "at least 1", {}});
    sinks_.at(node).places = places;
    sinks_[node].keeps = true;
  }
  void give_back(std::uint32_t node, std::uint32_t) override {
    ++sinks_[node].places;
    push(now_, freed, node, 0);
  }
  std::int64_t line(std::uint32_t node, std::uint32_t) const override {
    return static_cast<std::int64_t>(sources_[node].queue.size()) + (sources_[node].busy_until > now_);
  }

  Backlog backlog() const override {
    Backlog sum;
    for (const Live& live : live_) {
      if (live.started < 0) continue;
      sum.flits += live.packet.flits;
      sum.age_cycles += live.packet.flits * (now_ - live.created);
    }
    return sum;
  }

 private:
  /// Order of events at the same time: deliveries, arrivals, then starts that these permit.
  enum Kind : std::uint8_t { deliver, arrive, freed, create, port_free };
  struct Event {
    std::int64_t cycle = 0;
    Kind kind = deliver;
    std::uint32_t node = 0;
    std::uint64_t order = 0;
    std::uint32_t slot = 0;
    bool operator<(const Event& other) const {
      return std::tie(cycle, kind, node, order) > std::tie(other.cycle, other.kind, other.node, other.order);
    }
  };
  struct Live {
    Packet packet;
    std::int64_t created = 0, started = -1, sent = -1;
  };
  struct Source {
    std::deque<std::uint32_t> queue;
    std::int64_t busy_until = 0, flits = 0;
    bool waits = false;
  };
  struct Sink {
    std::deque<std::uint32_t> waiting;
    std::int64_t free = 0, busy_until = 0, flits = 0;
    std::int64_t places = std::numeric_limits<std::int64_t>::max();  ///< free places for packets
    bool keeps = false;                                              ///< a place is free only after give_back()
    bool takes(std::uint32_t size) const { return free >= size && places > 0; }
  };

  void push(std::int64_t cycle, Kind kind, std::uint32_t node, std::uint32_t slot) {
    events_.push({cycle, kind, node, order_++, slot});
  }

  void process() {
    const Event event = events_.top();
    events_.pop();
    now_ = event.cycle;
    switch (event.kind) {
      case create:
        sources_[event.node].queue.push_back(event.slot);
        [[fallthrough]];
      case port_free:
        start_next(event.node);
        break;
      case arrive: {
        Sink& sink = sinks_[event.node];
        sink.busy_until = std::max(now_, sink.busy_until) + cycles(live_[event.slot]);
        push(sink.busy_until - 1, deliver, event.node, event.slot);
        break;
      }
      case deliver:
        finish(event.node, event.slot);
        break;
      case freed:
        wake(sinks_[event.node]);
        break;
    }
  }

  std::int64_t cycles(const Live& live) const {
    return (live.packet.flits + spec_.flits_per_cycle - 1) / spec_.flits_per_cycle;
  }

  void start_next(std::uint32_t node) {
    Source& source = sources_[node];
    if (source.queue.empty() || source.waits || source.busy_until > now_) return;
    Live& live = live_[source.queue.front()];
    if (live.started < 0) live.started = now_, --queued_;
    Sink& sink = sinks_[live.packet.destination];
    if (!sink.waiting.empty() || !sink.takes(live.packet.flits)) {
      sink.waiting.push_back(node);
      source.waits = true;
    } else {
      start(node);
    }
  }

  void start(std::uint32_t node) {
    Source& source = sources_[node];
    const std::uint32_t slot = source.queue.front();
    source.queue.pop_front();
    Live& live = live_[slot];
    live.sent = now_;
    Sink& sink = sinks_[live.packet.destination];
    sink.free -= live.packet.flits;
    sink.places -= sink.keeps;
    source.flits += live.packet.flits;
    source.busy_until = now_ + cycles(live);
    source.waits = false;
    push(source.busy_until, port_free, node, 0);
    push(now_ + latency(live.packet), arrive, live.packet.destination, slot);
  }

  std::int64_t latency(const Packet& packet) const {
    return latency_.size() == 1 ? latency_[0] : latency_[packet.source * sources_.size() + packet.destination];
  }

  void finish(std::uint32_t node, std::uint32_t slot) {
    Live& live = live_[slot];
    Sink& sink = sinks_[node];
    deliveries_.push_back({live.packet, live.created, live.started, live.sent, now_, 1});
    flits_delivered_ += live.packet.flits;
    sink.free += live.packet.flits;
    sink.flits += live.packet.flits;
    live.started = -1;
    free_slots_.push_back(slot);
    --packets_;
    wake(sink);
  }

  void wake(Sink& sink) {
    while (!sink.waiting.empty()) {
      const std::uint32_t first = sink.waiting.front();
      if (!sink.takes(live_[sources_[first].queue.front()].packet.flits)) break;
      sink.waiting.pop_front();
      start(first);
    }
  }

  std::vector<std::int32_t> latency_;  ///< one for all pairs, or source x destination
  SimpleSpec spec_;
  std::vector<Source> sources_;
  std::vector<Sink> sinks_;
  std::vector<Live> live_;
  std::vector<std::uint32_t> free_slots_;
  std::priority_queue<Event> events_;
  std::vector<Delivery> deliveries_;
  std::uint64_t order_ = 0;
  std::int64_t now_ = 0, queued_ = 0, packets_ = 0, flits_delivered_ = 0;
};

}  // namespace

namespace {

/// The link at each output port, to follow routes.
class LinkOf {
 public:
  explicit LinkOf(const Topology& net) : first_{0} {
    for (const Topology::Router& router : net.routers)
      first_.push_back(first_.back() + static_cast<std::size_t>(router.outputs));
    link_.resize(first_.back());
    for (const Topology::Link& link : net.links) link_[at(link.from, static_cast<std::uint32_t>(link.output))] = &link;
  }
  const Topology::Link& operator()(int router, std::uint32_t output) const {
    const Topology::Link* const link = link_[at(router, output)];
    require(link != nullptr, "a route leaves the network");
    return *link;
  }

 private:
  std::size_t at(int router, std::uint32_t output) const { return first_[static_cast<std::size_t>(router)] + output; }
  std::vector<std::size_t> first_;
  std::vector<const Topology::Link*> link_;
};

std::int64_t walk(const Topology& net, const LinkOf& link_of, const RouterSpec& spec, std::size_t from,
                  std::size_t to) {
  const std::uint32_t code =
      net.code(static_cast<std::uint32_t>(from), static_cast<std::uint32_t>(to), [] { return false; });
  std::int64_t cycles = 2 * net.node_latency + 3 + spec.switch_cycles;
  for (int r = net.nodes[from].router; r != net.nodes[to].router;) {
    const Topology::Link& link = link_of(r, net.hop(static_cast<std::size_t>(r), to).output(code));
    cycles += link.latency + 2 + spec.switch_cycles;
    r = link.to;
  }
  return cycles;
}

}  // namespace

std::int64_t head_latency(const Topology& net, const RouterSpec& spec, std::size_t from, std::size_t to) {
  return walk(net, LinkOf(net), spec, from, to);
}

std::unique_ptr<Network> simple_network(std::size_t nodes, std::int32_t latency_cycles, const SimpleSpec& spec) {
  return std::make_unique<Simple>(nodes, std::vector<std::int32_t>{latency_cycles}, spec);
}

std::unique_ptr<Network> simple_network(const Topology& topology, const RouterSpec& router, const SimpleSpec& spec) {
  check(topology);
  check(router, topology);
  const std::size_t nodes = topology.nodes.size();
  const LinkOf link_of(topology);
  std::vector<std::int32_t> latency;
  for (std::size_t from = 0; from < nodes; ++from)
    for (std::size_t to = 0; to < nodes; ++to)
      latency.push_back(static_cast<std::int32_t>(walk(topology, link_of, router, from, to)));
  return std::make_unique<Simple>(nodes, std::move(latency), spec);
}

}  // namespace tilesim::engine::noc
