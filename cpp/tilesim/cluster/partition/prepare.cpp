#include "tilesim/cluster/partition/prepare.hpp"

#include <algorithm>
#include <map>

#include "tilesim/base/index.hpp"

namespace tilesim::partitioning {

void join_slices_of_pads(GraphFunction& function) {
  std::map<ValueId, const Op*> pads;
  for (Op& op : function.ops) {
    if (op.kind == Kind::pad && op.attributes.text("mode", "constant") == "constant") {
      const auto& interior = op.attributes.integers("interior", {});
      if (std::ranges::all_of(interior, [](std::int64_t holes) { return holes == 0; })) pads[op.results[0]] = &op;
      continue;
    }
    const auto found = op.kind == Kind::slice ? pads.find(op.operands[0]) : pads.end();
    if (found == pads.end()) continue;
    const auto stride = op.attributes.integers("stride", {});
    if (!std::ranges::all_of(stride, [](std::int64_t step) { return step == 1; })) continue;
    const Shape& padded_shape = function.value(op.operands[0]).type.shape;
    std::vector<std::int64_t> low = found->second->attributes.integers("low"),
                              high = found->second->attributes.integers("high");
    for (std::size_t axis = 0; axis < low.size(); ++axis) {
      low[axis] -= op.attributes.integers("start")[axis];
      high[axis] -= padded_shape[axis] - op.attributes.integers("limit")[axis];
    }
    Attributes attributes;
    attributes.set("low", low);
    attributes.set("high", high);
    op.kind = Kind::pad;
    op.operands = found->second->operands;
    op.attributes = std::move(attributes);
  }
}

namespace {

using Producers = std::map<ValueId, const Op*>;

Producers slices_of(const GraphFunction& function) {
  Producers slices;
  for (const Op& op : function.ops)
    if (op.kind == Kind::slice) slices[op.results[0]] = &op;
  return slices;
}

/// Whether a slice cuts one axis alone, and takes every element of its stretch.
bool cuts_only(const Op& op, std::size_t axis, const Shape& whole_shape) {
  const auto &start = op.attributes.integers("start"), &limit = op.attributes.integers("limit");
  const auto stride = op.attributes.integers("stride", std::vector<std::int64_t>(start.size(), 1));
  for (std::size_t i = 0; i < start.size(); ++i)
    if (stride[i] != 1 || (i != axis && (start[i] != 0 || limit[i] != whole_shape[i]))) return false;
  return true;
}

void take_slices(const Grid& grid, const GraphFunction& function, const std::vector<Layout>& layouts,
                 const Producers& slices, Op& op, Rule& rule) {
  Join& join = rule.join;
  const std::int64_t parts = grid.parts(layouts[at(op.results[0])].axes[join.axis]);
  if (parts == 1) return;
  for (std::size_t k = 0; k < op.operands.size(); ++k) {
    Stretch& stretch = join.stretches[k];
    const auto found = slices.find(op.operands[k]);
    if (found != slices.end()) {
      const Op& slice = *found->second;
      const Shape& shape = function.value(slice.operands[0]).type.shape;
      const bool apart = !layouts[at(slice.operands[0])].axes[join.axis].empty();
      if (apart && shape[join.axis] >= parts && cuts_only(slice, join.axis, shape)) {
        stretch.from = slice.attributes.integers("start")[join.axis];
        stretch.to = slice.attributes.integers("limit")[join.axis];
        stretch.extent = shape[join.axis];
        op.operands[k] = slice.operands[0];
      }
    }
    stretch.divided = !layouts[at(op.operands[k])].axes[join.axis].empty() && stretch.extent >= parts;
    stretch.same = at(std::ranges::find(op.operands, op.operands[k]) - op.operands.begin());
    rule.operands[k][join.axis].clear();
    if (stretch.divided) rule.operands[k][join.axis].push_back(join.factor);
  }
}

}  // namespace

void take_slices_into_joins(const Grid& grid, Graph& graph, Spread& spread) {
  for (std::size_t f = 0; f < graph.functions.size(); ++f) {
    GraphFunction& function = graph.functions[f];
    Producers slices;
    for (std::size_t i = 0; i < function.ops.size(); ++i) {
      Rule& rule = spread.rules[f][i];
      if (rule.join.factor < 0) continue;
      if (slices.empty()) slices = slices_of(function);
      take_slices(grid, function, spread.layouts[f], slices, function.ops[i], rule);
    }
  }
}

}  // namespace tilesim::partitioning
