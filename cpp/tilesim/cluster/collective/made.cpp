// The schedule of a request's algorithm.
#include "tilesim/cluster/collective/made.hpp"

#include <algorithm>
#include <bit>

#include "tilesim/base/error.hpp"
#include "tilesim/base/index.hpp"

namespace tilesim::cluster {

namespace {

[[noreturn]] void cannot(const Request& request, const std::string& why, const std::string& allowed) {
  throw Unsupported({"algorithm '" + request.choice.algorithm + "' does not do " + name_of(request.operation) + why,
                     "algorithm",
                     request.choice.algorithm,
                     allowed,
                     {}});
}

/// The axes of a group; a group that does not form a box in its network has one axis of ports.
std::vector<Axis> axes_or_line(const Request& request, const std::optional<std::vector<Axis>>& axes) {
  if (axes && !axes->empty()) return *axes;
  return {Axis{AxisKind::port, static_cast<int>(request.places.size()), 1, 0, true, false}};
}

Group group_of(const std::vector<Axis>& axes) {
  Group group;
  for (const Axis& axis : axes) group.axes.push_back({axis.size, false});
  return group;
}

Made make_exchange(const Request& request, const std::vector<Axis>& axes, int n) {
  const std::string& name = request.choice.algorithm;
  if (name == "direct") return exchange_direct(group_of(axes));
  if (name == "ring") return exchange_ring(n, axes.size() == 1 && default_rings(axes[0]) == 2);
  if (name == "bruck") return exchange_bruck(n);
  if (name == "torus" && circles(axes)) {
    std::vector<int> sizes;
    std::vector<bool> both_ways;
    for (const Axis& axis : axes) sizes.push_back(axis.size), both_ways.push_back(axis.both_ways);
    return exchange_torus(sizes, both_ways);
  }
  if (name == "hierarchical" || name == "torus") return exchange_by_axes(group_of(axes));
  cannot(request, "", "direct, ring, bruck, torus, hierarchical");
}

Made make_broadcast(const Request& request, const std::vector<Axis>& axes, int n) {
  const Choice& choice = request.choice;
  if (choice.algorithm == "direct") return broadcast_direct(n, choice.root);
  if (choice.algorithm == "tree") return broadcast_tree(n, choice.root);
  if (choice.algorithm != "ring") cannot(request, "", "ring, tree, direct");
  const bool both = axes.size() == 1 && default_rings(axes[0]) == 2;
  const int pieces = pieces_for(choice, both ? n / 2 : n - 1, request.bytes, axes[0].bytes_per_second, axes[0].latency);
  return broadcast_ring(n, choice.root, pieces, both);
}

/// Positions of a group's members within their node, by node; a single list if no switch connects the devices of a
/// node.
std::vector<std::vector<int>> by_nodes(const Network& network, const std::vector<int>& places) {
  if (network.dimensions().size() < 2 || network.dimensions()[0].grid()) return {places};
  std::vector<std::vector<int>> nodes;
  const int inside = network.stride(1);
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (i == 0 || places[i] / inside != places[i - 1] / inside) nodes.emplace_back();
    nodes.back().push_back(places[i] % inside);
  }
  return nodes;
}

/// The member by which each ring enters each node: members at the positions of the node with the fewest members, and
/// others only if these are missing, so that rings of several groups share few adapters.
std::vector<std::vector<int>> entries_of(const std::vector<std::vector<int>>& nodes, const std::vector<int>& fewest,
                                         int rings) {
  std::vector<std::vector<int>> entries;
  for (const std::vector<int>& node : nodes) {
    std::vector<int> own(at(rings), -1);
    std::vector<char> taken(node.size(), 0);
    for (int ring = 0; ring < rings; ++ring) {
      const auto found = std::find(node.begin(), node.end(), fewest[at(ring) * fewest.size() / at(rings)]);
      if (found == node.end()) continue;
      own[at(ring)] = static_cast<int>(found - node.begin());
      taken[at(own[at(ring)])] = 1;
    }
    for (int& entry : own)
      if (entry < 0) {
        entry = static_cast<int>(std::find(taken.begin(), taken.end(), 0) - taken.begin());
        taken[at(entry)] = 1;
      }
    entries.push_back(std::move(own));
  }
  return entries;
}

/// Rings. Through nodes: as many as the smallest number of members in a node, so that each ring leaves a node by a
/// separate adapter. Otherwise: by steps between adjacent members.
Made make_rings(const Network& network, const Request& request, const std::vector<Axis>& axes, int n) {
  const std::vector<std::vector<int>> nodes = by_nodes(network, request.places);
  const auto [fewest, most] = std::minmax_element(
      nodes.begin(), nodes.end(), [](const auto& one, const auto& other) { return one.size() < other.size(); });
  const auto least = static_cast<int>(fewest->size());
  if (nodes.size() > 1 && least > 1) {
    const int rings = request.choice.rings > 0 ? request.choice.rings : least;
    if (rings > least)
      throw UserError({"too many rings to leave each node by separate members",
                       "rings",
                       std::to_string(rings),
                       "1 ... " + std::to_string(least) + ", the fewest members of a node",
                       {}});
    const bool box = fewest->size() == most->size() && axes[0].size == least && rings == least;
    if (box) return flat_rings(request.operation, least, static_cast<int>(nodes.size()));
    std::vector<int> members;
    for (const auto& node : nodes) members.push_back(static_cast<int>(node.size()));
    return flat_rings(request.operation, members, entries_of(nodes, *fewest, rings));
  }
  const int rings = request.choice.rings > 0 ? request.choice.rings : axes.size() == 1 ? default_rings(axes[0]) : 1;
  std::vector<PartRoute> parts;
  for (const int stride : ring_strides(n, rings)) parts.push_back({{0}, {stride}});
  return spread(request.operation, {{n, Walk::ring}}, parts);
}

Made make_spread(const Network& network, const Request& request, const std::vector<Axis>& axes, int n) {
  const Choice& choice = request.choice;
  if (choice.algorithm == "hierarchical" || choice.algorithm == "torus") {
    const HierarchicalPlan plan = hierarchical(axes);
    return spread(request.operation, plan.legs, plan.parts, std::max(1, choice.pieces));
  }
  if (choice.algorithm == "tree") {
    if (request.operation != Operation::all_reduce) cannot(request, "", "ring, direct, bruck, hierarchical");
    int hops = 0;
    for (int i = 1; i < n; i *= 2) hops += 2;
    return tree_reduce(n, pieces_for(choice, hops, request.bytes / 2, axes[0].bytes_per_second, axes[0].latency));
  }
  const auto one = [&](Walk walk) { return spread(request.operation, {{n, walk}}, {{{0}, {1}}}); };
  if (choice.algorithm == "ring") return make_rings(network, request, axes, n);
  if (choice.algorithm == "direct") return spread_direct(request.operation, group_of(axes));
  if (choice.algorithm == "bruck") return one(Walk::bruck);
  if (std::has_single_bit(static_cast<unsigned>(n))) return one(Walk::halving);
  if (request.operation != Operation::all_reduce)
    cannot(request, " for " + std::to_string(n) + " devices: it needs a power of two",
           "bruck (the same steps for any number), ring, direct");
  return folded_halving(n);
}

}  // namespace

Prepared prepare(const Made& made, const Network& network, const std::vector<int>& places, bool shared) {
  auto program = std::make_shared<const Program>(std::visit([](const auto& one) { return compile(one); }, made));
  if (std::holds_alternative<Schedule>(made)) return {std::move(program), Turns()};
  return {std::move(program), Turns(std::get<Template>(made), network, places, shared)};
}

Made make(const Network& network, const Request& request, const std::optional<std::vector<Axis>>& known) {
  const auto n = static_cast<int>(request.places.size());
  const std::vector<Axis> axes = axes_or_line(request, known);
  if (request.operation == Operation::permute_devices) {
    if (request.choice.algorithm != "direct") cannot(request, "", "direct");
    return permute(n, request.pairs);
  }
  if (request.operation == Operation::all_to_all) return make_exchange(request, axes, n);
  if (request.operation == Operation::broadcast_devices) return make_broadcast(request, axes, n);
  return make_spread(network, request, axes, n);
}

}  // namespace tilesim::cluster
