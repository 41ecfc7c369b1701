// Pattern recognition: a matcher returns candidates, and a checker compares each on data before it replaces operations.
// Internal to this module.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "tilesim/base/index.hpp"
#include "tilesim/graph/builder.hpp"
#include "tilesim/graph/edit.hpp"
#include "tilesim/graph/passes.hpp"

namespace tilesim::recognition {

using Integers = std::vector<std::int64_t>;
using Values = std::vector<ValueId>;

/// Read access to a function for matchers. Valid until the function changes.
class Reader {
 public:
  Reader(const Graph& graph, const GraphFunction& function);

  const Graph& graph() const { return graph_; }
  const GraphFunction& function() const { return function_; }
  const TensorType& type(ValueId value) const { return function_.value(value).type; }
  const Shape& shape(ValueId value) const { return type(value).shape; }
  std::int64_t rank(ValueId value) const { return static_cast<std::int64_t>(shape(value).size()); }
  int uses(ValueId value) const { return uses_[at(value)]; }

  const Op* op(ValueId value) const;             ///< producer; null for an input
  const Op* op(ValueId value, Kind kind) const;  ///< producer of this kind; else null
  const Op* elementwise(ValueId value, Function function) const;
  std::optional<Function> function_of(ValueId value) const;  ///< if an elementwise operation produces the value
  const Weight* weight(ValueId value) const;                 ///< null if the value is not a weight
  /// The number that all elements equal. Looks through broadcasts, reshapes, and conversions of floats (which round
  /// it).
  std::optional<double> number(ValueId value) const;
  /// Limit on this number's rounding error: half the spacing of the coarsest dtype to which it was converted.
  double rounding(ValueId value) const;
  /// The value that this value repeats. Looks through conversions of floats, broadcasts, and reshapes of unit axes.
  ValueId peeled(ValueId value) const;
  ValueId unconverted(ValueId value) const;  ///< looks through conversions of floats only
  /// Per axis of `base`: the corresponding axis of `value`; -1 if its extent is 1. Empty if `value` is not computed
  /// from `base` by elementwise operations, conversions and movements, or if a repeated axis was removed.
  std::optional<Integers> places(ValueId value, ValueId base) const;
  /// Whether `value`, an operand of an elementwise operation on rows of rank `rank`, is the result of `reduce`,
  /// broadcast along the reduced axes, with other axes in place. `where`: axis of the rows per axis of the reduction's
  /// operand; empty: the same axis.
  bool repeats(ValueId value, const Op& reduce, std::int64_t rank, const Integers& where = {}) const;

  /// Index of the producer among the operations; -1: an input.
  std::int64_t order(ValueId value) const { return order_[at(value)]; }
  /// Whether the operation has no side effect and its results are unused.
  bool dead(const Op& op) const;
  /// Inserts `ops` in place of the function's operation at `place`. The address of `ops` must not change.
  void replace(std::size_t place, const std::vector<Op>& ops);
  /// Lets all readers of `root`, a result of the operation at `place`, read `leaf` instead.
  void redirect(std::size_t place, ValueId root, ValueId leaf);

 private:
  void enter(const Op& op, std::int64_t order);
  void release(const Op& op);

  const Graph& graph_;
  const GraphFunction& function_;
  std::vector<const Op*> producers_;
  std::vector<std::int64_t> order_;
  std::vector<int> uses_;
};

/// A value, and operations that could compute it instead.
struct Candidate {
  ValueId root = no_value;
  Values leaves;  ///< values that the replacement reads
  /// Builds the replacement from values for the leaves, whose extents differ in checks.
  std::function<ValueId(Builder&, const Values&)> build;
  std::string after;           ///< name of the replacement in the list of changes
  ValueId mask = no_value;     ///< leaf that is an attention mask; checks also mask full rows
  Values positive;             ///< leaves that are finite and positive, such as scales
  bool shared_inside = false;  ///< inner values may be used elsewhere
  bool whole = false;          ///< extents matter: check at full size only
};

/// Returns candidates for the operation, the preferred one first.
using Matcher = std::vector<Candidate> (*)(const Reader& reader, const Op& op);

// The matchers, one per pass.
std::vector<Candidate> match_activation(const Reader& reader, const Op& op);
std::vector<std::string> spelled_functions();  ///< functions that `match_activation` recognises
std::vector<Candidate> match_gate(const Reader& reader, const Op& op);
std::vector<Candidate> match_softmax(const Reader& reader, const Op& op);
std::vector<Candidate> match_normalize(const Reader& reader, const Op& op);
std::vector<Candidate> match_attention(const Reader& reader, const Op& op);
std::vector<Candidate> match_grouped_heads(const Reader& reader, const Op& op);
std::vector<Candidate> match_rotary(const Reader& reader, const Op& op);
std::vector<Candidate> match_transposed_product(const Reader& reader, const Op& op);
std::vector<Candidate> match_quantized_pair(const Reader& reader, const Op& op);
std::vector<Candidate> match_integer_product(const Reader& reader, const Op& op);

/// Products of dequantized integers that stay in floating point, because i32 would overflow: terms per sum, and limit.
struct LongSums { std::int64_t terms = 0, most = 0; };
std::optional<LongSums> long_integer_sums(const Reader& reader, const Op& op);

/// The operations between the leaves and the root, in order. Empty if they need another input, if one is random or has
/// state, or if an inner value is used elsewhere.
std::optional<std::vector<const Op*>> cone(const Reader& reader, const Candidate& candidate);

/// The operations between leaves and root as a graph, with small extents where extents do not matter. `wide`: with f64
/// for floats. Empty if the graph cannot be built.
std::optional<Graph> extracted(const Reader& reader, const Candidate& candidate, const std::vector<const Op*>& ops,
                               bool wide);
/// The replacement as a graph whose inputs have these types.
Graph replacement(const Candidate& candidate, const std::vector<TensorType>& leaves);

/// Checks that original and replacement agree on data: random, large, with infinities and NaN, with masked rows; for
/// elementwise functions also at and near the numbers in the function, and at the ends of the dtype's range.
class Checker {
 public:
  explicit Checker(const Evaluator& evaluate) : evaluate_(evaluate) {}
  /// Empty if they agree, else the reason. `ops`: cone(candidate). Caches results by `pass` and operations.
  std::string refusal(const Reader& reader, std::string_view pass, const Candidate& candidate,
                      const std::vector<const Op*>& ops);

 private:
  struct Trial;
  std::string verdict(const Reader& reader, const Candidate& candidate, const std::vector<const Op*>& ops);
  std::string compare(const Reader& reader, const Candidate& candidate, const std::vector<const Op*>& ops, bool wide);
  const Evaluator& evaluate_;
  std::map<std::string, std::string> verdicts_;  ///< by pass and operations
};

/// Collects the replacements in one function.
class Edits {
 public:
  Edits(Graph& graph, GraphFunction& function);
  const Reader& reader() const { return *reader_; }
  /// Replaces the root, a result of the operation at `place`. Indices of other operations do not change.
  void replace(std::size_t place, const Candidate& candidate);
  /// Applies the replacements to the function.
  void commit();

 private:
  void restart();
  std::string fresh_name(const std::string& stem);
  void take_weight(Op& op, const Graph& made);
  void redirect(std::size_t place, ValueId root, ValueId leaf);

  Graph& graph_;
  GraphFunction& function_;
  std::unique_ptr<edit::Redirects> redirects_;
  std::unique_ptr<Reader> reader_;
  std::map<std::size_t, std::vector<Op>> rewritten_;  ///< by index of the replaced operation
  std::set<std::string> names_;
};

/// Replaces attention masks that compare positions with lengths by operand `kv_len`; appends to `changes`.
void length_masks(Graph& graph, std::vector<Change>& changes);
/// Replaces attention masks that depend on no input by attributes; appends to `changes`.
void known_masks(Graph& graph, const Evaluator& evaluate, std::vector<Change>& changes);
/// Computes repeated index arithmetic once, turns gathers and scatters with constant indices into views and pads, and
/// makes the data of other gathers contiguous.
void affine_indices(Graph& graph, const Evaluator& evaluate, std::vector<Change>& changes);
/// Turns repeated sequences of operations of the entry function into calls of a new function.
void repeated_layers(Graph& graph, std::vector<Change>& changes);

}  // namespace tilesim::recognition
