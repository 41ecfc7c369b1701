// Skips loads and products of all-zero weight tiles. The kernel moves and multiplies its operands in pieces of one such
// tile; counts of nonzero tiles, stored with the weights, select the pieces.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tilesim/base/index.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/compile/product/product.hpp"
#include "tilesim/mapping/space.hpp"

namespace tilesim::lower {

using program::Block;

namespace {

/// The nest with one zero tile in the contraction, which is innermost, and whole ones across; empty: none fits.
mapping::Nest in_zero_tiles(const mapping::Problem& problem, mapping::Nest nest, int k, int across,
                            const Share& machine) {
  const std::size_t dims = nest.tiles.size();
  if (nest.sub.empty()) nest.sub.assign(dims, 0);
  nest.order.erase(std::find(nest.order.begin(), nest.order.end(), k));
  nest.order.push_back(k);
  nest.tiles[at(k)] = std::min(zero_tile, problem.domain.extents[at(k)]);
  std::int64_t& wide = nest.tiles[at(across)];
  wide = std::min(round_up(wide, zero_tile), problem.domain.extents[at(across)]);
  constexpr int most = 60;  // limit on halvings
  for (int step = 0; step < most; ++step) {
    for (std::size_t d = 0; d < dims; ++d) nest.sub[d] = nest.tiles[d];
    nest.sub[at(across)] = std::min(zero_tile, wide);
    if (mapping::legal(problem, nest, machine).legal && mapping::plan(problem, nest).whole == 0) return nest;
    std::size_t largest = dims;
    for (std::size_t d = 0; d < dims; ++d)
      if (nest.tiles[d] > (static_cast<int>(d) == across ? zero_tile : 1) && static_cast<int>(d) != k &&
          (largest == dims || nest.tiles[d] > nest.tiles[largest]))
        largest = d;
    const auto deepest = std::max_element(nest.depths.begin(), nest.depths.end());
    if (*deepest > 2 || (largest == dims && *deepest > 1)) {
      --*deepest;
      continue;
    }
    if (largest == dims) break;
    nest.tiles[largest] = ceil_div(nest.tiles[largest], 2);
    if (static_cast<int>(largest) == across) wide = round_up(wide, zero_tile);
  }
  nest.tiles.clear();
  return nest;
}

/// Mean share of contraction slices with a nonzero tile within `across` elements.
double slices_needed(const Weight& beside, std::int64_t across) {
  const std::int64_t depth = beside.type.shape[0], all = beside.type.shape[1] - 1;
  const std::int64_t step = std::max<std::int64_t>(1, across / zero_tile);
  const auto* counts = beside.data.as<std::int32_t>();
  double needed = 0, seen = 0;
  for (std::int64_t k = 0; k < depth; ++k)
    for (std::int64_t o = 0; o < all; o += step, ++seen) {
      const std::int32_t* line = counts + k * (all + 1);
      needed += line[std::min(all, o + step)] > line[o] ? 1 : 0;
    }
  return seen > 0 ? needed / seen : 0;
}

}  // namespace

void ProductLowering::skip_zero_tiles() {
  if (!kernel_.parts.empty()) return;  // siblings do not skip tiles
  zeros_ =
      finds_zero_tiles(anchor_) ? zero_tiles_of(anchor_) : zero_tiles_of(context_.graph, context_.function, anchor_);
  if (zeros_.operand < 0) return;
  if (finds_zero_tiles(anchor_)) {
    zeros_.before = context_.placements[at(anchor_.operands[3])].tensor;
    zeros_.beside = context_.placements[at(anchor_.operands[4])].tensor;
  }
  const std::string why = plan_zero_tiles();
  if (why.empty()) {
    if (context_.options.unused) context_.options.unused->erase(anchor_.name);
    return;
  }
  zeros_ = {};
  const std::string note = anchor_.name + ": tiles of zeros are multiplied: " + why;
  if (context_.options.unused) (*context_.options.unused)[anchor_.name] = note;
  context_.program.notes.push_back(note);
}

/// The reason why zero tiles are not skipped; empty: they are.
std::string ProductLowering::plan_zero_tiles() {
  if (!refusal_.empty()) return "its kernel is split";
  if (problem_.on_vector) return "the vector unit multiplies";
  if (is_two_of_four(problem_.dtypes[1])) return "its weight is stored in the pattern 2:4";
  if (context_.options.mappings.count(anchor_.name)) return "its mapping is given";
  const std::vector<int>& others = zeros_.operand == 1 ? problem_.n_dims : problem_.m_dims;
  if (problem_.k_dims.size() != 1 || others.size() != 1 || !problem_.batch_dims.empty())
    return "its operands are not matrices";
  if (!reduced_result_dims().empty()) return "its epilogue needs whole rows";
  zero_depth_ = problem_.k_dims[0];
  zero_across_ = others[0];
  const bool within = std::any_of(split_.parts.begin(), split_.parts.end(), [&](const CoreSplit::DimSplit& part) {
    return (part.dim == zero_depth_ || part.dim == zero_across_) &&
           (part.chunk % zero_tile != 0 || !part.stretches.empty());
  });
  double cycles = std::numeric_limits<double>::infinity();
  mapping::Problem apart = problem_;
  apart.multicast = false;
  mapping::Nest nest = within ? mapping::Nest{} : zero_tile_nest(apart, cycles);
  if (!divide_beside_zeros(cycles * (within ? 1 : uneven_zeros()))) {
    if (within) return "parts of cores begin within tiles";
    if (nest.tiles.empty()) return "that takes less by the estimate";
    nest_ = std::move(nest);
    problem_.multicast = split_.multicast = false;
  }
  declare_zero_tiles();
  if (finds_zero_tiles(anchor_)) {
    context_.program.notes.push_back(anchor_.name + ": tiles that a test finds to be zero are neither loaded nor " +
                                     "multiplied");
    return {};
  }
  const double share = share_left(context_.graph, context_.function, anchor_, zeros_.operand);
  context_.program.notes.push_back(anchor_.name + ": tiles of zeros are neither loaded nor multiplied, " +
                                   std::to_string(static_cast<int>(std::lround(100 * share))) + " % are left");
  return {};
}

/// The fastest nest found in whole zero tiles, by steps to adjacent nests from the nest of a product reduced to the
/// nonzero tiles and from the nest for all tiles; empty if multiplying all tiles is faster.
mapping::Nest ProductLowering::zero_tile_nest(const mapping::Problem& apart, double& cycles) const {
  constexpr int most_rounds = 8;
  const Share& machine = seen_ ? *seen_ : context_.machine;
  constexpr double expected = 0.5;  // assumed share of nonzero tiles of activations
  const bool found = finds_zero_tiles(anchor_);
  const double share = found ? expected : share_left(context_.graph, context_.function, anchor_, zeros_.operand);
  const auto whole_depth = static_cast<double>(apart.domain.extents[at(zero_depth_)]);
  mapping::Problem left = apart;
  std::int64_t& depth = left.domain.extents[at(zero_depth_)];
  depth = std::min(depth, std::max(zero_tile, round_up(std::llround(whole_depth * share), zero_tile)));
  mapping::Problem searched = left;
  const mapping::Nest of_left = product_nest(context_, kernel_, searched, machine);
  if (searched.on_vector) return {};
  mapping::CostModel model(left, machine);
  const Weight* beside = found ? nullptr : &context_.graph.weights.at(zeros_.beside);
  const auto cycles_of = [&](const mapping::Nest& nest) {
    const mapping::Cost cost = model.price(nest);
    const double slices = beside ? slices_needed(*beside, nest.tiles[at(zero_across_)]) : 1;
    const double needed = slices * whole_depth / static_cast<double>(depth);
    const double further = static_cast<double>(cost.bytes[at(1 - zeros_.operand)]) * std::max(0.0, needed - 1);
    const double all = std::max(1.0, static_cast<double>(cost.total_bytes()));
    // With less than one nonzero tile per column some results have no products, but are stored.
    const double of_tile = std::min(1.0, whole_depth * share / static_cast<double>(depth));
    return std::max(of_tile * std::max(cost.soft, cost.memory * (1 + further / all)),
                    cost.memory * static_cast<double>(cost.bytes[2]) / all);
  };
  const auto tiled = [&](const mapping::Nest& nest) {
    return in_zero_tiles(apart, nest, zero_depth_, zero_across_, machine);
  };
  const mapping::Space choices = mapping::space(apart, machine);
  mapping::Nest best;
  double least = mapping::CostModel(problem_, machine).price(nest_).soft;
  for (mapping::Nest here : {tiled(of_left), tiled(nest_)}) {
    if (here.tiles.empty()) continue;
    double now = cycles_of(here);
    for (int round = 0; round < most_rounds; ++round) {
      mapping::Nest next;
      for (const mapping::Nest& neighbour : choices.neighbours(here, false)) {
        mapping::Nest other = tiled(neighbour);
        if (other.tiles.empty()) continue;
        if (const double time = cycles_of(other); time < now) now = time, next = std::move(other);
      }
      if (next.tiles.empty()) break;
      here = std::move(next);
    }
    if (now < least) least = now, best = std::move(here);
  }
  cycles = best.tiles.empty() ? std::numeric_limits<double>::infinity() : least;
  return best;
}

/// Assumes that every tile is nonzero until the data is known.
void ProductLowering::expect_all_tiles() {
  columns_of_zeros_ = true;
  for (const bool before : {true, false}) {
    program::Tensor* tensor = find_tensor(context_, before ? zeros_.before : zeros_.beside);
    const Shape& shape = context_.value(anchor_.operands[before ? 3 : 4]).type.shape;
    if (!tensor || !tensor->typical.values.empty()) continue;
    tensor->typical.how = "no tile is all zero";
    for (std::int64_t k = 0; k < shape[0]; ++k)
      for (std::int64_t o = 0; o < shape[1]; ++o) tensor->typical.values.push_back(before ? k : o);
  }
}

void ProductLowering::declare_zero_tiles() {
  if (finds_zero_tiles(anchor_)) return expect_all_tiles();
  for (const std::string& key : {zeros_.before, zeros_.beside}) {
    const Weight& weight = context_.graph.weights.at(key);
    const auto* counts = weight.data.as<std::int32_t>();
    if (key == zeros_.before) {
      const std::int64_t across = weight.type.shape[1], all = weight.data.size() - across;
      columns_of_zeros_ = std::any_of(counts + all, counts + all + across, [](std::int32_t left) { return left == 0; });
    }
    if (find_tensor(context_, key)) continue;
    program::Tensor tensor;
    tensor.name = tensor.weight = key;
    tensor.dtype = DType::i32;
    for (std::int64_t extent : weight.type.shape) tensor.shape.push_back(Expr(extent));
    tensor.role = program::Role::weight;
    tensor.typical = {{counts, counts + weight.data.size()}, "tiles of the weight that are not zero"};
    context_.program.tensors.push_back(std::move(tensor));
  }
}

/// Number of nonzero tiles along the contraction before the current piece; `further`: including it.
Expr ProductLowering::tiles_before(bool further) const {
  const Expr k = floor_div(start(zero_depth_), zero_tile) + Expr(further ? 1 : 0);
  return Expr::read(zeros_.before, {k, floor_div(start(zero_across_), zero_tile)});
}

Expr ProductLowering::is_left() const { return less(tiles_before(false), tiles_before(true)); }

/// Condition: the piece is multiplied with some nonzero tile.
Expr ProductLowering::is_needed(int index) const {
  if (index == zeros_.operand) return is_left();
  const auto outside =
      static_cast<std::size_t>(std::find(nest_.order.begin(), nest_.order.end(), zero_across_) - nest_.order.begin());
  const bool of_tile = loops(zero_across_) && outside < plan_.depth_in_order(static_cast<std::size_t>(index));
  const Expr first = of_tile ? tile_start(zero_across_) : split_.base(zero_across_);
  const Expr end = first + (of_tile ? tile_extent(zero_across_) : own_extent(zero_across_));
  const Expr k = floor_div(start(zero_depth_), zero_tile);
  return less(Expr::read(zeros_.beside, {k, floor_div(first, zero_tile)}),
              Expr::read(zeros_.beside, {k, ceil_div(end, zero_tile)}));
}

/// The block under the condition.
Block ProductLowering::where_left(const Expr& condition, Block block) const {
  Block guarded;
  guarded.push_back(on("", program::If{condition, std::move(block), {}}));
  return guarded;
}

/// Stores zeros to sums of columns (or rows) without nonzero tiles, which no product writes.
void ProductLowering::fill_zero_sums(Block& block) {
  std::int64_t all = unit_.grid.used();
  for (int dim : cut_results()) all *= results_in_pieces() ? piece_trips(dim) : 1;
  block.push_back(counted("c", windows_before() * Expr(all + 1) + Expr(all)));
  const bool cut = std::find(plan_.cut.begin(), plan_.cut.end(), zero_across_) != plan_.cut.end();
  const std::vector<int> dims = cut ? std::vector<int>{zero_across_} : std::vector<int>{};
  at_piece_.insert(dims.begin(), dims.end());
  program::VectorOp zeros;
  zeros.extents = result_extent();
  zeros.lane_dim = static_cast<int>(zeros.extents.size()) - 1;
  zeros.nodes.push_back({{.op = VectorNode::Op::constant, .dtype = problem_.dtypes[2]}, 0});
  program::View sums{"c", 0, window_offset() + piece_offset(domain_.results[0], accumulator_strides_), {}};
  for (std::size_t axis = 0; axis < zeros.extents.size(); ++axis)
    sums.dims.push_back({zeros.extents[axis], accumulator_strides_[axis]});
  zeros.outputs.push_back({0, sums, {}, Combiner::add, 0});
  const Shape& counted = finds_zero_tiles(anchor_) ? context_.value(anchor_.operands[3]).type.shape
                                                   : context_.graph.weights.at(zeros_.before).type.shape;
  const std::int64_t last = counted[0] - 1;
  const Expr left = Expr::read(zeros_.before, {Expr(last), floor_div(start(zero_across_), zero_tile)});
  Block fill, piece;
  fill.push_back(statement(std::move(zeros)));
  fill = where_left(equal(left, Expr(0)), std::move(fill));
  const Expr some = some_elements(dims);
  piece = some.is_constant() ? std::move(fill) : where_left(some, std::move(fill));
  at_piece_.clear();
  wrap_pieces(dims, std::move(piece), block);
  block.push_back(complete("c"));
}

}  // namespace tilesim::lower
