#include "tilesim/compile/prepare/collapse_axes.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "tilesim/base/index.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/compile/layouts/wishes.hpp"
#include "tilesim/compile/plan/uses.hpp"
#include "tilesim/compile/vector/tiling.hpp"
#include "tilesim/graph/fresh_names.hpp"

namespace tilesim::lower {

namespace {

/// Connected operations of one shape: values of that shape that they read and store, and values that they repeat.
struct Region {
  Shape shape;
  std::vector<int> ops;
  std::set<ValueId> read, stored, repeated;
  double cost = 0;  ///< cycles of all operations for one register
};

class Collapse {
 public:
  Collapse(const Graph& graph, GraphFunction& function, const Share& machine, const std::set<std::string>& kept,
           bool searched)
      : graph_(graph),
        function_(function),
        machine_(machine),
        kept_(kept),
        searched_(searched),
        uses_(function),
        region_of_(function.ops.size(), -1) {}

  bool run() {
    find_regions();
    std::vector<std::optional<Shape>> wanted;
    for (const Region& region : regions_) wanted.push_back(cheaper(region));
    if (std::ranges::none_of(wanted, [](const auto& shape) { return shape.has_value(); })) return false;
    rewrite(wanted);
    return true;
  }

 private:
  const Shape& shape(ValueId value) const { return function_.value(value).type.shape; }
  const Op* maker(ValueId value) const {
    const int producer = uses_.producer[at(value)];
    return producer < 0 ? nullptr : &function_.ops[at(producer)];
  }
  bool computes(const Op& op) const {
    return is_recomputable(op.kind) && op.kind != Kind::iota && shape(op.results[0]).size() > 1 &&
           element_count(shape(op.results[0])) > 0;
  }
  int region_of(ValueId value) const {
    const int producer = uses_.producer[at(value)];
    return producer < 0 ? -1 : region_of_[at(producer)];
  }

  void find_regions() {
    for (std::size_t first = 0; first < function_.ops.size(); ++first) {
      if (region_of_[first] >= 0 || !computes(function_.ops[first])) continue;
      Region region;
      region.shape = shape(function_.ops[first].results[0]);
      const int number = static_cast<int>(regions_.size());
      std::vector<int> pending{static_cast<int>(first)};
      while (!pending.empty()) {
        const int i = pending.back();
        pending.pop_back();
        const Op& op = function_.ops[at(i)];
        if (region_of_[at(i)] >= 0 || !computes(op) || shape(op.results[0]) != region.shape) continue;
        region_of_[at(i)] = number;
        region.ops.push_back(i);
        region.cost += cost(i);
        for (const ValueId operand : op.operands)
          if (operand != no_value && uses_.producer[at(operand)] >= 0) pending.push_back(uses_.producer[at(operand)]);
        pending.insert(pending.end(), uses_.consumers[at(op.results[0])].begin(),
                       uses_.consumers[at(op.results[0])].end());
      }
      regions_.push_back(std::move(region));
    }
    for (std::size_t i = 0; i < function_.ops.size(); ++i)
      if (region_of_[i] >= 0) find_ends(regions_[at(region_of_[i])], static_cast<int>(i));
  }

  void find_ends(Region& region, int i) const {
    const Op& op = function_.ops[at(i)];
    for (const ValueId operand : op.operands) {
      if (operand == no_value || region_of(operand) == region_of_[at(i)] || element_count(shape(operand)) == 1)
        continue;
      (shape(operand) == region.shape ? region.read : region.repeated).insert(operand);
    }
    const ValueId result = op.results[0];
    const auto outside = [&](int reader) { return region_of_[at(reader)] != region_of_[at(i)]; };
    if (uses_.is_output[at(result)] || std::ranges::any_of(uses_.consumers[at(result)], outside))
      region.stored.insert(result);
  }

  Shape joined(const Shape& from, std::size_t first) const {
    Shape to(from.begin(), from.begin() + static_cast<std::ptrdiff_t>(first));
    std::int64_t rest = 1;
    for (std::size_t axis = first; axis < from.size(); ++axis) rest *= from[axis];
    to.push_back(rest);
    return to;
  }

  static std::optional<Shape> narrow(const Shape& own, const Shape& from, const Shape& to) {
    Shape spread(from.size() - own.size(), 1);
    spread.insert(spread.end(), own.begin(), own.end());
    return narrow_reshaped(from, spread, to);
  }

  /// Number of vector registers that a space fills, with the default axis on the lanes or, if tiles are searched, the
  /// best axis.
  double registers(const Shape& space) const {
    const VectorSpec& unit = machine_.core.vector;
    const auto filled = [&](std::int64_t extent) {
      return ceil_div(element_count(space) / extent * ceil_div(extent, unit.lanes), unit.sublanes);
    };
    std::int64_t least = filled(space[at(last_long_axis(space))]);
    if (searched_)
      for (const std::int64_t extent : space) least = std::min(least, filled(extent));
    return static_cast<double>(least);
  }

  /// Cycles of the operation for one register.
  double cost(int i) const {
    const Op& op = function_.ops[at(i)];
    const Flops work = flops(graph_, function_, op);
    const VectorSpec& unit = machine_.core.vector;
    return (work.simple * unit.simple + work.multiply * unit.multiply + work.divide * unit.divide +
            work.transcendental * unit.transcendental) /
           static_cast<double>(element_count(shape(op.results[0]))) / static_cast<double>(unit.issue);
  }

  double padded(const Shape& own) const {
    return own.size() < 2 ? static_cast<double>(element_count(own))
                          : padded_elements(own, largest_minor(own), machine_.layout.tile);
  }

  /// Whether a value has a dense layout: a reshape makes it.
  bool dense(ValueId value) const {
    const Op* op = maker(value);
    return op && op->kind == Kind::reshape;
  }

  /// The shape in which the region takes the least time, unless it is the region's own shape.
  std::optional<Shape> cheaper(const Region& region) const {
    if (region.shape.size() < 2) return std::nullopt;
    for (const int i : region.ops)
      if (kept_.count(function_.value(function_.ops[at(i)].results[0]).name)) return std::nullopt;
    std::optional<Shape> best;
    double least = time(region, region.shape);
    for (std::size_t first = region.shape.size() - 1; first-- > 0;) {
      const Shape to = joined(region.shape, first);
      const auto fits = [&](ValueId value) {
        const Op* op = maker(value);
        return (!op || op->kind != Kind::iota) && narrow(shape(value), region.shape, to);
      };
      if (!std::ranges::all_of(region.repeated, fits) || !std::ranges::all_of(region.read, fits)) continue;
      if (const double own = time(region, to); own < least) least = own, best = to;
    }
    return best;
  }

  /// Cycles of the region as one kernel in shape `to`, with the copies that reshape its inputs and outputs.
  double time(const Region& region, const Shape& to) const {
    double moved = 0, copied = 0;
    const auto add = [&](ValueId value, bool copies) {
      const double bytes = bits(function_.value(value).type.dtype) / 8.0;
      if (!copies) {
        moved += bytes * static_cast<double>(element_count(to));
        return;
      }
      moved += bytes * padded(to);
      if (to != region.shape) copied += bytes * (padded(to) + padded(region.shape));
    };
    for (const ValueId value : region.read) add(value, !dense(value));
    for (const ValueId value : region.stored) {
      const auto views = [&](int reader) {
        return region_of_[at(reader)] == region_of(value) || function_.ops[at(reader)].kind == Kind::reshape ||
               function_.ops[at(reader)].kind == Kind::broadcast;
      };
      add(value, uses_.is_output[at(value)] || !std::ranges::all_of(uses_.consumers[at(value)], views));
    }
    const double rate = static_cast<double>(machine_.memory.bytes_per_second) * machine_.memory.efficiency /
                        static_cast<double>(machine_.core.clock.hertz);
    return copied / rate + std::max(moved / rate, registers(to) * region.cost);
  }

  ValueId add_value(const std::string& stem, ValueId like, Shape own) {
    function_.values.push_back({names_.unique(stem), TensorType{function_.value(like).type.dtype, std::move(own)}});
    return static_cast<ValueId>(function_.values.size()) - 1;
  }

  void reshape(std::vector<Op>& ops, const Op& near, ValueId from, ValueId to) {
    Op view;
    view.kind = Kind::reshape;
    view.name = names_.unique(near.name + ".view");
    view.source = near.source;
    view.operands = {from};
    view.attributes.set("shape", shape(to));
    view.results = {to};
    ops.push_back(std::move(view));
  }

  void rewrite(const std::vector<std::optional<Shape>>& wanted) {
    for (const Value& value : function_.values) names_.take(value.name);
    for (const Op& op : function_.ops) names_.take(op.name);
    std::map<std::pair<int, ValueId>, ValueId> collapsed;  // by region and value: the reshaped value
    std::vector<Op> ops;
    for (std::size_t i = 0; i < function_.ops.size(); ++i) {
      Op op = std::move(function_.ops[i]);
      const int region = region_of_[i];
      if (region < 0 || !wanted[at(region)]) {
        if (op.kind == Kind::reshape && region_of(op.operands[0]) >= 0)
          if (const auto found = collapsed.find({region_of(op.operands[0]), op.operands[0]}); found != collapsed.end())
            op.operands[0] = found->second;
        ops.push_back(std::move(op));
        continue;
      }
      const Shape &from = regions_[at(region)].shape, &to = *wanted[at(region)];
      for (ValueId& operand : op.operands) {
        if (operand == no_value) continue;
        if (element_count(shape(operand)) == 1 && shape(operand).size() <= to.size()) continue;
        const auto [known, fresh] = collapsed.try_emplace({region, operand}, no_value);
        if (fresh) {
          const Shape own =
              element_count(shape(operand)) == 1 ? Shape(to.size(), 1) : *narrow(shape(operand), from, to);
          known->second = add_value(function_.value(operand).name + ".collapsed", operand, own);
          reshape(ops, op, operand, known->second);
        }
        operand = known->second;
      }
      const ValueId result = op.results[0];
      op.results[0] = collapsed[{region, result}] = add_value(function_.value(result).name + ".collapsed", result, to);
      const ValueId own = op.results[0];
      ops.push_back(std::move(op));
      reshape(ops, Op(ops.back()), own, result);
    }
    function_.ops = std::move(ops);
  }

  const Graph& graph_;
  GraphFunction& function_;
  const Share& machine_;
  const std::set<std::string>& kept_;
  const bool searched_;
  const Uses uses_;
  FreshNames names_;
  std::vector<int> region_of_;  ///< by operation
  std::vector<Region> regions_;
};

}  // namespace

bool collapse_axes(Graph& graph, const Share& machine, const std::set<std::string>& kept, bool searched) {
  bool changed = false;
  for (GraphFunction& function : graph.functions) changed |= Collapse(graph, function, machine, kept, searched).run();
  return changed;
}

}  // namespace tilesim::lower
