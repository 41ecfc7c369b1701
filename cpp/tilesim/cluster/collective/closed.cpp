#include "tilesim/cluster/collective/closed.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "tilesim/base/error.hpp"
#include "tilesim/base/index.hpp"
#include "tilesim/cluster/collective/levels.hpp"
#include "tilesim/cluster/collective/trunks.hpp"

namespace tilesim::cluster {

namespace {

using std::int64_t;

/// Time of one message of bytes x count / pieces on a link.
int64_t wire(int64_t bytes, int64_t count, int64_t pieces, const Axis& axis) {
  return picoseconds(bytes, count, pieces, axis.bytes_per_second);
}

/// Time of a message if its links are shared.
int64_t times(int64_t time, double share) {
  return share > 1 ? static_cast<int64_t>(std::ceil(static_cast<double>(time) * share)) : time;
}

/// Every member sends to every other one, on a full network to all at once; `twice`: once more after all have arrived.
int64_t to_all(int64_t message, const Axis& axis, bool twice = false) {
  const int64_t n = axis.size, turns = twice ? 2 : 1;
  if (axis.kind == AxisKind::full) return turns * (message + axis.latency);
  if (!crosses(axis)) return turns * ((n - 1) * message + axis.latency);
  const int64_t levels = axis.trunks.leaf.empty() ? 0 : axis.trunks.pod.empty() ? 1 : 2;
  return times(message, rounds_of_all(axis, twice)) + turns * (axis.latency + levels * axis.trunks.latency);
}

/// Whether members share neither ports nor trunks.
bool alone(const Axis& axis) { return axis.exact && !crosses(axis); }

/// Whether both circles take the same time.
bool equal(const Axis& one, const Axis& other) {
  return one.size == other.size && one.both_ways == other.both_ways && one.bytes_per_second == other.bytes_per_second &&
         one.latency == other.latency;
}

bool sum(Operation operation) { return operation == Operation::all_reduce; }

/// Time of a gather along one axis, for blocks of bytes / pieces; each message carries `blocks` blocks per label.
std::optional<int64_t> gather(Walk walk, const Axis& axis, int64_t bytes, int64_t blocks, int64_t pieces) {
  const int n = axis.size;
  const int64_t x = wire(bytes, blocks, pieces, axis);
  if (walk == Walk::ring)
    return axis.kind == AxisKind::line ? std::nullopt : std::optional((n - 1) * x + latency_round(axis));
  if (axis.grid()) {
    if (n != 2) return std::nullopt;
    return x + axis.latency;
  }
  // For other sizes the last step sends less, and does not wait for all previous messages.
  if (walk == Walk::bruck && !std::has_single_bit(static_cast<unsigned>(n))) return std::nullopt;
  if (walk == Walk::direct) return to_all(x, axis);
  if (crosses(axis)) return std::nullopt;  // few messages, which are simulated
  int64_t time = 0;
  for (int64_t distance = 1; distance < n; distance *= 2)
    time += wire(bytes, blocks * std::min(distance, n - distance), pieces, axis) + axis.latency;
  return time;
}

/// All parts run at the same time; the slowest counts. Pieces follow each other, limited by the slowest axis.
std::optional<Closed> by_axes(Operation operation, const HierarchicalPlan& plan, const std::vector<Axis>& axes,
                              int64_t bytes, int64_t pieces) {
  int64_t devices = 1, longest = 0;
  bool exact = pieces == 1;
  const Axis* circle = nullptr;
  for (const Axis& axis : axes) {
    devices *= axis.size;
    exact = exact && alone(axis);
    if (axis.kind != AxisKind::circle) continue;
    exact = exact && (circle == nullptr || equal(*circle, axis));  // parts on unequal circles may share links
    circle = &axis;
  }
  const auto parts = static_cast<int64_t>(plan.parts.size());
  const bool both = std::any_of(axes.begin(), axes.end(), [](const Axis& axis) { return default_rings(axis) == 2; });
  const int64_t ways = both ? 2 : 1;
  std::vector<int64_t> carried(axes.size(), 0);  // per axis: time of its links for all pieces and parts
  for (const PartRoute& part : plan.parts) {
    int64_t time = 0, held = 1, slowest = 0;
    const int64_t turns = sum(operation) ? 2 : 1;
    for (auto axis = part.order.rbegin(); axis != part.order.rend(); ++axis) {
      const Axis& one = axes[at(*axis)];
      // Parts that use a port, or the single direction of a circle, at the same time share it.
      const bool circular = one.kind == AxisKind::circle;
      const int64_t together = !circular ? parts : default_rings(one) == 1 ? ways : 1;
      const auto step = gather(plan.legs[at(*axis)].walk, one, bytes, held * together, devices * parts * pieces);
      if (!step) return std::nullopt;
      if (pieces > 1) {  // latencies overlap with the following pieces
        const int64_t sent = *step - *gather(plan.legs[at(*axis)].walk, one, 0, 1, 1);
        slowest = std::max(slowest, sent);
        int64_t& all = carried[at(*axis)];
        all = circular ? all + turns * pieces * sent / ways : std::max(all, turns * pieces * sent);
      }
      if (!circular) exact = exact && parts <= 2;
      // Across the last axis the gather directly follows the scatter, and both share trunks.
      const bool meets = turns == 2 && held == 1 && plan.legs[at(*axis)].walk == Walk::direct && crosses(one);
      time += meets ? to_all(wire(bytes, together, devices * parts * pieces, one), one, true) : turns * *step;
      held *= one.size;
    }
    longest = std::max(longest, time + turns * (pieces - 1) * slowest);
  }
  return Closed{std::max(longest, *std::max_element(carried.begin(), carried.end())), exact};
}

/// Pieces follow each other around a circle, each way: a step takes the time of all pieces, or of one plus latency.
Closed pieces_round(Operation operation, const Axis& axis, int64_t bytes, int64_t pieces) {
  const int64_t steps = (sum(operation) ? 2 : 1) * (axis.size - 1);
  const int64_t message = wire(bytes, 1, axis.size * default_rings(axis) * pieces, axis);
  const int64_t step = std::max(pieces * message, message + axis.latency);
  return {(steps - 1) * step + pieces * message + axis.latency, axis.exact};
}

/// Bytes over the busiest link of each axis, plus the latency to the farthest device.
Closed exchange_bound(const std::vector<Axis>& axes, int64_t bytes) {
  int64_t longest = 0, latency = 0;
  for (const Axis& axis : axes) {
    const int64_t n = axis.size;
    int64_t hops = n * (n - 1) / 2, pieces = n, far = n - 1;  // line or one direction: sum over distances
    if (axis.kind == AxisKind::circle && axis.both_ways) hops = (n / 2) * (n / 2 + 1) / 2, far = n / 2;
    if (axis.kind == AxisKind::line) hops = (n / 2) * (n - n / 2);  // across its middle link
    if (axis.kind == AxisKind::port) hops = n - 1, far = 1;
    if (axis.kind == AxisKind::full) hops = 1, far = 1;
    const bool beyond = crosses(axis);
    longest = std::max(longest, beyond ? to_all(wire(bytes, 1, n, axis), axis) : wire(bytes, hops, pieces, axis));
    latency += beyond ? 0 : far * axis.latency;
  }
  return {longest + latency, false};
}

/// Each part starts with a different axis and goes around all axes in turn: circles of equal size are never shared;
/// otherwise the longest circle is always busy.
Closed exchange_on_torus(const std::vector<Axis>& axes, int64_t bytes) {
  const auto parts = static_cast<int64_t>(axes.size());
  int64_t whole = 0, longest = 0;
  bool exact = true;
  for (const Axis& axis : axes) {
    // Halves of a part take opposite directions over the longest distance; a circle of two has one direction.
    const int64_t n = axis.size, far = axis.both_ways ? n / 2 : n - 1,
                  less = axis.both_ways && n > 2 ? n - far - 1 : far;
    int64_t moved = 0;
    for (int64_t s = 0; s < far; ++s)
      moved += wire(bytes, far - s + std::max<int64_t>(0, less - s), 2 * n * parts, axis);
    whole += moved + far * axis.latency;
    longest = std::max(longest, moved + far * axis.latency);
    exact = exact && axis.exact && equal(axis, axes[0]);
  }
  return {std::max(whole, parts * longest), exact};
}

}  // namespace

std::optional<Closed> exchange_direct_time(const Setting& set) {
  const std::vector<Axis>& axes = set.axes;
  const Axis& axis = axes[0];
  const bool single = axes.size() == 1;
  if (!single && own_links(axes)) return Closed{direct_over(Operation::all_to_all, axes, set.bytes), true};
  if (!single || (axis.grid() && axis.size > 2)) return exchange_bound(axes, set.bytes);
  const int64_t message = wire(set.bytes, 1, axis.size, axis);
  return Closed{axis.kind == AxisKind::port ? to_all(message, axis) : message + axis.latency, alone(axis)};
}

std::optional<Closed> exchange_ring_time(const Setting& set) {
  const Axis& axis = set.axes[0];
  if (set.axes.size() > 1 || axis.kind == AxisKind::line) return std::nullopt;
  const int64_t n = axis.size, far = default_rings(axis) == 2 ? n / 2 : n - 1;
  int64_t time = 0;
  for (int64_t s = 0; s < far; ++s) time += wire(set.bytes, far - s, n, axis);
  return Closed{time + (far == n - 1 ? latency_round(axis) : far * axis.latency), axis.exact};
}

std::optional<Closed> exchange_bruck_time(const Setting& set) {
  const Axis& axis = set.axes[0];
  const int64_t n = axis.size;
  if (set.axes.size() > 1 || axis.grid() || crosses(axis) || !std::has_single_bit(at(n))) return std::nullopt;
  int64_t time = 0;
  for (int64_t distance = 1; distance < n; distance *= 2) {
    int64_t blocks = 0;
    for (int64_t r = 1; r < n; ++r) blocks += (r & distance) != 0 ? 1 : 0;
    time += wire(set.bytes, blocks, n, axis) + axis.latency;
  }
  return Closed{time, alone(axis)};
}

std::optional<Closed> exchange_torus_time(const Setting& set) {
  return circles(set.axes) ? std::optional(exchange_on_torus(set.axes, set.bytes)) : std::nullopt;
}

std::optional<Closed> exchange_levels_time(const Setting& set) {
  int64_t time = 0;
  bool exact = true;
  for (const Axis& one : set.axes) {
    if (one.grid() && one.size > 2) return std::nullopt;
    const int64_t message = wire(set.bytes, 1, one.size, one);
    time += one.kind == AxisKind::port ? to_all(message, one) : message + one.latency;
    exact = exact && alone(one);
  }
  return Closed{time, exact};
}

std::optional<Closed> broadcast_ring_time(const Setting& set) {
  const Axis& axis = set.axes[0];
  if (set.axes.size() > 1) {
    if (!own_hops(set.axes)) return std::nullopt;
    int n = 1;
    for (const Axis& one : set.axes) n *= one.size;
    const int64_t pieces = pieces_for(set.choice, n - 1, set.bytes, axis.bytes_per_second, axis.latency);
    return Closed{chain_over(set.axes, set.choice.root, set.bytes, pieces), true};
  }
  if (axis.kind == AxisKind::line) return std::nullopt;
  const int n = axis.size, hops = default_rings(axis) == 2 ? n / 2 : n - 1;
  const int64_t pieces = pieces_for(set.choice, hops, set.bytes, axis.bytes_per_second, axis.latency);
  const int64_t latency = hops == n - 1 ? latency_round(axis) : hops * axis.latency;
  return Closed{(hops + pieces - 1) * wire(set.bytes, 1, pieces, axis) + latency, alone(axis)};
}

std::optional<Closed> broadcast_direct_time(const Setting& set) {
  const Axis& axis = set.axes[0];
  if (set.axes.size() > 1) {
    if (!own_links(set.axes)) return std::nullopt;
    return Closed{root_to_all(set.axes, set.choice.root, set.bytes), true};
  }
  if (axis.grid()) return std::nullopt;
  const int64_t messages = axis.kind == AxisKind::full ? 1 : axis.size - 1;
  return Closed{messages * wire(set.bytes, 1, 1, axis) + latency_between(axis, 0, axis.size - 1), alone(axis)};
}

std::optional<Closed> broadcast_tree_time(const Setting& set) {
  const Axis& axis = set.axes[0];
  if (set.axes.size() > 1 || axis.grid() || crosses(axis)) return std::nullopt;
  const int64_t x = wire(set.bytes, 1, 1, axis);
  int64_t longest = 0;
  for (unsigned i = 1; i < static_cast<unsigned>(axis.size); ++i) {
    const int64_t hops = std::popcount(i), last = std::bit_width(i);
    longest = std::max(longest, (axis.kind == AxisKind::full ? hops : last) * x + hops * axis.latency);
  }
  return Closed{longest, alone(axis)};
}

bool circles(const std::vector<Axis>& axes) {
  return std::all_of(axes.begin(), axes.end(), [](const Axis& axis) { return axis.kind == AxisKind::circle; });
}

std::vector<int> ring_strides(int n, int rings) {
  std::vector<int> strides;
  for (int step = 1; step <= n / 2 && static_cast<int>(strides.size()) < rings; ++step) {
    if (std::gcd(step, n) != 1) continue;
    strides.push_back(step);
    if (static_cast<int>(strides.size()) < rings && n - step != step) strides.push_back(n - step);
  }
  if (static_cast<int>(strides.size()) < rings)
    throw UserError({"there are fewer rings through all devices",
                     "rings",
                     std::to_string(rings),
                     "1 ... " + std::to_string(strides.size()) + " for " + std::to_string(n) + " devices",
                     {}});
  return strides;
}

int default_rings(const Axis& axis) { return axis.kind == AxisKind::circle && axis.both_ways && axis.size > 2 ? 2 : 1; }

int pieces_for(const Choice& choice, int hops, int64_t bytes, int64_t rate, int64_t latency) {
  if (choice.pieces > 0) return choice.pieces;
  const double whole = static_cast<double>(bytes) / static_cast<double>(std::max<int64_t>(rate, 1)) * 1e12;
  const double best = std::sqrt(whole * hops / static_cast<double>(std::max<int64_t>(latency, 1)));
  return static_cast<int>(std::clamp(best, 1.0, 64.0));
}

HierarchicalPlan hierarchical(const std::vector<Axis>& axes) {
  HierarchicalPlan plan;
  std::vector<int> circles, order(axes.size());
  std::iota(order.begin(), order.end(), 0);
  bool both = false;
  for (std::size_t a = 0; a < axes.size(); ++a) {
    const bool grid = axes[a].grid();
    plan.legs.push_back({axes[a].size, grid ? Walk::ring : Walk::direct});
    if (!grid) continue;
    circles.push_back(static_cast<int>(a));
    both = both || default_rings(axes[a]) == 2;
  }
  const std::size_t turns = std::max<std::size_t>(1, circles.size());
  for (std::size_t turn = 0; turn < turns; ++turn) {
    for (int way = 0; way < (both ? 2 : 1); ++way) {
      PartRoute part{order, std::vector<int>(axes.size(), 1)};
      for (std::size_t i = 0; i < circles.size(); ++i) {
        part.order[at(circles[i])] = circles[(i + turn) % circles.size()];
        if (way == 1) part.strides[at(circles[i])] = axes[at(circles[i])].size - 1;
      }
      plan.parts.push_back(std::move(part));
    }
  }
  return plan;
}

std::optional<Closed> spread_levels_time(const Setting& set) {
  const std::vector<Axis>& axes = set.axes;
  const int64_t pieces = std::max(1, set.choice.pieces);
  if (own_links(axes) && pieces > 1) return Closed{levels_in_pieces(set.operation, axes, set.bytes, pieces), true};
  if (axes.size() == 1 && circles(axes) && pieces > 1) return pieces_round(set.operation, axes[0], set.bytes, pieces);
  return by_axes(set.operation, hierarchical(axes), axes, set.bytes, pieces);
}

std::optional<Closed> spread_ring_time(const Setting& set) {
  const std::vector<Axis>& axes = set.axes;
  const Axis& axis = axes[0];
  const int turns = sum(set.operation) ? 2 : 1;
  if (axes.size() > 1) {
    // One ring per member of a node, if a switch of the first dimension connects them.
    const bool nodes = axes.size() == 2 && axis.dimension == 0 && own_links({axis});
    if (!nodes || (set.choice.rings > 0 && set.choice.rings != axis.size)) return std::nullopt;
    const bool own = own_links(axes);
    if (!own && (!axes[1].exact || axes[1].trunks.leaf.empty())) return std::nullopt;
    // Each ring has separate trunks with a longer latency: the whole latency is added, although bytes hide a part.
    const int64_t more = own ? 0 : latency_round(axes[1], turns) - turns * (axes[1].size - 1) * axes[1].latency;
    return Closed{rings_through(set.operation, axis, axes[1], set.bytes) + more, own};
  }
  const int rings = set.choice.rings > 0 ? set.choice.rings : default_rings(axis);
  if (rings > default_rings(axis) && (axis.kind == AxisKind::port || axis.kind == AxisKind::circle))
    return std::nullopt;
  const auto time = gather(Walk::ring, axis, set.bytes, 1, static_cast<int64_t>(axis.size) * rings);
  if (!time) return std::nullopt;
  // The gather starts where the scatter ended: hops over trunks are those of one continuous path. One message at a time
  // crosses a switch in each direction.
  const bool on = turns == 2 && !axis.trunks.leaf.empty();
  return Closed{turns * *time - (on ? 2 * latency_round(axis) - latency_round(axis, 2) : 0), axis.exact};
}

std::optional<Closed> spread_direct_time(const Setting& set) {
  const Axis& axis = set.axes[0];
  if (set.axes.size() > 1) {
    if (!own_links(set.axes)) return std::nullopt;
    return Closed{direct_over(set.operation, set.axes, set.bytes), true};
  }
  const auto time = gather(Walk::direct, axis, set.bytes, 1, axis.size);
  if (!time || !sum(set.operation)) return time ? std::optional(Closed{*time, alone(axis)}) : std::nullopt;
  const bool port = axis.kind == AxisKind::port;
  return Closed{port ? to_all(wire(set.bytes, 1, axis.size, axis), axis, true) : 2 * *time, alone(axis)};
}

std::optional<Closed> spread_bruck_time(const Setting& set) {
  const Axis& axis = set.axes[0];
  const auto time = set.axes.size() > 1 ? std::nullopt : gather(Walk::bruck, axis, set.bytes, 1, axis.size);
  return time ? std::optional(Closed{(sum(set.operation) ? 2 : 1) * *time, alone(axis)}) : std::nullopt;
}

std::optional<Closed> spread_halving_time(const Setting& set) {
  return halving_over(set.operation, set.axes, set.bytes);
}

}  // namespace tilesim::cluster
