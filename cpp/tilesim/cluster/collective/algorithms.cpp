#include "tilesim/cluster/collective/algorithms.hpp"

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

Group group_of(const std::vector<Axis>& axes) {
  Group group;
  for (const Axis& axis : axes) group.axes.push_back({axis.size, false});
  return group;
}

Made exchange_over_torus(const Asked& one) {
  if (!circles(one.axes)) return exchange_by_axes(group_of(one.axes));
  std::vector<int> sizes;
  std::vector<bool> both_ways;
  for (const Axis& axis : one.axes) sizes.push_back(axis.size), both_ways.push_back(axis.both_ways);
  return exchange_torus(sizes, both_ways);
}

/// Pieces of a pipeline of this many hops.
int pieces_over(const Asked& one, std::int64_t hops, std::int64_t bytes) {
  const Axis& first = one.axes[0];
  return pieces_for(one.request.choice, static_cast<int>(hops), bytes, first.bytes_per_second, first.latency);
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
Made spread_rings(const Asked& one) {
  const auto& [network, request, axes, box] = one;
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
    const bool equal = fewest->size() == most->size() && axes[0].size == least && rings == least;
    if (equal) return flat_rings(request.operation, least, static_cast<int>(nodes.size()));
    std::vector<int> members;
    for (const auto& node : nodes) members.push_back(static_cast<int>(node.size()));
    return flat_rings(request.operation, members, entries_of(nodes, *fewest, rings));
  }
  const int rings = request.choice.rings > 0 ? request.choice.rings : axes.size() == 1 ? default_rings(axes[0]) : 1;
  std::vector<PartRoute> parts;
  const auto n = static_cast<int>(one.devices());
  for (const int stride : ring_strides(n, rings)) parts.push_back({{0}, {stride}});
  return spread(request.operation, {{n, Walk::ring}}, parts);
}

Made spread_walk(const Asked& one, Walk walk) {
  return spread(one.request.operation, {{static_cast<int>(one.devices()), walk}}, {{{0}, {1}}});
}

Made spread_levels(const Asked& one) {
  const HierarchicalPlan plan = hierarchical(one.axes);
  return spread(one.request.operation, plan.legs, plan.parts, static_cast<int>(one.pieces()));
}

bool powers(const Asked& one) { return std::has_single_bit(at(one.devices())); }

Made spread_halving(const Asked& one) {
  const auto n = static_cast<int>(one.devices());
  if (powers(one)) return spread_walk(one, Walk::halving);
  if (one.request.operation == Operation::all_reduce) return folded_halving(n);
  cannot(one.request, " for " + std::to_string(n) + " devices: it needs a power of two",
         "bruck (the same steps for any number), ring, direct");
}

bool any_grid(const Asked& one) { return std::ranges::any_of(one.axes, &Axis::grid); }
bool always(const Asked&) { return true; }
std::int64_t in_pieces(const Asked& one) { return one.devices() * one.pieces(); }
std::int64_t one_each(const Asked& one) { return one.devices(); }
/// On several links of a grid devices have different timelines.
std::int64_t to_each(const Asked& one) {
  return one.box && any_grid(one) ? one.devices() * (one.devices() - 1) : in_pieces(one);
}
std::int64_t to_others(const Asked& one) { return one.devices() - 1; }
std::int64_t over_axes(const Asked& one) {
  std::int64_t sent = 0;
  for (const Axis& axis : one.axes) sent += axis.size - 1;
  return sent * one.pieces();
}

std::vector<Algorithm> table() {
  const std::vector<Operation> spreads{Operation::all_reduce, Operation::all_gather, Operation::reduce_scatter};
  const std::vector<Operation> sum{Operation::all_reduce}, exchange{Operation::all_to_all};
  const std::vector<Operation> broadcast{Operation::broadcast_devices}, pairs{Operation::permute_devices};
  static constexpr auto all_grid = [](const Asked& one) { return std::ranges::all_of(one.axes, &Axis::grid); };
  return {
      {"ring", broadcast, always,
       [](const Asked& one) -> Made {
         const bool both = one.axes.size() == 1 && default_rings(one.axes[0]) == 2;
         const auto n = static_cast<int>(one.devices());
         const int pieces = pieces_over(one, both ? n / 2 : n - 1, one.request.bytes);
         return broadcast_ring(n, one.request.choice.root, pieces, both);
       },
       [](const Asked& one) { return one.devices() * pieces_over(one, one.devices() - 1, one.request.bytes); },
       broadcast_ring_time},
      {"tree", broadcast, always,
       [](const Asked& one) -> Made {
         return broadcast_tree(static_cast<int>(one.devices()), one.request.choice.root);
       },
       one_each, broadcast_tree_time},
      {"direct", broadcast, always,
       [](const Asked& one) -> Made {
         return broadcast_direct(static_cast<int>(one.devices()), one.request.choice.root);
       },
       one_each, broadcast_direct_time},
      {"direct", pairs, always,
       [](const Asked& one) -> Made { return permute(static_cast<int>(one.devices()), one.request.pairs); }, one_each,
       nullptr},
      {"torus", exchange, [](const Asked& one) { return one.box && circles(one.axes); }, exchange_over_torus, in_pieces,
       exchange_torus_time},
      {"direct", exchange, always, [](const Asked& one) -> Made { return exchange_direct(group_of(one.axes)); },
       to_each, exchange_direct_time, to_others},
      {"bruck", exchange, always,
       [](const Asked& one) -> Made { return exchange_bruck(static_cast<int>(one.devices())); }, in_pieces,
       exchange_bruck_time},
      {"ring", exchange, always,
       [](const Asked& one) -> Made {
         return exchange_ring(static_cast<int>(one.devices()), one.axes.size() == 1 && default_rings(one.axes[0]) == 2);
       },
       [](const Asked& one) { return 2 * one.devices() * one.devices(); }, exchange_ring_time, to_others},
      {"hierarchical", exchange, always, [](const Asked& one) -> Made { return exchange_by_axes(group_of(one.axes)); },
       in_pieces, exchange_levels_time, over_axes},
      {"torus", spreads, [](const Asked& one) { return one.box && one.axes.size() > 1 && all_grid(one); },
       spread_levels, in_pieces, spread_levels_time, over_axes},
      {"hierarchical", spreads, [](const Asked& one) { return one.box && one.axes.size() > 1 && !all_grid(one); },
       spread_levels, in_pieces, spread_levels_time, over_axes},
      {"ring", spreads, always, spread_rings,
       [](const Asked& one) { return one.box ? in_pieces(one) : 2 * one.devices() * one.devices(); }, spread_ring_time,
       to_others},
      {"direct", spreads, always,
       [](const Asked& one) -> Made { return spread_direct(one.request.operation, group_of(one.axes)); }, to_each,
       spread_direct_time, to_others},
      {"halving-doubling", spreads,
       [](const Asked& one) { return one.request.operation == Operation::all_reduce || powers(one); }, spread_halving,
       [](const Asked& one) { return powers(one) ? in_pieces(one) : one.devices() * one.devices(); },
       spread_halving_time},
      {"bruck", spreads, always, [](const Asked& one) { return spread_walk(one, Walk::bruck); }, in_pieces,
       spread_bruck_time},
      {"tree", sum, always,
       [](const Asked& one) -> Made {
         int hops = 0;
         for (std::int64_t i = 1; i < one.devices(); i *= 2) hops += 2;
         return tree_reduce(static_cast<int>(one.devices()), pieces_over(one, hops, one.request.bytes / 2));
       },
       [](const Asked& one) {
         const int hops = 2 * std::bit_width(at(one.devices() - 1));
         return 4 * one.devices() * pieces_over(one, hops, one.request.bytes / 2);
       },
       nullptr},
  };
}

}  // namespace

Asked asked(const Network& network, const Request& request, const std::vector<Axis>* axes) {
  if (axes != nullptr && !axes->empty()) return {network, request, *axes, true};
  const Axis line{AxisKind::port, static_cast<int>(request.places.size()), 1, 0, true, false};
  return {network, request, {line}, axes != nullptr};
}

const std::vector<Algorithm>& algorithms() {
  static const std::vector<Algorithm> rows = table();
  return rows;
}

const Algorithm* find_algorithm(Operation operation, std::string_view name) {
  for (const Algorithm& row : algorithms())
    if (row.name == name && std::ranges::count(row.operations, operation) > 0) return &row;
  return nullptr;
}

Prepared prepare(const Made& made, const Network& network, const std::vector<int>& places, bool shared) {
  auto program = std::make_shared<const Program>(std::visit([](const auto& one) { return compile(one); }, made));
  if (std::holds_alternative<Schedule>(made)) return {std::move(program), Turns()};
  return {std::move(program), Turns(std::get<Template>(made), network, places, shared)};
}

Made make(const Network& network, const Request& request, const std::optional<std::vector<Axis>>& axes) {
  const Algorithm* row = find_algorithm(request.operation, request.choice.algorithm);
  if (row != nullptr) return row->make(asked(network, request, axes ? &*axes : nullptr));
  std::vector<std::string> able;
  for (const Algorithm& one : algorithms())
    if (std::ranges::count(one.operations, request.operation) > 0) able.emplace_back(one.name);
  cannot(request, "", join(able));
}

}  // namespace tilesim::cluster
