// Builds a GraphFunction operation by operation and infers the type of each result.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tilesim/graph/kind.hpp"

namespace tilesim {

class Builder {
 public:
  /// Builds the graph's function `name`; creates it if it does not exist.
  Builder(Graph& graph, const std::string& name);
  std::int32_t function_index() const { return function_; }
  /// Continues to build in `copy`, a copy of the graph.
  void go_on_in(Graph& copy) { graph_ = &copy; }

  ValueId input(const std::string& name, TensorType type);
  ValueId weight(const std::string& name, Weight weight);  ///< adds a constant operation; equal names share the weight
  ValueId scalar(double value, DType dtype);               ///< constant of rank 0
  /// Adds an operation of any kind; derives an empty `name` from the kind. Throws UserError if the kind forbids it.
  std::vector<ValueId> op(Kind kind, std::vector<ValueId> operands, Attributes attributes = {},
                          const std::string& name = {}, int results = 1, std::vector<std::int32_t> functions = {});
  // Shorthands for common operations.
  ValueId elementwise(Function function, std::vector<ValueId> operands, const std::string& name = {});
  ValueId matmul(ValueId a, ValueId b, ValueId bias = no_value,
                 const std::string& name = {});  ///< numpy matmul, batched
  ValueId convert(ValueId x, DType dtype);
  ValueId reshape(ValueId x, Shape shape);
  ValueId transpose(ValueId x, std::vector<std::int64_t> permutation);
  /// Sets the location in the user's model for operations added from now on.
  void set_source(std::string source) { source_ = std::move(source); }
  /// Declares an output. Copies a value whose name must not change (an input, another output).
  void output(ValueId value, const std::string& name = {});
  void alias(int output, int input);
  const TensorType& type(ValueId value) const;
  /// Makes this function the graph's entry function and checks it.
  void finish();

 private:
  GraphFunction& body() { return graph_->functions[static_cast<std::size_t>(function_)]; }
  const GraphFunction& body() const { return graph_->functions[static_cast<std::size_t>(function_)]; }
  std::string fresh(const std::string& stem);

  Graph* graph_;
  std::int32_t function_;
  std::string source_;
  std::map<std::string, int> used_;         ///< names, with the last number appended to each
  std::map<std::string, ValueId> weights_;  ///< by weight: result of its constant operation
};

}  // namespace tilesim
