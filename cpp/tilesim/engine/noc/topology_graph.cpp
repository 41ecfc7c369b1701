// Reads networks of any shape from files.
#include <algorithm>
#include <limits>
#include <optional>
#include <queue>
#include <utility>

#include "tilesim/engine/noc/topology.hpp"

namespace tilesim::engine::noc {

namespace {

constexpr int far = std::numeric_limits<int>::max() / 4;

/// A network as in the file: ports and routes are not yet assigned.
struct Graph {
  Topology net;
  std::vector<std::vector<int>> leaving;  ///< per router: links that leave it
};

int router_at(const Json& json, std::size_t routers) {
  return static_cast<int>(json.as_int(0, static_cast<std::int64_t>(routers) - 1));
}

void check_ports(const Topology::Router& router, const Json& place) {
  if (std::max(router.inputs, router.outputs) > most_ports)
    place.fail("a router has too many ports", "at most " + std::to_string(most_ports));
}

void add_link(Graph& graph, const Json& place, int from, int to, const Topology::Link& kind) {
  if (from == to) place.fail("a link needs two routers");
  std::vector<Topology::Router>& routers = graph.net.routers;
  for (const int link : graph.leaving[static_cast<std::size_t>(from)])
    if (graph.net.links[static_cast<std::size_t>(link)].to == to)
      place.fail("routers " + std::to_string(from) + " and " + std::to_string(to) +
                 " have a link in this direction already");
  graph.leaving[static_cast<std::size_t>(from)].push_back(static_cast<int>(graph.net.links.size()));
  Topology::Link& link = graph.net.links.emplace_back(kind);
  link.from = from, link.output = routers[static_cast<std::size_t>(from)].outputs++;
  link.to = to, link.input = routers[static_cast<std::size_t>(to)].inputs++;
  for (const int router : {from, to}) check_ports(routers[static_cast<std::size_t>(router)], place);
}

void read_links(Graph& graph, const Json& links) {
  const std::size_t routers = graph.net.routers.size();
  for (const Json& item : links.items()) {
    ObjectReader reader(item);
    Topology::Link kind;
    kind.latency = static_cast<int>(reader.integer_or("latency", 1, 1, 4096));
    kind.per_flit = static_cast<int>(reader.integer_or("cycles_per_flit", 1, 1, 4096));
    kind.buffer_flits = static_cast<int>(reader.integer_or("buffer_flits", 0, 1, 4096));
    if (const Json* between = reader.optional("between")) {
      if (between->items().size() != 2) between->fail("a link joins two routers", "[a, b]");
      const int a = router_at(between->items()[0], routers), b = router_at(between->items()[1], routers);
      add_link(graph, *between, a, b, kind);
      add_link(graph, *between, b, a, kind);
    } else {
      const int from = router_at(reader.required("from"), routers), to = router_at(reader.required("to"), routers);
      add_link(graph, item, from, to, kind);
    }
    reader.finish();
  }
}

void read_nodes(Graph& graph, const Json& nodes) {
  if (nodes.items().empty()) nodes.fail("a network needs a node", "at least one");
  if (nodes.items().size() > static_cast<std::size_t>(most_nodes))
    nodes.fail("the network is too large: " + std::to_string(nodes.items().size()) + " nodes",
               "at most " + std::to_string(most_nodes));
  for (const Json& item : nodes.items()) {
    const int router = router_at(item, graph.net.routers.size());
    Topology::Router& at = graph.net.routers[static_cast<std::size_t>(router)];
    graph.net.nodes.push_back({router, at.inputs++, at.outputs++});
    check_ports(at, item);
  }
  graph.net.extents = {static_cast<int>(graph.net.nodes.size())};
}

void set_hop(Graph& graph, std::size_t router, std::size_t node, int output) {
  graph.net.hop(router, node) = {static_cast<std::uint16_t>(output), Hop::no_choice, all_vcs};
}

/// Distances from all routers to router `to` over links for which `use` is true.
template <class Use>
std::vector<int> distances(const Graph& graph, std::size_t to, Use&& use) {
  std::vector<std::vector<const Topology::Link*>> arriving(graph.net.routers.size());
  for (const Topology::Link& link : graph.net.links)
    if (use(link)) arriving[static_cast<std::size_t>(link.to)].push_back(&link);
  std::vector<int> distance(graph.net.routers.size(), far);
  std::queue<std::size_t> open;
  distance[to] = 0;
  for (open.push(to); !open.empty(); open.pop())
    for (const Topology::Link* link : arriving[open.front()]) {
      int& there = distance[static_cast<std::size_t>(link->from)];
      if (there == far) there = distance[open.front()] + 1, open.push(static_cast<std::size_t>(link->from));
    }
  return distance;
}

/// Output to the nearest neighbour over links for which `use` is true; of equally near ones, the first in the file. -1:
/// none.
template <class Use>
int nearest_link(const Graph& graph, std::size_t router, const std::vector<int>& distance, Use&& use) {
  int best = -1, best_distance = far;
  for (const int link : graph.leaving[router]) {
    const Topology::Link& candidate = graph.net.links[static_cast<std::size_t>(link)];
    const int there = distance[static_cast<std::size_t>(candidate.to)];
    if (use(candidate) && there < best_distance) best = candidate.output, best_distance = there;
  }
  return best;
}

const auto any_link = [](const Topology::Link&) { return true; };

void route_shortest(Graph& graph) {
  for (std::size_t n = 0; n < graph.net.nodes.size(); ++n) {
    const auto target = static_cast<std::size_t>(graph.net.nodes[n].router);
    const std::vector<int> distance = distances(graph, target, any_link);
    for (std::size_t r = 0; r < graph.net.routers.size(); ++r) {
      const int output = r == target ? graph.net.nodes[n].output : nearest_link(graph, r, distance, any_link);
      if (output >= 0) set_hop(graph, r, n, output);
    }
  }
}

/// Routes up towards the root, then down (Schroeder et al., Autonet, 1991), which avoids cycles in any graph. A link
/// leads up if its end is nearer to the root, or equally near with a smaller number. Every route leads down as soon as
/// possible, so that all routers decide consistently.
void route_up_down(Graph& graph, std::size_t root) {
  const std::vector<int> level = distances(graph, root, any_link);
  const auto up = [&](const Topology::Link& link) {
    const auto from = static_cast<std::size_t>(link.from), to = static_cast<std::size_t>(link.to);
    return level[to] != level[from] ? level[to] < level[from] : to < from;
  };
  const auto down = [&](const Topology::Link& link) { return !up(link); };
  std::vector<std::size_t> order(graph.net.routers.size());  // upward links lead to earlier entries
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return level[a] < level[b]; });
  for (std::size_t n = 0; n < graph.net.nodes.size(); ++n) {
    const auto target = static_cast<std::size_t>(graph.net.nodes[n].router);
    const std::vector<int> below = distances(graph, target, down);
    std::vector<int> distance = below;
    for (const std::size_t r : order) {
      int output = r == target ? graph.net.nodes[n].output : -1;
      if (output < 0 && below[r] < far) output = nearest_link(graph, r, below, down);
      if (output < 0) {
        output = nearest_link(graph, r, distance, up);
        for (const int link : graph.leaving[r]) {
          const Topology::Link& candidate = graph.net.links[static_cast<std::size_t>(link)];
          if (candidate.output == output) distance[r] = distance[static_cast<std::size_t>(candidate.to)] + 1;
        }
      }
      if (output >= 0) set_hop(graph, r, n, output);
    }
  }
}

void route_by_table(Graph& graph, const Json& table) {
  const std::size_t routers = graph.net.routers.size(), nodes = graph.net.nodes.size();
  if (table.items().size() != routers)
    table.fail("the table needs one row per router, not " + std::to_string(table.items().size()),
               std::to_string(routers));
  for (std::size_t r = 0; r < routers; ++r) {
    const Json& row = table.items()[r];
    if (row.items().size() != nodes)
      row.fail("a row needs one router per node, not " + std::to_string(row.items().size()), std::to_string(nodes));
    for (std::size_t n = 0; n < nodes; ++n) {
      const int next = router_at(row.items()[n], routers);
      int output = next == static_cast<int>(r) && graph.net.nodes[n].router == next ? graph.net.nodes[n].output : -1;
      for (const int link : graph.leaving[r])
        if (graph.net.links[static_cast<std::size_t>(link)].to == next)
          output = graph.net.links[static_cast<std::size_t>(link)].output;
      if (output < 0)
        row.items()[n].fail("router " + std::to_string(r) + " has no link to router " + std::to_string(next));
      set_hop(graph, r, n, output);
    }
  }
}

}  // namespace

Topology graph_from_json(const Json& json) {
  ObjectReader reader(json);
  if (const std::string schema = reader.string("schema"); schema != "tilesim.network")
    json.at("schema").fail("this is not a network", "\"tilesim.network\"");
  reader.integer("version", 1, 1);
  Graph graph;
  graph.net.name = reader.string("name");
  graph.net.routers.resize(static_cast<std::size_t>(reader.integer("routers", 1, 4096)));
  graph.leaving.resize(graph.net.routers.size());
  read_links(graph, reader.required("links"));
  read_nodes(graph, reader.required("nodes"));
  graph.net.hops.resize(graph.net.routers.size() * graph.net.nodes.size());
  const auto root = static_cast<std::size_t>(
      reader.integer_or("root", 0, 0, static_cast<std::int64_t>(graph.net.routers.size()) - 1));
  const Json* routing = reader.optional("routing");
  if (routing != nullptr && routing->is_object()) {
    ObjectReader table(*routing);
    graph.net.routing = "table";
    route_by_table(graph, table.required("table"));
    table.finish();
  } else {
    const std::vector<std::string> names{"up_down", "shortest"};
    graph.net.routing = routing == nullptr ? names[0] : routing->as_string();
    if (graph.net.routing == names[0]) {
      route_up_down(graph, root);
    } else if (graph.net.routing == names[1]) {
      route_shortest(graph);
    } else {
      routing->fail("unknown routing", join(names) + ", {\"table\": ...}", nearest(graph.net.routing, names));
    }
  }
  reader.finish();
  check(graph.net);
  return graph.net;
}

}  // namespace tilesim::engine::noc
