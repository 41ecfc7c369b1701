// Tiles of movement kernels: the default ones, or those of a mapping.
#include <algorithm>
#include <array>

#include "tilesim/base/index.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/compile/layouts/lanes.hpp"
#include "tilesim/compile/movement/movement.hpp"
#include "tilesim/compile/vector/tiling.hpp"

namespace tilesim::lower {

namespace {

/// Whether the operation reads every element of the operand within the space, independent of data.
bool reads_all(Kind kind) {
  return kind == Kind::copy || kind == Kind::transpose || kind == Kind::slice || kind == Kind::broadcast ||
         kind == Kind::reverse || kind == Kind::reshape || kind == Kind::bitcast || kind == Kind::concat;
}

}  // namespace

std::string attributes_text(const Op& op) {
  std::string text;
  const auto add = [&](const auto& value) {
    using T = std::decay_t<decltype(value)>;
    if constexpr (std::is_same_v<T, std::string>)
      text += value;
    else if constexpr (std::is_same_v<T, DType>)
      text += name(value);
    else if constexpr (std::is_same_v<T, std::vector<std::int64_t>>)
      for (std::int64_t number : value) text += std::to_string(number) + ",";
    else if constexpr (std::is_same_v<T, std::vector<std::string>>)
      for (const std::string& part : value) text += part + ",";
    else
      text += std::to_string(value);
  };
  for (const auto& [key, value] : op.attributes.all()) {
    text += " " + key + "=";
    std::visit(add, value);
  }
  return text;
}

Shape MovementLowering::usual_tiles(const Shape& space, std::int64_t bytes,
                                    const std::vector<Placement>& tensors) const {
  TileChoice choice;
  choice.space = space;
  choice.buffers = {{std::vector<bool>(space.size(), true), bytes}};
  choice.whole.assign(space.size(), false);
  for (const Placement& tensor : tensors) add_granules(choice, context_, tensor);
  const program::Tensor* target = find_tensor(context_, placement(y_).tensor);
  if (target && target->minor_to_major.size() == space.size() && placement(y_).identity)
    for (auto axis = target->minor_to_major.rbegin(); axis != target->minor_to_major.rend(); ++axis)
      choice.order.push_back(at(*axis));
  if (!choose_tiles(choice, context_.machine)) unsupported("not even one element fits the scratchpad");
  return choice.tiles;
}

namespace {

/// Sets the lane axis of a copy to the target's minor axis; the source's positions become relative to the target's.
void lay_over_lanes(mapping::VectorProblem& problem, const Placement& source) {
  mapping::VectorOperand &from = problem.operands[0], &to = problem.operands[1];
  std::size_t minor = 0;
  const bool padded = to.layout.size() == 2 && to.axes.size() >= 2;
  while (!padded && minor + 1 < to.axes.size() && to.extents[minor] <= 1) ++minor;
  const int axis = to.axes.empty() ? -1 : to.axes[minor];
  if (axis >= 0) problem.lanes = {axis};
  std::vector<bool> spanned(problem.space.size(), false);
  for (const AxisAccess& access : source.axes)
    for (const AxisAccess::Term& term : access.terms) spanned[at(term.dim)] = true;
  for (std::size_t dim = 0; dim < problem.space.size(); ++dim) from.step[dim] = spanned[dim] ? 1 : 0;
  from.minor_offset -= to.minor_offset;
  from.minor_step *= to.minor_step;
  from.minor_mixed |= to.minor_mixed;
  from.row = std::max(from.row, to.row);
  to.minor_offset = 0;
  to.minor_step = 1;
  to.minor_mixed = false;
}

}  // namespace

void MovementLowering::lay(mapping::VectorProblem& problem, const Placement& source, const Placement& target,
                           const std::vector<Start>* starts) const {
  using Use = mapping::VectorOperand::Use;
  const std::size_t rank = problem.space.size();
  problem.lanes = {static_cast<int>(std::max<std::size_t>(rank, 1)) - 1};
  problem.operands = {placed_operand(context_, source, rank, Use::load),
                      placed_operand(context_, target, rank, Use::store)};
  const std::array<const Placement*, 2> placements{&source, &target};
  for (std::size_t i = 0; i < 2; ++i)
    if (std::ranges::any_of(placements[i]->axes, [](const AxisAccess& axis) { return axis.terms.size() > 1; }))
      give_access(context_, *placements[i], problem.operands[i]);  // several axes of the space share a tensor axis
  lay_over_lanes(problem, source);
  if (!starts || rank == 0 || problem.operands[0].row == 1) return;
  const Start& along = (*starts)[at(problem.lanes[0])];  // may not be a multiple of a row of lanes
  const bool whole = along.through.empty() && along.at.is_constant() && along.at.value() % problem.operands[0].row == 0;
  problem.operands[0].minor_mixed |= !whole;
}

MovementLowering::Shuffle MovementLowering::shuffle(const Region& r, const Placement& source, const Placement& target,
                                                    const std::vector<Start>* starts) const {
  mapping::VectorProblem problem;
  problem.space = r.space;
  lay(problem, source, target, starts);
  Shuffle result{mapping::plan_move(problem, {r.tiles, problem.lanes[0], depth_}), r.strides, r.strides};
  if (!result.plan.permuted) return result;
  result.loaded = memory_strides(context_, source, r.tiles);
  result.stored = memory_strides(context_, target, r.tiles);
  return result;
}

std::vector<Ring> MovementLowering::rings(const mapping::MovePlan& plan) const {
  std::vector<Ring> rings;
  for (const mapping::SlotRing& buffer : plan.buffers)
    rings.push_back(ring(buffer.name, buffer.dtype, buffer.elements));
  return rings;
}

void MovementLowering::load(const Region& r, program::Transfer transfer, const Shuffle& shuffle, program::Block& body) {
  const std::string slot = transfer.slot;
  body.push_back(statement(program::Load{std::move(transfer)}));
  if (!shuffle.plan.permuted) return;
  program::View in{slot, 0, 0, {}}, out = in;
  for (std::size_t axis = 0; axis < r.space.size(); ++axis) {
    in.dims.push_back({r.extent[axis], shuffle.loaded[axis]});
    out.dims.push_back({r.extent[axis], shuffle.stored[axis]});
  }
  body.push_back(statement(program::PermuteOp{std::move(in), std::move(out)}));
}

/// Describes rows that indices select: each is fetched separately, in whole bursts, with many transfers per tile.
void MovementLowering::fetch_rows(mapping::VectorProblem& problem, std::int64_t bytes) const {
  mapping::VectorOperand &from = problem.operands[0], &to = problem.operands[1];
  fetch_apart(context_, from, *rows_apart_);
  if (!masked_) return;
  to.held = true;
  problem.bytes_per_point = std::max<std::int64_t>(0, bytes / 2 - host_bytes(from.dtype) - host_bytes(to.dtype));
  problem.functions[0] = 2;
}

/// The kernel's mapping problem: the data moved per tile of `main_`. `tensors`: source and target by the axes of the
/// space; empty: data determines the position of each element.
mapping::VectorProblem MovementLowering::problem(std::int64_t bytes, const std::vector<Placement>& tensors,
                                                 const std::vector<Start>* starts) const {
  const std::size_t rank = main_.size();
  mapping::VectorProblem problem = vector_problem(context_, kernel_, main_);
  problem.kernel += attributes_text(op_);
  problem.functions = {};
  problem.ranks = false;  // the general walk misses how strided transfers share memory
  // One step with one load and one store per tile. If indices select rows, the walk's cycles only rank tiles.
  problem.walks = op_.kind != Kind::scatter && op_.kind != Kind::concat && !one_by_one_;
  const bool plain = main_ == shape_ && op_.kind != Kind::scatter;
  Placement target = placement(y_);
  if (!tensors.empty())
    target = tensors[1];
  else if (!plain)
    target = {"", main_, target.dtype, plain_axes(rank), true};
  Placement source = tensors.empty() ? target : tensors[0];
  lay(problem, source, target, starts);
  problem.operands[0].certain = !tensors.empty() && reads_all(op_.kind);
  problem.operands[1].certain = plain && op_.kind != Kind::dynamic_update;
  problem.operands[1].held = false;
  const std::int64_t beside = bytes / 2 - host_bytes(source.dtype);
  problem.bytes_per_point = std::max<std::int64_t>(0, beside);
  for (const std::int64_t step : problem.operands[0].step)
    if (step == 0) problem.operands[0].held = false, problem.bytes_per_point = bytes / 2;
  if (rows_apart_) fetch_rows(problem, bytes);
  problem.dtype = source.dtype;
  for (std::size_t axis = 0; op_.kind == Kind::scatter && axis < rank; ++axis) problem.whole.push_back(axis > 0);
  if (source.dtype != target.dtype)
    problem.functions[0] = 1;
  else if (op_.kind != Kind::scatter && !masked_)
    problem.points = 0;  // nothing is computed
  return problem;
}

MovementLowering::Region MovementLowering::region(const Shape& space, std::int64_t bytes, int suffix,
                                                  const std::vector<Placement>& tensors,
                                                  const std::vector<Start>* starts) {
  bool mapped = !space.empty() && space.size() == main_.size();
  for (std::size_t axis = 0; mapped && axis < space.size(); ++axis) mapped = space[axis] <= main_[axis];
  if (mapped && !chosen_) {
    const mapping::VectorProblem asked = problem(bytes, tensors, starts);
    usual_ = mapping::VectorTiles{usual_tiles(main_, bytes, tensors), asked.lanes[0], 2};
    chosen_ = vector_tiles(context_, kernel_, asked, *usual_);
  }
  mapped = mapped && (chosen_->tiles != usual_->tiles || chosen_->depth != usual_->depth);
  depth_ = mapped ? chosen_->depth : 2;
  return tiled(space, mapped ? chosen_->tiles : usual_tiles(space, bytes, tensors), suffix);
}

MovementLowering::Region MovementLowering::tiled(const Shape& space, const Shape& tiles, int suffix) {
  Region r{space, tiles, {}, {}, {}, {}};
  for (std::size_t axis = 0; axis < space.size(); ++axis)
    r.tiles[axis] = std::min(r.tiles[axis], std::max<std::int64_t>(1, space[axis]));
  r.strides = row_major_strides(r.tiles);
  r.loops = mapping::tile_loops(space, r.tiles);
  for (std::size_t axis = 0; axis < space.size(); ++axis) {
    const std::int64_t whole = space[axis], tile = r.tiles[axis];
    const Expr start = tile >= whole ? Expr(0) : Expr::symbol(index(axis, suffix)) * Expr(tile);
    r.start.push_back(start);
    r.extent.push_back(tile >= whole || whole % tile == 0 ? Expr(std::min(tile, whole))
                                                          : min(Expr(tile), Expr(whole) - start));
  }
  return r;
}

}  // namespace tilesim::lower
