// Passes that do not depend on a machine. Each keeps the graph's results and aliases, and returns the number of changed
// operations.
#pragma once

#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "tilesim/graph/graph.hpp"

namespace tilesim {

class Builder;

/// Evaluates one operation on arrays. The kernels module supplies it, because this module must not depend on kernels.
using Evaluator =
    std::function<std::vector<Array>(const Graph&, const GraphFunction&, const Op&, const std::vector<Array>&)>;

/// Evaluates the entry function operation by operation; frees no intermediate array before the end.
std::vector<Array> evaluate_entry(const Graph& graph, const std::vector<Array>& inputs, const Evaluator& evaluate);

int remove_dead_code(Graph& graph);
int remove_no_ops(Graph& graph);  ///< identity reshape, transpose, convert, slice, pad, broadcast, copy, x+0, x*1;
                                  ///< select with known condition
int merge_common_subexpressions(Graph& graph);
/// `trainable`: also folds trainable parameters, whose names then no longer exist.
int fold_constants(Graph& graph, const Evaluator& evaluate, std::int64_t max_elements = 1 << 20, bool trainable = true);
int fold_batch_norm(
    Graph& graph,
    const Evaluator& evaluate);  ///< into a preceding convolution or contract with weights; only changes rounding
/// Replaces composite operations by primitives with equal results; `which` selects operations (default: all).
int expand(Graph& graph, const std::function<bool(const Op&)>& which = {});
/// Replaces each operation that `which` selects by operations that `build` appends. `build` returns a value per result
/// (no_value for an unused result); `wanted` marks the results that are used.
using Build = std::function<std::vector<ValueId>(Builder&, const Op&, const std::vector<bool>& wanted)>;
int replace_operations(Graph& graph, const std::function<bool(const Op&)>& which, const Build& build);
/// Inlines calls; keeps fused nodes.
int inline_calls(Graph& graph);

/// Trip count of a `while` whose end depends on data. `masked`: at most `count` trips change the state.
struct Trips {
  std::string function, operation;
  std::int64_t count = 0;
  bool masked = false;
};
/// Makes trip counts static. Each loop gets two more states: a counter, whose comparison with the trip count becomes
/// the condition, and the value of the original condition, which every trip still computes. The result is correct for
/// data with these trip counts. Throws UserError if a name is not a loop.
void count_trips(Graph& graph, const std::vector<Trips>& trips);

/// A replacement that a pass made.
struct Change {
  std::string pass, function, operation;
  std::string before;  ///< replaced operations: "multiply, erf, add"
  std::string after;   ///< new operation: "gelu_erf"
  std::string source;  ///< location in the user's model; may be empty
};
/// Names of the pattern-recognition passes in the order in which they run.
std::vector<std::string> recognition_passes();
/// Elementwise functions that the pass "activations" recognises.
std::vector<std::string> recognised_functions();
/// Finds attention, normalizations, activations and others that are spelled out in primitive operations. A replacement
/// must match in structure and numbers, and must agree on test data, which include infinities, NaN, masked rows and the
/// numbers of the pattern. Sums and products may be regrouped, which only changes rounding; zeros of both signs count
/// as equal. Throws UserError for an unknown pass.
std::vector<Change> recognise(Graph& graph, const Evaluator& evaluate, const std::vector<std::string>& passes);

/// Extracts parts of a graph, which must outlive this object. A name index makes the cost proportional to the part.
class GraphParts {
 public:
  explicit GraphParts(const Graph& graph);
  /// A separate graph of the entry function's operations with these names, with inputs and outputs named by `inputs`
  /// and `outputs`, and with the functions and weights that they need. Keeps an alias if no operation outside the part
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
  std::unordered_multimap<ValueId, std::size_t> aliases_;  ///< by input: index of its alias
  std::unordered_map<ValueId, std::int64_t> reads_;        ///< per value: number of uses, including outputs
};

/// Extracts a single part; see `GraphParts`.
Graph extract(const Graph& graph, const std::vector<std::string>& operations, const std::vector<std::string>& inputs,
              const std::vector<std::string>& outputs);

}  // namespace tilesim
