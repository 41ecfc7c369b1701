#include "tilesim/cluster/partition/propagate.hpp"

#include <algorithm>

#include "tilesim/base/error.hpp"
#include "tilesim/base/index.hpp"
#include "tilesim/graph/kind.hpp"

namespace tilesim::partitioning {

namespace {

bool join(Atoms& atoms, const Atoms& more) {
  bool changed = false;
  for (const int atom : more)
    if (!contains(atoms, atom)) {
      atoms.push_back(atom);
      changed = true;
    }
  return changed;
}

class Regions {
 public:
  Regions(const Grid& grid, const Graph& graph) : grid_(grid), graph_(graph) {
    for (const GraphFunction& function : graph.functions) own_.emplace_back(function.values.size());
    for (int atom = 0; grid.parts(all_) < grid.devices(); ++atom) all_.push_back(atom);
  }

  std::vector<std::vector<Atoms>> run() {
    while (visit(at(graph_.main))) {
    }
    check(at(graph_.main));
    for (const ValueId value : graph_.entry().outputs)
      if (!own_[at(graph_.main)][at(value)].empty())
        throw Unsupported(UserError::Parts{"an output is another tensor on each device",
                                           "output \"" + graph_.entry().value(value).name + "\"",
                                           {},
                                           "whole tensors, or parts that leave a per-device region",
                                           {}});
    return std::move(own_);
  }

 private:
  /// Atoms over which the operands of an operation are per-device.
  Atoms read(std::size_t f, const Op& op) const {
    Atoms atoms;
    for (const ValueId value : op.operands)
      if (value != no_value) join(atoms, own_[f][at(value)]);
    return atoms;
  }

  bool visit(std::size_t f) {
    bool changed = false;
    for (const Op& op : graph_.functions[f].ops) {
      Atoms atoms = read(f, op);
      if (const auto crossing = crossing_of(grid_, graph_, op))
        atoms = crossing->enters ? crossing->own : Atoms{};
      else if (op.kind == Kind::device_index)
        atoms = all_;
      else if (op.kind == Kind::while_loop || op.kind == Kind::branch)
        changed = through(f, op, atoms) || changed;
      for (const ValueId value : op.results) changed = join(own_[f][at(value)], atoms) || changed;
    }
    return changed;
  }

  /// Joins the regions of all operands, results and function values of a loop or branch.
  bool through(std::size_t f, const Op& op, Atoms& atoms) {
    bool changed = false;
    for (const std::int32_t callee : op.functions) {
      const GraphFunction& function = graph_.functions[at(callee)];
      for (const ValueId value : op.results) join(atoms, own_[f][at(value)]);
      for (const ValueId value : function.inputs) changed = join(own_[at(callee)][at(value)], atoms) || changed;
      changed = visit(at(callee)) || changed;
      for (const ValueId value : function.outputs) join(atoms, own_[at(callee)][at(value)]);
    }
    return changed;
  }

  void check(std::size_t f) const {
    const GraphFunction& function = graph_.functions[f];
    for (const Op& op : function.ops) {
      if (op.kind == Kind::while_loop || op.kind == Kind::branch)
        for (const std::int32_t callee : op.functions) check(at(callee));
      if (info(op.kind).effect != Effect::collective || op.kind == Kind::device_index) continue;
      if (stays(op, own_[f][at(op.operands[0])])) continue;
      throw Unsupported(UserError::Parts{"the graph already has an operation between devices",
                                         "function \"" + function.name + "\", operation \"" + op.name + "\"",
                                         std::string(info(op.kind).name),
                                         "whole tensors, or groups along the axes of a per-device region",
                                         {}});
    }
  }

  /// Whether the devices of a group differ along the region's axes only.
  bool stays(const Op& op, const Atoms& own) const {
    if (own.empty()) return false;
    Atoms others;
    for (const int atom : all_)
      if (!contains(own, atom)) others.push_back(atom);
    if (others.empty()) return true;
    const std::vector<std::int64_t> place = grid_.index_of_devices(others);
    const bool pairs = op.kind == Kind::permute_devices;
    const std::vector<std::int64_t> listed =
        op.attributes.integers(pairs ? "pairs" : "groups", std::vector<std::int64_t>{});
    const std::int64_t size = pairs ? 2 : op.attributes.integer("group_size", 0);
    if (listed.empty() || size == 0) return false;
    for (std::size_t i = 0; i < listed.size(); ++i) {
      const std::int64_t first = listed[i - i % at(size)];
      if (listed[i] >= 0 && place[at(listed[i])] != place[at(first)]) return false;
    }
    return true;
  }

  const Grid& grid_;
  const Graph& graph_;
  Atoms all_;
  std::vector<std::vector<Atoms>> own_;
};

}  // namespace

bool crosses(const Op& op) {
  const std::string& role = op.attributes.text("role", "");
  return (op.kind == Kind::call || op.kind == Kind::fused) && (role == "full_to_shard" || role == "shard_to_full");
}

std::optional<Crossing> crossing_of(const Grid& grid, const Graph& graph, const Op& op) {
  if (!crosses(op)) return std::nullopt;
  const GraphFunction& function = graph.functions[at(op.functions[0])];
  Crossing crossing{op.attributes.text("role") == "full_to_shard", {}, {}};
  const auto& sharding = function.value(crossing.enters ? function.inputs[0] : function.outputs[0]).sharding;
  if (!sharding || !sharding->given) return std::nullopt;
  for (const DividedAxis& axis : sharding->axes) crossing.axes.push_back(grid.atoms(axis.parts));
  for (const Atoms& atoms : crossing.axes) join(crossing.own, atoms);
  join(crossing.own, grid.atoms(sharding->replicated));
  return crossing;
}

std::vector<std::vector<Atoms>> own_atoms(const Grid& grid, const Graph& graph) { return Regions(grid, graph).run(); }

Layout inside_of(const Grid& grid, const Crossing& crossing, const Shape& inside, const Layout& layout) {
  Layout result = whole(inside.size());
  for (std::size_t axis = 0; axis < inside.size(); ++axis) {
    const Atoms &own = crossing.axes[axis], &atoms = layout.axes[axis];
    if (!is_prefix(own, atoms)) continue;
    for (std::size_t i = own.size(); i < atoms.size() && !contains(crossing.own, atoms[i]); ++i) {
      if (inside[axis] % (grid.parts(result.axes[axis]) * grid.size(atoms[i])) != 0) break;
      result.axes[axis].push_back(atoms[i]);
    }
  }
  return result;
}

Layout outside_of(const Crossing& crossing, const Layout& inside) {
  Layout result = whole(inside.axes.size());
  for (std::size_t axis = 0; axis < inside.axes.size(); ++axis) {
    result.axes[axis] = crossing.axes[axis];
    result.axes[axis].insert(result.axes[axis].end(), inside.axes[axis].begin(), inside.axes[axis].end());
  }
  return result;
}

}  // namespace tilesim::partitioning
