// Tensors that nothing stores to: their loads wait for no kernel.
#pragma once

#include <map>
#include <set>
#include <string>

#include "tilesim/program/program.hpp"

namespace tilesim::lower {

class Given {
 public:
  /// Weights, inputs, and formal names that every call binds to such a tensor.
  explicit Given(program::Program& program);

  /// Of a tensor of whatever name: an alias is what it lies in.
  bool contains(const std::string& tensor) const { return given_.contains(owner(tensor)); }
  std::string owner(std::string tensor) const;

 private:
  std::map<std::string, std::string> owners_;
  std::set<std::string> given_;
};

}  // namespace tilesim::lower
