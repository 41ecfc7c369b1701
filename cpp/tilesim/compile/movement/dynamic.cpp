// Slices and updates whose start depends on data.
#include <algorithm>

#include "tilesim/base/error.hpp"
#include "tilesim/base/index.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/compile/movement/movement.hpp"
#include "tilesim/compile/plan/in_place.hpp"
#include "tilesim/compile/plan/views.hpp"

namespace tilesim::lower {

using program::Block;

/// Starts of a dynamic slice, clamped into range. A start known from loop counters or a program input is an expression;
/// any other is a tensor of one element, which the vector unit clamps and the DMA reads. In mode error, starts are not
/// clamped, and the transfer that they lead outside reports the error.
std::vector<MovementLowering::Start> MovementLowering::clamped_starts(std::size_t first, const Shape& whole,
                                                                      const Shape& part) {
  std::vector<Start> starts;
  const bool strict = op_.attributes.text("mode", "clip") == "error";
  for (std::size_t axis = 0; axis < whole.size(); ++axis) {
    const ValueId value = op_.operands[first + axis];
    const std::int64_t last = whole[axis] - part[axis];
    Start start;
    if (const auto counted = counted_start(context_, op_, value, last)) {
      start.at = *counted;
    } else {
      const Placement own = dense(value);
      const program::Tensor* tensor = find_tensor(context_, own.tensor);
      const bool given = tensor && tensor->role == program::Role::input && tensor->alias_of.empty();
      if (given) {
        const Expr at = Expr::read(own.tensor, std::vector<Expr>(own.axes.size(), Expr(0)));
        start.at = strict ? at : max(Expr(0), min(Expr(last), at));
      } else {
        start.through = (strict ? own : clamp_scalar(own, last)).tensor;
      }
    }
    starts.push_back(std::move(start));
  }
  return starts;
}

Placement MovementLowering::clamp_scalar(const Placement& from, std::int64_t last) {
  const Placement result = temporary("start", DType::i64 == from.dtype ? DType::i64 : DType::i32, {});
  const int suffix = steps_++;
  const Region r = region({}, 2 * (host_bytes(from.dtype) + host_bytes(result.dtype)), suffix);
  program::VectorOp compute;
  compute.extents = {Expr(1)};
  compute.lane_dim = 0;
  compute.inputs.push_back({"index", 0, 0, {{Expr(1), Expr(1)}}});
  compute.nodes.push_back({{.op = VectorNode::Op::constant, .dtype = DType::i64}, 0});
  compute.nodes.push_back({{.op = VectorNode::Op::input, .dtype = from.dtype}, 0});
  compute.nodes.push_back(
      {{.op = VectorNode::Op::constant, .number = static_cast<double>(last), .dtype = DType::i64}, 0});
  compute.nodes.push_back(
      {{.op = VectorNode::Op::function, .function = Function::clamp, .arguments = {0, 1, 2}, .dtype = DType::i64}, 0});
  compute.outputs.push_back({3, {"start", 0, 0, {{Expr(1), Expr(1)}}}, {}, Combiner::add, 0});
  add_step(r, {ring("index", from.dtype, 1), ring("start", result.dtype, 1)},
           {statement(program::Load{region_transfer(from, {}, {}, {}, "index")}), statement(std::move(compute)),
            store(r, "start", result)},
           suffix);
  return result;
}

/// Moves a box of extents `box` between two tensors; the starts offset it in the source or in the target.
void MovementLowering::move_box(const Placement& from, const Placement& to, const Shape& box,
                                const std::vector<Start>& starts, bool starts_of_source) {
  const int suffix = steps_++;
  const Region r = region(box, 2 * host_bytes(from.dtype), suffix, {from, to}, &starts);
  const Shuffle lanes = shuffle(r, from, to, &starts);
  program::Transfer load = region_transfer(from, r.start, r.extent, lanes.loaded, "x"),
                    store = region_transfer(to, r.start, r.extent, lanes.stored, "x");
  const Placement& moved = starts_of_source ? from : to;
  program::Transfer& transfer = starts_of_source ? load : store;
  for (std::size_t axis = 0; axis < moved.axes.size(); ++axis)
    for (const auto& term : moved.axes[axis].terms) {
      const Start& start = starts[at(term.dim)];
      transfer.at[axis] = transfer.at[axis] + start.at * Expr(term.coefficient);
      if (start.through.empty()) continue;
      if (term.coefficient != 1) unsupported("a computed start along an axis that is a view");
      transfer.dims.insert(transfer.dims.begin(), {1, static_cast<int>(axis), 1, 0, start.through, {}});
    }
  Block body;
  MovementLowering::load(r, std::move(load), lanes, body);
  body.push_back(statement(program::Store{std::move(store), {}, 0}));
  add_step(r, rings(lanes.plan), std::move(body), suffix);
}

void MovementLowering::dynamic_slice() {
  const ValueId x = op_.operands[0];
  const std::vector<Start> starts = clamped_starts(1, shape(x), shape_);
  const bool computed = std::any_of(starts.begin(), starts.end(), [](const Start& s) { return !s.through.empty(); });
  move_box(computed ? dense(x) : placement(x), placement(y_), shape_, starts, true);
}

/// Copies the whole operand first if the result is another tensor; an update of a state in place moves only the part.
void MovementLowering::dynamic_update() {
  const ValueId x = op_.operands[0], update = op_.operands[1];
  const std::vector<AxisAccess> plain = plain_axes(shape_.size());
  if (placement(y_).tensor == placement(x).tensor || old_value(op_, y_) == x)
    main_ = shape(update);
  else
    copy(shape_, placement(x), plain, placement(y_), plain);
  const Shape& part = shape(update);
  if (element_count(part) == 0) return;
  move_box(placement(update), placement(y_), part, clamped_starts(2, shape_, part), false);
}

}  // namespace tilesim::lower
