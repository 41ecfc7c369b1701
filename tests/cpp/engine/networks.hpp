// Random legal networks and routers for the tests.
#pragma once

#include <algorithm>
#include <random>
#include <string>

#include "tilesim/engine/noc/network.hpp"

namespace tilesim::engine::noc {

inline int pick(std::mt19937_64& random, int low, int high) {
  return low + static_cast<int>(random() % static_cast<std::uint64_t>(high - low + 1));
}

/// A connected graph: a random tree and some more links, nodes on random routers.
inline Topology random_graph(std::mt19937_64& random) {
  const int routers = pick(random, 1, 7), nodes = pick(random, 1, 8);
  std::string links, attached;
  std::vector<std::pair<int, int>> taken;
  const auto add = [&](int a, int b) {
    for (const auto& [x, y] : taken)
      if ((x == a && y == b) || (x == b && y == a)) return;
    taken.emplace_back(a, b);
    links += std::string(links.empty() ? "" : ",") + "{\"between\":[" + std::to_string(a) + "," + std::to_string(b) +
             "],\"latency\":" + std::to_string(pick(random, 1, 5));
    if (pick(random, 0, 3) == 0) links += ",\"cycles_per_flit\":" + std::to_string(pick(random, 2, 5));
    if (pick(random, 0, 3) == 0) links += ",\"buffer_flits\":" + std::to_string(pick(random, 1, 20));
    links += "}";
  };
  for (int r = 1; r < routers; ++r) add(r, pick(random, 0, r - 1));
  for (int extra = routers > 2 ? pick(random, 0, 6) : 0; extra > 0; --extra) {
    const int a = pick(random, 0, routers - 1), b = pick(random, 0, routers - 1);
    if (a != b) add(a, b);
  }
  for (int n = 0; n < nodes; ++n) attached += (n > 0 ? "," : "") + std::to_string(pick(random, 0, routers - 1));
  return graph_from_json(Json::parse(R"({"schema":"tilesim.network","version":1,"name":"graph","routers":)" +
                                     std::to_string(routers) + ",\"links\":[" + links + "],\"nodes\":[" + attached +
                                     "]}"));
}

/// Regions of a small network each, joined by links with any rate.
inline Topology random_regions(std::mt19937_64& random) {
  const int kind = pick(random, 0, 2);
  const Topology region = kind == 0   ? mesh({pick(random, 1, 3), pick(random, 1, 3)}, pick(random, 1, 2))
                          : kind == 1 ? crossbar(pick(random, 2, 4))
                                      : tree(2, pick(random, 1, 2));
  RegionLinks links;
  links.count = pick(random, 1, std::min(3, static_cast<int>(region.nodes.size())));
  links.per_cycle = pick(random, 1, 4);
  links.per_flit = pick(random, links.per_cycle, 12);
  links.latency = pick(random, 1, 9);
  links.buffer_flits = pick(random, 0, 12);
  return in_regions(region, pick(random, 2, 3), links);
}

inline Topology random_topology(std::mt19937_64& random) {
  switch (pick(random, 0, 7)) {
    case 7:
      return random_regions(random);
    case 0:
      return mesh({pick(random, 1, 4), pick(random, 1, 4)}, 1, pick(random, 1, 3));
    case 1:
      return torus({pick(random, 2, 5), pick(random, 2, 4)}, pick(random, 1, 3));
    case 2:
      return torus({pick(random, 2, 8)}, pick(random, 1, 3));
    case 3:
      return crossbar(pick(random, 1, 9));
    case 4:
      return mesh({pick(random, 1, 3), pick(random, 1, 3)}, pick(random, 2, 3));
    case 5:
      return tree(pick(random, 2, 3), pick(random, 1, 3), pick(random, 1, 2));
    default:
      return random_graph(random);
  }
}

inline RouterSpec random_router(std::mt19937_64& random, const Topology& net) {
  RouterSpec spec;
  const int classes = pick(random, 1, 4) == 1 ? 2 : 1, least = net.wraps || !net.router_regions.empty() ? 2 : 1;
  const int per_class = pick(random, least, 4);
  spec.virtual_channels = per_class * classes;
  spec.buffer_flits = pick(random, 1, 9);
  spec.switch_cycles = pick(random, 0, 2);
  spec.credit_cycles = pick(random, 0, 2);
  if (classes == 2) spec.classes = {{"request", 0, per_class}, {"reply", per_class, per_class}};
  return spec;
}

}  // namespace tilesim::engine::noc
