// Published rules by which other tools choose nests, for comparison.
#include <algorithm>
#include <cmath>
#include <tuple>

#include "tilesim/base/error.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/mapping/space.hpp"

namespace tilesim::mapping {

namespace {

std::int64_t extent_of(const Problem& problem, const std::vector<int>& dims) {
  std::int64_t count = 1;
  for (int dim : dims) count *= problem.domain.extents[static_cast<std::size_t>(dim)];
  return count;
}

/// Sets the tiles of a group of loops to `size` elements in total; fills inner loops first.
void spread(const Problem& problem, const std::vector<int>& dims, std::int64_t size, Nest& nest) {
  for (auto dim = dims.rbegin(); dim != dims.rend(); ++dim) {
    const std::int64_t extent = problem.domain.extents[static_cast<std::size_t>(*dim)];
    nest.tiles[static_cast<std::size_t>(*dim)] = std::clamp<std::int64_t>(size, 1, extent);
    size = ceil_div(size, extent);
  }
}

Nest nest_of(const Problem& problem, std::int64_t m, std::int64_t n, std::int64_t k) {
  Nest nest{std::vector<std::int64_t>(problem.domain.extents.size(), 1), problem.batch_dims, {2, 2, 2}};
  for (const auto* dims : {&problem.m_dims, &problem.n_dims, &problem.k_dims})
    nest.order.insert(nest.order.end(), dims->begin(), dims->end());
  spread(problem, problem.m_dims, m, nest);
  spread(problem, problem.n_dims, n, nest);
  spread(problem, problem.k_dims, k, nest);
  nest.on_vector = problem.on_vector;
  if (const auto d = static_cast<std::size_t>(problem.siblings); problem.siblings >= 0)
    nest.tiles[d] = problem.domain.extents[d];
  return nest;
}

/// Gemmini's tiled_matmul_auto, weight stationary: tiles in blocks of the array's side, first square in half the
/// accumulator, then grown in turn while they fit half the scratchpad (gemmini-rocc-tests, include/gemmini.h; Genc et
/// al., DAC 2021).
Nest gemmini(const Problem& problem, const Share& machine) {
  const ArraySpec& array = machine.core.array;
  const ScratchpadSpec& memory = machine.core.scratchpad;
  const std::int64_t dim = array.rows;
  const bool apart = memory.accumulator_bytes > 0;
  const std::int64_t inputs = apart ? memory.bytes : memory.bytes / 4 * 3;
  const std::int64_t sums = apart ? memory.accumulator_bytes : memory.bytes / 4;
  const std::int64_t rows = inputs / std::max<std::int64_t>(1, packed_bytes(problem.dtypes[0], array.columns));
  const std::int64_t accumulator = sums / std::max<std::int64_t>(1, packed_bytes(problem.dtypes[2], array.columns)) / 2;
  const std::int64_t blocks[3] = {ceil_div(extent_of(problem, problem.m_dims), dim),
                                  ceil_div(extent_of(problem, problem.n_dims), array.columns),
                                  ceil_div(extent_of(problem, problem.k_dims), dim)};
  const auto side = std::max<std::int64_t>(
      1, static_cast<std::int64_t>(std::sqrt(static_cast<double>(accumulator) / static_cast<double>(dim))));
  std::int64_t tile[3] = {std::min(blocks[0], side), std::min(blocks[1], side),
                          std::clamp<std::int64_t>(rows / 4 / dim / side, 1, blocks[2])};
  const auto fits = [&] {
    return (tile[0] * tile[2] + tile[2] * tile[1]) * dim <= rows / 2 && tile[0] * tile[1] * dim <= accumulator;
  };
  for (bool grown = true; grown;) {
    grown = false;
    for (const int i : {1, 0, 2}) {
      if (tile[i] >= blocks[i]) continue;
      ++tile[i];
      if (fits())
        grown = true;
      else
        --tile[i];
    }
  }
  return nest_of(problem, tile[0] * dim, tile[1] * array.columns, tile[2] * dim);
}

/// Tile sizes that PyTorchSim tries: the lanes times a divisor of the padded extent; small extents are padded to 8.
std::vector<std::int64_t> lane_multiples(std::int64_t extent, std::int64_t lanes, std::int64_t most) {
  if (extent <= lanes) return {round_up(extent, 8)};
  const std::int64_t count = ceil_div(extent, lanes);
  std::vector<std::int64_t> sizes;
  for (std::int64_t divisor = 1; divisor <= std::min(count, std::max<std::int64_t>(1, most / lanes)); ++divisor)
    if (count % divisor == 0) sizes.push_back(divisor * lanes);
  return sizes;
}

/// PyTorchSim's heuristic for products: the largest tiles below half the scratchpad (Yang et al., MICRO 2025, and its
/// v1.1.0 sources).
Nest pytorchsim(const Problem& problem, const Share& machine) {
  const std::int64_t lanes = machine.core.array.columns;
  const std::int64_t most = machine.core.scratchpad.bytes;  // larger tiles never fit
  const auto rows = lane_multiples(extent_of(problem, problem.m_dims), lanes, most),
             columns = lane_multiples(extent_of(problem, problem.n_dims), lanes, most),
             depths = lane_multiples(extent_of(problem, problem.k_dims), lanes, most);
  std::vector<std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t>> fitting;  // bytes, m, n, k
  for (std::int64_t m : rows)
    for (std::int64_t n : columns)
      for (std::int64_t k : depths) {
        const std::int64_t bytes = packed_bytes(problem.dtypes[0], m * k) + packed_bytes(problem.dtypes[1], k * n) +
                                   packed_bytes(problem.dtypes[2], m * n);
        if (bytes < machine.core.scratchpad.bytes / 2) fitting.emplace_back(bytes, m, n, k);
      }
  std::sort(fitting.rbegin(), fitting.rend());
  for (const auto& [bytes, m, n, k] : fitting)
    if (const Nest nest = nest_of(problem, m, n, k); legal(problem, nest, machine).legal) return nest;
  return nest_of(problem, rows[0], columns[0], depths[0]);
}

/// Gemmini repeats pixels in a scratchpad row if two or more fit (`max_pixels_per_row` of tiled_conv_auto,
/// gemmini-rocc-tests, include/gemmini.h); PyTorchSim packs the kernel's width below an eighth of the lanes.
Nest packed_by_rule(const std::string& strategy, const Problem& problem, Nest nest, const Share& machine) {
  if (problem.k_dims.size() < 2) return nest;
  const ArraySpec& array = machine.core.array;
  const std::int64_t channels = problem.domain.extents[static_cast<std::size_t>(problem.k_dims.back())];
  const bool few = strategy == "gemmini" ? 2 * channels <= array.rows : 8 * channels < array.columns;
  if (!few) return nest;
  const auto window = [&](int dim) {  // kernel positions share an axis with rows
    for (const AxisAccess& axis : problem.domain.operands[0].axes)
      for (const AxisAccess::Term& term : axis.terms)
        if (term.dim == dim) return axis.terms.size() > 1;
    return false;
  };
  for (std::size_t i = problem.k_dims.size() - 1; i-- > 0;) {
    if (!window(problem.k_dims[i]) || problem.domain.extents[static_cast<std::size_t>(problem.k_dims[i])] < 2) continue;
    nest.pack = problem.k_dims[i];
    if (wrong_pack(problem, nest, machine).empty()) return nest;
  }
  nest.pack = -1;
  return nest;
}

}  // namespace

const std::vector<std::string>& strategies() {
  static const std::vector<std::string> names{"profile", "heuristic", "cost", "gemmini", "pytorchsim"};
  return names;
}

Nest by_strategy(const std::string& strategy, const Problem& problem, const Share& machine) {
  Nest nest;
  if (strategy == "cost" || strategy == "profile") return search(problem, machine).best[0].nest;
  if (strategy == "heuristic") return refined(problem, machine, heuristic(problem, machine));
  if (strategy == "gemmini")
    nest = gemmini(problem, machine);
  else if (strategy == "pytorchsim")
    nest = pytorchsim(problem, machine);
  else
    throw UserError({"unknown mapping", {}, "'" + strategy + "'", join(strategies()), nearest(strategy, strategies())});
  // These rules ignore epilogue operands, so the largest tile is halved until the nest is legal.
  while (!legal(problem, nest, machine).legal) {
    const auto largest = std::max_element(nest.tiles.begin(), nest.tiles.end());
    if (*largest <= 1) return heuristic(problem, machine);
    *largest = ceil_div(*largest, 2);
  }
  return packed_by_rule(strategy, problem, std::move(nest), machine);
}

Nest refined(const Problem& problem, const Share& machine, const Nest& start) {
  constexpr int most_rounds = 12;
  constexpr std::int64_t most_steps = 2000;
  CostModel model(problem, machine);
  const Space choices = space(problem, machine);
  Nest here = start;
  double now = model.price(here).soft;
  for (int round = 0; round < most_rounds; ++round) {
    Nest next;
    double best = now;
    for (Nest& other : choices.neighbours(here, false)) {
      other = packed(problem, std::move(other), machine);
      if (!model.fits(other)) continue;
      const double rank = model.price(other).soft;
      if (rank >= best) continue;
      best = rank;
      next = std::move(other);
    }
    if (best >= now * (1 - 1e-6)) break;
    here = std::move(next);
    now = best;
  }
  // The closed form omits work that does not overlap. The walk decides if there are few enough tiles.
  const double before = model.steps(start, most_steps), after = model.steps(here, most_steps);
  if (std::isinf(before) && std::isinf(after))
    return model.price(here).bound <= model.price(start).bound ? here : start;
  return after <= before ? here : start;
}

}  // namespace tilesim::mapping
