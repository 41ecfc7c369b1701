// Walks all cores of a split product, tile by tile, on a common memory.
#include <algorithm>
#include <bit>
#include <limits>
#include <vector>

#include "tilesim/base/shape.hpp"
#include "tilesim/machine/parts.hpp"
#include "tilesim/mapping/walk.hpp"

namespace tilesim::mapping {

namespace {

/// Finds the earliest of several times (the first of equal ones). A tree makes the change of one time fast.
class Earliest {
 public:
  explicit Earliest(std::size_t count) : leaves_(std::bit_ceil(std::max<std::size_t>(count, 1))), nodes_(2 * leaves_) {
    for (std::size_t i = 0; i < leaves_; ++i) nodes_[leaves_ + i].place = i;
    for (std::size_t node = leaves_ - 1; node > 0; --node) nodes_[node] = winner(node);
  }
  void set(std::size_t place, double time) {
    std::size_t node = leaves_ + place;
    nodes_[node].time = time;
    while ((node /= 2) > 0) nodes_[node] = winner(node);
  }
  std::size_t place() const { return nodes_[1].place; }
  double time() const { return nodes_[1].time; }

 private:
  struct Node {
    double time = std::numeric_limits<double>::infinity();
    std::size_t place = 0;
  };
  const Node& winner(std::size_t node) const {
    return nodes_[2 * node + (nodes_[2 * node + 1].time < nodes_[2 * node].time ? 1 : 0)];
  }

  std::size_t leaves_;
  std::vector<Node> nodes_;  ///< node n has the earlier time of nodes 2n and 2n + 1
};

}  // namespace

double CostModel::crowded(const Walk& listed, bool two) const {
  Share whole = machine_;  // `machine_` has one busy core's share of the memory
  whole.memory.bytes_per_second = machine_.memory.bytes_per_second * problem_.cores / machine_.core.count;
  whole.network.region_bytes_per_cycle *= cores_of_region(machine_, problem_.cores, problem_.multicast);
  const auto cores = static_cast<std::size_t>(problem_.cores);
  Channels channels(whole, static_cast<double>(cores), 1, cores);
  std::vector<std::int64_t> bases(tensors(), 0);
  std::int64_t next = 0;
  for (std::size_t operand = 0; operand < tensors(); ++operand) {
    constexpr std::int64_t page = 4096;
    bases[operand] = next;
    std::int64_t bytes = 0;
    for (std::size_t axis = 0; axis < strides_[operand].size(); ++axis)
      bytes = std::max(bytes, strides_[operand][axis] * problem_.shapes[operand][axis] / 8);
    next = round_up(next + bytes, page);
  }
  std::vector<Walk> walks(cores, listed);
  Earliest earliest(cores);
  const auto set_next = [&](std::size_t core) {
    const double time = walks[core].next();
    earliest.set(core, time == Walk::unknown ? std::numeric_limits<double>::infinity() : time);
  };
  for (std::size_t core = 0; core < cores; ++core) {
    Walk& walk = walks[core];
    walk.channels = &channels;
    walk.core = core;
    for (std::size_t operand = 0; operand < tensors(); ++operand)
      walk.begins[operand] = bases[operand] + part_begin(operand, static_cast<std::int64_t>(core));
    walk.prepare(two);
    set_next(core);
  }
  while (earliest.time() < std::numeric_limits<double>::infinity()) {
    const std::size_t core = earliest.place();
    walks[core].advance(earliest.time());
    set_next(core);
  }
  double last = 0;
  for (const Walk& walk : walks) last = std::max(last, walk.cycles());
  return last + static_cast<double>(machine_.core.kernel_launch_cycles);
}

/// Bytes from the problem's part to the part of a core. A core's number has one digit per split dim.
std::int64_t CostModel::part_begin(std::size_t operand, std::int64_t core) const {
  std::int64_t moved = 0;
  if (problem_.parts.empty()) return moved;
  for (const auto* dims : {&problem_.n_dims, &problem_.m_dims, &problem_.batch_dims})
    for (auto dim = dims->rbegin(); dim != dims->rend(); ++dim) {
      const auto d = static_cast<std::size_t>(*dim);
      const std::int64_t digit = core % problem_.parts[d];
      core /= problem_.parts[d];
      const std::int64_t further = digit * problem_.domain.extents[d] - problem_.first[d];
      const std::vector<AxisAccess>& axes = access(operand).axes;
      for (std::size_t axis = 0; axis < axes.size(); ++axis)
        for (const AxisAccess::Term& term : axes[axis].terms)
          if (term.dim == *dim) moved += further * term.coefficient * strides_[operand][axis];
    }
  return moved / 8;
}

CostModel::Times CostModel::crowded(const Nest& nest, std::int64_t most_steps) {
  constexpr double never = std::numeric_limits<double>::infinity();
  double count = static_cast<double>(problem_.cores);
  for (std::size_t d = 0; d < nest.tiles.size(); ++d) count *= static_cast<double>(parts(nest, d));
  const bool apart = machine_.core.count > 1 && !problem_.multicast && machine_.sorts.empty();
  if (!apart || count > static_cast<double>(most_steps)) return {never, never};
  Walk walk{*this, nest, plan(problem_, nest)};
  walk.list();
  return {crowded(walk, false), machine_.core.dma.load_queues < 2 ? never : crowded(walk, true)};
}

double CostModel::crowd(const Nest& nest, std::int64_t most_steps) {
  const Times times = crowded(nest, most_steps);
  return std::min(times.one, times.two);
}

double CostModel::cycles(const Nest& nest) {
  constexpr std::int64_t most_steps = 1600;
  const double together = crowd(nest, most_steps);
  return together < std::numeric_limits<double>::infinity() ? together : steps(nest);
}

}  // namespace tilesim::mapping
