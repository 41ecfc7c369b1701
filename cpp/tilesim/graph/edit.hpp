// Helpers of passes that change a function in place. Internal to this module.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "tilesim/graph/graph.hpp"

namespace tilesim::edit {

/// Numbers values as a file does, inputs before results; removes others. So graphs compile alike from memory and file.
void order_values(GraphFunction& function);
/// Removes operations whose results nothing reads, unless they have an effect; how many.
int sweep_dead(GraphFunction& function);
/// Index of the operation that computes each value; -1: an input or unused.
std::vector<int> producers(const GraphFunction& function);
std::vector<int> use_counts(const GraphFunction& function);  ///< operands and outputs

/// Values that mean others from now on. Collected, so that a function is gone through once however many there are.
class Redirects {
 public:
  explicit Redirects(const GraphFunction& function);
  /// `from` means the same as `to` (the producer of `from` stays). An output keeps its name: false, and nothing
  /// changed, where `to` is an input or has an output's name already.
  bool add(GraphFunction& function, ValueId from, ValueId to);
  bool is_output(ValueId value) const { return outputs_.count(value) > 0; }
  ValueId replacement(ValueId value);
  void rewrite(std::vector<ValueId>& values);  ///< operands, outputs

 private:
  std::unordered_map<ValueId, ValueId> meant_;
  std::unordered_set<ValueId> inputs_, outputs_;
};

/// Names of a function's values and operations (or of weights), to find others by. What is added to them later must be
/// told by `take`.
class Names {
 public:
  explicit Names(const GraphFunction& function);
  explicit Names(const std::map<std::string, Weight>& weights);
  /// The stem, or stem.1, stem.2, ..: the first that is not taken; it is not yet taken then.
  std::string fresh(const std::string& stem);
  void take(const std::string& name) { taken_.insert(name); }
  std::string taken(const std::string& stem);  ///< fresh, and taken

 private:
  std::unordered_set<std::string> taken_;
  std::unordered_map<std::string, int> next_;  ///< per stem: numbers below are taken
};

/// A weight's name that no other has yet. For many weights of one stem: `Names`.
std::string fresh_weight(const Graph& graph, const std::string& stem);

/// The weight that a value is, or null.
const Weight* weight_of(const Graph& graph, const GraphFunction& function, const std::vector<int>& producer,
                        ValueId value);
/// The number that a value of one element is known to be.
std::optional<double> known_number(const Graph& graph, const GraphFunction& function, const std::vector<int>& producer,
                                   ValueId value);
/// Kind and attributes as text: equal exactly when two operations (without functions) do the same to their operands.
std::string meaning(const Op& op);
/// An operation `constant` for weight `name`, with a new value. Both names are taken.
Op constant(GraphFunction& function, Names& names, const std::string& name, const TensorType& type);

}  // namespace tilesim::edit
