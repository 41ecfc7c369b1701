#include "tilesim/cluster/partition/propagate.hpp"

#include <algorithm>
#include <numeric>
#include <set>

#include "tilesim/base/index.hpp"
#include "tilesim/base/interrupt.hpp"

namespace tilesim::partitioning {

namespace {

struct State {
  std::vector<Atoms> given;   ///< given sharding of each axis
  std::vector<bool> open;     ///< by axis
  std::vector<int> priority;  ///< by axis: first round in which the sharding counts
  Atoms barred;               ///< atoms stated as replicated
};

class Propagation {
 public:
  Propagation(const Grid& grid, const Graph& graph) : grid_(grid), graph_(graph) {
    std::set<int> rounds{0};
    const std::vector<std::vector<Atoms>> own = own_atoms(grid, graph);
    for (const GraphFunction& function : graph.functions) {
      spread_.layouts.emplace_back();
      spread_.rules.emplace_back();
      states_.emplace_back();
      const std::vector<Atoms>& barred = own[states_.size() - 1];
      for (const Value& value : function.values) {
        states_.back().push_back(state_of(value, rounds));
        bar(states_.back().back(), barred[states_.back().size() - 1]);
        spread_.layouts.back().push_back(whole(value.type.shape.size()));
      }
      for (const Op& op : function.ops) {
        worked(2000);
        spread_.rules.back().push_back(rule_of(function, op));
        for (const std::vector<ValueId>* values : {&op.operands, &op.results})
          for (const ValueId value : *values)
            if (value != no_value)
              for (const int atom : barred[at(value)]) spread_.rules.back().back().own.push_back(atom);
      }
    }
    rounds_.assign(rounds.begin(), rounds.end());
  }

  Spread run() {
    for (const int round : rounds_) {
      seen(round);
      for (const bool products : {false, true})
        while (pass(products)) {
        }
    }
    return std::move(spread_);
  }

 private:
  State state_of(const Value& value, std::set<int>& rounds) const {
    const std::size_t rank = value.type.shape.size();
    State state{std::vector<Atoms>(rank), std::vector<bool>(rank, true), std::vector<int>(rank, 0), {}};
    if (!value.sharding || !value.sharding->given) return state;
    for (std::size_t axis = 0; axis < rank; ++axis) {
      const DividedAxis& divided = value.sharding->axes[axis];
      state.given[axis] = grid_.atoms(divided.parts);
      state.open[axis] = divided.open;
      state.priority[axis] = std::max(0, divided.priority);
      rounds.insert(state.priority[axis]);
    }
    state.barred = grid_.atoms(value.sharding->replicated);
    return state;
  }

  /// Removes atoms over which a value is per-device from its given sharding: they shard none of its axes.
  static void bar(State& state, const Atoms& own) {
    for (Atoms& given : state.given)
      for (std::size_t i = 0; i < given.size(); ++i)
        if (contains(own, given[i])) {
          given.resize(i);
          break;
        }
    state.barred.insert(state.barred.end(), own.begin(), own.end());
  }

  /// Applies the given shardings of a round; a propagated sharding remains only if it extends the given one.
  void seen(int round) {
    for (std::size_t f = 0; f < states_.size(); ++f)
      for (std::size_t v = 0; v < states_[f].size(); ++v)
        for (std::size_t axis = 0; axis < states_[f][v].given.size(); ++axis) {
          Atoms& now = spread_.layouts[f][v].axes[axis];
          const Atoms& given = states_[f][v].given[axis];
          if (states_[f][v].priority[axis] == round && !is_prefix(given, now)) now = given;
        }
  }

  bool extend(std::size_t function, ValueId value, std::size_t axis, const Atoms& wanted) {
    State& state = states_[function][at(value)];
    Layout& layout = spread_.layouts[function][at(value)];
    Atoms& now = layout.axes[axis];
    if (!state.open[axis] || now.size() >= wanted.size() || !is_prefix(now, wanted)) return false;
    const std::int64_t extent = graph_.functions[function].value(value).type.shape[axis];
    bool changed = false;
    for (std::size_t i = now.size(); i < wanted.size(); ++i) {
      const int atom = wanted[i];
      if (layout.uses(atom) || contains(state.barred, atom) || kept_for_given(state, layout, atom)) break;
      if (grid_.parts(now) * grid_.size(atom) > extent) break;
      now.push_back(atom);
      changed = true;
    }
    return changed;
  }
  /// Whether the atom belongs to a given sharding of an axis that is not applied yet.
  static bool kept_for_given(const State& state, const Layout& layout, int atom) {
    for (std::size_t axis = 0; axis < state.given.size(); ++axis)
      if (contains(state.given[axis], atom) && !contains(layout.axes[axis], atom)) return true;
    return false;
  }

  bool pass(bool products) {
    bool changed = false;
    for (std::size_t f = 0; f < graph_.functions.size(); ++f) {
      const auto count = static_cast<std::int64_t>(graph_.functions[f].ops.size());
      for (std::int64_t i = 0; i < count; ++i) changed = visit(f, at(i), products) || changed;
      for (std::int64_t i = count; i-- > 0;) changed = visit(f, at(i), products) || changed;
    }
    return changed;
  }

  bool visit(std::size_t f, std::size_t index, bool products) {
    worked(500);
    const Op& op = graph_.functions[f].ops[index];
    if (op.kind == Kind::while_loop || op.kind == Kind::branch) return through(f, op);
    if (const auto crossing = crossing_of(grid_, graph_, op)) return cross(f, op, *crossing);
    const Rule& rule = spread_.rules[f][index];
    bool changed = rule.ordered >= 0 && pass_order(f, op, at(rule.ordered));
    if (rule.factors.empty() || (rule.product && !products)) return changed;
    std::vector<std::size_t> rank;
    const Division merged = agree(f, op, rule, rank);
    const auto apply = [&](ValueId value, const AxisFactors& axes) {
      if (value == no_value) return;
      const Layout wanted = layout_of(grid_, rule, axes, merged);
      const auto first = [&](std::size_t axis) {
        std::size_t least = rule.operands.size() + rule.results.size();
        for (const int factor : axes[axis]) least = std::min(least, rank[at(factor)]);
        return least;
      };
      std::vector<std::size_t> order(axes.size());
      std::iota(order.begin(), order.end(), std::size_t{0});
      std::ranges::stable_sort(order, {}, first);
      for (const std::size_t axis : order) changed = extend(f, value, axis, wanted.axes[axis]) || changed;
    };
    for (std::size_t i = 0; i < op.results.size(); ++i) apply(op.results[i], rule.results[i]);
    for (std::size_t i = 0; i < op.operands.size(); ++i) apply(op.operands[i], rule.operands[i]);
    return changed;
  }

  /// Shards operands and results alike along an axis that each device needs in full in between.
  bool pass_order(std::size_t f, const Op& op, std::size_t axis) {
    Atoms longest;
    for (const std::vector<ValueId>* values : {&op.operands, &op.results})
      for (const ValueId value : *values)
        if (const Atoms& own = spread_.layouts[f][at(value)].axes[axis]; own.size() > longest.size()) longest = own;
    bool changed = false;
    for (const std::vector<ValueId>* values : {&op.operands, &op.results})
      for (const ValueId value : *values) changed = extend(f, value, axis, longest) || changed;
    return changed;
  }

  /// Propagates shardings across a region's border, minor to the atoms that make tensors per-device.
  bool cross(std::size_t f, const Op& op, const Crossing& crossing) {
    const ValueId out = crossing.enters ? op.operands[0] : op.results[0],
                  in = crossing.enters ? op.results[0] : op.operands[0];
    const Shape& shape = graph_.functions[f].value(in).type.shape;
    const Layout inside = inside_of(grid_, crossing, shape, spread_.layouts[f][at(out)]);
    const Layout through = inside_of(grid_, crossing, shape, outside_of(crossing, spread_.layouts[f][at(in)]));
    const Layout outside = outside_of(crossing, through);
    bool changed = false;
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
      changed = extend(f, in, axis, inside.axes[axis]) || changed;
      changed = extend(f, out, axis, outside.axes[axis]) || changed;
    }
    return changed;
  }

  /// The longest sharding of each factor on which all tensors agree; if they differ, their common prefix. `rank` of a
  /// factor: index of the first tensor that shards it, in order of size, largest first.
  Division agree(std::size_t f, const Op& op, const Rule& rule, std::vector<std::size_t>& rank) const {
    Division merged(rule.factors.size());
    std::vector<bool> differ(rule.factors.size(), false);
    using Tensor = std::pair<ValueId, const AxisFactors*>;
    std::vector<Tensor> tensors;
    for (std::size_t i = 0; i < op.operands.size(); ++i)
      if (op.operands[i] != no_value) tensors.emplace_back(op.operands[i], &rule.operands[i]);
    for (std::size_t i = 0; i < op.results.size(); ++i) tensors.emplace_back(op.results[i], &rule.results[i]);
    std::ranges::stable_sort(tensors, std::ranges::greater{}, [&](const Tensor& tensor) {
      return element_count(graph_.functions[f].value(tensor.first).type.shape);
    });
    rank.assign(rule.factors.size(), tensors.size());
    std::size_t place = 0;
    const auto take = [&](ValueId value, const AxisFactors& axes) {
      Division own(rule.factors.size());
      read_division(grid_, rule, axes, spread_.layouts[f][at(value)], own);
      for (std::size_t k = 0; k < own.size(); ++k) {
        if (own[k].empty()) continue;
        rank[k] = std::min(rank[k], place);
        if (is_prefix(merged[k], own[k]) && !differ[k])
          merged[k] = own[k];
        else if (!is_prefix(own[k], merged[k])) {
          std::size_t shared = 0;
          while (shared < own[k].size() && shared < merged[k].size() && own[k][shared] == merged[k][shared]) ++shared;
          merged[k].resize(shared);
          differ[k] = true;
        }
      }
    };
    for (; place < tensors.size(); ++place) take(tensors[place].first, *tensors[place].second);
    return merged;
  }

  /// Aligns the state of loops and operands of branches with the functions' inputs, and results with outputs.
  bool through(std::size_t f, const Op& op) {
    using FunctionValue = std::pair<std::size_t, ValueId>;
    bool changed = false;
    const auto together = [&](const std::vector<FunctionValue>& places) {
      const std::size_t rank = spread_.layouts[f][at(places[0].second)].axes.size();
      for (std::size_t axis = 0; axis < rank; ++axis) {
        Atoms longest;
        for (const auto& [function, value] : places)
          if (spread_.layouts[function][at(value)].axes[axis].size() > longest.size())
            longest = spread_.layouts[function][at(value)].axes[axis];
        for (const auto& [function, value] : places) changed = extend(function, value, axis, longest) || changed;
      }
    };
    const bool loop = op.kind == Kind::while_loop;
    for (std::size_t i = 0; i < op.results.size(); ++i) {
      std::vector<FunctionValue> places{{f, op.results[i]}};
      if (loop) places.push_back({f, op.operands[i]});
      for (std::size_t c = 0; c < op.functions.size(); ++c) {
        const GraphFunction& callee = graph_.functions[at(op.functions[c])];
        if (loop) places.push_back({at(op.functions[c]), callee.inputs[i]});
        if (!loop || c == 1) places.push_back({at(op.functions[c]), callee.outputs[i]});
      }
      together(places);
    }
    for (std::size_t i = 1; !loop && i < op.operands.size(); ++i) {
      std::vector<FunctionValue> places{{f, op.operands[i]}};
      for (const std::int32_t callee : op.functions)
        places.push_back({at(callee), graph_.functions[at(callee)].inputs[i - 1]});
      together(places);
    }
    return changed;
  }

  const Grid& grid_;
  const Graph& graph_;
  Spread spread_;
  std::vector<std::vector<State>> states_;
  std::vector<int> rounds_;
};

}  // namespace

Spread propagate(const Grid& grid, const Graph& graph) { return Propagation(grid, graph).run(); }

}  // namespace tilesim::partitioning
