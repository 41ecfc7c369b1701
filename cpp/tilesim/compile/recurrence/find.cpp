// Finds counted loops that are recurrences: operations join axes of a trip's values, and each state must leave a trip
// along the axes along which it entered.
#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "tilesim/base/index.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/compile/prepare/prepare.hpp"
#include "tilesim/compile/prepare/trips.hpp"
#include "tilesim/compile/recurrence/positions.hpp"
#include "tilesim/compile/recurrence/recurrence.hpp"

namespace tilesim::lower {

namespace {

class Finder {
 public:
  Finder(const Graph& graph, const LoopPlan& plan)
      : plan_(plan), body_(plan.body), scalars_(known_scalars(graph, plan.body)) {}

  std::optional<Recurrence> run() {
    number_axes();
    for (std::size_t i = 0; i < body_.inputs.size(); ++i) state_of_[body_.inputs[i]] = i;
    for (const Op& op : body_.ops)
      if (!take(op)) return std::nullopt;
    if (!join_states() || !make_space()) return std::nullopt;
    make_levels();
    found_.body = shown_body();
    found_.scalars = scalars_;
    return std::move(found_);
  }

 private:
  const Shape& shape(ValueId value) const { return body_.value(value).type.shape; }

  void number_axes() {
    first_.push_back(0);
    for (const Value& value : body_.values) first_.push_back(first_.back() + std::ssize(value.type.shape));
    parent_.resize(at(first_.back()));
    std::iota(parent_.begin(), parent_.end(), 0);
    added_.assign(parent_.size(), false);
    for (const Value& value : body_.values)
      extents_.insert(extents_.end(), value.type.shape.begin(), value.type.shape.end());
    shown_.resize(body_.values.size());
    std::iota(shown_.begin(), shown_.end(), 0);
  }

  std::int64_t axis(ValueId value, std::size_t number) const {
    return first_[at(value)] + static_cast<std::int64_t>(number);
  }
  std::int64_t root(std::int64_t of) {
    while (parent_[at(of)] != of) of = parent_[at(of)] = parent_[at(parent_[at(of)])];
    return of;
  }
  bool join(ValueId a, std::size_t of_a, ValueId b, std::size_t of_b) {
    const std::int64_t extent = shape(a)[of_a], other = shape(b)[of_b];
    if (extent == 1 || other == 1) return true;
    if (extent != other) return false;
    parent_[at(root(axis(a, of_a)))] = root(axis(b, of_b));
    return true;
  }

  /// Scalars serve as positions and numbers; all else must be of a kind that keeps to its axes.
  bool take(const Op& op) {
    if (op.results.size() != 1) return false;
    const ValueId result = op.results[0];
    if (scalars_.count(result)) return true;
    switch (op.kind) {
      case Kind::elementwise:
        return std::ranges::all_of(op.operands, [&](ValueId operand) { return along(operand, result); });
      case Kind::convert:
        return op.attributes.text("rounding", "nearest_even") == "nearest_even" && along(op.operands[0], result);
      case Kind::copy:
      case Kind::reshape:
        return show(op, reshaped(op.operands[0], result));
      case Kind::transpose:
        return show(op, transposed(op));
      case Kind::broadcast:
        return show(op, spread(op));
      case Kind::reduce:
        return reduced(op);
      case Kind::contract:
        return contracted(op);
      case Kind::dynamic_slice:
        return sliced(op);
      case Kind::dynamic_update:
        return updated(op);
      default:
        return false;
    }
  }

  bool show(const Op& op, bool fits) {
    shown_[at(op.results[0])] = shown_[at(op.operands[0])];
    return fits;
  }

  bool along(ValueId operand, ValueId result) {
    const std::size_t rank = shape(operand).size(), all = shape(result).size();
    for (std::size_t i = 0; i < rank; ++i)
      if (!join(operand, i, result, all - rank + i)) return false;
    return true;
  }

  bool reshaped(ValueId from, ValueId to) {
    std::vector<std::size_t> a, b;
    for (std::size_t i = 0; i < shape(from).size(); ++i)
      if (shape(from)[i] != 1) a.push_back(i);
    for (std::size_t i = 0; i < shape(to).size(); ++i)
      if (shape(to)[i] != 1) b.push_back(i);
    if (a.size() != b.size()) return false;
    for (std::size_t i = 0; i < a.size(); ++i)
      if (!join(from, a[i], to, b[i])) return false;
    return true;
  }

  bool transposed(const Op& op) {
    const std::vector<std::int64_t>& order = op.attributes.integers("permutation");
    for (std::size_t i = 0; i < order.size(); ++i)
      if (!join(op.operands[0], at(order[i]), op.results[0], i)) return false;
    return true;
  }

  bool spread(const Op& op) {
    const std::vector<std::int64_t>& dims = op.attributes.integers("dims");
    for (std::size_t i = 0; i < dims.size(); ++i)
      if (!join(op.operands[0], i, op.results[0], at(dims[i]))) return false;
    return true;
  }

  bool reduced(const Op& op) {
    static const std::set<std::string> combiners{"add", "multiply", "maximum", "minimum", "logical_and", "logical_or"};
    if (!combiners.count(op.attributes.text("combiner"))) return false;
    const std::vector<std::int64_t>& dims = op.attributes.integers("dims");
    const bool keeps = op.attributes.flag("keep_dims");
    std::size_t next = 0;
    for (std::size_t i = 0; i < shape(op.operands[0]).size(); ++i) {
      if (std::ranges::find(dims, static_cast<std::int64_t>(i)) != dims.end()) {
        added_[at(axis(op.operands[0], i))] = true;
        next += keeps ? 1 : 0;
      } else if (!join(op.operands[0], i, op.results[0], next++)) {
        return false;
      }
    }
    return true;
  }

  /// Of floats, as products and their sum on the vector unit.
  bool contracted(const Op& op) {
    if (op.operands.size() > 2 && op.operands[2] != no_value) return false;
    if (!is_float(body_.value(op.operands[0]).type.dtype) || !is_float(body_.value(op.results[0]).type.dtype))
      return false;
    if (!op.attributes.text("a_format", "").empty() || !op.attributes.text("b_format", "").empty()) return false;
    const ValueId a = op.operands[0], b = op.operands[1], y = op.results[0];
    const auto list = [&](const char* name) { return op.attributes.integers(name, {}); };
    const std::vector<std::int64_t> ab = list("a_batch"), bb = list("b_batch"), ac = list("a_contract"),
                                    bc = list("b_contract");
    std::size_t next = 0;
    for (std::size_t i = 0; i < ab.size(); ++i, ++next)
      if (!join(a, at(ab[i]), b, at(bb[i])) || !join(a, at(ab[i]), y, next)) return false;
    for (std::size_t i = 0; i < ac.size(); ++i) {
      if (!join(a, at(ac[i]), b, at(bc[i]))) return false;
      added_[at(axis(a, at(ac[i])))] = true;
    }
    const auto rest = [&](ValueId operand, const std::vector<std::int64_t>& batch,
                          const std::vector<std::int64_t>& sums) {
      for (std::size_t i = 0; i < shape(operand).size(); ++i) {
        const auto number = static_cast<std::int64_t>(i);
        if (std::ranges::find(batch, number) != batch.end() || std::ranges::find(sums, number) != sums.end()) continue;
        if (!join(operand, i, y, next++)) return false;
      }
      return true;
    };
    return rest(a, ab, ac) && rest(b, bb, bc);
  }

  /// One position along one axis, that moves by one with every trip; none: something else.
  std::optional<Recurrence::Slice> position(const Op& op, ValueId value, ValueId of, const Shape& sizes,
                                            std::size_t first_start) const {
    const auto state = state_of_.find(of);
    if (state == state_of_.end()) return std::nullopt;
    std::optional<Recurrence::Slice> found;
    const Positions positions(plan_, scalars_);
    const auto start_at = [&](std::size_t i, std::int64_t trip) {
      return positions.in_trip(op.operands[first_start + i], trip);
    };
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      if (sizes[i] == shape(of)[i]) continue;  // positions are clamped to the whole axis
      if (sizes[i] != 1 || found) return std::nullopt;
      const auto begin = start_at(i, 0), end = start_at(i, plan_.trips - 1);
      if (!begin || !end) return std::nullopt;
      Recurrence::Slice slice{value, state->second, i, *begin, 1, {}};
      if (plan_.trips > 1) slice.step = *start_at(i, 1) - *begin;
      for (std::int64_t trip = 0; trip < plan_.trips; ++trip)
        if (start_at(i, trip) != slice.first + trip * slice.step) return std::nullopt;
      const auto inside = [&](std::int64_t at) { return at >= 0 && at < shape(of)[i]; };
      if (!inside(*begin) || !inside(*end) || std::abs(slice.step) != 1) return std::nullopt;
      found = slice;
    }
    return found;
  }

  bool sliced(const Op& op) {
    const ValueId of = op.operands[0], result = op.results[0];
    const auto slice = position(op, result, of, op.attributes.integers("sizes"), 1);
    if (!slice || plan_.states[slice->state] != Carried::unchanged) return false;
    for (std::size_t i = 0; i < shape(of).size(); ++i)
      if (i != slice->axis && !join(of, i, result, i)) return false;
    found_.reads.push_back(*slice);
    return true;
  }

  bool updated(const Op& op) {
    const ValueId of = op.operands[0], value = op.operands[1];
    const auto slice = position(op, value, of, shape(value), 2);
    if (!slice || plan_.states[slice->state] != Carried::in_place) return false;
    if (uses(of) != 1 || uses(op.results[0]) != 1 || scalars_.count(shown_[at(value)])) return false;
    for (std::size_t i = 0; i < shape(of).size(); ++i)
      if (i != slice->axis && !join(of, i, value, i)) return false;
    found_.writes.push_back(*slice);
    found_.writes.back().value = shown_[at(value)];
    return true;
  }

  std::int64_t uses(ValueId value) const {
    std::int64_t count = std::ranges::count(body_.outputs, value);
    for (const Op& op : body_.ops) count += std::ranges::count(op.operands, value);
    return count;
  }

  bool reads_whole(ValueId value) const {
    return std::ranges::any_of(body_.ops, [&](const Op& op) {
      const std::size_t first = op.kind == Kind::dynamic_slice || op.kind == Kind::dynamic_update ? 1 : 0;
      return std::find(op.operands.begin() + static_cast<std::ptrdiff_t>(first), op.operands.end(), value) !=
             op.operands.end();
    });
  }

  bool join_states() {
    for (std::size_t o = 0; o < plan_.written.size(); ++o) {
      const std::size_t state = at(plan_.written[o]);
      if (plan_.states[state] != Carried::renewed || counted(state)) continue;
      const ValueId before = body_.inputs[state], after = body_.outputs[o];
      if (scalars_.count(shown_[at(after)])) return false;
      for (std::size_t i = 0; i < shape(before).size(); ++i)
        if (!join(before, i, after, i)) return false;
      found_.states.push_back({before, shown_[at(after)], state});
    }
    for (std::size_t i = 0; i < body_.inputs.size(); ++i)
      if (plan_.states[i] == Carried::unchanged && reads_whole(body_.inputs[i]))
        found_.wholes.push_back({body_.inputs[i], i});
    return !found_.states.empty();
  }

  bool counted(std::size_t state) const {
    return std::ranges::any_of(plan_.inductions, [&](const Induction& own) { return own.state == state; });
  }

  /// Axes of the space, in the order of the widest value; no value has two of its axes along one.
  bool make_space() {
    std::vector<ValueId> order;
    const auto list = [&](ValueId value) {
      if (value != no_value && !scalars_.count(value)) order.push_back(value);
    };
    for (const Recurrence::Renewed& state : found_.states) list(state.before);
    for (const Op& op : body_.ops)
      if (op.kind != Kind::dynamic_update) list(op.results[0]);
    for (const Recurrence::Whole& whole : found_.wholes) list(whole.value);
    std::ranges::stable_sort(order, {}, [&](ValueId value) { return -element_count(shape(value)); });
    std::map<std::int64_t, int> numbers;
    found_.axes.resize(body_.values.size());
    for (const ValueId value : order) {
      std::vector<int>& axes = found_.axes[at(value)];
      axes.clear();
      std::set<int> own;
      for (std::size_t i = 0; i < shape(value).size(); ++i) {
        if (shape(value)[i] == 0) return false;
        if (shape(value)[i] == 1) {
          axes.push_back(Recurrence::none);
          continue;
        }
        const auto [found, fresh] = numbers.try_emplace(root(axis(value, i)), static_cast<int>(found_.space.size()));
        if (fresh) found_.space.push_back(shape(value)[i]);
        if (!own.insert(found->second).second) return false;
        axes.push_back(found->second);
      }
    }
    if (found_.space.empty()) found_.space.push_back(1);  // numbers alone
    found_.summed.assign(found_.space.size(), false);
    for (std::size_t i = 0; i < added_.size(); ++i)
      if (added_[i] && extents_[i] > 1) {
        const auto found = numbers.find(root(static_cast<std::int64_t>(i)));
        if (found != numbers.end()) found_.summed[at(found->second)] = true;
      }
    for (auto* slices : {&found_.reads, &found_.writes})
      for (Recurrence::Slice& slice : *slices)
        for (std::size_t i = 0; i < shape(body_.inputs[slice.state]).size(); ++i)
          slice.axes.push_back(i == slice.axis ? Recurrence::none : numbered(body_.inputs[slice.state], i, numbers));
    found_.along.resize(body_.values.size());
    for (const Op& op : body_.ops) {
      if (op.kind != Kind::reduce && op.kind != Kind::contract) continue;
      const char* const dims = op.kind == Kind::reduce ? "dims" : "a_contract";
      for (const std::int64_t dim : op.attributes.integers(dims, {}))
        if (const int number = numbered(op.operands[0], at(dim), numbers); number != Recurrence::none)
          found_.along[at(op.results[0])].push_back(number);
    }
    return true;
  }

  int numbered(ValueId value, std::size_t number, const std::map<std::int64_t, int>& numbers) {
    const auto found = numbers.find(root(axis(value, number)));
    return shape(value)[number] == 1 || found == numbers.end() ? Recurrence::none : found->second;
  }

  void make_levels() {
    found_.level.assign(body_.values.size(), 0);
    for (const Op& op : body_.ops) {
      int level = 0;
      if (op.kind != Kind::dynamic_slice && op.kind != Kind::dynamic_update)
        for (const ValueId operand : op.operands)
          if (operand != no_value) level = std::max(level, found_.level[at(operand)]);
      const bool sums = op.kind == Kind::reduce || op.kind == Kind::contract;
      found_.level[at(op.results[0])] = level + (sums ? 1 : 0);
    }
  }

  GraphFunction shown_body() const {
    GraphFunction body = body_;
    std::erase_if(body.ops, [](const Op& op) {
      return is_recurrence_view(op.kind) || op.kind == Kind::dynamic_slice || op.kind == Kind::dynamic_update;
    });
    for (Op& op : body.ops)
      for (ValueId& operand : op.operands)
        if (operand != no_value && !scalars_.count(operand)) operand = shown_[at(operand)];
    return body;
  }

  const LoopPlan& plan_;
  const GraphFunction& body_;
  const std::map<ValueId, double> scalars_;
  std::map<ValueId, std::size_t> state_of_;
  std::vector<std::int64_t> first_, parent_, extents_;  ///< axes of all values in a row
  std::vector<bool> added_;
  std::vector<ValueId> shown_;  ///< by value: what it is a view of
  Recurrence found_;
};

}  // namespace

std::optional<Recurrence> find_recurrence(const Graph& graph, const LoopPlan& plan) {
  if (plan.trips < 1) return std::nullopt;
  return Finder(graph, plan).run();
}

}  // namespace tilesim::lower
