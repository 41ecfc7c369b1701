// Structure of a product kernel: loops, slots, and the position of the accumulator in the loops.
#include "tilesim/compile/product/product.hpp"

#include <algorithm>
#include <cmath>

#include "tilesim/base/error.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/compile/plan/cannot_run.hpp"
#include "tilesim/compile/product/sparse.hpp"
#include "tilesim/mapping/identity.hpp"
#include "tilesim/program/limits.hpp"

namespace tilesim::lower {

ProductLowering::ProductLowering(Context& context, const Kernel& kernel, const ProductPart& part)
    : context_(context),
      kernel_(kernel),
      anchor_(context.function.ops[static_cast<std::size_t>(kernel.anchor)]),
      problem_(ragged() ? ragged_problem(context, kernel) : product_problem(context, kernel)) {
  for (int index : kernel.ops)
    if (!kernel.multiplies(index)) fused_ops_.insert(index);
  if (part.extent >= 0)
    problem_.domain.extents[static_cast<std::size_t>((part.along == 0 ? problem_.m_dims : problem_.n_dims)[0])] =
        part.extent;
  for (const AxisAccess& axis : problem_.domain.results[0].axes)
    result_dim_.push_back(axis.terms.empty() ? -1 : axis.terms.back().dim);
  if (!kernel.parts.empty()) refusal_ = why_no_siblings(context, kernel);
  if (refusal_.empty() && !kernel.parts.empty() && saves_nothing()) {
    refusal_ = "the operand stays on chip: it is read from memory at most once";
    refused_by_price_ = true;
  }
  refuses_siblings_ = !refusal_.empty();
  if (refuses_siblings_) return;
  if (ragged())
    prepare_ragged();
  else
    divide_over_cores();
  skip_zero_tiles();
}

/// Chooses the split over the cores and the nest of one part.
void ProductLowering::divide_over_cores() {
  const bool given = context_.options.mappings.count(anchor_.name) > 0;
  std::string key;
  if (!given) {
    key = division_key();
    if (const auto known = context_.choices.divisions.find(key); known != context_.choices.divisions.end()) {
      const Division& division = *known->second;
      const std::string operation = problem_.operation;
      problem_ = division.problem;
      problem_.operation = operation;
      split_ = division.split;
      seen_ = division.seen;
      nest_ = division.nest;
      domain_ = division.domain;
      refusal_ = division.refusal;
      refused_by_price_ = division.by_price;
      refuses_siblings_ = division.siblings;
      return;
    }
  }
  search_division();
  if (!given)
    context_.choices.divisions[key] = std::make_shared<const Division>(
        Division{problem_, split_, seen_, nest_, domain_, refusal_, refused_by_price_, refuses_siblings_});
}

/// Key of the choice: all inputs that differ between kernels of the program.
std::string ProductLowering::division_key() const {
  std::string key = mapping::identity(problem_) + (is_exact(anchor_) ? "exact " : "");
  key += std::string(info(anchor_.kind).name) + " " + mapping::identity(context_.machine);
  for (int dim : reduced_result_dims()) key += " " + std::to_string(dim);
  key += " spares " + std::to_string(kernel_.spared_bytes) + (kernel_.spares_kernel ? " kernel" : "");
  return key;
}

void ProductLowering::search_division() {
  const mapping::Problem whole = problem_;
  for (const AllowedSplit allowed : {AllowedSplit::any, AllowedSplit::counted, AllowedSplit::even}) {
    problem_ = whole;
    Divided divided = split_product(context_, kernel_, problem_, reduced_result_dims(), allowed);
    split_ = std::move(divided.split);
    seen_ = std::make_shared<const Share>(divided.seen);
    nest_ = product_nest(context_, kernel_, problem_, *seen_);
    domain_ = problem_.domain;
    keep_reduced_columns_whole();
    keep_prologue_worth();
    keep_siblings_worth();
    if (counts_windows()) return;
  }
}

/// Dims that a reduction in the epilogue reduces.
std::vector<int> ProductLowering::reduced_result_dims() const {
  std::vector<int> dims;
  for (int op : fused_ops_) {
    const Op& candidate = context_.function.ops[static_cast<std::size_t>(op)];
    if (candidate.kind != Kind::reduce) continue;
    for (std::int64_t axis : candidate.attributes.integers("dims"))
      dims.push_back(result_dim_[static_cast<std::size_t>(axis)]);
  }
  return dims;
}

bool ProductLowering::same_trips(const CoreSplit::DimSplit& part) const {
  return part.same_steps(nest_.tiles[static_cast<std::size_t>(part.dim)]);
}

/// Whether windows can be numbered: loops inside a reduction loop need the same number of trips in all parts.
bool ProductLowering::counts_windows() const {
  bool inside = false;
  for (int dim : nest_.order) {
    if (!loops(dim)) continue;
    inside |= domain_.reduction[static_cast<std::size_t>(dim)];
    if (inside && split_.find(dim) && !same_trips(*split_.find(dim))) return false;
  }
  return true;
}

bool ProductLowering::loops(int dim) const { return trips(dim) > 1 || (ragged() && dim == ragged_row); }

std::int64_t ProductLowering::trips(int dim) const {
  const auto d = static_cast<std::size_t>(dim);
  return ceil_div(domain_.extents[d], nest_.tiles[d]);
}

Expr ProductLowering::own_extent(int dim) const {
  return split_.find(dim) ? split_.extent(dim) : Expr(domain_.extents[static_cast<std::size_t>(dim)]);
}

Expr ProductLowering::trips_here(int dim) const {
  if (ragged() && dim == ragged_row)
    return ceil_div(row_count(), std::min(nest_.tiles[ragged_row], domain_.extents[ragged_row]));
  const CoreSplit::DimSplit* part = split_.find(dim);
  if (!part || same_trips(*part)) return trips(dim);
  return ceil_div(own_extent(dim), nest_.tiles[static_cast<std::size_t>(dim)]);
}

Expr ProductLowering::start(int dim) const {
  const Expr piece = at_piece_.count(dim) ? piece_start(dim) : Expr(0);
  if (!loops(dim)) return split_.base(dim) + piece;
  return split_.base(dim) +
         Expr::symbol("i_" + domain_.names[static_cast<std::size_t>(dim)]) *
             Expr(nest_.tiles[static_cast<std::size_t>(dim)]) +
         piece;
}

Expr ProductLowering::extent(int dim) const {
  const Expr tile = tile_extent(dim);
  if (!at_piece_.count(dim)) return tile;
  const std::int64_t sub = mapping::sub_of(problem_, nest_, static_cast<std::size_t>(dim));
  if (tile.is_constant() && tile.value() % sub == 0) return sub;
  return max(Expr(0), min(Expr(sub), tile - piece_start(dim)));
}

Expr ProductLowering::tile_start(int dim) const {
  return start(dim) - (at_piece_.count(dim) ? piece_start(dim) : Expr(0));
}

Expr ProductLowering::tile_extent(int dim) const {
  const auto d = static_cast<std::size_t>(dim);
  if (ragged() && dim == ragged_row)
    return min(Expr(std::min(nest_.tiles[d], domain_.extents[d])), row_count() - start(dim));
  const CoreSplit::DimSplit* part = split_.find(dim);
  const bool even = !part || part->even();
  const std::int64_t own = domain_.extents[d], tile = std::min(nest_.tiles[d], own);
  if (!loops(dim)) return own_extent(dim);
  const Expr begin = tile_start(dim);
  if (part && !part->stretches.empty()) return min(Expr(tile), own_extent(dim) - (begin - split_.base(dim)));
  const Expr left = Expr(own) - (begin - split_.base(dim));
  const Expr inside = own % tile == 0 ? Expr(tile) : min(Expr(tile), left);
  return even ? inside : min(inside, Expr(part->whole) - begin);
}

Expr ProductLowering::axis_start(const AxisAccess& axis) const {
  Expr sum(axis.constant);
  for (const AxisAccess::Term& term : axis.terms) {
    sum = sum + start(term.dim) * Expr(term.coefficient);
    if (ragged() && term.dim == ragged_row) sum = sum + first_row();
    if (term.coefficient < 0) sum = sum + (extent(term.dim) - Expr(1)) * Expr(term.coefficient);
  }
  return sum;
}

Expr ProductLowering::axis_extent(const AxisAccess& axis) const {
  Expr sum(axis.window);
  for (const AxisAccess::Term& term : axis.terms)
    sum = sum + (extent(term.dim) - Expr(1)) * Expr(std::abs(term.coefficient));
  return sum;
}

/// The nest with full reduced columns that the model finds fastest: for each depth of the contraction the most rows
/// that fit, with one or two buffers per operand.
mapping::Nest ProductLowering::nest_of_whole_rows(mapping::CostModel& model) const {
  mapping::Nest best;
  double least = 0;
  const auto halved = [&](const std::vector<int>& dims, int times) {
    std::vector<std::int64_t> tiles;
    for (int dim : dims)
      tiles.push_back(
          std::max<std::int64_t>(1, ceil_div(domain_.extents[static_cast<std::size_t>(dim)], 1LL << times)));
    return tiles;
  };
  const auto set = [](mapping::Nest& nest, const std::vector<int>& dims, const std::vector<std::int64_t>& tiles) {
    for (std::size_t i = 0; i < dims.size(); ++i) nest.tiles[static_cast<std::size_t>(dims[i])] = tiles[i];
  };
  const auto ones = [](const std::vector<std::int64_t>& tiles) {
    return std::all_of(tiles.begin(), tiles.end(), [](std::int64_t tile) { return tile == 1; });
  };
  constexpr int most = 40;  // limit on halvings
  for (int depth : {2, 1})
    for (int k = 0; k < most; ++k) {
      const std::vector<std::int64_t> deep = halved(problem_.k_dims, k);
      for (int m = 0; m < most; ++m) {
        const std::vector<std::int64_t> rows = halved(problem_.m_dims, m);
        mapping::Nest nest = nest_;
        nest.sub.clear();
        for (int dim : reduced_result_dims())
          nest.tiles[static_cast<std::size_t>(dim)] = domain_.extents[static_cast<std::size_t>(dim)];
        set(nest, problem_.k_dims, deep);
        set(nest, problem_.m_dims, rows);
        for (std::int64_t& one : nest.depths) one = std::min<std::int64_t>(one, depth);
        if (mapping::legal(problem_, nest, context_.machine).legal) {
          const double cycles = model.price(nest).soft;
          if (best.tiles.empty() || cycles < least) best = nest, least = cycles;
          break;
        }
        if (ones(rows)) break;
      }
      if (ones(deep)) break;
    }
  return best;
}

/// A reduction in the epilogue needs full rows: its columns must be in one tile. If no such tile fits, or a separate
/// pass over the stored result is estimated to be faster, the kernel is rejected, and its parts become separate
/// kernels.
void ProductLowering::keep_reduced_columns_whole() {
  refusal_.clear();
  refused_by_price_ = false;
  if (reduced_result_dims().empty()) return;
  if (context_.options.mappings.count(anchor_.name)) {  // the given nest, with full columns
    for (int dim : reduced_result_dims())
      nest_.tiles[static_cast<std::size_t>(dim)] = domain_.extents[static_cast<std::size_t>(dim)];
    for (int step = 0; step < 64 && !mapping::legal(problem_, nest_, context_.machine).legal; ++step)
      for (int dim : problem_.m_dims) {
        std::int64_t& tile = nest_.tiles[static_cast<std::size_t>(dim)];
        tile = std::max<std::int64_t>(1, ceil_div(std::min(tile, domain_.extents[static_cast<std::size_t>(dim)]), 2));
      }
    return;
  }
  mapping::CostModel model(problem_, context_.machine);
  mapping::Nest whole = nest_of_whole_rows(model);
  if (whole.tiles.empty()) {
    refusal_ = "no tile of whole rows fits the scratchpad";
    return;
  }
  mapping::Problem apart = problem_;  // the product alone, which stores its sums
  apart.outputs.clear();
  apart.epilogue_functions = 0;
  const mapping::Cost stored = mapping::CostModel(apart, context_.machine).price(nest_), fused = model.price(whole);
  const double pass =
      stored.memory * static_cast<double>(stored.bytes[2]) / std::max(1.0, static_cast<double>(stored.total_bytes()));
  refused_by_price_ = fused.soft > stored.soft + pass;
  if (refused_by_price_)
    refusal_ = "tiles of whole rows are estimated to take " + std::to_string(std::llround(fused.soft)) +
               " cycles, the product and another pass over its result " +
               std::to_string(std::llround(stored.soft + pass));
  nest_ = std::move(whole);
}

/// Throws CannotRun if arrays, DMA and other units need more queue names than a program has.
void ProductLowering::check_queues() const {
  const auto& dma = context_.machine.core.dma;
  constexpr std::int64_t units = 4;  // vector, cross_lane, send, and one spare
  const std::int64_t others = dma.load_queues + dma.store_queues + units, most = program::most_queues;
  if (unit_.grid.used() + others > most)
    throw CannotRun(anchor_, Lack::queues,
                    {"a core has more queues than a program names",
                     kernel_.name,
                     std::to_string(unit_.grid.used()) + " arrays and " + std::to_string(others) + " other queues",
                     std::to_string(most) + " together",
                     {}});
}

/// Finishes a window when every loop of the contraction is in its last trip.
void ProductLowering::finish_window(program::Block& block) {
  Expr last = 1;
  for (int dim : nest_.order)
    if (loops(dim) && domain_.reduction[static_cast<std::size_t>(dim)])
      last = min(last, equal(Expr::symbol("i_" + domain_.names[static_cast<std::size_t>(dim)]), Expr(trips(dim) - 1)));
  program::If done{last, {}, {}};
  emit_finish(done.then);
  block.push_back(on("", std::move(done)));
}

program::Block ProductLowering::level(std::size_t depth) {
  for (int i = 0; i < 2; ++i)
    if (goes_round(i) && leader_[i] < 0 && plan_.depth_in_order(static_cast<std::size_t>(i)) == depth)
      return by_leaders(i, depth);
  if (skips() && plan_.whole != 0 && depth == nest_.order.size()) return zero_tile_level(depth);
  program::Block block;
  std::vector<int> fetched;
  for (int i = 0; i < 2; ++i)
    if (plan_.depth_in_order(static_cast<std::size_t>(i)) == depth) fetched.push_back(i);
  emit_operands(fetched, block);
  if (plan_.depth_in_order(2) == depth) block.push_back(begun("c"));
  if (depth == nest_.order.size()) {
    emit_mma(block);
    if (plan_.whole != 0) finish_window(block);
  } else {
    const int dim = nest_.order[depth];
    program::Block inner = level(depth + 1);
    if (ragged() && dim == ragged_group) {  // a group without rows loads nothing
      program::If some{less(Expr(0), row_count()), std::move(inner), {}};
      inner.clear();
      inner.push_back(on("", std::move(some)));
    }
    if (skips() && dim == zero_depth_ && plan_.whole == 0 && plan_.depth_in_order(2) <= depth)
      inner = where_left(is_needed(1 - zeros_.operand), std::move(inner));
    if (loops(dim))
      block.push_back(loop("i_" + domain_.names[static_cast<std::size_t>(dim)], trips_here(dim), std::move(inner)));
    else
      std::move(inner.begin(), inner.end(), std::back_inserter(block));
  }
  if (plan_.depth_in_order(2) == depth && finishes_later()) {
    finish_before(block);
  } else if (plan_.depth_in_order(2) == depth) {
    if (plan_.whole == 0) emit_finish(block);
    block.push_back(released("c"));
  }
  return block;
}

program::Scope ProductLowering::lower() {
  scope_.kernel = kernel_.name;
  for (int op : kernel_.ops) scope_.operation.push_back(context_.function.ops[static_cast<std::size_t>(op)].name);
  scope_.launch_cycles = context_.machine.core.kernel_launch_cycles;
  scope_.barrier = true;
  if (context_.options.record && !ragged()) {
    context_.options.record->push_back(
        {context_.function.name, anchor_.name, problem_, nest_, seen_ ? *seen_ : context_.machine});
    context_.options.record->back().nest.on_vector = problem_.on_vector;
    context_.options.record->back().nest.contexts = problem_.contexts;
  }
  load_queues_ = context_.machine.core.dma.load_queues;
  if (load_queues_ > 1 && !split_.multicast && context_.machine.sorts.empty())
    load_queues_ = mapping::CostModel(problem_, seen_ ? *seen_ : context_.machine).load_queues(nest_);
  ClosedForm latency(context_.machine);
  unit_ = mapping::tile_work(problem_, nest_, context_.machine, latency);
  check_queues();
  if (ragged()) problem_.counted_by_data = ragged_row;
  plan_ = mapping::plan(problem_, nest_);
  for (int i = 0; i < 2; ++i) make_operand(i);
  make_accumulator();
  make_leaves();
  make_outputs();
  program::Block body = level(0);
  if (finishes_later()) finish_last(body);
  scope_ = write_kernel(std::move(scope_), rings_, std::move(body));
  if (split_.used() < context_.machine.core.count) {
    program::If has_part{less(Expr::symbol("core"), Expr(split_.used())), std::move(scope_.body), {}};
    scope_.body = {};
    scope_.body.push_back(on("", std::move(has_part)));
    if (!split_.multicast) take_regions_in_turn(scope_.body, split_.used(), context_.machine);
  }
  if (ragged()) add_ragged_steps();
  return std::move(scope_);
}

Lowered lower_product(Context& context, const Kernel& kernel) {
  if (std::optional<Lowered> sparse = lower_sparse(context, kernel)) return std::move(*sparse);
  ProductLowering lowering(context, kernel);
  if (!lowering.refusal().empty())
    return Refusal{
        {lowering.refusal(), kernel.name, {}, {}, {}}, lowering.refused_by_price(), lowering.refuses_siblings()};
  return lowering.lower();
}

}  // namespace tilesim::lower
