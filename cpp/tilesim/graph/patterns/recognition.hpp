// Pattern recognition: a matcher returns candidates, which are checked on data before they replace operations. Internal
// to this module.
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

/// A view of a function for pattern matching. Valid until the function changes.
class Reader {
 public:
  Reader(const Graph& graph, const GraphFunction& function);

  const Graph& graph() const { return graph_; }
  const GraphFunction& function() const { return function_; }
  const TensorType& type(ValueId value) const { return function_.value(value).type; }
  const Shape& shape(ValueId value) const { return type(value).shape; }
  std::int64_t rank(ValueId value) const { return static_cast<std::int64_t>(shape(value).size()); }
  int uses(ValueId value) const { return uses_[at(value)]; }

  const Op* op(ValueId value) const;             ///< producer; null for inputs
  const Op* op(ValueId value, Kind kind) const;  ///< null if it is of another kind
  const Op* elementwise(ValueId value, Function function) const;
  std::optional<Function> function_of(ValueId value) const;  ///< if an elementwise operation produces it
  const Weight* weight(ValueId value) const;                 ///< null if it is not a weight
  /// The common value of all elements, seen through broadcast, reshape and conversions of floats (which round it).
  std::optional<double> number(ValueId value) const;
  /// Bound on the rounding of that number: half a spacing of the coarsest dtype that it passed through.
  double rounding(ValueId value) const;
  /// The value that this one repeats: seen through conversions of floats, broadcasts, and reshapes of unit axes.
  ValueId peeled(ValueId value) const;
  ValueId unconverted(ValueId value) const;  ///< seen through conversions of floats only
  /// For each axis of `base` the corresponding axis of `value`, -1 if its extent is 1; empty if `value` is not computed
  /// from it by elementwise operations, conversions and movements, or if an axis was removed after repeating.
  std::optional<Integers> places(ValueId value, ValueId base) const;
  /// Whether `value`, an operand of an elementwise operation on rows of rank `rank`, broadcasts the result of `reduce`
  /// along the reduced axes and keeps the other axes in place. `where`: axis of the rows for each axis of the
  /// reduction's operand; empty: the same.
  bool repeats(ValueId value, const Op& reduce, std::int64_t rank, const Integers& where = {}) const;

  /// Position of the producer in the order of operations; -1: an input.
  std::int64_t order(ValueId value) const { return order_[at(value)]; }
  /// Whether an operation has no effect and its results have no reader.
  bool dead(const Op& op) const;
  /// Inserts `ops`, which must stay at their address, in place of an operation of the function.
  void replace(std::size_t place, const std::vector<Op>& ops);
  /// Replaces `root`, a result of the operation at `place`, by `leaf` for all its readers.
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

/// A value that a replacement can compute.
struct Candidate {
  ValueId root = no_value;
  Values leaves;  ///< values that the replacement reads
  /// Builds the replacement from values for the leaves (with other extents when it is checked).
  std::function<ValueId(Builder&, const Values&)> build;
  std::string after;           ///< its name for the list of changes
  ValueId mask = no_value;     ///< leaf that is an attention mask: checked with masked rows
  Values positive;             ///< leaves that are finite and positive, such as scales
  bool shared_inside = false;  ///< inner values may have other readers
  bool whole = false;          ///< extents are significant: checked at full size only
};

/// Returns alternatives for the operation, the preferred one first.
using Matcher = std::vector<Candidate> (*)(const Reader& reader, const Op& op);

// Matchers, one per pass.
std::vector<Candidate> match_activation(const Reader& reader, const Op& op);
std::vector<std::string> spelled_functions();  ///< those that `match_activation` recognises, each once
std::vector<Candidate> match_gate(const Reader& reader, const Op& op);
std::vector<Candidate> match_softmax(const Reader& reader, const Op& op);
std::vector<Candidate> match_normalize(const Reader& reader, const Op& op);
std::vector<Candidate> match_attention(const Reader& reader, const Op& op);
std::vector<Candidate> match_grouped_heads(const Reader& reader, const Op& op);
std::vector<Candidate> match_rotary(const Reader& reader, const Op& op);
std::vector<Candidate> match_transposed_product(const Reader& reader, const Op& op);
std::vector<Candidate> match_quantized_pair(const Reader& reader, const Op& op);
std::vector<Candidate> match_integer_product(const Reader& reader, const Op& op);

/// Counts products of dequantized integers that stay floating point, because i32 cannot hold a sum of that many terms.
struct LongSums { std::int64_t terms = 0, most = 0; };
std::optional<LongSums> long_integer_sums(const Reader& reader, const Op& op);

/// Operations between the leaves and the root in order; empty if another input is needed, an operation is random or
/// stateful, or an inner value has other readers.
std::optional<std::vector<const Op*>> cone(const Reader& reader, const Candidate& candidate);

/// The part between leaves and root as a separate graph, with small extents where they are not significant. `wide`:
/// floats are f64. Empty if it cannot be built.
std::optional<Graph> extracted(const Reader& reader, const Candidate& candidate, const std::vector<const Op*>& ops,
                               bool wide);
/// The replacement as a graph with inputs of these types.
Graph replacement(const Candidate& candidate, const std::vector<TensorType>& leaves);

/// Checks that part and replacement agree on data: random, large, with infinities and NaN, with masked rows; for
/// functions of single elements also at and around the numbers of the part, and at the ends of the dtype's range.
class Checker {
 public:
  explicit Checker(const Evaluator& evaluate) : evaluate_(evaluate) {}
  /// Empty if they agree; else the reason. `ops`: the candidate's cone. Verdicts are cached by `pass` and part.
  std::string refusal(const Reader& reader, std::string_view pass, const Candidate& candidate,
                      const std::vector<const Op*>& ops);

 private:
  struct Trial;
  std::string verdict(const Reader& reader, const Candidate& candidate, const std::vector<const Op*>& ops);
  std::string compare(const Reader& reader, const Candidate& candidate, const std::vector<const Op*>& ops, bool wide);
  const Evaluator& evaluate_;
  std::map<std::string, std::string> verdicts_;  ///< by pass and part
};

/// Collects replacements in one function.
class Edits {
 public:
  Edits(Graph& graph, GraphFunction& function);
  const Reader& reader() const { return *reader_; }
  /// Replaces the root, a result of the operation at `place`; other positions do not change.
  void replace(std::size_t place, const Candidate& candidate);
  /// Writes the replacements into the function.
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
  std::map<std::size_t, std::vector<Op>> rewritten_;  ///< by position in the function
  std::set<std::string> names_;
};

/// Replaces attention masks that compare positions with lengths by `kv_len`; appends the changes to `changes`.
void length_masks(Graph& graph, std::vector<Change>& changes);
/// Replaces attention masks that depend on no input by attributes.
void known_masks(Graph& graph, const Evaluator& evaluate, std::vector<Change>& changes);
/// Computes repeated index arithmetic once; turns gathers and scatters by known indices into views and pads, and makes
/// the data of other gathers contiguous.
void affine_indices(Graph& graph, const Evaluator& evaluate, std::vector<Change>& changes);
/// Turns repeated sequences of operations of the entry function into calls of one function.
void repeated_layers(Graph& graph, std::vector<Change>& changes);

}  // namespace tilesim::recognition
