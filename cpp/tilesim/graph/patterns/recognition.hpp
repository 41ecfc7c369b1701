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

/// A function as patterns read it. Valid until the function changes.
class Reader {
 public:
  Reader(const Graph& graph, const GraphFunction& function);

  const Graph& graph() const { return graph_; }
  const GraphFunction& function() const { return function_; }
  const TensorType& type(ValueId value) const { return function_.value(value).type; }
  const Shape& shape(ValueId value) const { return type(value).shape; }
  std::int64_t rank(ValueId value) const { return static_cast<std::int64_t>(shape(value).size()); }
  int uses(ValueId value) const { return uses_[at(value)]; }

  const Op* op(ValueId value) const;             ///< that computes it; null for inputs
  const Op* op(ValueId value, Kind kind) const;  ///< null where it is another kind
  const Op* elementwise(ValueId value, Function function) const;
  std::optional<Function> function_of(ValueId value) const;  ///< of an elementwise operation
  const Weight* weight(ValueId value) const;                 ///< null unless it is one
  /// The number that all elements are, seen through broadcast, reshape and conversions of floats (which round it).
  std::optional<double> number(ValueId value) const;
  /// How far a number may lie from the one that was meant: half a spacing of the coarsest dtype that it went through.
  double rounding(ValueId value) const;
  /// What a value repeats: seen through conversions of floats, broadcasts, and reshapes that add or drop axes of 1.
  ValueId peeled(ValueId value) const;
  ValueId unconverted(ValueId value) const;  ///< through conversions of floats alone
  /// For each axis of `base` the axis of `value` that follows it, -1 where its extent is 1; nothing where `value` is
  /// not computed from it by elementwise operations, conversions and movements, or an axis is repeated away.
  std::optional<Integers> places(ValueId value, ValueId base) const;
  /// Whether `value`, an operand of an elementwise operation on rows of rank `rank`, repeats what `reduce` gives along
  /// the axes that it reduces, and has the others in their place. `where`: axis of the rows for each axis of the
  /// reduction's operand; empty: the same.
  bool repeats(ValueId value, const Op& reduce, std::int64_t rank, const Integers& where = {}) const;

  /// Where a value is computed in the order of operations; -1: an input.
  std::int64_t order(ValueId value) const { return order_[at(value)]; }
  /// Whether an operation has no effect and nothing reads what it computes.
  bool dead(const Op& op) const;
  /// `ops`, which stay where they are, stand in the place of an operation of the function from now on.
  void replace(std::size_t place, const std::vector<Op>& ops);
  /// What has read `root`, which the operation there gives, reads `leaf` from now on.
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

/// A value that can be computed otherwise.
struct Candidate {
  ValueId root = no_value;
  Values leaves;  ///< what the replacement reads
  /// The replacement in a builder, from values that stand for the leaves (of other extents when it is checked).
  std::function<ValueId(Builder&, const Values&)> build;
  std::string after;           ///< what it becomes, for the diff
  ValueId mask = no_value;     ///< leaf that is an attention mask: checked with hidden rows
  Values positive;             ///< leaves that are finite and above 0, as scales
  bool shared_inside = false;  ///< values within may be read elsewhere too
  bool whole = false;          ///< extents mean something: checked at full size only
};

/// Alternatives for the operation, the preferred one first.
using Matcher = std::vector<Candidate> (*)(const Reader& reader, const Op& op);

// Matchers, one per pass.
std::vector<Candidate> match_activation(const Reader& reader, const Op& op);
std::vector<std::string> spelled_functions();  ///< that `match_activation` knows, each once
std::vector<Candidate> match_gate(const Reader& reader, const Op& op);
std::vector<Candidate> match_softmax(const Reader& reader, const Op& op);
std::vector<Candidate> match_normalize(const Reader& reader, const Op& op);
std::vector<Candidate> match_attention(const Reader& reader, const Op& op);
std::vector<Candidate> match_grouped_heads(const Reader& reader, const Op& op);
std::vector<Candidate> match_rotary(const Reader& reader, const Op& op);
std::vector<Candidate> match_transposed_product(const Reader& reader, const Op& op);
std::vector<Candidate> match_quantized_pair(const Reader& reader, const Op& op);
std::vector<Candidate> match_integer_product(const Reader& reader, const Op& op);

/// Of a product of dequantized codes that stays one of floats, since i32 does not hold every sum of so many terms.
struct LongSums { std::int64_t terms = 0, most = 0; };
std::optional<LongSums> long_integer_sums(const Reader& reader, const Op& op);

/// Operations between the leaves and the root in order; nothing where something else is needed, a random or stateful
/// one is among them, or a value within is read elsewhere.
std::optional<std::vector<const Op*>> cone(const Reader& reader, const Candidate& candidate);

/// The part between leaves and root as a separate graph, with small extents where they mean nothing. `wide`: floats
/// are f64. Nothing where it cannot be made.
std::optional<Graph> extracted(const Reader& reader, const Candidate& candidate, const std::vector<const Op*>& ops,
                               bool wide);
/// The replacement as a graph with inputs of these types.
Graph replacement(const Candidate& candidate, const std::vector<TensorType>& leaves);

/// Whether part and replacement agree on data: random, large, with infinities and NaN, with hidden rows of masks; of
/// functions of single elements also at the numbers of the part, around them, and at the ends of the dtype's range.
class Checker {
 public:
  explicit Checker(const Evaluator& evaluate) : evaluate_(evaluate) {}
  /// Empty where they do; else why not. `ops`: the candidate's cone. Verdicts are remembered by `pass` and part.
  std::string refusal(const Reader& reader, std::string_view pass, const Candidate& candidate,
                      const std::vector<const Op*>& ops);

 private:
  struct Trial;
  std::string verdict(const Reader& reader, const Candidate& candidate, const std::vector<const Op*>& ops);
  std::string compare(const Reader& reader, const Candidate& candidate, const std::vector<const Op*>& ops, bool wide);
  const Evaluator& evaluate_;
  std::map<std::string, std::string> verdicts_;  ///< by pass and part
};

/// Replacements in one function.
class Edits {
 public:
  Edits(Graph& graph, GraphFunction& function);
  const Reader& reader() const { return *reader_; }
  /// Puts a replacement in the place of the root, which the operation there gives; places stay as they are.
  void replace(std::size_t place, const Candidate& candidate);
  /// Writes what was replaced into the function.
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
  std::map<std::size_t, std::vector<Op>> rewritten_;  ///< by place in the function
  std::set<std::string> names_;
};

/// Masks of attention that compare positions with lengths become `kv_len`; what changed is appended to `changes`.
void length_masks(Graph& graph, std::vector<Change>& changes);
/// Those that depend on no input become attributes.
void known_masks(Graph& graph, const Evaluator& evaluate, std::vector<Change>& changes);
/// Index arithmetic is computed once for what repeats; gathers and scatters by known indices become views and paddings,
/// and what others gather lies together.
void affine_indices(Graph& graph, const Evaluator& evaluate, std::vector<Change>& changes);
/// Runs of operations of the entry function that repeat become calls of one function.
void repeated_layers(Graph& graph, std::vector<Change>& changes);

}  // namespace tilesim::recognition
