// Programs that differ between devices: trees, broadcasts, permutations, halving for any number.
#include <algorithm>
#include <array>
#include <map>
#include <numeric>

#include "tilesim/base/error.hpp"
#include "tilesim/base/index.hpp"
#include "tilesim/cluster/collective/schedule.hpp"

namespace tilesim::cluster {

namespace {

const std::vector<std::string>& names() {
  static const std::vector<std::string> all{"all_reduce", "all_gather",      "reduce_scatter",
                                            "all_to_all", "permute_devices", "broadcast_devices"};
  return all;
}

/// Parents in the in-order binary tree over 1 ... n: a node's height is its number of trailing zero bits.
std::vector<int> parents_of(int n) {
  std::vector<int> parents(at(n), -1);
  for (int x = 1; x <= n; ++x) {
    const int bit = x & -x, without = x ^ bit;
    const int up = without | (bit << 1);
    const int parent = up <= n ? up : without;
    parents[at(x - 1)] = parent - 1;  // -1: the root
  }
  return parents;
}

std::vector<int> depths_of(const std::vector<int>& parents) {
  std::vector<int> depths(parents.size(), 0);
  for (std::size_t i = 0; i < parents.size(); ++i)
    for (int node = static_cast<int>(i); parents[at(node)] >= 0; node = parents[at(node)]) ++depths[i];
  return depths;
}

Schedule empty(Operation operation, std::string algorithm, int devices, int slots, std::int64_t pieces) {
  Schedule schedule;
  schedule.operation = operation;
  schedule.algorithm = std::move(algorithm);
  schedule.devices = devices;
  schedule.slots = slots;
  schedule.pieces = pieces;
  return schedule;
}

}  // namespace

Operation operation_of(std::string_view name) {
  const auto found = std::find(names().begin(), names().end(), name);
  if (found == names().end())
    throw UserError({"unknown collective operation", "op", std::string(name), join(names()), nearest(name, names())});
  return static_cast<Operation>(found - names().begin());
}

std::string name_of(Operation operation) { return names()[static_cast<std::size_t>(operation)]; }

Schedule flat_rings(Operation operation, const std::vector<int>& members,
                    const std::vector<std::vector<int>>& entries) {
  const int n = std::accumulate(members.begin(), members.end(), 0), rings = static_cast<int>(entries[0].size());
  Schedule schedule = empty(operation, "ring", n, n * rings, static_cast<std::int64_t>(n) * rings);
  for (int ring = 0; ring < rings; ++ring) {
    std::vector<int> order;
    for (int first = 0, node = 0; node < static_cast<int>(members.size()); first += members[at(node++)])
      for (int i = 0, size = members[at(node)]; i < size; ++i)
        order.push_back(first + (entries[at(node)][at(ring)] + i) % size);
    const auto walk = [&](int start, int behind, bool combine) {
      for (int t = 0; t + 1 < n; ++t)
        for (int i = 0; i < n; ++i) {
          const int slot = ring * n + order[at((i + 2 * n - t - behind) % n)];
          schedule.transfers.push_back(
              {(start + t) * rings + ring, order[at(i)], order[at((i + 1) % n)], slot, slot, combine});
        }
    };
    if (operation != Operation::all_gather) walk(0, 1, true);
    if (operation != Operation::reduce_scatter) walk(operation == Operation::all_reduce ? n - 1 : 0, 0, false);
  }
  state_meaning(schedule, false);
  return schedule;
}

Schedule tree_reduce(int n, int pieces) {
  Schedule schedule = empty(Operation::all_reduce, "tree", n, 2 * pieces, 2LL * pieces);
  const auto parents = parents_of(n);
  const auto depths = depths_of(parents);
  const int deepest = *std::max_element(depths.begin(), depths.end());
  for (int tree = 0; tree < 2; ++tree) {
    for (int i = 0; i < n; ++i) {
      if (parents[at(i)] < 0) continue;
      // The second tree is the first one shifted by one: a leaf of one tree is an inner node of the other.
      const int child = (i + tree) % n, parent = (parents[at(i)] + tree) % n, depth = depths[at(i)];
      for (int q = 0; q < pieces; ++q) {
        const int slot = tree * pieces + q;
        schedule.transfers.push_back({q + deepest - depth, child, parent, slot, slot, true});
        schedule.transfers.push_back({q + deepest + depth - 1, parent, child, slot, slot, false});
      }
    }
  }
  state_meaning(schedule, false);
  return schedule;
}

Schedule folded_halving(int n) {
  int most = 1;
  while (most * 2 <= n) most *= 2;
  Schedule inner = expand(spread(Operation::all_reduce, {{most, Walk::halving}}, {{{0}, {1}}}));
  Schedule schedule = empty(Operation::all_reduce, "halving-doubling", n, inner.slots, inner.pieces);
  int last = 0;
  for (Transfer& transfer : inner.transfers) {
    ++transfer.step;
    last = std::max(last, transfer.step);
    schedule.transfers.push_back(transfer);
  }
  for (int i = most; i < n; ++i)
    for (int slot = 0; slot < schedule.slots; ++slot) {
      schedule.transfers.push_back({0, i, i - most, slot, slot, true});
      schedule.transfers.push_back({last + 1, i - most, i, slot, slot, false});
    }
  state_meaning(schedule, false);
  return schedule;
}

Schedule broadcast_tree(int n, int root) {
  Schedule schedule = empty(Operation::broadcast_devices, "tree", n, 1, 1);
  int step = 0;
  for (int distance = 1; distance < n; distance *= 2, ++step)
    for (int i = 0; i < distance && i + distance < n; ++i)
      schedule.transfers.push_back({step, (root + i) % n, (root + i + distance) % n, 0, 0, false});
  state_meaning(schedule, false, root);
  return schedule;
}

Schedule broadcast_ring(int n, int root, int pieces, bool both_ways) {
  Schedule schedule = empty(Operation::broadcast_devices, "ring", n, pieces, pieces);
  const int ahead = both_ways ? n / 2 : n - 1, behind = n - 1 - ahead;
  for (int q = 0; q < pieces; ++q) {
    for (int i = 0; i < ahead; ++i)
      schedule.transfers.push_back({q + i, (root + i) % n, (root + i + 1) % n, q, q, false});
    for (int i = 0; i < behind; ++i)
      schedule.transfers.push_back({q + i, (root + n - i) % n, (root + n - i - 1) % n, q, q, false});
  }
  state_meaning(schedule, false, root);
  return schedule;
}

Schedule broadcast_direct(int n, int root) {
  Schedule schedule = empty(Operation::broadcast_devices, "direct", n, 1, 1);
  for (int k = 1; k < n; ++k) schedule.transfers.push_back({0, root, (root + k) % n, 0, 0, false});
  state_meaning(schedule, false, root);
  return schedule;
}

Schedule permute(int n, const std::vector<std::pair<int, int>>& pairs) {
  Schedule schedule = empty(Operation::permute_devices, "direct", n, n, 1);
  schedule.initial.assign(at(n) * at(n), -1);
  schedule.wanted = schedule.initial;
  for (int d = 0; d < n; ++d) schedule.initial[at(d) * at(n) + at(d)] = d;
  std::vector<char> taken(at(n), 0);
  for (const auto& [source, target] : pairs) {
    const std::string pair = std::to_string(source) + " -> " + std::to_string(target);
    if (source < 0 || source >= n || target < 0 || target >= n)
      throw UserError({"a pair names an unknown position", "pairs", pair, "0 ... " + std::to_string(n - 1), {}});
    if (taken[at(target)]++ != 0)
      throw UserError({"two sources have one target", "pairs", pair, "each target once", {}});
    schedule.wanted[at(target) * at(n) + at(source)] = source;
    if (source != target) schedule.transfers.push_back({0, source, target, source, source, false});
  }
  return schedule;
}

void state_meaning(Schedule& schedule, bool blocks, int root) {
  const int n = schedule.devices, slots = schedule.slots;
  schedule.initial.assign(at(n) * at(slots), -1);
  schedule.wanted.assign(at(n) * at(slots), -1);
  for (int c = 0; c < slots; ++c) {
    const int owner = blocks ? static_cast<int>(static_cast<std::int64_t>(c) * n / slots) : c % n;
    for (int d = 0; d < n; ++d) {
      const std::size_t place = at(d) * at(slots) + at(c);
      bool has = true, wants = true;
      if (schedule.operation == Operation::all_gather) has = owner == d;
      if (schedule.operation == Operation::reduce_scatter) wants = owner == d;
      if (schedule.operation == Operation::all_to_all) has = c / n % n == d, wants = c % n == d;
      if (schedule.operation == Operation::broadcast_devices) has = d == root;
      if (has) schedule.initial[place] = c;
      if (wants) schedule.wanted[place] = c;
    }
  }
}

}  // namespace tilesim::cluster
