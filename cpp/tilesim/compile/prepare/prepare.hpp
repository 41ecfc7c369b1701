// Makes the graph ready for one machine: expansion, folding, layout copies.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>

#include "tilesim/compile/plan/plan.hpp"

namespace tilesim::lower {

struct LoopPlan;

struct Prepared {
  Graph graph;
  std::set<std::string> kept_apart;        ///< values that end a kernel although their reader could join it
  std::vector<std::string> notes;          ///< what is approximated, for the program
  std::vector<FusionCandidate> looked_at;  ///< groups that are one operation of the graph: attention
  std::shared_ptr<const AttentionPlans> attentions;
};

/// Cycles of an attention as primitives, by the prices of their kernels.
using ApartCycles = std::function<double(const GraphFunction&, const Op&)>;

/// Composites become primitives, small constants are folded, no-ops go; what the machine's profile asks for is
/// inserted.
Prepared prepare(const Graph& graph, const Share& machine, const CompileOptions& options, const ApartCycles& apart);

/// Folds constants of few elements, as every graph is before it is lowered.
void fold_small(Graph& graph);

/// Branches become calls: of the side that is known, or of every side with a select of one result, which is noted.
void choose_branches(Graph& graph, std::vector<std::string>& notes);

/// Values of a function whose elements are all one known constant, and that no kernel reads as a tensor.
std::map<ValueId, double> known_scalars(const Graph& graph, const GraphFunction& function);

/// Whole numbers of a loop's body that follow from its counter by addition, subtraction, multiplication, extremes, and
/// by comparisons and choices that are decided, and that nothing needs as a tensor.
std::map<ValueId, Expr> counted_scalars(const LoopPlan& loop, const std::map<ValueId, double>& known);

/// Takes a value, and what it is a view of, out of the known ones: a loop carries it as a tensor.
void give_bytes(const GraphFunction& function, ValueId value, std::map<ValueId, double>& scalars);

}  // namespace tilesim::lower
