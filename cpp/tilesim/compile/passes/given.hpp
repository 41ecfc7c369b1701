// Finds tensors to which no kernel stores. Their loads need not wait for a kernel.
#pragma once

#include <map>
#include <set>
#include <string>

#include "tilesim/program/program.hpp"
#include "tilesim/program/visit.hpp"

namespace tilesim::lower {

class Given {
 public:
  /// Finds weights, inputs, and formal names that every call binds to a weight or input.
  explicit Given(program::Program& program);

  /// Whether no kernel stores to the tensor. For an alias, the tensor whose bytes it uses decides.
  bool contains(const std::string& tensor) const { return given_.contains(owner(tensor)); }
  std::string owner(std::string tensor) const;

 private:
  std::map<std::string, std::string> owners_;
  std::set<std::string> given_;
};

inline Given::Given(program::Program& program) {
  for (const program::Tensor& tensor : program.tensors) {
    if (!tensor.alias_of.empty()) owners_[tensor.name] = tensor.alias_of;
    if (tensor.role == program::Role::weight || tensor.role == program::Role::input) given_.insert(tensor.name);
  }
  bool changed = true;
  while (changed) {
    changed = false;
    std::map<std::string, bool> now;
    const auto bind = [&](program::Statement& statement) {
      const auto* call = std::get_if<program::Call>(&statement.action);
      if (!call) return;
      for (const auto& [formal, actual] : call->tensors) {
        const auto entry = now.try_emplace(formal, true).first;
        entry->second = entry->second && contains(actual);
      }
    };
    program::for_each_function(program,
                               [&](program::Block& body, const std::string&) { program::for_each(body, bind); });
    for (const auto& [formal, constant] : now)
      if (constant) changed |= given_.insert(formal).second;
  }
}

inline std::string Given::owner(std::string tensor) const {
  for (auto found = owners_.find(tensor); found != owners_.end(); found = owners_.find(tensor)) tensor = found->second;
  return tensor;
}

}  // namespace tilesim::lower
