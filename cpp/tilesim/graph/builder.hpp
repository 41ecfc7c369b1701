// Builds a GraphFunction of a Graph operation by operation, inferring types as it goes.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tilesim/graph/kind.hpp"

namespace tilesim {

class Builder {
 public:
  /// Builds `graph.functions[function]`, or a new function named `name`.
  Builder(Graph& graph, const std::string& name);
  std::int32_t function_index() const { return function_; }
  /// Continues in a copy of the graph.
  void go_on_in(Graph& copy) { graph_ = &copy; }

  ValueId input(const std::string& name, TensorType type);
  ValueId weight(const std::string& name, Weight weight);  ///< a constant operation; equal names share the weight
  ValueId scalar(double value, DType dtype);               ///< rank 0 constant
  /// Adds an operation of any kind. An empty `name` is derived from the kind. Throws UserError on a rule violation.
  std::vector<ValueId> op(Kind kind, std::vector<ValueId> operands, Attributes attributes = {},
                          const std::string& name = {}, int results = 1, std::vector<std::int32_t> functions = {});
  // The usual ones.
  ValueId elementwise(Function function, std::vector<ValueId> operands, const std::string& name = {});
  ValueId matmul(ValueId a, ValueId b, ValueId bias = no_value,
                 const std::string& name = {});  ///< numpy matmul, batched
  ValueId convert(ValueId x, DType dtype);
  ValueId reshape(ValueId x, Shape shape);
  ValueId transpose(ValueId x, std::vector<std::int64_t> permutation);
  /// Sets the location in the user's model for the operations that follow.
  void set_source(std::string source) { source_ = std::move(source); }
  /// Declares an output. A value that must keep another name (an input, another output) is copied.
  void output(ValueId value, const std::string& name = {});
  void alias(int output, int input);
  const TensorType& type(ValueId value) const;
  /// Sets graph.main to this function and checks it.
  void finish();

 private:
  GraphFunction& body() { return graph_->functions[static_cast<std::size_t>(function_)]; }
  const GraphFunction& body() const { return graph_->functions[static_cast<std::size_t>(function_)]; }
  std::string fresh(const std::string& stem);

  Graph* graph_;
  std::int32_t function_;
  std::string source_;
  std::map<std::string, int> used_;         ///< names, with the last number that made one unique
  std::map<std::string, ValueId> weights_;  ///< values of constant operations, by weight
};

}  // namespace tilesim
