// The schedule of a request's algorithm.
#include "tilesim/cluster/collective/made.hpp"

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

/// Where a group is no box in its network, its devices are taken as one axis of ports.
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
  if (name == "hierarchical" || name == "torus") return exchange_by_axes(group_of(axes));
  cannot(request, "", "direct, ring, bruck, hierarchical");
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

Made make_spread(const Request& request, const std::vector<Axis>& axes, int n) {
  const Choice& choice = request.choice;
  if (choice.algorithm == "hierarchical" || choice.algorithm == "torus") {
    const Plan plan = hierarchical(axes);
    return spread(request.operation, plan.legs, plan.parts);
  }
  if (choice.algorithm == "tree") {
    if (request.operation != Operation::all_reduce) cannot(request, "", "ring, direct, bruck, hierarchical");
    int hops = 0;
    for (int i = 1; i < n; i *= 2) hops += 2;
    return tree_reduce(n, pieces_for(choice, hops, request.bytes / 2, axes[0].bytes_per_second, axes[0].latency));
  }
  const auto one = [&](Walk walk, const std::vector<int>& strides) {
    std::vector<Part> parts;
    for (const int stride : strides) parts.push_back({{0}, {stride}});
    return spread(request.operation, {{n, walk}}, parts);
  };
  if (choice.algorithm == "ring") {
    const int rings = choice.rings > 0 ? choice.rings : axes.size() == 1 ? default_rings(axes[0]) : 1;
    return one(Walk::ring, ring_strides(n, rings));
  }
  if (choice.algorithm == "direct") return one(Walk::direct, {1});
  if (choice.algorithm == "bruck") return one(Walk::bruck, {1});
  if (std::has_single_bit(static_cast<unsigned>(n))) return one(Walk::halving, {1});
  if (request.operation != Operation::all_reduce)
    cannot(request, " for " + std::to_string(n) + " devices, which is no power of two",
           "bruck (the same steps for any number), ring, direct");
  return folded_halving(n);
}

}  // namespace

Made make(const Request& request, const std::optional<std::vector<Axis>>& known) {
  const auto n = static_cast<int>(request.places.size());
  const std::vector<Axis> axes = axes_or_line(request, known);
  if (request.operation == Operation::permute_devices) {
    if (request.choice.algorithm != "direct") cannot(request, "", "direct");
    return permute(n, request.pairs);
  }
  if (request.operation == Operation::all_to_all) return make_exchange(request, axes, n);
  if (request.operation == Operation::broadcast_devices) return make_broadcast(request, axes, n);
  return make_spread(request, axes, n);
}

}  // namespace tilesim::cluster
