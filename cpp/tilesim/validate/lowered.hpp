// What lowering made of a graph, as verification sees it.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "tilesim/graph/passes/two_of_four.hpp"
#include "tilesim/program/program.hpp"

namespace tilesim::validate {

/// A lowered graph whose weights are plain numbers: none is stored in a pattern.
class PlainWeights {
 public:
  explicit PlainWeights(const Graph& lowered) : graph_(lowered), patterns_(expand_two_of_four(graph_)) {}
  const Graph& graph() const { return graph_; }
  /// A weight from what the program gets for it.
  Array unpacked(const std::string& weight, const Array& given) const;

 private:
  Graph graph_;
  std::map<std::string, TwoOfFour> patterns_;
};

/// Operations whose kernels have no product on an array.
std::set<std::string> off_array(const program::Program& program);

/// By function (empty: the main body) and tensor: how many kernels store to it.
using Storing = std::map<std::pair<std::string, std::string>, std::int64_t>;
Storing storing_kernels(const program::Program& program);

}  // namespace tilesim::validate
