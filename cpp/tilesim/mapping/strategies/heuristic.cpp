// A greedy heuristic: grows the tile that shortens the estimated time most, until half the scratchpad is used.
#include <algorithm>
#include <limits>

#include "tilesim/base/error.hpp"
#include "tilesim/base/index.hpp"
#include "tilesim/mapping/arrays.hpp"

namespace tilesim::mapping {

namespace {

std::int64_t product(const Problem& problem, const std::vector<int>& dims, const Nest& nest) {
  std::int64_t count = 1;
  for (int dim : dims)
    count *= std::min(nest.tiles[static_cast<std::size_t>(dim)], problem.domain.extents[static_cast<std::size_t>(dim)]);
  return count;
}

double tile_count(const Problem& problem, const Nest& nest) {
  double count = 1;
  for (std::size_t d = 0; d < nest.tiles.size(); ++d)
    count *= static_cast<double>(ceil_div(problem.domain.extents[d], nest.tiles[d]));
  return count;
}

/// Bytes that memory moves / bytes of a tile: full bursts per contiguous run, or full layout tiles.
double overfetch(const Problem& problem, const Nest& nest, const Share& machine, std::size_t operand) {
  const Access& access = operand < 2 ? problem.domain.operands[operand] : problem.domain.results[0];
  const std::size_t rank = access.axes.size();
  if (rank == 0) return 1;
  std::vector<std::int64_t> extents;
  const std::vector<std::int64_t> along = taken_along(problem, nest, operand);
  for (std::size_t axis = 0; axis < rank; ++axis) {
    std::int64_t extent = access.axes[axis].window + (along.empty() ? 0 : along[axis]);
    for (const AxisAccess::Term& term : access.axes[axis].terms) {
      const auto d = static_cast<std::size_t>(term.dim);
      extent += std::abs(term.coefficient) * (std::min(nest.tiles[d], problem.domain.extents[d]) - 1);
    }
    extents.push_back(std::max<std::int64_t>(1, std::min(extent, problem.shapes[operand][axis])));
  }
  const auto axis_at = [&](std::size_t i) {  // axis number, minor first
    const std::vector<int>& order = problem.minor_to_major[operand];
    return order.size() == rank ? static_cast<std::size_t>(order[i]) : rank - 1 - i;
  };
  const Shape& tile = machine.layout.tile;
  if (tile.size() == 2 && rank >= 2) {
    const std::int64_t minor = extents[axis_at(0)], second = extents[axis_at(1)];
    return static_cast<double>(round_up(minor, tile[1])) / static_cast<double>(minor) *
           static_cast<double>(round_up(second, tile[0])) / static_cast<double>(second);
  }
  std::int64_t run = 1;
  for (std::size_t i = 0; i < rank; ++i) {
    run *= extents[axis_at(i)];
    if (extents[axis_at(i)] < problem.shapes[operand][axis_at(i)]) break;
  }
  const std::int64_t bytes = std::max<std::int64_t>(1, packed_bytes(problem.memory_dtypes[operand], run));
  return static_cast<double>(round_up(bytes, machine.memory.burst_bytes)) / static_cast<double>(bytes);
}

std::vector<std::int64_t> clipped(const Problem& problem, const Nest& nest) {
  std::vector<std::int64_t> tile(nest.tiles.size());
  for (std::size_t d = 0; d < tile.size(); ++d) tile[d] = tile_of(problem, nest, d);
  return tile;
}

/// Cycles of all tiles. Partial tiles at the end of each dim from `dim` on have their own extent.
double compute_cycles(const Problem& problem, Nest& nest, const Share& machine, LatencyModel& closed_form,
                      const TileWork& unit, std::size_t dim, double count) {
  for (; dim < nest.tiles.size(); ++dim) {
    const std::int64_t extent = problem.domain.extents[dim], tile = nest.tiles[dim];
    if (tile >= extent) continue;
    const std::int64_t rest = extent % tile;
    const double full =
        compute_cycles(problem, nest, machine, closed_form, unit, dim + 1, count * static_cast<double>(extent / tile));
    if (rest == 0) return full;
    nest.tiles[dim] = rest;
    const double last = compute_cycles(problem, nest, machine, closed_form, unit, dim + 1, count);
    nest.tiles[dim] = tile;
    return full + last;
  }
  const std::vector<std::int64_t> tile = clipped(problem, nest);
  bool adds = false;
  for (std::size_t d = 0; d < tile.size(); ++d)
    adds |= problem.domain.reduction[d] && nest.tiles[d] < problem.domain.extents[d];
  return static_cast<double>(tile_busy(problem, unit, tile, machine, closed_form, adds)) * count;
}

double estimate(const Problem& problem, const Nest& nest, const Share& machine, LatencyModel& closed_form) {
  Nest walked = nest;
  const TileWork unit = tile_work(problem, nest, machine, closed_form);
  const double busy = std::max(compute_cycles(problem, walked, machine, closed_form, unit, 0, 1),
                               unfolding_cycles(problem, nest, machine));
  const Traffic moved = traffic(problem, nest);
  const double port =
      static_cast<double>(machine.network.port_bytes_per_cycle) * static_cast<double>(machine.network.clock.hertz);
  const double rate = std::min(static_cast<double>(machine.memory.bytes_per_second) * machine.memory.efficiency,
                               machine.network.kind == "simple" ? port : 1e18) /
                      static_cast<double>(machine.core.clock.hertz);
  double bytes = 0, exposed = 0, transfers = 0, steps = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    const double element =
        static_cast<double>(bits(problem.memory_dtypes[i])) / 8.0 * overfetch(problem, nest, machine, i);
    bytes += static_cast<double>(moved.elements[i]) * element;
    exposed += static_cast<double>(tile_elements(problem, nest, i)) * element;
    transfers += static_cast<double>(moved.transfers[i]);
    steps = std::max(steps, static_cast<double>(moved.transfers[i]));
  }
  // With two buffers, every second step waits for a load that was just issued.
  const double latency =
      static_cast<double>(machine.memory.latency_ps) * 1e-12 * static_cast<double>(machine.core.clock.hertz) +
      static_cast<double>(machine.core.dma.latency_cycles + machine.core.dma.issue_cycles);
  const double waiting = (steps * latency + busy + bytes / rate) / 2;
  const double overhead = static_cast<double>(machine.core.dma.issue_cycles) * transfers;
  // Tie-breakers: every step issues several instructions, which have no cost here, and hidden traffic costs energy.
  const double ties = tile_count(problem, nest) + 0.01 * bytes / rate;
  return std::max({busy, bytes / rate, overhead, waiting}) + exposed / rate + ties;
}

/// Loop order: batch, rows, columns, and contraction innermost, so that partial sums stay on chip.
std::vector<int> default_order(const Problem& problem) {
  std::vector<int> order = problem.batch_dims;
  order.insert(order.end(), problem.m_dims.begin(), problem.m_dims.end());
  order.insert(order.end(), problem.n_dims.begin(), problem.n_dims.end());
  order.insert(order.end(), problem.k_dims.begin(), problem.k_dims.end());
  return order;
}

bool fits(const Problem& problem, const Nest& nest, const Share& machine, std::int64_t divisor) {
  if (!legal(problem, nest, machine).legal) return false;
  return scratchpad_bytes(problem, nest, machine) <= machine.core.scratchpad.bytes / divisor;
}

/// Starts with the array's shape and halves the largest tile until the nest is legal.
Nest smallest(const Problem& problem, const Share& machine) {
  const ArraySpec& array = machine.core.array;
  Nest nest{std::vector<std::int64_t>(problem.domain.extents.size(), 1), default_order(problem), {2, 2, 2}};
  const auto start = [&](const std::vector<int>& dims, std::int64_t size) {
    if (dims.empty()) return;
    const auto d = static_cast<std::size_t>(dims.back());
    nest.tiles[d] = std::min(size, problem.domain.extents[d]);
  };
  start(problem.m_dims, std::min<std::int64_t>(array.rows, 64));
  start(problem.n_dims, array.columns);
  start(problem.k_dims, array.rows);
  const std::int64_t together = problem.siblings < 0 ? 0 : problem.domain.extents[at(problem.siblings)];
  const auto largest_tile = [&] {  // the largest tile that may be split
    auto largest = nest.tiles.end();
    for (auto tile = nest.tiles.begin(); tile != nest.tiles.end(); ++tile)
      if (tile - nest.tiles.begin() != problem.siblings && (largest == nest.tiles.end() || *tile > *largest))
        largest = tile;
    return largest;
  };
  if (problem.siblings >= 0) nest.tiles[at(problem.siblings)] = together;
  while (!legal(problem, nest, machine).legal) {
    const auto largest = largest_tile();
    if (*largest > 1) {
      *largest = (*largest + 1) / 2;
      continue;
    }
    if (nest.depths == std::vector<std::int64_t>{1, 1, 1})
      throw UserError(
          {"no tile of " + problem.operation + " fits the scratchpad: " + legal(problem, nest, machine).reason,
           problem.operation,
           {},
           {},
           "Use a machine with a larger scratchpad"});
    nest.depths = {1, 1, 1};
  }
  return nest;
}

}  // namespace

double estimated_cycles(const Problem& problem, const Nest& nest, const Share& machine) {
  ClosedForm closed_form(machine);
  if (!problem.on_vector) {
    const auto rate = machine.core.array.rates.find(problem.dtypes[0]);
    if (rate == machine.core.array.rates.end() || rate->second <= 0) return std::numeric_limits<double>::infinity();
  }
  return estimate(problem, nest, machine, closed_form);
}

int lane_dim(const Problem& problem, const Nest& nest, const Share& machine) {
  const std::int64_t lanes = machine.core.vector.lanes;
  const auto strided = [&](int dim) {
    for (const AxisAccess& axis : problem.domain.operands[0].axes)
      for (const AxisAccess::Term& term : axis.terms)
        if (term.dim == dim && term.coefficient != 1) return true;
    return false;
  };
  int best = -1;
  double waste = std::numeric_limits<double>::infinity();
  for (const auto* dims : {&problem.batch_dims, &problem.n_dims, &problem.m_dims})
    for (int dim : *dims) {
      const std::int64_t extent = product(problem, {dim}, nest);
      const double own = static_cast<double>(round_up(extent, lanes)) / static_cast<double>(extent) +
                         (strided(dim) ? static_cast<double>(lanes) : 0);
      if (own < waste) {
        waste = own;
        best = dim;
      }
    }
  return best;
}

namespace {

/// Doubles the shortest tile until no tile can grow.
Nest balanced(const Problem& problem, Nest nest, const Share& machine) {
  while (true) {
    int shortest = -1;
    for (std::size_t d = 0; d < nest.tiles.size(); ++d) {
      if (nest.tiles[d] >= problem.domain.extents[d]) continue;
      if (shortest >= 0 && nest.tiles[d] >= nest.tiles[static_cast<std::size_t>(shortest)]) continue;
      Nest candidate = nest;
      candidate.tiles[d] = std::min(problem.domain.extents[d], nest.tiles[d] * 2);
      if (fits(problem, candidate, machine, 1)) shortest = static_cast<int>(d);
    }
    if (shortest < 0) return nest;
    const auto d = static_cast<std::size_t>(shortest);
    nest.tiles[d] = std::min(problem.domain.extents[d], nest.tiles[d] * 2);
  }
}

/// Grows rows, inner loops first, to the array's number of rows: with fewer rows, streaming waits for the next weights.
Nest filled(const Problem& problem, Nest nest, const Share& machine) {
  for (auto dim = problem.m_dims.rbegin(); dim != problem.m_dims.rend(); ++dim) {
    const auto d = static_cast<std::size_t>(*dim);
    const std::int64_t others = product(problem, problem.m_dims, nest) / tile_of(problem, nest, d);
    Nest more = nest;
    more.tiles[d] =
        std::min(problem.domain.extents[d],
                 std::max(nest.tiles[d], ceil_div(machine.core.array.rows, std::max<std::int64_t>(1, others))));
    if (!fits(problem, more, machine, 1)) return nest;
    nest = std::move(more);
  }
  return nest;
}

/// Improves a nest step by step; sets `time` to its estimated time.
Nest climb(const Problem& problem, Nest best, const Share& machine, LatencyModel& closed_form, double& time) {
  best = packed(problem, std::move(best), machine);
  time = estimate(problem, best, machine, closed_form);
  // The scratchpad's other half is for second buffers. If no tile can grow, one dim may grow while another shrinks.
  for (int step = 0; step < 256; ++step) {
    Nest choice;
    double gain = 0;
    const auto consider = [&](Nest candidate) {
      candidate = packed(problem, std::move(candidate), machine);
      if (!fits(problem, candidate, machine, 1)) return;
      const double other = estimate(problem, candidate, machine, closed_form);
      if (time - other <= gain) return;
      gain = time - other;
      choice = std::move(candidate);
    };
    const auto grow = [&](const Nest& from) {
      for (std::size_t d = 0; d < from.tiles.size(); ++d) {
        const std::int64_t extent = problem.domain.extents[d];
        if (from.tiles[d] >= extent) continue;
        for (const std::int64_t next : {std::min(extent, from.tiles[d] * 2), extent}) {
          Nest candidate = from;
          candidate.tiles[d] = next;
          consider(candidate);
        }
      }
    };
    grow(best);
    if (gain <= time * 1e-9)
      for (std::size_t shrunk = 0; shrunk < best.tiles.size(); ++shrunk) {
        if (best.tiles[shrunk] <= 1) continue;
        for (const std::int64_t divisor : {2, 4}) {
          Nest smaller = best;
          smaller.tiles[shrunk] = ceil_div(best.tiles[shrunk], divisor);
          grow(smaller);
        }
      }
    if (gain <= time * 1e-9) break;
    best = choice;
    time -= gain;
  }
  return best;
}

}  // namespace

Nest heuristic(const Problem& problem, const Share& machine) {
  const Nest start = smallest(problem, machine);
  ClosedForm closed_form(machine);
  LatencyStore latencies(closed_form, {}, 256);
  Nest best;
  double least = std::numeric_limits<double>::infinity();
  for (const Nest& from : {start, balanced(problem, start, machine), filled(problem, start, machine)}) {
    double time = 0;
    Nest nest = climb(problem, from, machine, latencies, time);
    if (best.tiles.empty() || time < least) {
      best = std::move(nest);
      least = time;
    }
  }
  return best;
}

}  // namespace tilesim::mapping
