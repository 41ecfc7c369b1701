#include "tilesim/compile/prepare/sink_views.hpp"

#include <algorithm>
#include <optional>

#include "tilesim/base/shape.hpp"
#include "tilesim/compile/groups/rules.hpp"
#include "tilesim/compile/plan/placement.hpp"
#include "tilesim/compile/plan/uses.hpp"

namespace tilesim::lower {

namespace {

std::size_t place(std::int64_t i) { return static_cast<std::size_t>(i); }

/// The shape of a value that broadcasts to `from`, by the axes of `to`, which has the same elements in the same order;
/// none where its axes of one element lie inside an axis of `to`.
std::optional<Shape> sunk_shape(const Shape& own, const Shape& from, const Shape& to) {
  Shape spread(from.size() - own.size(), 1), result;
  spread.insert(spread.end(), own.begin(), own.end());
  std::size_t i = 0, j = 0;
  while (i < from.size() || j < to.size()) {  // runs of axes that hold the same elements
    const std::size_t first = i, begin = j;
    std::int64_t a = i < from.size() ? from[i++] : 1, b = j < to.size() ? to[j++] : 1;
    while (a != b) {
      if (a < b ? i == from.size() : j == to.size()) return std::nullopt;
      (a < b ? a : b) *= a < b ? from[i++] : to[j++];
    }
    std::int64_t held = 1;
    for (std::size_t axis = first; axis < i; ++axis) held *= spread[axis];
    if (held == a)
      result.insert(result.end(), to.begin() + static_cast<std::ptrdiff_t>(begin),
                    to.begin() + static_cast<std::ptrdiff_t>(j));
    else if (held == 1)
      result.insert(result.end(), j - begin, 1);
    else
      return std::nullopt;
  }
  return result;
}

class Sinking {
 public:
  Sinking(GraphFunction& function, bool entry, std::vector<FusionCandidate>& looked_at)
      : function_(function), entry_(entry), looked_at_(looked_at), uses_(function) {}

  /// The first reshape that can go behind its reader does; false where there is none.
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

  /// The operation behind which the reshape can go; -1: none.
  int reader_of(std::size_t i) {
    const Op& view = function_.ops[i];
    if (view.kind != Kind::reshape) return -1;
    const ValueId x = view.operands[0], y = view.results[0];
    const std::vector<int>& readers = uses_.consumers[place(y)];
    const Op* source = maker(x);
    if (readers.size() != 1 || uses_.is_output[place(y)] || !source) return -1;
    if (!is_recomputable(source->kind) && source->kind != Kind::contract && source->kind != Kind::convolution)
      return -1;
    const Op& reader = function_.ops[place(readers[0])];
    if (source->kind == Kind::iota || reader.kind == Kind::iota || !is_recomputable(reader.kind)) return -1;
    const ValueId result = reader.results[0];
    if (shape(result) != shape(y) || (uses_.is_output[place(result)] && !entry_)) return -1;
    if (element_count(shape(y)) == 0) return -1;
    if (bits(function_.value(result).type.dtype) > bits(function_.value(x).type.dtype))
      return look(view, reader, "what is stored would be wider"), -1;
    for (ValueId other : reader.operands)
      if (other != y && !sunk(other, shape(y), shape(x)))
        return look(view, reader, "its other operand would have to move or to be stored"), -1;
    look(view, reader, {});
    return readers[0];
  }

  void look(const Op& view, const Op& reader, std::string refused) {
    FusionCandidate row;
    row.candidate = (entry_ ? "" : function_.name + ".") + reader.name;
    row.rule = info(Rule::views).name;
    row.operations = {view.name, reader.name};
    row.decision = refused.empty() ? "taken" : "not legal";
    row.reason = refused.empty() ? "saves nothing itself: other rules now see both sides" : std::move(refused);
    looked_at_.push_back(std::move(row));
  }

  /// The shape that the other operand takes, where it need not move for it.
  std::optional<Shape> sunk(ValueId value, const Shape& from, const Shape& to) const {
    const Shape& own = shape(value);
    if (element_count(own) == 1) return Shape(std::min(own.size(), to.size()), 1);
    const std::optional<Shape> wanted = sunk_shape(own, from, to);
    if (!wanted || *wanted == own) return wanted;
    const Op* source = maker(value);
    if (source && source->kind == Kind::reshape && shape(source->operands[0]) == *wanted) return wanted;
    if (split_access(own, *wanted)) return wanted;
    // What a vector kernel makes would be stored for it; formal inputs have no other name.
    const bool computed = source && is_vector_kind(source->kind) && own == from;
    const bool named = source ? !tilesim::info(source->kind).movement && source->functions.empty() : entry_;
    return named && !computed ? wanted : std::nullopt;
  }

  ValueId add_value(const std::string& stem, TensorType type) {
    std::string name = stem;
    const auto taken = [&] {
      return std::ranges::any_of(function_.values, [&](const Value& value) { return value.name == name; });
    };
    for (int i = 1; taken(); ++i) name = stem + "." + std::to_string(i);
    function_.values.push_back({name, std::move(type)});
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
      before.push_back(std::move(turned));
    }
    TensorType type = function_.value(result).type;
    type.shape = to;
    reader.results[0] = view.operands[0] = add_value(function_.value(result).name + ".before", type);
    view.results[0] = result;
    view.attributes.set("shape", from);
    std::vector<Op> ops;
    for (std::size_t k = 0; k < function_.ops.size(); ++k) {
      if (k == i) continue;
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
  std::vector<FusionCandidate>& looked_at_;
  Uses uses_;
};

}  // namespace

void sink_views(Graph& graph, std::vector<FusionCandidate>& looked_at) {
  constexpr std::size_t most = 20'000'000;  // operations looked at: each step reads the function anew
  for (std::size_t f = 0; f < graph.functions.size(); ++f) {
    GraphFunction& function = graph.functions[f];
    Sinking sinking(function, static_cast<std::int32_t>(f) == graph.main, looked_at);
    std::size_t from = 0, work = 0;
    while (work < most && sinking.step(from)) work += function.ops.size();
  }
}

}  // namespace tilesim::lower
