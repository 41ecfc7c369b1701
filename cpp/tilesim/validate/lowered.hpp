// Properties of a lowered graph and its program, for verification.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "tilesim/graph/passes/two_of_four.hpp"
#include "tilesim/program/program.hpp"

namespace tilesim::validate {

/// A lowered graph with plain weights: none has a pattern type.
class PlainWeights {
 public:
  explicit PlainWeights(const Graph& lowered) : graph_(lowered), patterns_(expand_two_of_four(graph_)) {}
  const Graph& graph() const { return graph_; }
  /// A plain weight, from the program's input for it.
  Array unpacked(const std::string& weight, const Array& given) const;

 private:
  Graph graph_;
  std::map<std::string, TwoOfFour> patterns_;
};

/// Operations of kernels without a product on an array.
std::set<std::string> off_array(const program::Program& program);

/// By function (empty: the main body) and tensor: number of kernels that store it.
using Storing = std::map<std::pair<std::string, std::string>, std::int64_t>;
Storing storing_kernels(const program::Program& program);

}  // namespace tilesim::validate
