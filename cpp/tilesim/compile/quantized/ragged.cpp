// Contractions that end within a block: one product of whole blocks, and one of the rest.
#include <algorithm>
#include <array>
#include <optional>

#include "tilesim/base/index.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/compile/plan/uses.hpp"
#include "tilesim/compile/quantized/quantized.hpp"
#include "tilesim/graph/edit.hpp"
#include "tilesim/graph/passes/zero_tiles.hpp"

namespace tilesim::lower {

namespace {

using BlockAxes = std::vector<std::int64_t>;

/// Axes of `source`, with extent above 1, that a reshape to `shape` merges into `axis`; empty: none.
std::vector<std::size_t> axes_of_run(const Shape& source, const Shape& shape, std::size_t axis) {
  std::int64_t below = 1, step = 1;
  for (std::size_t i = axis + 1; i < shape.size(); ++i) below *= shape[i];
  std::vector<std::size_t> run;
  for (std::size_t i = source.size(); i-- > 0; step *= source[i]) {
    if (step < below || source[i] == 1) continue;
    if (step >= below * shape[axis]) break;
    if (step * source[i] > below * shape[axis]) return {};
    run.insert(run.begin(), i);
  }
  std::int64_t held = 1;
  for (const std::size_t i : run) held *= source[i];
  return held == shape[axis] ? run : std::vector<std::size_t>{};
}

class RaggedBlocks {
 public:
  explicit RaggedBlocks(GraphFunction& function) : function_(function), uses_(function), names_(function) {}

  void run() {
    const std::vector<Op> before = function_.ops;
    for (const Op& op : before)
      if (op.kind != Kind::contract || !rewritten(op)) ops_.push_back(op);
    function_.ops = std::move(ops_);
  }

 private:
  const TensorType& type(ValueId value) const { return function_.value(value).type; }
  const Op* maker(ValueId value) const {
    const int producer = at(value) < uses_.producer.size() ? uses_.producer[at(value)] : -1;
    return producer < 0 ? nullptr : &made_[at(producer)];
  }

  bool rewritten(const Op& op) {
    const BlockAxes a = op.attributes.integers("a_contract", {}), b = op.attributes.integers("b_contract", {});
    const DType dtype = type(op.results[0]).dtype;
    if (a.size() != 1 || zero_tiles_of(op).operand >= 0 || !is_float(dtype) || bits(dtype) > 32) return false;
    const std::int64_t depth = type(op.operands[0]).shape[at(a[0])];
    std::int64_t cut = -1;
    std::array<bool, 2> ragged{};
    for (std::size_t side = 0; side < 2; ++side) {
      const std::optional<std::int64_t> found = last_block(op.operands[side], at(side == 0 ? a[0] : b[0]), 0);
      ragged[side] = found.has_value();
      if (found && (cut >= 0 && cut != *found)) return false;
      if (found) cut = *found;
    }
    if (cut < 0) return false;
    const auto part = [&](std::int64_t low, std::int64_t high) {
      Op product = op;
      for (std::size_t side = 0; side < 2; ++side) {
        const std::size_t axis = at(side == 0 ? a[0] : b[0]);
        product.operands[side] =
            ragged[side] ? pushed(op.operands[side], axis, low, high) : sliced(op.operands[side], axis, low, high);
      }
      return product;
    };
    if (cut == 0) {
      ops_.push_back(part(0, depth));
      return true;
    }
    Op first = part(0, cut);
    first.name = names_.taken(op.name + ".blocks");
    first.attributes.set("dtype", DType::f32);
    first.results = {value(first.name, {DType::f32, type(op.results[0]).shape})};
    Op rest = part(cut, depth);
    rest.attributes.set("dtype", dtype);
    rest.operands.resize(3, no_value);
    rest.operands[2] = first.results[0];
    ops_.push_back(std::move(first));
    ops_.push_back(std::move(rest));
    return true;
  }

  /// Start of the last block of an axis, if a slice cuts the block.
  std::optional<std::int64_t> last_block(ValueId from, std::size_t axis, int deep) const {
    constexpr int deepest = 16;
    const Op* op = maker(from);
    const Shape& own = type(from).shape;
    if (op == nullptr || deep > deepest) return std::nullopt;
    if (op->kind == Kind::elementwise || op->kind == Kind::convert) {
      for (const ValueId operand : op->operands)
        if (type(operand).shape == own)
          if (const auto found = last_block(operand, axis, deep + 1)) return found;
      return std::nullopt;
    }
    if (op->kind != Kind::slice || !cuts(*op, axis)) return std::nullopt;
    const Op* view = maker(op->operands[0]);
    if (view == nullptr || view->kind != Kind::reshape) return std::nullopt;
    const Shape& source = type(view->operands[0]).shape;
    const auto run = axes_of_run(source, type(op->operands[0]).shape, axis);
    if (run.size() != 2 || own[axis] % source[run[1]] == 0) return std::nullopt;
    return own[axis] / source[run[1]] * source[run[1]];
  }

  /// Whether a slice takes the beginning of one axis and all of the others.
  bool cuts(const Op& slice, std::size_t axis) const {
    const BlockAxes start = slice.attributes.integers("start"), stride = slice.attributes.integers("stride", {});
    const Shape &from = type(slice.operands[0]).shape, &to = type(slice.results[0]).shape;
    for (std::size_t i = 0; i < from.size(); ++i)
      if (start[i] != 0 || (i != axis && from[i] != to[i])) return false;
    return std::ranges::all_of(stride, [](std::int64_t step) { return step == 1; });
  }

  ValueId value(const std::string& stem, TensorType made) {
    function_.values.push_back({names_.taken(stem), std::move(made)});
    return static_cast<ValueId>(function_.values.size()) - 1;
  }

  ValueId emit(Op op, const std::string& stem, TensorType made) {
    op.name = names_.taken(stem);
    op.results = {value(stem, std::move(made))};
    ops_.push_back(op);
    return op.results[0];
  }

  ValueId sliced(ValueId from, std::size_t axis, std::int64_t low, std::int64_t high) {
    TensorType made = type(from);
    if (low == 0 && high == made.shape[axis]) return from;
    Op slice;
    slice.kind = Kind::slice;
    BlockAxes start(made.shape.size(), 0), limit = made.shape;
    start[axis] = low, limit[axis] = high;
    slice.attributes.set("start", start);
    slice.attributes.set("limit", limit);
    slice.attributes.set("stride", BlockAxes(made.shape.size(), 1));
    slice.operands = {from};
    made.shape[axis] = high - low;
    return emit(std::move(slice), function_.value(from).name + ".part", std::move(made));
  }

  ValueId reshaped(ValueId from, const Shape& shape) {
    if (type(from).shape == shape) return from;
    Op view;
    view.kind = Kind::reshape;
    view.attributes.set("shape", shape);
    view.operands = {from};
    return emit(std::move(view), function_.value(from).name + ".as", {type(from).dtype, shape});
  }

  /// Takes part of an axis of a value by slicing the operands from which the value is computed.
  ValueId pushed(ValueId from, std::size_t axis, std::int64_t low, std::int64_t high) {
    const Op* found = maker(from);
    Shape own = type(from).shape;
    if (found == nullptr || (low == 0 && high == own[axis] && found->kind != Kind::slice &&
                             found->kind != Kind::elementwise && found->kind != Kind::convert))
      return sliced(from, axis, low, high);
    Op op = *found;
    const std::string stem = function_.value(from).name + ".part";
    Shape part = own;
    part[axis] = high - low;
    if (op.kind == Kind::elementwise || op.kind == Kind::convert) {
      for (ValueId& operand : op.operands) {
        const std::size_t lead = own.size() - type(operand).shape.size();
        if (axis >= lead && type(operand).shape[axis - lead] > 1) operand = pushed(operand, axis - lead, low, high);
      }
      return emit(std::move(op), stem, {type(from).dtype, part});
    }
    if (op.kind == Kind::slice && cuts(op, axis)) return pushed(op.operands[0], axis, low, high);
    if (op.kind == Kind::broadcast && !op.operands.empty()) {
      const BlockAxes dims = op.attributes.integers("dims");
      for (std::size_t i = 0; i < dims.size(); ++i)
        if (at(dims[i]) == axis && type(op.operands[0]).shape[i] > 1)
          op.operands[0] = pushed(op.operands[0], i, low, high);
      op.attributes.set("shape", part);
      return emit(std::move(op), stem, {type(from).dtype, part});
    }
    if (op.kind == Kind::reshape) {
      const ValueId source = op.operands[0];
      const auto run = axes_of_run(type(source).shape, own, axis);
      if (run.size() == 1) return reshaped(pushed(source, run[0], low, high), part);
      const std::int64_t block = run.size() == 2 ? type(source).shape[run[1]] : 0;
      if (block > 0 && low % block == 0 && high % block == 0)
        return reshaped(pushed(source, run[0], low / block, high / block), part);
      if (block > 0 && low / block == (high - 1) / block) {
        const ValueId one = pushed(source, run[0], low / block, low / block + 1);
        return reshaped(pushed_again(one, run[1], low % block, (high - 1) % block + 1), part);
      }
    }
    return sliced(from, axis, low, high);
  }

  /// The same for a value that this pass has created.
  ValueId pushed_again(ValueId from, std::size_t axis, std::int64_t low, std::int64_t high) {
    const auto made = std::ranges::find_if(ops_, [&](const Op& op) { return op.results[0] == from; });
    if (made == ops_.end() || made->kind == Kind::slice) return sliced(from, axis, low, high);
    Op op = *made;
    Shape part = type(from).shape;
    part[axis] = high - low;
    if (op.kind == Kind::broadcast) {
      const BlockAxes dims = op.attributes.integers("dims");
      for (std::size_t i = 0; i < dims.size(); ++i)
        if (at(dims[i]) == axis && type(op.operands[0]).shape[i] > 1) return sliced(from, axis, low, high);
      op.attributes.set("shape", part);
      return emit(std::move(op), function_.value(from).name, {type(from).dtype, part});
    }
    if (op.kind != Kind::elementwise && op.kind != Kind::convert) return sliced(from, axis, low, high);
    const std::size_t rank = part.size();
    for (ValueId& operand : op.operands) {
      const std::size_t lead = rank - type(operand).shape.size();
      if (axis >= lead && type(operand).shape[axis - lead] > 1) operand = pushed_again(operand, axis - lead, low, high);
    }
    return emit(std::move(op), function_.value(from).name, {type(from).dtype, part});
  }

  GraphFunction& function_;
  const Uses uses_;
  const std::vector<Op> made_ = function_.ops;
  edit::Names names_;
  std::vector<Op> ops_;
};

}  // namespace

void split_ragged_blocks(GraphFunction& function) { RaggedBlocks(function).run(); }

}  // namespace tilesim::lower
