#include "tilesim/compile/quantized/quantized.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "tilesim/base/index.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/compile/plan/uses.hpp"
#include "tilesim/graph/edit.hpp"
#include "tilesim/graph/passes/zero_tiles.hpp"

namespace tilesim::lower {

namespace {

using BlockAxes = std::vector<std::int64_t>;
using Factors = std::vector<Shape>;  ///< by axis: the extents that it becomes

Shape joined_factors(const Factors& factors) {
  Shape shape;
  for (const Shape& own : factors) shape.insert(shape.end(), own.begin(), own.end());
  return shape;
}

/// Strides of the axes of a shape in row-major order, and the number of elements.
std::set<std::int64_t> steps_of(const Shape& shape) {
  std::set<std::int64_t> steps{1};
  std::int64_t step = 1;
  for (auto extent = shape.rbegin(); extent != shape.rend(); ++extent) steps.insert(step *= *extent);
  return steps;
}

bool divide_each_other(const std::set<std::int64_t>& steps) {
  std::int64_t before = 1;
  for (const std::int64_t step : steps) {
    if (step % before != 0) return false;
    before = step;
  }
  return true;
}

/// Splits the axes of a shape at the strides `steps`.
Factors cut_at(const Shape& shape, const std::set<std::int64_t>& steps) {
  Factors factors(shape.size());
  std::int64_t below = 1;
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    const std::int64_t end = below * shape[axis];
    Shape own;
    for (auto step = steps.upper_bound(below); step != steps.end() && *step <= end; ++step) {
      own.insert(own.begin(), *step / below);
      below = *step;
    }
    factors[axis] = own.empty() ? Shape{1} : own;
    below = end;
  }
  return factors;
}

/// The operations that compute an operand, through values with the same elements in the same order.
class BlockOperand {
 public:
  BlockOperand(const GraphFunction& function, const Uses& uses, ValueId root)
      : function_(function), uses_(uses), root_(root) {
    visit(root, true);
  }

  /// Whether a value repeats in blocks that are shorter than an axis of the operand.
  bool blocked() const { return blocked_ && divide_each_other(steps_); }
  Factors factors() const { return cut_at(shape(root_), steps_); }

  const Shape& shape(ValueId value) const { return function_.value(value).type.shape; }
  const Op* maker(ValueId value) const {
    const int producer = value == no_value ? -1 : uses_.producer[at(value)];
    return producer < 0 ? nullptr : &function_.ops[at(producer)];
  }
  /// Whether the operation of a value is computed again in the shape of the blocks.
  bool inner(ValueId value) const { return inner_.count(value) > 0; }

 private:
  void visit(ValueId value, bool is_root) {
    const Shape& own = shape(value);
    steps_.merge(steps_of(own));
    const Op* op = maker(value);
    if (op == nullptr || op->results.size() != 1 || element_count(own) == 0) return;
    const bool elementwise = op->kind == Kind::elementwise || op->kind == Kind::convert;
    if (elementwise && (is_root || read_once(value))) {
      inner_.insert(value);
      for (const ValueId operand : op->operands) {
        if (shape(operand) == own)
          visit(operand, false);
        else
          repeats(shape(operand), own);
      }
    } else if (op->kind == Kind::reshape && element_count(shape(op->operands[0])) > 1) {
      inner_.insert(value);
      visit(op->operands[0], is_root && read_once(op->operands[0]));
    } else if (op->kind == Kind::broadcast && !op->operands.empty() && !is_root) {
      const BlockAxes dims = op->attributes.integers("dims");
      if (!std::ranges::is_sorted(dims)) return;
      inner_.insert(value);
      Shape spread(own.size(), 1);
      for (std::size_t axis = 0; axis < dims.size(); ++axis) spread[at(dims[axis])] = shape(op->operands[0])[axis];
      repeats(spread, own);
    }
  }

  bool read_once(ValueId value) const { return uses_.consumers[at(value)].size() == 1 && !uses_.is_output[at(value)]; }

  /// Records a value repeated over `whole`: it repeats in blocks if it varies along a part of an operand's axis.
  void repeats(const Shape& own, const Shape& whole) {
    if (element_count(own) <= 1) return;
    const Shape& target = shape(root_);
    std::set<std::int64_t> steps = steps_of(whole);
    steps.merge(steps_of(target));
    std::vector<int> seen(target.size(), 0);
    const std::size_t lead = whole.size() - own.size();
    for (auto low = steps.begin(); std::next(low) != steps.end(); ++low) {
      const std::size_t axis = axis_at(whole, *low);
      const bool varies = axis >= lead && own[axis - lead] > 1;
      int& of_axis = seen[axis_at(target, *low)];
      of_axis |= varies ? 1 : 2;
      blocked_ |= of_axis == 3;
    }
  }

  /// The axis of a shape that contains the stride `step`.
  static std::size_t axis_at(const Shape& shape, std::int64_t step) {
    std::int64_t below = 1;
    std::size_t axis = shape.size();
    while (axis > 0 && below * shape[axis - 1] <= step) below *= shape[--axis];
    return axis == 0 ? 0 : axis - 1;
  }

  const GraphFunction& function_;
  const Uses& uses_;
  ValueId root_;
  std::set<std::int64_t> steps_;
  std::set<ValueId> inner_;
  bool blocked_ = false;
};

class Blocks {
 public:
  Blocks(GraphFunction& function, const CompileOptions& options)
      : function_(function), options_(options), uses_(function), names_(function) {}

  void run() {
    for (const Op& op : function_before_)
      if (op.kind != Kind::contract || !rewritten(op)) ops_.push_back(op);
    function_.ops = std::move(ops_);
  }

 private:
  const TensorType& type(ValueId value) const { return function_.value(value).type; }

  bool rewritten(const Op& op) {
    if (zero_tiles_of(op).operand >= 0 || element_count(type(op.operands[0]).shape) == 0 ||
        element_count(type(op.operands[1]).shape) == 0)
      return false;
    const auto given = options_.mappings.find(op.name);
    if (given != options_.mappings.end() && given->second.tiles.size() == domain(function_, op).extents.size())
      return false;
    const std::array<BlockOperand, 2> sides{BlockOperand(function_, uses_, op.operands[0]),
                                            BlockOperand(function_, uses_, op.operands[1])};
    if (!sides[0].blocked() && !sides[1].blocked()) return false;
    std::array<Factors, 2> factors;
    for (std::size_t side = 0; side < 2; ++side) {
      if (sides[side].blocked()) {
        factors[side] = sides[side].factors();
      } else {
        for (const std::int64_t extent : type(op.operands[side]).shape) factors[side].push_back({extent});
      }
    }
    for (const char* role : {"batch", "contract"}) {
      const BlockAxes a = op.attributes.integers(std::string("a_") + role, {});
      const BlockAxes b = op.attributes.integers(std::string("b_") + role, {});
      for (std::size_t i = 0; i < a.size(); ++i)
        if (!agree(factors[0][at(a[i])], factors[1][at(b[i])])) return false;
    }
    write(op, sides, factors);
    return true;
  }

  /// Splits two axes of equal extent at the strides of both; false if the strides do not divide each other.
  static bool agree(Shape& a, Shape& b) {
    std::set<std::int64_t> steps = steps_of(a);
    steps.merge(steps_of(b));
    if (!divide_each_other(steps)) return false;
    const Shape whole{element_count(a)};
    a = b = cut_at(whole, steps)[0];
    return true;
  }

  void write(const Op& op, const std::array<BlockOperand, 2>& sides, const std::array<Factors, 2>& factors) {
    Op product = op;
    for (std::size_t side = 0; side < 2; ++side) {
      std::map<ValueId, ValueId> made;
      const ValueId value = op.operands[side];
      const Shape wanted = joined_factors(factors[side]);
      product.operands[side] = sides[side].blocked() ? whole(anew(sides[side], op.name, value, wanted, made), wanted)
                                                     : reshaped(op.name, value, wanted);
    }
    Factors result;
    for (std::size_t side = 0; side < 2; ++side) {
      const std::string of = side == 0 ? "a" : "b";
      BlockAxes first{0};
      for (const Shape& own : factors[side]) first.push_back(first.back() + static_cast<std::int64_t>(own.size()));
      std::set<std::int64_t> bound;
      for (const char* role : {"_batch", "_contract"}) {
        const BlockAxes axes = op.attributes.integers(of + role, {});
        BlockAxes parts;
        for (const std::int64_t axis : axes) {
          bound.insert(axis);
          for (std::int64_t part = first[at(axis)]; part < first[at(axis + 1)]; ++part) parts.push_back(part);
          if (side == 0 && role == std::string("_batch")) result.push_back(factors[0][at(axis)]);
        }
        product.attributes.set(of + role, parts);
      }
      for (std::size_t axis = 0; axis < factors[side].size(); ++axis)
        if (!bound.count(static_cast<std::int64_t>(axis))) result.push_back(factors[side][axis]);
    }
    const TensorType whole = type(op.results[0]);
    const Shape split = joined_factors(result);
    product.attributes.set("dtype", whole.dtype);
    if (product.operands.size() > 2 && product.operands[2] != no_value)
      product.operands[2] = repeated(op.name, product.operands[2], whole.shape, split);
    if (split == whole.shape) {
      ops_.push_back(std::move(product));
      return;
    }
    Op view;
    view.kind = Kind::reshape;
    view.name = names_.taken(op.name + ".view");
    view.source = op.source;
    view.results = product.results;
    view.attributes.set("shape", whole.shape);
    product.results = {value(op.name + ".blocks", {whole.dtype, split})};
    view.operands = product.results;
    ops_.push_back(std::move(product));
    ops_.push_back(std::move(view));
  }

  ValueId value(const std::string& stem, TensorType made) {
    function_.values.push_back({names_.taken(stem), std::move(made)});
    return static_cast<ValueId>(function_.values.size()) - 1;
  }

  ValueId reshaped(const std::string& stem, ValueId from, const Shape& to) {
    if (type(from).shape == to) return from;
    Op view;
    view.kind = Kind::reshape;
    view.name = names_.taken(stem + ".blocks." + function_.value(from).name);
    view.operands = {from};
    view.attributes.set("shape", to);
    view.results = {value(view.name, {type(from).dtype, to})};
    ops_.push_back(view);
    return view.results[0];
  }

  /// Broadcasts an operand that consists of repeated values only to its full shape.
  ValueId whole(ValueId from, const Shape& to) {
    if (type(from).shape == to) return from;
    Op spread;
    spread.kind = Kind::broadcast;
    spread.name = names_.taken(function_.value(from).name + ".spread");
    BlockAxes dims;
    for (std::size_t axis = 0; axis < to.size(); ++axis) dims.push_back(static_cast<std::int64_t>(axis));
    spread.attributes.set("shape", to);
    spread.attributes.set("dims", dims);
    spread.operands = {from};
    spread.results = {value(spread.name, {type(from).dtype, to})};
    ops_.push_back(spread);
    return spread.results[0];
  }

  /// Reshapes a value that repeats over `whole` so that it repeats over `split`, which splits axes of `whole`.
  ValueId repeated(const std::string& stem, ValueId from, const Shape& whole, const Shape& split, Shape own = {}) {
    if (own.empty()) own = type(from).shape;
    if (element_count(own) == 1) return from;
    const int producer = at(from) < uses_.producer.size() ? uses_.producer[at(from)] : -1;
    if (producer >= 0 && uses_.consumers[at(from)].size() == 1 && !uses_.is_output[at(from)] &&
        function_before_[at(producer)].kind == Kind::convert) {  // few elements: converted again for each reader
      Op again = function_before_[at(producer)];
      again.name = names_.taken(again.name + ".blocks");
      again.operands = {repeated(stem, again.operands[0], whole, split, own)};
      again.results = {value(again.name, {type(from).dtype, type(again.operands[0]).shape})};
      ops_.push_back(again);
      return again.results[0];
    }
    Shape spread(whole.size() - own.size(), 1);
    spread.insert(spread.end(), own.begin(), own.end());
    const Factors cut = cut_at(whole, steps_of(split));
    Shape result;
    for (std::size_t axis = 0; axis < whole.size(); ++axis)
      for (const std::int64_t extent : cut[axis]) result.push_back(spread[axis] == 1 ? 1 : extent);
    return reshaped(stem, from, aligned(result, cut, split));
  }

  /// Gives a shape the unit axes of `split`.
  static Shape aligned(const Shape& own, const Factors& cut, const Shape& split) {
    const Shape whole = joined_factors(cut);
    Shape result;
    std::size_t next = 0;
    for (const std::int64_t extent : split) {
      while (next < whole.size() && whole[next] == 1 && extent != 1) ++next;
      result.push_back(extent == 1 ? 1 : own[next]);
      if (extent != 1) ++next;
    }
    return result;
  }

  /// Computes a value again in the shape of the blocks.
  ValueId anew(const BlockOperand& side, const std::string& stem, ValueId from, const Shape& to,
               std::map<ValueId, ValueId>& made) {
    if (const auto known = made.find(from); known != made.end()) return known->second;
    if (!side.inner(from)) return made[from] = reshaped(stem, from, to);
    const Op op = *side.maker(from);
    if (op.kind == Kind::reshape) return made[from] = anew(side, stem, op.operands[0], to, made);
    if (op.kind == Kind::broadcast) {
      Shape spread(type(from).shape.size(), 1);
      const BlockAxes dims = op.attributes.integers("dims");
      for (std::size_t axis = 0; axis < dims.size(); ++axis) spread[at(dims[axis])] = type(op.operands[0]).shape[axis];
      return made[from] = repeated(stem, op.operands[0], type(from).shape, to, spread);
    }
    Op again = op;
    again.name = names_.taken(op.name + ".blocks");
    for (ValueId& operand : again.operands)
      operand = type(operand).shape == type(from).shape ? anew(side, stem, operand, to, made)
                                                        : repeated(stem, operand, type(from).shape, to);
    Shape shape(to.size(), 1);  // broadcast shape of the operands
    for (const ValueId operand : again.operands) {
      const Shape& own = type(operand).shape;
      for (std::size_t axis = 0; axis < own.size(); ++axis) {
        std::int64_t& extent = shape[to.size() - own.size() + axis];
        extent = std::max(extent, own[axis]);
      }
    }
    again.results = {value(function_.value(from).name + ".blocks", {type(from).dtype, shape})};
    ops_.push_back(again);
    return made[from] = again.results[0];
  }

  GraphFunction& function_;
  const CompileOptions& options_;
  const Uses uses_;
  const std::vector<Op> function_before_ = function_.ops;
  edit::Names names_;
  std::vector<Op> ops_;
};

}  // namespace

void split_into_blocks(GraphFunction& function, const CompileOptions& options) { Blocks(function, options).run(); }

}  // namespace tilesim::lower
