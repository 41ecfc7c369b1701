#include "tilesim/compile/plan/views.hpp"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "tilesim/base/index.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/compile/plan/in_place.hpp"

namespace tilesim::lower {

std::optional<std::vector<AxisAccess>> split_access(const Shape& from, const Shape& to) {
  std::vector<AxisAccess> axes;
  std::size_t next = 0;
  for (std::int64_t extent : from) {
    AxisAccess axis;
    std::int64_t covered = 1;
    std::vector<std::size_t> parts;
    while (covered < extent) {
      if (next >= to.size()) return std::nullopt;
      covered *= to[next];
      if (covered > extent || extent % covered != 0) return std::nullopt;
      parts.push_back(next++);
    }
    std::int64_t stride = 1;
    for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
      if (to[*part] > 1) axis.terms.insert(axis.terms.begin(), {static_cast<int>(*part), stride});
      stride *= to[*part];
    }
    axes.push_back(std::move(axis));
  }
  for (; next < to.size(); ++next)
    if (to[next] != 1) return std::nullopt;
  return axes;
}

std::optional<Expr> counted_start(const Context& context, const Op& op, ValueId start, std::int64_t last) {
  const bool strict = op.attributes.text("mode", "clip") == "error";
  const auto inside = [&](const Expr& at) { return strict ? at : max(Expr(0), min(Expr(last), at)); };
  if (const auto counter = context.counters.find(start); counter != context.counters.end())
    return inside(counter->second);
  if (const auto known = context.scalars.find(start); known != context.scalars.end())
    return inside(Expr(static_cast<std::int64_t>(known->second)));
  if (last == 0 && !strict) return Expr(0);
  return std::nullopt;
}

std::optional<double> padding_value(const Context& context, const Op& pad) {
  if (pad.operands.size() < 2 || pad.operands[1] == no_value) return 0.0;
  if (context.counters.count(pad.operands[1])) return std::nullopt;
  const auto known = context.scalars.find(pad.operands[1]);
  return known == context.scalars.end() ? std::nullopt : std::optional(known->second);
}

namespace {

/// By value: whether a reader needs a tensor that ends with the value. A window reads a fill value beyond the edges,
/// not adjacent data. A view passes the need on to its operand.
std::vector<bool> needing_own_tensors(const GraphFunction& function) {
  std::vector<bool> needs(function.values.size(), false);
  for (std::size_t i = function.ops.size(); i-- > 0;) {  // readers come after producers
    const Op& op = function.ops[i];
    // A function takes full tensors; tiles of scattered windows reach beyond the edges of both operands.
    if (runs_functions(op.kind) || op.kind == Kind::window_scatter)
      for (ValueId operand : op.operands)
        if (operand != no_value) needs[at(operand)] = true;
    if (op.operands.empty() || op.operands[0] == no_value) continue;
    const bool window = op.kind == Kind::convolution || op.kind == Kind::window_reduce;
    const auto pads = window ? op.attributes.integers("pads", {}) : std::vector<std::int64_t>{};
    const bool may_view = op.kind == Kind::reshape || op.kind == Kind::transpose || op.kind == Kind::slice ||
                          op.kind == Kind::broadcast || op.kind == Kind::copy || op.kind == Kind::dynamic_slice;
    if (std::any_of(pads.begin(), pads.end(), [](std::int64_t pad) { return pad > 0; }) ||
        (may_view && needs[at(op.results[0])]))
      needs[at(op.operands[0])] = true;
  }
  return needs;
}

bool read_by_call(const GraphFunction& function, const Uses& uses, ValueId value) {
  return std::any_of(uses.consumers[at(value)].begin(), uses.consumers[at(value)].end(),
                     [&](int reader) { return runs_functions(function.ops[at(reader)].kind); });
}

/// An output may be a view of a computed value, but not of an input or another output: those have separate bytes and
/// are copied.
struct Owners {
  std::set<ValueId> claimed;
  bool own_bytes(const GraphFunction& function, const Uses& uses, const Views& views, ValueId value) {
    while (true) {
      const int producer = uses.producer[at(value)];
      if (producer < 0 || uses.is_output[at(value)]) return false;
      const Op& op = function.ops[at(producer)];
      if (op.kind == Kind::constant || runs_functions(op.kind)) return false;
      if (!views.view[at(producer)]) return claimed.insert(value).second;
      value = op.operands[0];
    }
  }
};

}  // namespace

ValueId Views::source(const GraphFunction& function, const Uses& uses, ValueId value) const {
  while (true) {
    const int producer = uses.producer[static_cast<std::size_t>(value)];
    if (producer < 0 || !view[static_cast<std::size_t>(producer)]) return value;
    value = function.ops[static_cast<std::size_t>(producer)].operands[0];
  }
}

namespace {

/// Whether all parts of a concat cover whole layout tiles along its two minor axes. Otherwise each producer would move
/// whole tiles; a concat kernel combines the parts first.
bool whole_layout_tiles(const GraphFunction& function, const Op& concat, const Share& machine) {
  const std::size_t rank = function.value(concat.results[0]).type.shape.size();
  const std::size_t dim = at(concat.attributes.integer("dim"));
  const Shape& tile = machine.layout.tile;
  if (tile.size() != 2 || rank < 2 || dim + 2 < rank) return true;
  return std::ranges::all_of(concat.operands, [&](ValueId part) {
    return function.value(part).type.shape[dim] % tile[dim + 1 == rank ? 1 : 0] == 0;
  });
}

/// Whether the producer of a concat's part may store it in the concat's result: the producer computes, and all readers
/// accept a part of a tensor.
bool may_join(const GraphFunction& function, const Uses& uses, const Views& views, const std::vector<bool>& needs_own,
              const Op& concat, ValueId x) {
  const int producer = uses.producer[at(x)];
  if (producer < 0 || uses.is_output[at(x)] || needs_own[at(x)] || views.joined[at(x)] >= 0) return false;
  const Op& maker = function.ops[at(producer)];
  if (!is_vector_kind(maker.kind) && maker.kind != Kind::contract && maker.kind != Kind::convolution) return false;
  return std::ranges::all_of(uses.consumers[at(x)], [&](int reader) {
    const Op& op = function.ops[at(reader)];
    return &op == &concat || op.kind == Kind::slice || !(info(op.kind).movement || runs_functions(op.kind));
  });
}

class ViewFinder {
 public:
  ViewFinder(const Context& context, const Uses& uses, bool is_main, const Share* join)
      : context_(context),
        function_(context.function),
        uses_(uses),
        is_main_(is_main),
        join_(join),
        needs_own_(needing_own_tensors(function_)),
        ends_(function_.values.size()),
        fills_(function_.values.size()) {
    for (std::size_t value = 0; value < ends_.size(); ++value)
      ends_[value].assign(function_.values[value].type.shape.size(), true);
  }

  Views run() && {
    for (std::size_t i = 0; i < function_.ops.size(); ++i) {
      if (function_.ops[i].kind == Kind::dynamic_slice && counted(function_.ops[i]))
        part(i);
      else if (info(function_.ops[i].kind).movement && !function_.ops[i].operands.empty())
        look_at(i);
      if (views_.view[i]) follow_ends(i);
    }
    return std::move(views_);
  }

 private:
  void look_at(std::size_t i) {
    const Op& op = function_.ops[i];
    const bool renames = may_rename(op);  // called for every kind, because the first reader claims the bytes
    switch (op.kind) {
      case Kind::reshape:
        return reshape(i, renames);
      case Kind::bitcast:
        views_.view[i] = renames;
        return;
      case Kind::transpose:
        return transpose(i);
      case Kind::slice:
      case Kind::broadcast:
      case Kind::copy:
        return part(i);
      case Kind::pad:
        views_.view[i] = fills_around(op);
        if (views_.view[i]) views_.identity[at(op.results[0])] = false;
        return;
      case Kind::concat:
        if (join_ && whole_layout_tiles(function_, op, *join_)) join_parts(i);
        return;
      default:
        return;
    }
  }

  /// Sets, per axis, whether the view ends with its tensor: positions outside the view are then outside the tensor.
  void follow_ends(std::size_t i) {
    const Op& op = function_.ops[i];
    const ValueId x = op.operands[0], y = op.results[0];
    const Shape &from = shape(x), &to = shape(y);
    std::vector<bool>& ends = ends_[at(y)];
    fills_[at(y)] = fills_[at(x)];
    if (views_.identity[at(y)]) return;
    ends.assign(to.size(), false);
    if (op.kind == Kind::transpose) {
      const auto& permutation = op.attributes.integers("permutation");
      for (std::size_t axis = 0; axis < to.size(); ++axis) ends[axis] = ends_[at(x)][at(permutation[axis])];
    } else if (op.kind == Kind::reshape) {
      const auto access = *split_access(from, to);
      for (std::size_t axis = 0; axis < from.size(); ++axis)
        if (access[axis].terms.size() == 1) ends[at(access[axis].terms[0].dim)] = ends_[at(x)][axis];
    } else if (op.kind == Kind::slice || op.kind == Kind::copy) {
      for (std::size_t axis = 0; axis < to.size(); ++axis) ends[axis] = ends_[at(x)][axis] && from[axis] == to[axis];
    } else if (op.kind == Kind::pad) {
      const auto &low = op.attributes.integers("low"), &high = op.attributes.integers("high");
      for (std::size_t axis = 0; axis < to.size(); ++axis)
        ends[axis] = ends_[at(x)][axis] && low[axis] >= 0 && high[axis] >= 0;
      fills_[at(y)] = padding_value(context_, op);
    }
  }

  /// Whether the pad can be a view: all its readers read its value outside the operand's tensor.
  bool fills_around(const Op& pad) const {
    const ValueId x = pad.operands[0], y = pad.results[0];
    const auto &low = pad.attributes.integers("low"), &high = pad.attributes.integers("high");
    const auto interior = pad.attributes.integers("interior", Shape(low.size(), 0));
    const auto value = padding_value(context_, pad);
    if (pad.attributes.text("mode", "constant") != "constant" || !value) return false;
    if (element_count(shape(x)) == 0 || context_.scalars.count(x)) return false;
    if (fills_[at(x)] && *fills_[at(x)] != *value) return false;
    for (std::size_t axis = 0; axis < low.size(); ++axis)
      if (interior[axis] != 0 || ((low[axis] > 0 || high[axis] > 0) && !ends_[at(x)][axis])) return false;
    return !is_output(y) && !needs_own_[at(y)] && read_in_regions(y, *value == 0);
  }

  /// Whether all readers load regions of the value unchanged. Products may compute elementwise operations on tiles that
  /// reach beyond the value's ends, where they read zeros.
  bool read_in_regions(ValueId value, bool zero) const {
    return std::ranges::all_of(uses_.consumers[at(value)], [&](int reader) {
      const Op& op = function_.ops[at(reader)];
      switch (op.kind) {
        case Kind::elementwise:
        case Kind::convert:
          return zero;
        case Kind::reduce:
        case Kind::concat:
          return true;
        case Kind::copy:
        case Kind::slice:
        case Kind::transpose:
        case Kind::reshape:
        case Kind::pad:
          return read_in_regions(op.results[0], zero);
        default:
          return false;
      }
    });
  }

  /// Whether the starts of a slice follow from loop counters. The last axis lies on lanes: its start must be constant.
  bool counted(const Op& slice) const {
    const Shape &from = shape(slice.operands[0]), &to = shape(slice.results[0]);
    for (std::size_t axis = 0; axis < from.size(); ++axis) {
      const auto start = counted_start(context_, slice, slice.operands[1 + axis], from[axis] - to[axis]);
      if (!start || (axis + 1 == from.size() && !start->is_constant())) return false;
    }
    return true;
  }

  const Shape& shape(ValueId value) const { return function_.value(value).type.shape; }

  bool is_output(ValueId value) const { return uses_.is_output[at(value)]; }

  /// Whether the value belongs to a callee's interface: its tensor is known at the call only, so it has no alias.
  bool formal(ValueId value) const { return !is_main_ && (uses_.producer[at(value)] < 0 || is_output(value)); }

  /// Whether the result may be an alias of the operand's full tensor.
  bool may_rename(const Op& op) {
    const ValueId x = op.operands[0];
    return views_.identity[at(x)] && !formal(x) &&
           (!is_output(op.results[0]) || (is_main_ && owners_.own_bytes(function_, uses_, views_, x)));
  }

  /// Whether a kernel computes the full value; an in-place update computes only a part.
  bool computed(ValueId value) const {
    const int producer = uses_.producer[at(value)];
    if (producer < 0 || views_.view[at(producer)]) return false;
    const Op& op = function_.ops[at(producer)];
    return op.kind != Kind::constant && !runs_functions(op.kind) && old_value(op, value) == no_value;
  }

  void reshape(std::size_t i, bool renames) {
    const Op& op = function_.ops[i];
    const ValueId y = op.results[0];
    if (renames)
      views_.view[i] = true;
    else if (!is_output(y) && !needs_own_[at(y)] && split_access(shape(op.operands[0]), shape(y)))
      views_.view[i] = true, views_.identity[at(y)] = false;
  }

  void transpose(std::size_t i) {
    const ValueId x = function_.ops[i].operands[0], y = function_.ops[i].results[0];
    if (computed(x) && uses_.consumers[at(x)].size() == 1 && !is_output(x)) {
      views_.view[i] = views_.transposed_store[i] = true;
      views_.identity[at(x)] = false;
    } else if (!is_output(y) && !read_by_call(function_, uses_, y)) {
      views_.view[i] = true;
      views_.identity[at(y)] = false;
    }
  }

  void part(std::size_t i) {
    const Op& op = function_.ops[i];
    const ValueId x = op.operands[0], y = op.results[0];
    const bool copy = op.kind == Kind::copy;
    if (is_output(y) || (copy && op.attributes.flag("layout"))) return;
    if (copy ? read_by_call(function_, uses_, y) : needs_own_[at(y)]) return;
    views_.view[i] = true;
    views_.identity[at(y)] = copy && views_.identity[at(x)];
  }

  void join_parts(std::size_t i) {
    std::unordered_map<ValueId, int> times;
    for (const ValueId part : function_.ops[i].operands) ++times[part];
    for (const ValueId part : function_.ops[i].operands)
      if (times[part] == 1 && may_join(function_, uses_, views_, needs_own_, function_.ops[i], part)) {
        views_.joined[at(part)] = static_cast<int>(i);
        views_.identity[at(part)] = false;
      }
  }

  const Context& context_;
  const GraphFunction& function_;
  const Uses& uses_;
  const bool is_main_;
  const Share* join_;
  const std::vector<bool> needs_own_;
  std::vector<std::vector<bool>> ends_;       ///< by value and axis
  std::vector<std::optional<double>> fills_;  ///< by value: fill value that its views read outside
  Owners owners_;
  Views views_{std::vector<bool>(function_.ops.size(), false), std::vector<bool>(function_.ops.size(), false),
               std::vector<bool>(function_.values.size(), true), std::vector<int>(function_.values.size(), -1)};
};

}  // namespace

Views find_views(const Context& context, const Uses& uses, bool is_main, const Share* join) {
  return ViewFinder(context, uses, is_main, join).run();
}

}  // namespace tilesim::lower
