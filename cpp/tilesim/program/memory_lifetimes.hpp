// Lifetimes of the tensors of a program, in the order of its kernels.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tilesim/program/program.hpp"

namespace tilesim::program {

/// Kernels, both included.
struct Lifetime { std::int64_t first = 0, last = 0; };

/// Which kernel runs where: those of a function in every call anew.
class KernelNumbering {
 public:
  /// Calls from the main body (0) or from where another one leads.
  std::int32_t enter(std::int32_t from, const Call* call) {
    return calls_.try_emplace({from, call}, static_cast<std::int32_t>(calls_.size()) + 1).first->second;
  }
  void add(std::int32_t place, const Scope* scope, std::int64_t number) { kernels_[{place, scope}] = number; }
  /// -1: no separate kernel.
  std::int64_t number(const std::vector<const Call*>& path, const Scope* scope) const;

 private:
  std::map<std::pair<std::int32_t, const Call*>, std::int32_t> calls_;
  std::map<std::pair<std::int32_t, const Scope*>, std::int64_t> kernels_;
};

struct Lifetimes {
  /// By tensor with separate bytes: each span in which it must keep what it holds.
  std::map<std::string, std::vector<Lifetime>> spans;
  std::map<std::string, std::string> owners;  ///< by tensor: in whose bytes it lies
  /// By kernel: how many of the first kernels are complete before it stores anything.
  std::vector<std::int64_t> complete;
  std::vector<const Scope*> kernels;  ///< null: a statement outside of kernels
  KernelNumbering numbers;
  bool known = true;  ///< false: too many kernels, or calls behind conditions
};

Lifetimes lifetimes(const Program& program);

}  // namespace tilesim::program
