// Passes that need no machine. Each returns how many operations it changed and keeps the graph's meaning and aliases.
#pragma once

#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "tilesim/graph/graph.hpp"

namespace tilesim {

class Builder;

/// Evaluates one operation on arrays; `kernels` provides it, so that folding needs no room above.
using Evaluator =
    std::function<std::vector<Array>(const Graph&, const GraphFunction&, const Op&, const std::vector<Array>&)>;

/// Outputs of the entry function, operation by operation; every array stays in memory until the end.
std::vector<Array> evaluate_entry(const Graph& graph, const std::vector<Array>& inputs, const Evaluator& evaluate);

int remove_dead_code(Graph& graph);
int remove_no_ops(Graph& graph);  ///< identity reshape, transpose, convert, slice, pad, broadcast, copy, x+0, x*1,
                                  ///< select of a known side
int merge_common_subexpressions(Graph& graph);
/// `trainable`: parameters too, which then stand no more under their own name.
int fold_constants(Graph& graph, const Evaluator& evaluate, std::int64_t max_elements = 1 << 20, bool trainable = true);
int fold_batch_norm(
    Graph& graph,
    const Evaluator& evaluate);  ///< into a preceding convolution or contract with weights; exact up to rounding
/// Replaces composite operations by primitives; `which` selects (default all). Expansion equals kernel.
int expand(Graph& graph, const std::function<bool(const Op&)>& which = {});
/// Replaces the operations that `which` selects by what `build` appends to their function: it gives a value for each
/// result (no_value for one that nothing reads). `wanted` tells which results something reads.
using Build = std::function<std::vector<ValueId>(Builder&, const Op&, const std::vector<bool>& wanted)>;
int replace_operations(Graph& graph, const std::function<bool(const Op&)>& which, const Build& build);
/// Inlines calls (fused nodes stay).
int inline_calls(Graph& graph);

/// How often a loop (`while`) runs that data end. `masked`: at most `count` times, later trips keep the state.
struct Trips {
  std::string function, operation;
  std::int64_t count = 0;
  bool masked = false;
};
/// Loops get a counter as their first state (its condition is what ends them) and the value of their own condition,
/// which every trip still computes, as the second. Right for data that make so many trips. UserError for a name that
/// is not a loop.
void count_trips(Graph& graph, const std::vector<Trips>& trips);

/// What a pass put in the place of what.
struct Change {
  std::string pass, function, operation;
  std::string before;  ///< operations that went: "multiply, erf, add"
  std::string after;   ///< what stands there now: "gelu_erf"
  std::string source;  ///< place in the user's model; may be empty
};
/// Names of the passes that recognise patterns, in the order in which they run.
std::vector<std::string> recognition_passes();
/// Elementwise functions that the pass "activations" knows spellings of, each once.
std::vector<std::string> recognised_functions();
/// Recognises attention, normalizations, activations and the like in operations spelled out. A pattern is replaced only
/// where its structure and numbers match and both forms agree on data, also with infinities, NaN and hidden rows, and
/// at the numbers of the pattern. Sums and products may be grouped otherwise, which changes rounding alone, and zeros
/// of both signs are one number. Throws UserError for an unknown name.
std::vector<Change> recognise(Graph& graph, const Evaluator& evaluate, const std::vector<std::string>& passes);

/// Parts of one graph, which must outlive this: names are looked up in one index, so that a part costs what it has.
class GraphParts {
 public:
  explicit GraphParts(const Graph& graph);
  /// Operations of the entry function (by name) as a separate graph, with the values `inputs` and `outputs` (by
  /// name) at its border; functions and weights that they need come along. An alias stays where nothing outside reads
  /// the input. Throws UserError for a name that does not exist.
  Graph extract(const std::vector<std::string>& operations, const std::vector<std::string>& inputs,
                const std::vector<std::string>& outputs) const;

 private:
  ValueId value_named(const std::string& name) const;
  std::vector<Op> operations_named(const std::vector<std::string>& names) const;
  void keep_aliases(GraphFunction& entry) const;

  const Graph& graph_;
  std::unordered_map<std::string, ValueId> values_;
  std::unordered_map<std::string, std::size_t> operations_;
  std::unordered_multimap<ValueId, std::size_t> aliases_;  ///< by the input
  std::unordered_map<ValueId, std::int64_t> reads_;        ///< how often each value is read, outputs included
};

/// One part: as of `GraphParts`.
Graph extract(const Graph& graph, const std::vector<std::string>& operations, const std::vector<std::string>& inputs,
              const std::vector<std::string>& outputs);

}  // namespace tilesim
