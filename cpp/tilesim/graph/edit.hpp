// Helpers of passes that change a function in place. Internal to this module.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "tilesim/graph/graph.hpp"

namespace tilesim::edit {

/// Numbers values as a graph file does (inputs first) and removes unused ones: graphs and their files compile equally.
void order_values(GraphFunction& function);
/// Removes operations without side effects whose results are unused; returns their number.
int sweep_dead(GraphFunction& function);
/// Per value: index of the operation that computes it; -1: an input or unused.
std::vector<int> producers(const GraphFunction& function);
std::vector<int> use_counts(const GraphFunction& function);  ///< per value: number of uses as operand or output

/// Collects replacements of values, so that one pass over a function applies all of them.
class Redirects {
 public:
  explicit Redirects(const GraphFunction& function);
  /// Replaces `from` by `to`; the operation that computes `from` stays. Outputs must keep their names: if `from` is an
  /// output and `to` is an input or another output, returns false and changes nothing.
  bool add(GraphFunction& function, ValueId from, ValueId to);
  bool is_output(ValueId value) const { return outputs_.count(value) > 0; }
  ValueId replacement(ValueId value);
  void rewrite(std::vector<ValueId>& values);  ///< applies replacements to operands or outputs

 private:
  std::unordered_map<ValueId, ValueId> meant_;
  std::unordered_set<ValueId> inputs_, outputs_;
};

/// An index of the names of a function's values and operations, or of a graph's weights. Pass names that are added
/// later to `take`.
class Names {
 public:
  explicit Names(const GraphFunction& function);
  explicit Names(const std::map<std::string, Weight>& weights);
  /// The first unused name of stem, stem.1, stem.2, ..; does not reserve the name.
  std::string fresh(const std::string& stem);
  void take(const std::string& name) { taken_.insert(name); }
  std::string taken(const std::string& stem);  ///< like `fresh`, and reserves the name

 private:
  std::unordered_set<std::string> taken_;
  std::unordered_map<std::string, int> next_;  ///< per stem: all lower numbers are in use
};

/// An unused weight name; `Names` is faster for many weights with the same stem.
std::string fresh_weight(const Graph& graph, const std::string& stem);

/// The weight that a value is; null if it is not a weight.
const Weight* weight_of(const Graph& graph, const GraphFunction& function, const std::vector<int>& producer,
                        ValueId value);
/// The number in a value with one element, if it is a constant.
std::optional<double> known_number(const Graph& graph, const GraphFunction& function, const std::vector<int>& producer,
                                   ValueId value);
/// Kind and attributes as text. Two operations without functions compute the same function exactly if texts are equal.
std::string meaning(const Op& op);
/// Adds a `constant` operation for weight `name` with a new value; reserves the names of both.
Op constant(GraphFunction& function, Names& names, const std::string& name, const TensorType& type);

}  // namespace tilesim::edit
