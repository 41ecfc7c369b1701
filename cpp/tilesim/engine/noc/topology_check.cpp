// Checks that a network is connected and free of deadlocks.
#include <algorithm>

#include "tilesim/base/interrupt.hpp"
#include "tilesim/engine/noc/topology.hpp"

namespace tilesim::engine::noc {

namespace {

std::string number(std::size_t value) { return std::to_string(value); }

/// Per router: number of its first output (or input) port in a numbering of all routers' ports; then one past the end.
template <class Count>
std::vector<std::size_t> first_ports(const Topology& net, Count&& count) {
  std::vector<std::size_t> first{0};
  for (const Topology::Router& router : net.routers)
    first.push_back(first.back() + static_cast<std::size_t>(count(router)));
  return first;
}

/// Numbers ports as links and nodes use them. Throws for a port that does not exist or is used twice.
class Ports {
 public:
  Ports(const Topology& net, bool outputs)
      : first_(first_ports(net, [&](const Topology::Router& r) { return outputs ? r.outputs : r.inputs; })),
        taken_(first_.back()),
        what_(outputs ? "output" : "input") {}
  std::size_t take(int router, int port, const std::string& place) {
    if (router < 0 || static_cast<std::size_t>(router) + 1 >= first_.size())
      throw UserError({"unknown router", place, std::to_string(router), "0 ... " + number(first_.size() - 2), {}});
    const std::size_t id = first_[static_cast<std::size_t>(router)] + static_cast<std::size_t>(port);
    if (port < 0 || id >= first_[static_cast<std::size_t>(router) + 1])
      throw UserError({"the router has no such " + what_, place, std::to_string(port), {}, {}});
    if (taken_[id])
      throw UserError({"an " + what_ + " is used twice",
                       place,
                       "router " + std::to_string(router) + ", " + what_ + " " + std::to_string(port),
                       {},
                       {}});
    taken_[id] = true;
    return id;
  }

 private:
  std::vector<std::size_t> first_;
  std::vector<bool> taken_;
  std::string what_;
};

/// The link of each output; -1 for an output to a node.
struct Outputs {
  std::vector<std::size_t> first;
  std::vector<int> link;  ///< index, or -1

  explicit Outputs(const Topology& net)
      : first(first_ports(net, [](const Topology::Router& r) { return r.outputs; })), link(first.back(), -1) {
    for (std::size_t i = 0; i < net.links.size(); ++i)
      link[first[static_cast<std::size_t>(net.links[i].from)] + static_cast<std::size_t>(net.links[i].output)] =
          static_cast<int>(i);
  }
};

/// Lists all codes that a packet from one node to another can have.
void codes(const Topology& net, std::size_t source, std::size_t destination, std::vector<std::uint32_t>& found) {
  found.clear();
  const std::size_t ties = net.wraps ? net.extents.size() : 0;
  for (std::size_t coins = 0; coins < std::size_t{1} << ties; ++coins) {
    std::size_t tosses = 0;
    const std::uint32_t code = net.code(static_cast<std::uint32_t>(source), static_cast<std::uint32_t>(destination),
                                        [&] { return (coins >> tosses++ & 1U) != 0; });
    if (std::find(found.begin(), found.end(), code) == found.end()) found.push_back(code);
    if (tosses == 0) break;
  }
}

/// By router and code: the first walk that visited the pair. `clear`, which is called per destination, takes constant
/// time.
class Visits {
 public:
  void clear() {
    ++age_;
    count_ = 0;
  }

  /// The walk that visited the pair first; 0: no walk did, so `walk` is recorded.
  std::uint64_t first(std::uint64_t pair, std::uint64_t walk) {
    if (2 * (count_ + 1) > slots_.size()) grow();
    Slot& slot = slots_[place(pair)];
    if (slot.age == age_) return slot.walk;
    slot = {pair, walk, age_};
    ++count_;
    return 0;
  }

 private:
  struct Slot { std::uint64_t pair = 0, walk = 0, age = 0; };

  std::size_t place(std::uint64_t pair) const {
    std::uint64_t hash = pair * 0x9E3779B97F4A7C15ULL;
    hash ^= hash >> 32U;
    std::size_t at = hash & (slots_.size() - 1);
    while (slots_[at].age == age_ && slots_[at].pair != pair) at = (at + 1) & (slots_.size() - 1);
    return at;
  }

  void grow() {
    std::vector<Slot> old(2 * slots_.size());
    old.swap(slots_);
    for (const Slot& slot : old)
      if (slot.age == age_) slots_[place(slot.pair)] = slot;
  }

  std::vector<Slot> slots_ = std::vector<Slot>(64);
  std::uint64_t age_ = 1;
  std::size_t count_ = 0;
};

/// Walks all routes, and reports each (output, group) with the next one on the route.
class Routes {
 public:
  explicit Routes(const Topology& net) : net_(net), outputs_(net) {}

  template <class Step>
  void walk(Step&& step) {
    for (std::size_t to = 0; to < net_.nodes.size(); ++to) {
      visited_.clear();
      for (std::size_t from = 0; from < net_.nodes.size(); ++from) {
        worked(64);
        codes(net_, from, to, codes_);
        for (const std::uint32_t code : codes_) follow(from, to, code, step);
      }
    }
  }
  const Outputs& outputs() const { return outputs_; }

 private:
  template <class Step>
  void follow(std::size_t from, std::size_t to, std::uint32_t code, Step& step) {
    ++walk_;
    auto router = static_cast<std::size_t>(net_.nodes[from].router);
    for (std::size_t before = outputs_.link.size() * vc_groups;;) {
      const Hop hop = net_.hop(router, to);
      const std::size_t output = outputs_.first[router] + hop.output(code);
      if (hop.port == Hop::no_route || output >= outputs_.first[router + 1]) unreachable(from, to, "ends", router);
      const std::size_t state = output * vc_groups + hop.vc_group(code);
      if (before != outputs_.link.size() * vc_groups) step(before, state);
      // The route from a state of an earlier walk arrives. A state of this walk closes a cycle.
      const std::uint64_t first = visited_.first(static_cast<std::uint64_t>(router) << 32 | code, walk_);
      if (first == walk_) unreachable(from, to, "runs in a circle", router);
      if (first != 0) return;
      if (outputs_.link[output] < 0) {
        const Topology::Node& node = net_.nodes[to];
        if (static_cast<std::size_t>(node.router) != router || node.output != static_cast<int>(hop.output(code)))
          unreachable(from, to, "ends", router);
        return;
      }
      before = state;
      router = static_cast<std::size_t>(net_.links[static_cast<std::size_t>(outputs_.link[output])].to);
    }
  }

  [[noreturn]] void unreachable(std::size_t from, std::size_t to, const char* how, std::size_t router) const {
    throw UserError({"the network is not connected: node " + number(from) + " cannot reach node " + number(to),
                     net_.name,
                     std::string("the route ") + how + " at router " + number(router),
                     {},
                     {}});
  }

  const Topology& net_;
  Outputs outputs_;
  Visits visited_;
  std::vector<std::uint32_t> codes_;
  std::uint64_t walk_ = 0;
};

using Edges = std::vector<std::vector<std::uint32_t>>;

void sort_unique(Edges& edges) {
  for (std::vector<std::uint32_t>& list : edges) {
    std::sort(list.begin(), list.end());
    list.erase(std::unique(list.begin(), list.end()), list.end());
  }
}

/// Dependencies between pairs (output, VC): a packet may occupy the first while it waits for the second.
Edges dependencies(const Edges& states, const RouterSpec& spec) {
  const auto vcs = static_cast<std::size_t>(spec.virtual_channels);
  Edges edges(states.size() / vc_groups * vcs);
  for (std::size_t message = 0; message < spec.classes.size(); ++message)
    for (std::size_t state = 0; state < states.size(); ++state)
      for (const std::uint32_t next : states[state])
        for (std::size_t v = 0; v < vcs; ++v)
          for (std::size_t w = 0; w < vcs; ++w)
            if ((spec.mask(message, state % vc_groups) >> v & 1U) && (spec.mask(message, next % vc_groups) >> w & 1U))
              edges[state / vc_groups * vcs + v].push_back(static_cast<std::uint32_t>(next / vc_groups * vcs + w));
  sort_unique(edges);
  return edges;
}

/// The vertices of a cycle in order; empty if there is no cycle. Depth-first search with an explicit stack.
std::vector<std::uint32_t> find_cycle(const Edges& edges) {
  enum Colour : std::uint8_t { unseen, open, done };
  std::vector<Colour> colour(edges.size(), unseen);
  std::vector<std::pair<std::uint32_t, std::size_t>> stack;
  for (std::size_t root = 0; root < edges.size(); ++root) {
    if (colour[root] != unseen) continue;
    stack.assign(1, {static_cast<std::uint32_t>(root), 0});
    colour[root] = open;
    while (!stack.empty()) {
      auto& [vertex, next] = stack.back();
      if (next == edges[vertex].size()) {
        colour[vertex] = done;
        stack.pop_back();
        continue;
      }
      const std::uint32_t to = edges[vertex][next++];
      if (colour[to] == open) {
        std::vector<std::uint32_t> cycle;
        for (auto at = stack.rbegin(); cycle.empty() || cycle.back() != to; ++at) cycle.push_back(at->first);
        std::reverse(cycle.begin(), cycle.end());
        return cycle;
      }
      if (colour[to] != unseen) continue;
      colour[to] = open;
      stack.emplace_back(to, 0);
    }
  }
  return {};
}

}  // namespace

void check(const Topology& net) {
  if (net.nodes.empty()) throw UserError({"a network needs a node", net.name, "none", "at least one node", {}});
  require(net.hops.size() == net.routers.size() * net.nodes.size(), "the routing table has another size");
  Ports inputs(net, false), outputs(net, true);
  for (std::size_t i = 0; i < net.links.size(); ++i) {
    const Topology::Link& link = net.links[i];
    const std::string place = net.name + ", link " + number(i);
    outputs.take(link.from, link.output, place);
    inputs.take(link.to, link.input, place);
    if (link.latency < 1 || link.latency > 4096)
      throw UserError({"a link's latency is out of range", place, std::to_string(link.latency), "1 ... 4096", {}});
    if (link.per_cycle < 1 || link.per_flit < link.per_cycle || link.buffer_flits < 0 || link.buffer_flits > 4096)
      throw UserError({"a link's rate or buffer is out of range",
                       place,
                       std::to_string(link.per_flit) + " / " + std::to_string(link.per_cycle) + " cycles per flit, " +
                           std::to_string(link.buffer_flits) + " flits",
                       "at least one cycle per flit, 0 ... 4096 flits",
                       {}});
  }
  for (std::size_t i = 0; i < net.nodes.size(); ++i) {
    const std::string place = net.name + ", node " + number(i);
    inputs.take(net.nodes[i].router, net.nodes[i].input, place);
    outputs.take(net.nodes[i].router, net.nodes[i].output, place);
  }
  Routes(net).walk([](std::size_t, std::size_t) {});
}

void check_no_deadlock(const Topology& net, const RouterSpec& spec) {
  Routes routes(net);
  const Outputs& outputs = routes.outputs();
  Edges states(outputs.link.size() * vc_groups);
  routes.walk([&](std::size_t from, std::size_t to) {
    std::vector<std::uint32_t>& list = states[from];
    if (list.empty() || list.back() != to) list.push_back(static_cast<std::uint32_t>(to));
  });
  sort_unique(states);
  const std::vector<std::uint32_t> cycle = find_cycle(dependencies(states, spec));
  if (cycle.empty()) return;
  const auto vcs = static_cast<std::uint32_t>(spec.virtual_channels);
  std::string path;
  for (std::size_t i = 0; i < cycle.size() && i < 8; ++i) {
    const std::size_t output = cycle[i] / vcs;
    const auto router =
        std::upper_bound(outputs.first.begin(), outputs.first.end(), output) - outputs.first.begin() - 1;
    path += (i > 0 ? " -> " : "") + std::string("router ") + std::to_string(router) + " output " +
            number(output - outputs.first[static_cast<std::size_t>(router)]) + " VC " + std::to_string(cycle[i] % vcs);
  }
  throw UserError({"packets can wait for each other in a circle (cyclic channel dependency)", net.name,
                   path + (cycle.size() > 8 ? " -> ..." : ""), "routes without such a circle",
                   "routing \"up_down\" has none on any graph"});
}

}  // namespace tilesim::engine::noc
