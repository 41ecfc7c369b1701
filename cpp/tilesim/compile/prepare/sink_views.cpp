#include "tilesim/compile/prepare/sink_views.hpp"

#include <algorithm>
#include <optional>
#include <set>

#include "tilesim/base/shape.hpp"
#include "tilesim/compile/groups/rules.hpp"
#include "tilesim/compile/plan/placement.hpp"
#include "tilesim/compile/plan/uses.hpp"
#include "tilesim/graph/fresh_names.hpp"
#include "tilesim/graph/passes.hpp"

namespace tilesim::lower {

namespace {

std::size_t place(std::int64_t i) { return static_cast<std::size_t>(i); }

/// The shape of a value that broadcasts to `from`, in terms of the axes of `to`, a reshape of `from`; empty if one of
/// its unit axes lies inside an axis of `to`.
std::optional<Shape> sunk_shape(const Shape& own, const Shape& from, const Shape& to) {
  Shape spread(from.size() - own.size(), 1);
  spread.insert(spread.end(), own.begin(), own.end());
  return narrow_reshaped(from, spread, to);
}

/// Names of the function's values; operations have separate names.
FreshNames names_of(const GraphFunction& function) {
  FreshNames names;
  for (const Value& value : function.values) names.take(value.name);
  return names;
}

class Sinking {
 public:
  Sinking(GraphFunction& function, bool entry, std::vector<FusionCandidate>& looked_at)
      : function_(function), entry_(entry), looked_at_(looked_at), uses_(function), names_(names_of(function)) {}

  /// Moves the first movable reshape at or after operation `from` behind its reader; false if there is none.
  bool step(std::size_t& from) {
    for (std::size_t i = from; i < function_.ops.size(); ++i) {
      from = i;
      const int reader = reader_of(i);
      if (reader < 0) continue;
      sink(i, place(reader));
      return true;
    }
    return false;
  }

 private:
  const Shape& shape(ValueId value) const { return function_.value(value).type.shape; }
  const Op* maker(ValueId value) const {
    const int producer = uses_.producer[place(value)];
    return producer < 0 ? nullptr : &function_.ops[place(producer)];
  }

  /// The operation behind which the reshape can move; -1: none.
  int reader_of(std::size_t i) {
    const Op& view = function_.ops[i];
    if (view.kind != Kind::reshape) return -1;
    const ValueId x = view.operands[0], y = view.results[0];
    const Op* source = maker(x);
    if (turned_.count(y)) return -1;  // inserted for an operand of a moved operation: it would move back
    if (!source || element_count(shape(y)) == 0 || source->kind == Kind::iota) return -1;
    const bool product = source->kind == Kind::contract || source->kind == Kind::convolution;
    if (!is_recomputable(source->kind) && source->kind != Kind::reduce && !product) return -1;
    // A large value must have one reader: other readers would need it in its original shape too.
    const bool small = source->kind == Kind::reduce || rows_.count(x);
    if (!small && (uses_.consumers[place(y)].size() != 1 || uses_.is_output[place(y)])) return -1;
    for (int reader : uses_.consumers[place(y)])
      if (may_pass(view, function_.ops[place(reader)])) return reader;
    return -1;
  }

  bool may_pass(const Op& view, const Op& reader) {
    const ValueId x = view.operands[0], y = view.results[0];
    if (!is_recomputable(reader.kind) || reader.kind == Kind::iota) return false;
    const ValueId result = reader.results[0];
    if (shape(result) != shape(y) || (uses_.is_output[place(result)] && !entry_)) return false;
    std::string refused;
    if (bits(function_.value(result).type.dtype) > bits(function_.value(x).type.dtype))
      refused = "what is stored would be wider";
    for (ValueId other : reader.operands)
      if (other != y && !sunk(other, shape(y), shape(x)))
        refused = "its other operand would have to move or to be stored";
    if (!refused.empty() && !refused_.insert({view.name, reader.name}).second) return false;
    const bool good = refused.empty();
    look(view, reader, std::move(refused));
    return good;
  }

  void look(const Op& view, const Op& reader, std::string refused) {
    FusionCandidate row;
    row.candidate = (entry_ ? "" : function_.name + ".") + reader.name;
    row.rule = info(Rule::views).name;
    row.operations = {view.name, reader.name};
    row.decision = refused.empty() ? "taken" : "not legal";
    row.reason = refused.empty() ? "saves nothing, but lets other rules see both sides" : std::move(refused);
    looked_at_.push_back(std::move(row));
  }

  /// The shape of the reader's other operand after the move; empty if that would move data.
  std::optional<Shape> sunk(ValueId value, const Shape& from, const Shape& to) const {
    const Shape& own = shape(value);
    if (element_count(own) == 1) return Shape(std::min(own.size(), to.size()), 1);
    const std::optional<Shape> wanted = sunk_shape(own, from, to);
    if (!wanted || *wanted == own) return wanted;
    const Op* source = maker(value);
    if (source && source->kind == Kind::reshape && shape(source->operands[0]) == *wanted) return wanted;
    if (split_access(own, *wanted)) return wanted;
    // A vector kernel would have to store its result for this view; formal inputs have no alias.
    const bool computed = source && is_vector_kind(source->kind) && own == from;
    const bool named = source ? !tilesim::info(source->kind).movement && source->functions.empty() : entry_;
    return named && !computed ? wanted : std::nullopt;
  }

  ValueId add_value(const std::string& stem, TensorType type) {
    function_.values.push_back({names_.unique(stem), std::move(type)});
    return static_cast<ValueId>(function_.values.size()) - 1;
  }

  void sink(std::size_t i, std::size_t number) {
    Op view = function_.ops[i], reader = function_.ops[number];
    const ValueId x = view.operands[0], y = view.results[0], result = reader.results[0];
    const Shape from = shape(y), to = shape(x);
    std::vector<Op> before;
    for (ValueId& other : reader.operands) {
      if (other == y) {
        other = x;
        continue;
      }
      const Shape wanted = *sunk(other, from, to);
      if (wanted == shape(other)) continue;
      const Op* source = maker(other);
      if (source && source->kind == Kind::reshape && shape(source->operands[0]) == wanted) {
        other = source->operands[0];
        continue;
      }
      Op turned;
      turned.kind = Kind::reshape;
      turned.name = reader.name + ".as." + function_.value(other).name;
      turned.source = reader.source;
      turned.operands = {other};
      turned.attributes.set("shape", wanted);
      turned.results = {add_value(turned.name, TensorType{function_.value(other).type.dtype, wanted})};
      other = turned.results[0];
      turned_.insert(other);
      before.push_back(std::move(turned));
    }
    const bool only = uses_.consumers[place(y)].size() == 1 && !uses_.is_output[place(y)];
    if (!only) view.name = reader.name + ".view";
    TensorType type = function_.value(result).type;
    type.shape = to;
    const bool small = rows_.count(x) || (maker(x) && maker(x)->kind == Kind::reduce);
    reader.results[0] = view.operands[0] = add_value(function_.value(result).name + ".before", type);
    if (small) rows_.insert(reader.results[0]);
    view.results[0] = result;
    view.attributes.set("shape", from);
    std::vector<Op> ops;
    for (std::size_t k = 0; k < function_.ops.size(); ++k) {
      if (k == i && only) continue;
      if (k != number) {
        ops.push_back(std::move(function_.ops[k]));
        continue;
      }
      std::ranges::move(before, std::back_inserter(ops));
      ops.push_back(std::move(reader));
      ops.push_back(std::move(view));
    }
    function_.ops = std::move(ops);
    uses_ = Uses(function_);
  }

  GraphFunction& function_;
  bool entry_;
  std::set<std::pair<std::string, std::string>> refused_;  ///< rejections already in the table
  std::vector<FusionCandidate>& looked_at_;
  Uses uses_;
  FreshNames names_;
  std::set<ValueId> turned_;  ///< results of reshapes that moves inserted
  std::set<ValueId> rows_;    ///< values computed from reductions only, through reshapes
};

}  // namespace

namespace {

/// Makes reductions keep their axes, followed by a reshape: readers can then share their rows.
void keep_reduced_axes(GraphFunction& function, bool entry) {
  const Uses uses(function);
  FreshNames names = names_of(function);
  std::vector<Op> ops;
  for (Op& op : function.ops) {
    const bool drops = op.kind == Kind::reduce && !op.attributes.flag("keep_dims") && op.results.size() == 1;
    const auto joins = [&](int reader) {
      const Kind kind = function.ops[place(reader)].kind;
      return is_recomputable(kind) || kind == Kind::broadcast || kind == Kind::reshape;
    };
    const std::string combiner = drops ? op.attributes.text("combiner") : std::string();
    if (!drops || combiner == "argmax" || combiner == "argmin" || (uses.is_output[place(op.results[0])] && !entry) ||
        std::ranges::none_of(uses.consumers[place(op.results[0])], joins)) {
      ops.push_back(std::move(op));
      continue;
    }
    const ValueId result = op.results[0];
    Shape kept = function.value(op.operands[0]).type.shape;
    for (std::int64_t dim : op.attributes.integers("dims")) kept[place(dim)] = 1;
    Op view;
    view.kind = Kind::reshape;
    view.name = op.name + ".dropped";
    view.source = op.source;
    view.attributes.set("shape", function.value(result).type.shape);
    view.results = {result};
    const Value& old = function.value(result);
    function.values.push_back({names.unique(old.name + ".kept"), TensorType{old.type.dtype, kept}});
    op.results[0] = static_cast<ValueId>(function.values.size()) - 1;
    view.operands = {op.results[0]};
    op.attributes.set("keep_dims", true);
    ops.push_back(std::move(op));
    ops.push_back(std::move(view));
  }
  function.ops = std::move(ops);
}

/// Turns broadcasts that only add unit axes into reshapes.
void name_reshapes(GraphFunction& function) {
  for (Op& op : function.ops) {
    if (op.kind != Kind::broadcast || op.operands.empty()) continue;
    const Shape& to = function.value(op.results[0]).type.shape;
    const std::vector<std::int64_t>& dims = op.attributes.integers("dims");
    if (element_count(function.value(op.operands[0]).type.shape) != element_count(to) || !std::ranges::is_sorted(dims))
      continue;
    Attributes attributes;
    attributes.set("shape", to);
    op.kind = Kind::reshape;
    op.attributes = std::move(attributes);
  }
}

/// Elementwise operations read the source of a broadcast, with unit axes in place of repeated ones.
void read_through_broadcasts(GraphFunction& function) {
  const Uses uses(function);
  FreshNames names = names_of(function);
  std::vector<Op> ops;
  for (Op op : function.ops) {
    for (ValueId& operand : op.operands) {
      const int producer = operand == no_value ? -1 : uses.producer[place(operand)];
      if (op.kind != Kind::elementwise || producer < 0) continue;
      const Op& broadcast = function.ops[place(producer)];
      if (broadcast.kind != Kind::broadcast || broadcast.operands.empty()) continue;
      const ValueId repeated = broadcast.operands[0];
      const int made = uses.producer[place(repeated)];
      const Shape& whole = function.value(operand).type.shape;
      if (made < 0 || function.ops[place(made)].kind == Kind::constant ||
          function.value(op.results[0]).type.shape != whole)
        continue;
      const bool spanned = std::ranges::any_of(op.operands, [&](ValueId other) {
        return other != no_value && other != operand && function.value(other).type.shape == whole;
      });
      if (!spanned) continue;
      Shape spread(whole.size(), 1);
      const std::vector<std::int64_t>& dims = broadcast.attributes.integers("dims");
      const Shape& own = function.value(repeated).type.shape;
      for (std::size_t axis = 0; axis < dims.size(); ++axis) spread[place(dims[axis])] = own[axis];
      Op view;
      view.kind = Kind::reshape;
      view.name = op.name + ".spread." + function.value(repeated).name;
      view.source = op.source;
      view.attributes.set("shape", spread);
      view.operands = {repeated};
      function.values.push_back({names.unique(view.name), TensorType{function.value(repeated).type.dtype, spread}});
      operand = static_cast<ValueId>(function.values.size()) - 1;
      view.results = {operand};
      ops.push_back(std::move(view));
    }
    ops.push_back(std::move(op));
  }
  function.ops = std::move(ops);
}

/// Merges consecutive reshapes; a reshape back to the original shape disappears.
void join_reshapes(GraphFunction& function) {
  std::vector<int> made_by(function.values.size(), -1);
  std::vector<ValueId> same(function.values.size());
  for (std::size_t i = 0; i < same.size(); ++i) same[i] = static_cast<ValueId>(i);
  for (std::size_t i = 0; i < function.ops.size(); ++i) {
    Op& op = function.ops[i];
    for (ValueId& operand : op.operands)
      if (operand != no_value) operand = same[place(operand)];
    for (ValueId result : op.results)
      if (result != no_value) made_by[place(result)] = static_cast<int>(i);
    if (op.kind != Kind::reshape) continue;
    const int before = made_by[place(op.operands[0])];
    if (before < 0 || function.ops[place(before)].kind != Kind::reshape) continue;
    op.operands[0] = function.ops[place(before)].operands[0];
    if (function.value(op.operands[0]).type == function.value(op.results[0]).type)
      same[place(op.results[0])] = op.operands[0];
  }
}

}  // namespace

void sink_views(Graph& graph, std::vector<FusionCandidate>& looked_at) {
  constexpr std::size_t most = 5'000'000;  // operations visited: each step scans the function again
  for (std::size_t f = 0; f < graph.functions.size(); ++f) {
    GraphFunction& function = graph.functions[f];
    const bool entry = static_cast<std::int32_t>(f) == graph.main;
    keep_reduced_axes(function, entry);
    name_reshapes(function);
    read_through_broadcasts(function);
    join_reshapes(function);
    Sinking sinking(function, entry, looked_at);
    std::size_t from = 0, work = 0;
    while (work < most && sinking.step(from)) work += function.ops.size();
    join_reshapes(function);
  }
  merge_common_subexpressions(graph);
  remove_no_ops(graph);
  remove_dead_code(graph);
}

}  // namespace tilesim::lower
