// Helpers of passes that change a function in place. Internal to this module.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "tilesim/graph/graph.hpp"

namespace tilesim::edit {

/// Numbers values as in a file, inputs first, and drops unused ones: graphs from memory and file compile equally.
void order_values(GraphFunction& function);
/// Removes operations without effect whose results have no reader; returns their number.
int sweep_dead(GraphFunction& function);
/// Index of the operation that computes each value; -1: an input or unused.
std::vector<int> producers(const GraphFunction& function);
std::vector<int> use_counts(const GraphFunction& function);  ///< as operands and outputs

/// Values to be replaced by others. They are collected, so that one pass over a function replaces all.
class Redirects {
 public:
  explicit Redirects(const GraphFunction& function);
  /// Replaces `from` by `to` (the producer of `from` stays). An output keeps its name: returns false, without a change,
  /// if `to` is an input or has an output's name already.
  bool add(GraphFunction& function, ValueId from, ValueId to);
  bool is_output(ValueId value) const { return outputs_.count(value) > 0; }
  ValueId replacement(ValueId value);
  void rewrite(std::vector<ValueId>& values);  ///< of operands, outputs

 private:
  std::unordered_map<ValueId, ValueId> meant_;
  std::unordered_set<ValueId> inputs_, outputs_;
};

/// An index of the names of a function's values and operations (or of weights). Names added to them later must be
/// passed to `take`.
class Names {
 public:
  explicit Names(const GraphFunction& function);
  explicit Names(const std::map<std::string, Weight>& weights);
  /// The first unused name of stem, stem.1, stem.2, ..; does not take it.
  std::string fresh(const std::string& stem);
  void take(const std::string& name) { taken_.insert(name); }
  std::string taken(const std::string& stem);  ///< the same, and takes it

 private:
  std::unordered_set<std::string> taken_;
  std::unordered_map<std::string, int> next_;  ///< per stem: lower numbers are taken
};

/// An unused weight name. For many weights of one stem, use `Names`.
std::string fresh_weight(const Graph& graph, const std::string& stem);

/// The weight of a value, or null.
const Weight* weight_of(const Graph& graph, const GraphFunction& function, const std::vector<int>& producer,
                        ValueId value);
/// The number of a one-element value, if it is known.
std::optional<double> known_number(const Graph& graph, const GraphFunction& function, const std::vector<int>& producer,
                                   ValueId value);
/// Kind and attributes as text: equal exactly if two operations (without functions) compute the same function.
std::string meaning(const Op& op);
/// Adds an operation `constant` for weight `name`, with a new value; takes both names.
Op constant(GraphFunction& function, Names& names, const std::string& name, const TensorType& type);

}  // namespace tilesim::edit
