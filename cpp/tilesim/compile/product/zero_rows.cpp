// Weights with zero tiles on several cores: each core computes some rows of all columns, so that all use the same
// nonzero tiles and these leave the memory once.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tilesim/base/index.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/compile/product/product.hpp"

namespace tilesim::lower {

namespace {

/// Ratio of maximum to mean of the nonzero tiles in stretches of `step` columns of tiles.
double most_over_mean(const Weight& before, std::int64_t step) {
  const std::int64_t depth = before.type.shape[0] - 1, across = before.type.shape[1];
  const auto* left = before.data.as<std::int32_t>() + depth * across;
  double most = 0, sum = 0;
  for (std::int64_t first = 0; first < across; first += step) {
    double own = 0;
    for (std::int64_t o = first; o < std::min(across, first + step); ++o) own += left[o];
    most = std::max(most, own);
    sum += own;
  }
  const auto stretches = static_cast<double>(ceil_div(across, step));
  return sum > 0 ? most * stretches / sum : 1;
}

/// Nest with loops over full rows, the contraction and zero tiles; each tile is fetched separately or skipped.
mapping::Nest tile_by_tile(const mapping::Problem& part, int depth, int across, std::int64_t ahead, std::int64_t sums) {
  mapping::Nest nest{part.domain.extents, {}, {2, 2, sums}};
  for (int dim = 0; dim < static_cast<int>(part.domain.extents.size()); ++dim)
    if (dim != depth && dim != across) nest.order.push_back(dim);
  nest.order.insert(nest.order.end(), {depth, across});
  for (int dim : {depth, across}) nest.tiles[at(dim)] = std::min(zero_tile, part.domain.extents[at(dim)]);
  const std::size_t operand = depends_on(part.domain.operands[1], across) ? 1 : 0;
  nest.depths[operand] = ahead;
  return nest;
}

}  // namespace

/// Time of the core with most nonzero tiles, relative to the mean.
double ProductLowering::uneven_zeros() const {
  const CoreSplit::DimSplit* part = split_.find(zero_across_);
  if (!part || finds_zero_tiles(anchor_)) return 1;
  return most_over_mean(context_.graph.weights.at(zeros_.before), part->chunk / zero_tile);
}

/// Splits rows of the first operand over all cores, which send each other the nonzero tiles, if that takes fewer than
/// `most` cycles. Returns whether it does.
bool ProductLowering::divide_beside_zeros(double most) {
  const std::vector<int>& rows = problem_.m_dims;
  if (zeros_.operand != 1 || finds_zero_tiles(anchor_) || rows.size() != 1) return false;
  if (!multicasts(context_.machine) || !context_.machine.sorts.empty()) return false;
  mapping::Problem part = product_problem(context_, kernel_);
  Divided divided = split_along(context_, part, rows.back(), true);
  if (!part.multicast || divided.split.parts.empty()) return false;
  const auto d = at(zero_depth_);
  const double share = share_left(context_.graph, context_.function, anchor_, zeros_.operand);
  mapping::Problem left = part;
  const auto rest = static_cast<std::int64_t>(std::llround(share * static_cast<double>(part.domain.extents[d])));
  left.domain.extents[d] = std::min(part.domain.extents[d], std::max(zero_tile, round_up(rest, zero_tile)));
  const double all = mapping::CostModel(problem_, seen_ ? *seen_ : context_.machine).steps(nest_);
  constexpr double certain = 0.9;  // estimates of many small sends have an error of about 10%
  if (std::isfinite(all)) most = std::min(most, certain * all);  // multiplying all tiles
  mapping::CostModel model(left, divided.seen);
  mapping::Nest best;
  constexpr double waiting = 1.05;  // cores that send to each other wait for the slowest
  for (const std::int64_t ahead : {2, 4, 8, 16})
    for (const std::int64_t sums : {1, 2}) {
      mapping::Nest nest = tile_by_tile(part, zero_depth_, zero_across_, ahead, sums);
      if (!mapping::legal(part, nest, divided.seen).legal || mapping::plan(part, nest).whole == 0) continue;
      const double walked = model.steps(nest) * waiting;
      if (walked < most) most = walked, best = std::move(nest);
    }
  if (best.tiles.empty()) return false;
  problem_ = std::move(part);
  split_ = std::move(divided.split);
  seen_ = std::make_shared<const Share>(divided.seen);
  domain_ = problem_.domain;
  nest_ = std::move(best);
  return true;
}

/// Skips sends and products of zero tiles; a sum may be complete nevertheless.
program::Block ProductLowering::zero_tile_level(std::size_t depth) {
  program::Block tile, block;
  std::vector<int> fetched;
  for (int i = 0; i < 2; ++i)
    if (plan_.depth_in_order(static_cast<std::size_t>(i)) == depth) fetched.push_back(i);
  emit_operands(fetched, tile);
  emit_mma(tile);
  block = where_left(is_left(), std::move(tile));
  finish_window(block);
  return block;
}

}  // namespace tilesim::lower
