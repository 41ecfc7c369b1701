// Regions of routers (chiplets), connected by separate links.
#include "tilesim/base/error.hpp"
#include "tilesim/engine/noc/topology.hpp"

namespace tilesim::engine::noc {

namespace {

/// The node of a region whose router is an end of link number `link` of `links`.
std::size_t gate_of(std::size_t link, std::size_t links, std::size_t nodes) {
  return (2 * link + 1) * nodes / (2 * links);
}

void check_regions(const Topology& region, int regions, const RegionLinks& links) {
  const auto fail = [&](const char* what, const std::string& value, const std::string& allowed) {
    throw UserError({what, region.name, value, allowed, {}});
  };
  if (regions < 2) fail("a network in regions needs two of them", std::to_string(regions), "at least 2");
  if (region.wraps || !region.router_regions.empty())
    fail("regions cannot have this network each, as its packets have two classes of virtual channels already",
         "'" + region.name + "'", "mesh, cmesh, crossbar, tree, or a file that has all routers and links");
  if (links.count < 1 || static_cast<std::size_t>(links.count) > region.nodes.size())
    fail("a region has too few nodes for so many links to another", std::to_string(links.count) + " links",
         "1 ... " + std::to_string(region.nodes.size()));
}

}  // namespace

Topology in_regions(const Topology& region, int regions, const RegionLinks& links) {
  check_regions(region, regions, links);
  const std::size_t count = region.nodes.size(), parts = static_cast<std::size_t>(links.count);
  const auto routers = static_cast<int>(region.routers.size());
  Topology net;
  net.name = std::to_string(regions) + "_x_" + region.name;
  net.routing = region.routing + ", by region";
  net.node_latency = region.node_latency;
  for (int r = 0; r < regions; ++r) {
    net.routers.insert(net.routers.end(), region.routers.begin(), region.routers.end());
    net.router_regions.insert(net.router_regions.end(), region.routers.size(), r);
    for (Topology::Link link : region.links) {
      link.from += r * routers, link.to += r * routers;
      net.links.push_back(link);
    }
    for (Topology::Node node : region.nodes) {
      node.router += r * routers;
      net.nodes.push_back(node);
    }
  }
  net.extents = {static_cast<int>(net.nodes.size())};
  // Outputs to other regions, by [from][to][link].
  std::vector<int> output(static_cast<std::size_t>(regions * regions) * parts, -1);
  const auto at = [&](int from, int to, std::size_t link) {
    return static_cast<std::size_t>(from * regions + to) * parts + link;
  };
  for (int from = 0; from < regions; ++from)
    for (int to = 0; to < regions; ++to)
      for (std::size_t i = 0; from != to && i < parts; ++i) {
        const int gate = region.nodes[gate_of(i, parts, count)].router;
        Topology::Router &source = net.routers[static_cast<std::size_t>(from * routers + gate)],
                         &sink = net.routers[static_cast<std::size_t>(to * routers + gate)];
        output[at(from, to, i)] = source.outputs;
        net.links.push_back({from * routers + gate, source.outputs++, to * routers + gate, sink.inputs++, links.latency,
                             links.per_flit, links.per_cycle, links.buffer_flits});
      }
  net.hops.resize(net.routers.size() * net.nodes.size());
  for (std::size_t router = 0; router < net.routers.size(); ++router)
    for (std::size_t node = 0; node < net.nodes.size(); ++node) {
      const std::size_t here = router % static_cast<std::size_t>(routers), there = node % count;
      const int from = net.router_regions[router], to = static_cast<int>(node / count);
      Hop& hop = net.hop(router, node);
      if (from == to) {
        hop = region.hop(here, there);
        const bool arrives = region.nodes[there].router == static_cast<int>(here);
        if (!arrives) hop.shift = 0, hop.group = lower_vcs;  // bit 1 of a packet's code selects the upper VCs
        continue;
      }
      const std::size_t link = there * parts / count, gate = gate_of(link, parts, count);
      if (region.nodes[gate].router == static_cast<int>(here)) {
        hop = {static_cast<std::uint16_t>(output[at(from, to, link)]), Hop::no_choice, all_vcs};
      } else {
        hop = region.hop(here, gate);
        hop.shift = Hop::no_choice, hop.group = lower_vcs;
      }
    }
  check(net);
  return net;
}

}  // namespace tilesim::engine::noc
