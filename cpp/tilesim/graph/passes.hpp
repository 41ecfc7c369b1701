// Passes that need no machine. Each returns how many operations it changed and keeps the graph's meaning and aliases.
#pragma once

#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "tilesim/graph/graph.hpp"

namespace tilesim {

class Builder;

/// Evaluates one operation on arrays; `kernels` provides it, so that this module does not depend on it.
using Evaluator =
    std::function<std::vector<Array>(const Graph&, const GraphFunction&, const Op&, const std::vector<Array>&)>;

/// Evaluates the entry function operation by operation; keeps every array in memory until the end.
std::vector<Array> evaluate_entry(const Graph& graph, const std::vector<Array>& inputs, const Evaluator& evaluate);

int remove_dead_code(Graph& graph);
int remove_no_ops(Graph& graph);  ///< identity reshape, transpose, convert, slice, pad, broadcast, copy, x+0, x*1,
                                  ///< select of a known side
int merge_common_subexpressions(Graph& graph);
/// `trainable`: also folds parameters, which then lose their names.
int fold_constants(Graph& graph, const Evaluator& evaluate, std::int64_t max_elements = 1 << 20, bool trainable = true);
int fold_batch_norm(
    Graph& graph,
    const Evaluator& evaluate);  ///< into a preceding convolution or contract with weights; exact up to rounding
/// Replaces composite operations by primitives with equal results; `which` selects operations (default all).
int expand(Graph& graph, const std::function<bool(const Op&)>& which = {});
/// Replaces the operations that `which` selects by the operations that `build` appends. `build` returns a value for
/// each result (no_value if it has no reader); `wanted` marks results with readers.
using Build = std::function<std::vector<ValueId>(Builder&, const Op&, const std::vector<bool>& wanted)>;
int replace_operations(Graph& graph, const std::function<bool(const Op&)>& which, const Build& build);
/// Inlines calls, except fused nodes.
int inline_calls(Graph& graph);

/// Trip count of a loop (`while`) that data end. `masked`: at most `count` trips are active, later ones keep the state.
struct Trips {
  std::string function, operation;
  std::int64_t count = 0;
  bool masked = false;
};
/// Adds to loops a counter as first state, whose comparison becomes the condition, and as second state the value of the
/// original condition, which every trip still computes. Correct for data with these trip counts. UserError for a name
/// that is not a loop.
void count_trips(Graph& graph, const std::vector<Trips>& trips);

/// A replacement by a pass.
struct Change {
  std::string pass, function, operation;
  std::string before;  ///< replaced operations: "multiply, erf, add"
  std::string after;   ///< new operation: "gelu_erf"
  std::string source;  ///< location in the user's model; may be empty
};
/// Names of the pattern-recognition passes, in the order in which they run.
std::vector<std::string> recognition_passes();
/// Elementwise functions that the pass "activations" recognises, each once.
std::vector<std::string> recognised_functions();
/// Recognises attention, normalizations, activations and others in primitive operations. A pattern is replaced only if
/// its structure and numbers match and both forms agree on test data, also with infinities, NaN and masked rows, and at
/// the numbers of the pattern. Sums and products may be regrouped, which only changes rounding; zeros of both signs
/// count as equal. Throws UserError for an unknown name.
std::vector<Change> recognise(Graph& graph, const Evaluator& evaluate, const std::vector<std::string>& passes);

/// Extracts parts of a graph, which must outlive this, at a cost proportional to each part: all share a name index.
class GraphParts {
 public:
  explicit GraphParts(const Graph& graph);
  /// The operations of the entry function with these names as a separate graph with the boundary values `inputs` and
  /// `outputs` (by name), including functions and weights that they need. An alias is kept if no operation outside
  /// reads the input. Throws UserError for an unknown name.
  Graph extract(const std::vector<std::string>& operations, const std::vector<std::string>& inputs,
                const std::vector<std::string>& outputs) const;

 private:
  ValueId value_named(const std::string& name) const;
  std::vector<Op> operations_named(const std::vector<std::string>& names) const;
  void keep_aliases(GraphFunction& entry) const;

  const Graph& graph_;
  std::unordered_map<std::string, ValueId> values_;
  std::unordered_map<std::string, std::size_t> operations_;
  std::unordered_multimap<ValueId, std::size_t> aliases_;  ///< by input
  std::unordered_map<ValueId, std::int64_t> reads_;        ///< number of reads per value, outputs included
};

/// Extracts a single part, as `GraphParts` does.
Graph extract(const Graph& graph, const std::vector<std::string>& operations, const std::vector<std::string>& inputs,
              const std::vector<std::string>& outputs);

}  // namespace tilesim
