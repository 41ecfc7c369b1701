// Lowering of the vector family: elementwise operations and reductions.
#include "tilesim/compile/vector/vector.hpp"

#include <algorithm>

#include "tilesim/base/error.hpp"
#include "tilesim/base/index.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/compile/layouts/rows.hpp"
#include "tilesim/compile/vector/tiling.hpp"

namespace tilesim::lower {

using program::Block;
using program::View;

VectorLowering::VectorLowering(Context& context, const Kernel& kernel)
    : context_(context), kernel_(kernel), ops_(kernel.ops.begin(), kernel.ops.end()) {
  find_space();
}

Lowered VectorLowering::lower() {
  for (int op : kernel_.ops)
    if (is_reduce(op)) reduces_.push_back(op);
  make_tiles(true);
  // Streams rows if whole rows do not fit, or only in tiles so narrow that their excess traffic exceeds the passes'.
  if (!tiles_fit_ || (!reduces_.empty() && overfetch_ > passes())) make_tiles(false);
  if (!tiles_fit_)
    return Refusal{{"not even one element of this operation fits the scratchpad",
                    context_.function.ops[at(kernel_.ops.back())].name,
                    std::to_string(context_.machine.core.scratchpad.bytes) + " bytes of scratchpad",
                    {},
                    {}}};
  choose();
  make_rings();
  const bool arg = !reduces_.empty() && is_arg(reduces_[0]);
  Block body = arg ? arg_body() : streamed_ ? streamed_body() : plan_.in_pieces() ? body_in_pieces() : resident_body();
  return write_kernel(named_scope(context_, kernel_), rings_, wrap_loops(plan_.rows, "i", std::move(body)));
}

void VectorLowering::find_space() {
  for (int i : kernel_.ops) {
    const Shape& own = is_reduce(i) ? shape(op(i).operands[0]) : shape(op(i).results[0]);
    if (own.size() > space_.size() || (own.size() == space_.size() && element_count(own) > element_count(space_)))
      space_ = own;
  }
  reduced_.assign(space_.size(), false);
  for (int i : kernel_.ops) {
    if (!is_reduce(i)) continue;
    require(shape(op(i).operands[0]) == space_, "a reduction takes less than the space of its vector kernel");
    for (std::int64_t dim : op(i).attributes.integers("dims")) reduced_[static_cast<std::size_t>(dim)] = true;
    if (!op(i).attributes.flag("keep_dims")) dropped_.insert(op(i).results[0]);
  }
  for (int i : kernel_.ops) {  // producers precede readers
    int level = 0;
    for (ValueId operand : op(i).operands)
      if (const auto found = levels_.find(operand); found != levels_.end()) level = std::max(level, found->second);
    levels_[op(i).results[0]] = level + (is_reduce(i) ? 1 : 0);
    makers_[op(i).results[0]] = i;
  }
}

/// Which space axes a value spans: numpy alignment, except results of reductions that drop their axes.
std::vector<bool> VectorLowering::spans(ValueId value) const {
  const Shape& own = shape(value);
  if (own.size() == space_.size() || !dropped(value)) return spanned_axes(own, space_);
  std::vector<bool> result(reduced_);
  result.flip();
  return result;
}

bool VectorLowering::dropped(ValueId value) const { return dropped_.count(value) > 0; }

void VectorLowering::make_tiles(bool rows_whole) {
  streamed_ = !rows_whole;
  TileChoice choice;
  choice.space = space_;
  choice.whole = rows_whole ? reduced_ : std::vector<bool>(space_.size(), false);
  choice.joined = reduced_;
  const auto add = [&](ValueId value) {
    const bool placed = context_.placed(value);
    const DType dtype =
        placed ? context_.placements[static_cast<std::size_t>(value)].dtype : context_.value(value).type.dtype;
    choice.buffers.push_back({spans(value), ring_bytes(dtype)});
  };
  for (const auto* values : {&kernel_.inputs, &kernel_.outputs})
    for (ValueId value : *values) {
      add(value);
      if (shape(value) == space_ && context_.placed(value))
        add_granules(choice, context_, context_.placements[static_cast<std::size_t>(value)]);
    }
  for (int i : kernel_.ops)
    if (is_reduce(i)) {
      add(op(i).results[0]);
      choice.buffers.back().bytes = sum_bytes(op(i), context_.value(op(i).operands[0]).type.dtype);
    }
  tiles_fit_ = choose_tiles(choice, context_.machine);
  tiles_ = choice.tiles;
  overfetch_ = 1;
  for (std::size_t axis = 0; axis < choice.granules.size(); ++axis) {
    const std::int64_t least = std::min(choice.granules[axis], space_[axis]);
    overfetch_ *= ceil_div(least, std::max<std::int64_t>(1, std::min(tiles_[axis], least)));
  }
}

int VectorLowering::passes() const {
  int last = 0;
  for (int i : reduces_) last = std::max(last, level_of(op(i).results[0]));
  for (ValueId output : kernel_.outputs)
    if (spans_rows(spans(output))) last = std::max(last, level_of(output) + 1);
  return last;
}

Expr VectorLowering::start(std::size_t axis) const {
  return at_piece_ ? tile_start(axis) + piece_start(axis) : tile_start(axis);
}

Expr VectorLowering::extent(std::size_t axis) const {
  const Expr tile = tile_extent(axis);
  if (!at_piece_ || piece_trips(axis) == 1) return tile;
  if (tile.is_constant() && tile.value() % sub_[axis] == 0) return sub_[axis];
  return max(Expr(0), min(Expr(sub_[axis]), tile - piece_start(axis)));
}

Expr VectorLowering::tile_start(std::size_t axis) const {
  return tiles_[axis] >= space_[axis] ? Expr(0) : Expr::symbol("i" + std::to_string(axis)) * Expr(tiles_[axis]);
}

Expr VectorLowering::tile_extent(std::size_t axis) const {
  if (tiles_[axis] >= space_[axis]) return space_[axis];
  return space_[axis] % tiles_[axis] == 0 ? Expr(tiles_[axis])
                                          : min(Expr(tiles_[axis]), Expr(space_[axis]) - tile_start(axis));
}

VectorLowering::Held VectorLowering::hold(ValueId value, std::size_t operand, const std::string& slot) {
  const mapping::VectorPlan::OperandRing& buffer = plan_.buffers[operand];
  rings_.push_back(planned_ring(slot, problem_, plan_, operand));
  const bool sum = operand >= kernel_.inputs.size() + kernel_.outputs.size();  // complete only after all pieces
  for (std::size_t axis = 0; axis < space_.size() && buffer.in_pieces && !sum; ++axis)
    if (piece_trips(axis) > 1) rings_.back().pieces.push_back("s" + std::to_string(axis));
  Held held{value, operand, slot, spans(value), buffer.strides, buffer.turned};
  find_shuffle(held);
  return held;
}

void VectorLowering::make_rings() {
  const std::size_t inputs = kernel_.inputs.size(), outputs = kernel_.outputs.size();
  for (std::size_t i = 0; i < inputs; ++i) inputs_.push_back(hold(kernel_.inputs[i], i, "x" + std::to_string(i)));
  std::size_t operand = inputs + outputs;
  for (int i : reduces_)
    if (!is_arg(i)) sums_.push_back(hold(op(i).results[0], operand++, "r" + std::to_string(sums_.size())));
  for (std::size_t i = 0; i < outputs; ++i)
    outputs_.push_back(hold(kernel_.outputs[i], inputs + i, "y" + std::to_string(i)));
}

int VectorLowering::level_of(ValueId value) const {
  const auto found = levels_.find(value);
  return found == levels_.end() ? 0 : found->second;
}

View VectorLowering::view(const Held& held, bool points) const {
  View result{held.slot, 0, 0, {}};
  for (std::size_t axis = 0; axis < space_.size(); ++axis) {
    const bool one = points && reduced_[axis];
    result.dims.push_back({one ? Expr(1) : extent(axis), held.strides[axis]});
    if (at_piece_) result.offset = result.offset + piece_start(axis) * Expr(held.strides[axis]);
  }
  return result;
}

/// The load of a value's tile, by the axes of the value.
program::Statement VectorLowering::load(const Held& held) const {
  const Shape& own = shape(held.value);
  std::vector<Expr> from, size;
  std::vector<std::int64_t> strides;
  Expr offset = 0;
  const bool shrunk = dropped(held.value);
  for (std::size_t i = 0, axis = shrunk ? 0 : space_.size() - own.size(); axis < space_.size(); ++axis) {
    if (shrunk && reduced_[axis]) continue;
    from.push_back(held.spans[axis] ? start(axis) : Expr(0));
    size.push_back(held.spans[axis] ? extent(axis) : Expr(1));
    strides.push_back(held.shuffled ? held.memory_strides[axis] : held.strides[axis]);
    if (at_piece_) offset = offset + piece_start(axis) * Expr(strides.back());
    ++i;
  }
  const Placement& placement = context_.placements[static_cast<std::size_t>(held.value)];
  if (!placement.through.empty()) return load_rows(placement, from, size, strides, offset, held.slot);
  program::Transfer result = region_transfer(placement, from, size, strides, held.slot);
  result.offset = offset;
  return statement(program::Load{std::move(result)});
}

std::vector<int> VectorLowering::reduced_dims() const {
  std::vector<int> dims;
  for (std::size_t axis = 0; axis < space_.size(); ++axis)
    if (reduced_[axis]) dims.push_back(static_cast<int>(axis));
  return dims;
}

std::int64_t VectorLowering::row_count() const {
  std::int64_t count = 1;
  for (std::size_t axis = 0; axis < space_.size(); ++axis)
    if (reduced_[axis]) count *= space_[axis];
  return count;
}

Expr VectorLowering::tiles_before() const {
  Expr before = 0;
  for (std::size_t axis = 0; axis < space_.size(); ++axis)
    if (reduced_[axis] && cut(axis)) before = before + Expr::symbol("i" + std::to_string(axis));
  return before;
}

Block VectorLowering::resident_body() {
  const mapping::VectorPhase& phase = plan_.phases[0];
  Block block;
  load_inputs(phase.loads, block);
  std::set<int> finished;
  for (int s : phase.stages) {
    const Source& source = sources_[at(s)];
    if (source.reduce < 0) {
      Compute compute = begin(problem_.stages[at(s)].points, finished);
      emit_outputs(compute, source.values, block);
      continue;
    }
    emit_reduce(at(source.reduce), finished, 0, block);
    divide_sum(at(source.reduce), block);
    finished.insert(source.reduce);
  }
  return block;
}

bool VectorLowering::spans_rows(const std::vector<bool>& spanned) const {
  for (std::size_t axis = 0; axis < space_.size(); ++axis)
    if (reduced_[axis] && spanned[axis] && space_[axis] > 1) return true;
  return false;
}

/// For rows longer than the scratchpad: one pass over their tiles per level, then outputs with one point per row.
Block VectorLowering::streamed_body() {
  Block block;
  std::set<int> finished;
  for (const mapping::VectorPhase& phase : plan_.phases) {
    if (phase.streams) {
      Block pass = stream_pass(phase, finished);
      std::move(pass.begin(), pass.end(), std::back_inserter(block));
      continue;
    }
    load_inputs(phase.loads, block, true);
    for (int s : phase.stages) {
      Compute compute = begin(true, finished);
      emit_outputs(compute, sources_[at(s)].values, block);
    }
  }
  return block;
}

/// Emits a pass: reductions of one level, and outputs of the full space that need the finished levels below.
Block VectorLowering::stream_pass(const mapping::VectorPhase& phase, std::set<int>& finished) {
  std::vector<int> now;
  Block body;
  load_inputs(phase.loads, body);
  for (int s : phase.stages) {
    const Source& source = sources_[at(s)];
    if (source.reduce < 0) {
      Compute compute = begin(false, finished);
      emit_outputs(compute, source.values, body);
      continue;
    }
    emit_reduce(at(source.reduce), finished, less(Expr(0), tiles_before()), body);
    now.push_back(source.reduce);
  }
  body = wrap_loops(plan_.columns, "i", std::move(body));
  for (int i : now) divide_sum(at(i), body);
  finished.insert(now.begin(), now.end());
  return body;
}

Lowered lower_vector(Context& context, const Kernel& kernel) {
  const Op& first = context.function.ops[at(kernel.ops[0])];
  if (first.kind == Kind::cumulative) return lower_cumulative(context, kernel);
  if (first.kind == Kind::window_reduce) return lower_window(context, kernel);
  return VectorLowering(context, kernel).lower();
}

}  // namespace tilesim::lower
