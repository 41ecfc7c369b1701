// Prepares the graph for one machine: expansion, folding, layout copies.
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
  std::vector<std::string> notes;          ///< approximations, for the program's notes
  std::vector<FusionCandidate> looked_at;  ///< candidates that are a single operation of the graph: attention
  std::shared_ptr<const AttentionPlans> attentions;
};

/// Estimated cycles of an attention as primitives: the sum over their kernels.
using ApartCycles = std::function<double(const GraphFunction&, const Op&, bool stays)>;

/// Replaces composites by primitives, folds small constants, removes no-ops, and applies the machine's lowering
/// profile.
Prepared prepare(const Graph& graph, const Share& machine, const CompileOptions& options, const ApartCycles& apart);

/// Folds small constants; every graph is folded before its lowering.
void fold_small(Graph& graph);

/// Replaces branches by calls of the known side, or of every side with a select of the result, which adds a note.
void choose_branches(Graph& graph, std::vector<std::string>& notes);

/// Values of a function that are one known constant in all elements and that no kernel reads as a tensor.
std::map<ValueId, double> known_scalars(const Graph& graph, const GraphFunction& function);

/// Integers of a loop's body computed from its counter by addition, subtraction, multiplication, min and max, and by
/// comparisons and selects with known outcome; without those that an operation needs as a tensor.
std::map<ValueId, Expr> counted_scalars(const LoopPlan& loop, const std::map<ValueId, double>& known);

/// Removes a value, and the source of its view, from the known scalars: a loop carries it as a tensor.
void give_bytes(const GraphFunction& function, ValueId value, std::map<ValueId, double>& scalars);

}  // namespace tilesim::lower
