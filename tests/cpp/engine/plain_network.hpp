// The router as its description reads, stepped cycle by cycle: every queue an object, every allocation a matrix. Slow,
// and shares with the fast one only the topology, the limits of the message classes and the coin of a torus.
#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <vector>

#include "tilesim/engine/noc/network.hpp"
#include "tilesim/engine/noc/random.hpp"

namespace tilesim::engine::noc {

class PlainNetwork {
 public:
  struct Outcome {
    std::int64_t sent = -1, delivered = -1;
    std::uint32_t hops = 0;
  };

  PlainNetwork(const Topology& net, const RouterSpec& spec, std::uint64_t seed)
      : net_(net), spec_(spec), coin_(seed, 3) {
    const auto vcs = static_cast<std::size_t>(spec.virtual_channels);
    for (const Topology::Router& size : net.routers) {
      Router router;
      const auto in = static_cast<std::size_t>(size.inputs), out = static_cast<std::size_t>(size.outputs);
      router.inputs.assign(in * vcs, {});
      router.outputs.assign(out * vcs, {spec.buffer_flits, false, 0});
      router.link.assign(out, -1);
      router.feeder.assign(in, {-1, -1, 1, false});
      router.node.assign(out, -1);
      router.output_pointer.assign(in, 0);
      router.vc_pointer.assign(in, 0);
      router.input_pointer.assign(out, 0);
      routers_.push_back(router);
    }
    for (std::size_t i = 0; i < net.links.size(); ++i) {
      const Topology::Link& link = net.links[i];
      at(routers_, link.from).link[static_cast<std::size_t>(link.output)] = static_cast<int>(i);
      if (link.buffer_flits > 0)
        for (int vc = 0; vc < spec.virtual_channels; ++vc)
          at(at(routers_, link.from).outputs, link.output * spec.virtual_channels + vc).credits = link.buffer_flits;
      at(routers_, link.to).feeder[static_cast<std::size_t>(link.input)] = {link.from, link.output, link.latency,
                                                                            false};
    }
    behind_.assign(net.links.size(), 0);
    for (std::size_t n = 0; n < net.nodes.size(); ++n) {
      const Topology::Node& node = net.nodes[n];
      at(routers_, node.router).node[static_cast<std::size_t>(node.output)] = static_cast<int>(n);
      at(routers_, node.router).feeder[static_cast<std::size_t>(node.input)] = {static_cast<int>(n), 0,
                                                                                net.node_latency, true};
      Source source;
      source.credits.assign(vcs, spec.buffer_flits);
      source.streams.resize(spec.classes.size());
      for (Stream& stream : source.streams) stream.last = static_cast<int>(vcs) - 1;
      sources_.push_back(source);
    }
  }

  /// In order of cycles; the tag of the n-th packet is n.
  void inject(const Packet& packet) {
    const std::uint32_t code = net_.code(packet.source, packet.destination, [&] { return coin_.coin(); });
    sources_[packet.source].streams[packet.message_class].queue.push_back(packets_.size());
    packets_.push_back({packet, code});
    outcomes.push_back({});
    ++outstanding;
  }

  void step() {
    for (const Event& event : take(events_)) arrive(event);
    for (std::size_t n = 0; n < sources_.size(); ++n) send(n);
    for (std::size_t r = 0; r < routers_.size(); ++r) allocate(r);
    for (std::size_t i = 0; i < behind_.size(); ++i) behind_[i] = std::max(0, behind_[i] - net_.links[i].per_cycle);
    ++now_;
  }

  std::vector<Outcome> outcomes;
  std::int64_t outstanding = 0;

 private:
  struct Flit {
    std::size_t packet = 0;
    bool head = false, tail = false;
  };
  enum State { idle, waiting, active };
  struct Input {
    std::deque<Flit> buffer;
    State state = idle;
    int output = 0, vc = 0, pointer = 0;
    std::uint32_t allowed = 0;
  };
  struct Output {
    int credits = 0;
    bool owned = false;
    int pointer = 0;
  };
  struct Feeder {
    int who = -1, output = 0, latency = 1;
    bool node = false;
  };
  struct Router {
    std::vector<Input> inputs;
    std::vector<Output> outputs;
    std::vector<int> link, node;
    std::vector<Feeder> feeder;
    std::vector<int> output_pointer, vc_pointer, input_pointer;
  };
  struct Stream {
    std::deque<std::size_t> queue;
    std::uint32_t sent = 0;
    int vc = -1, last = 0;
    bool open = false;
  };
  struct Source {
    std::vector<int> credits;
    std::vector<Stream> streams;
    std::size_t pointer = 0;
  };
  enum Kind { flit_to_router, flit_to_node, credit_to_router, credit_to_node };
  struct Event {
    Kind kind;
    int who, port, vc;
    Flit flit;
  };
  struct TrackedPacket {
    Packet packet;
    std::uint32_t code;
  };

  template <class T>
  static T& at(std::vector<T>& list, int index) {
    return list[static_cast<std::size_t>(index)];
  }
  int vcs() const { return spec_.virtual_channels; }

  std::vector<Event> take(std::map<std::int64_t, std::vector<Event>>& events) {
    std::vector<Event> due;
    if (const auto found = events.find(now_); found != events.end()) due.swap(found->second), events.erase(found);
    return due;
  }

  void arrive(const Event& event) {
    switch (event.kind) {
      case flit_to_router: {
        Input& input = at(at(routers_, event.who).inputs, event.port * vcs() + event.vc);
        input.buffer.push_back(event.flit);
        if (input.state == idle) become_waiting(event.who, input);
        break;
      }
      case flit_to_node:
        if (!event.flit.tail) break;
        outcomes[event.flit.packet].delivered = now_;
        --outstanding;
        break;
      case credit_to_router:
        ++at(at(routers_, event.who).outputs, event.port * vcs() + event.vc).credits;
        break;
      case credit_to_node:
        ++at(at(sources_, event.who).credits, event.vc);
        break;
    }
  }

  void become_waiting(int router, Input& input) {
    const TrackedPacket& known = packets_[input.buffer.front().packet];
    const Hop hop = net_.hop(static_cast<std::size_t>(router), known.packet.destination);
    input.state = waiting;
    input.output = static_cast<int>(hop.output(known.code));
    input.allowed = spec_.mask(known.packet.message_class, hop.vc_group(known.code));
  }

  /// A class whose line moves up does so at the start of the cycle; one flit per node and cycle.
  void send(std::size_t node) {
    Source& source = sources_[node];
    for (std::size_t tried = 0; tried < source.streams.size(); ++tried) {
      const std::size_t c = (source.pointer + tried) % source.streams.size();
      Stream& stream = source.streams[c];
      if (stream.queue.empty()) continue;
      const std::size_t packet = stream.queue.front();
      const std::uint32_t mask = spec_.mask(c, all_vcs);
      if (stream.vc < 0)
        for (int k = 1; k <= vcs() && stream.vc < 0; ++k)
          if (const int vc = (stream.last + k) % vcs(); (mask >> vc & 1U) && at(source.credits, vc) > 0) stream.vc = vc;
      if (stream.vc < 0 || at(source.credits, stream.vc) == 0) continue;
      const bool head = stream.sent == 0, tail = ++stream.sent == packets_[packet].packet.flits;
      if (head) outcomes[packet].sent = now_;
      --at(source.credits, stream.vc);
      const Topology::Node& where = net_.nodes[node];
      events_[now_ + net_.node_latency + 1].push_back(
          {flit_to_router, where.router, where.input, stream.vc, {packet, head, tail}});
      stream.last = stream.vc;
      if (tail) stream.queue.pop_front(), stream.vc = -1, stream.sent = 0;
      source.pointer = (c + 1) % source.streams.size();
      return;
    }
  }

  void allocate(std::size_t r) {
    Router& router = routers_[r];
    std::vector<bool> was_active;
    for (const Input& input : router.inputs) was_active.push_back(input.state == active);
    const std::vector<std::pair<int, int>> given = allocate_vcs(router);
    const std::vector<int> winners = allocate_switch(router, was_active);
    for (const auto& [input, vc] : given) {
      Input& winner = at(router.inputs, input);
      winner.state = active;
      winner.vc = vc;
      at(router.outputs, winner.output * vcs() + vc).owned = true;
      ++outcomes[winner.buffer.front().packet].hops;
    }
    for (const int input : winners) traverse(static_cast<int>(r), router, input);
  }

  /// (input VC, VC of its output), from the full request matrix.
  std::vector<std::pair<int, int>> allocate_vcs(Router& router) {
    const auto in = static_cast<int>(router.inputs.size()), out = static_cast<int>(router.outputs.size());
    const auto asks = [&](int i, int o) {
      const Input& input = at(router.inputs, i);
      return input.state == waiting && input.output == o / vcs() && (input.allowed >> (o % vcs()) & 1U) != 0 &&
             !at(router.outputs, o).owned;
    };
    std::vector<int> granted(static_cast<std::size_t>(out), -1);
    for (int o = 0; o < out; ++o)
      for (int k = 0; k < in && at(granted, o) < 0; ++k)
        if (const int i = (at(router.outputs, o).pointer + k) % in; asks(i, o)) at(granted, o) = i;
    std::vector<std::pair<int, int>> given;
    for (int i = 0; i < in; ++i)
      for (int k = 0; k < out; ++k) {
        const int o = (at(router.inputs, i).pointer + k) % out;
        if (at(granted, o) != i) continue;
        given.emplace_back(i, o % vcs());
        at(router.outputs, o).pointer = (i + 1) % in;
        at(router.inputs, i).pointer = (o + 1) % out;
        break;
      }
    return given;
  }

  /// Input VCs that may send a flit.
  std::vector<int> allocate_switch(Router& router, const std::vector<bool>& was_active) {
    const auto in = static_cast<int>(router.feeder.size()), out = static_cast<int>(router.link.size());
    std::vector<std::vector<int>> stands(static_cast<std::size_t>(in),
                                         std::vector<int>(static_cast<std::size_t>(out), -1));
    for (int i = 0; i < in; ++i)
      for (int k = 0; k < vcs(); ++k) {
        const int number = i * vcs() + (at(router.vc_pointer, i) + k) % vcs();
        const Input& input = at(router.inputs, number);
        if (!was_active[static_cast<std::size_t>(number)] || input.buffer.empty()) continue;
        if (at(router.outputs, input.output * vcs() + input.vc).credits == 0) continue;
        if (const int link = at(router.link, input.output);
            link >= 0 && at(behind_, link) >= net_.links[static_cast<std::size_t>(link)].per_cycle)
          continue;
        if (int& stand = at(at(stands, i), input.output); stand < 0) stand = number;
      }
    std::vector<int> granted(static_cast<std::size_t>(out), -1);
    for (int o = 0; o < out; ++o)
      for (int k = 0; k < in && at(granted, o) < 0; ++k)
        if (const int i = (at(router.input_pointer, o) + k) % in; at(at(stands, i), o) >= 0) at(granted, o) = i;
    std::vector<int> winners;
    for (int i = 0; i < in; ++i)
      for (int k = 0; k < out; ++k) {
        const int o = (at(router.output_pointer, i) + k) % out;
        if (at(granted, o) != i) continue;
        winners.push_back(at(at(stands, i), o));
        at(router.input_pointer, o) = (i + 1) % in;
        at(router.output_pointer, i) = (o + 1) % out;
        at(router.vc_pointer, i) = (winners.back() % vcs() + 1) % vcs();
        break;
      }
    return winners;
  }

  void traverse(int r, Router& router, int number) {
    Input& input = at(router.inputs, number);
    const Flit flit = input.buffer.front();
    input.buffer.pop_front();
    Output& output = at(router.outputs, input.output * vcs() + input.vc);
    --output.credits;
    const int pipeline = spec_.switch_cycles + 1;
    if (const int node = at(router.node, input.output); node >= 0) {
      const std::int64_t there = now_ + pipeline + net_.node_latency;
      events_[there].push_back({flit_to_node, node, 0, 0, flit});
      events_[there + net_.node_latency + 1 + spec_.credit_cycles].push_back(
          {credit_to_router, r, input.output, input.vc, {}});
    } else {
      const Topology::Link& link = net_.links[static_cast<std::size_t>(at(router.link, input.output))];
      if (link.per_flit > link.per_cycle) at(behind_, at(router.link, input.output)) += link.per_flit;
      events_[now_ + pipeline + link.latency].push_back({flit_to_router, link.to, link.input, input.vc, flit});
    }
    const Feeder& feeder = at(router.feeder, number / vcs());
    if (feeder.node) {
      events_[now_ + feeder.latency + 1].push_back({credit_to_node, feeder.who, 0, number % vcs(), {}});
    } else {
      events_[now_ + feeder.latency + 1 + spec_.credit_cycles].push_back(
          {credit_to_router, feeder.who, feeder.output, number % vcs(), {}});
    }
    if (!flit.tail) return;
    output.owned = false;
    input.state = idle;
    if (!input.buffer.empty()) become_waiting(r, input);
  }

  Topology net_;
  RouterSpec spec_;
  Random coin_;
  std::int64_t now_ = 0;
  std::vector<Router> routers_;
  std::vector<int> behind_;  ///< of each link: parts of flits that it has taken and not passed
  std::vector<Source> sources_;
  std::vector<TrackedPacket> packets_;
  std::map<std::int64_t, std::vector<Event>> events_;
};

}  // namespace tilesim::engine::noc
