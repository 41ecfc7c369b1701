// Lifetimes of the tensors of a program, in the order of its kernels.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tilesim/program/program.hpp"

namespace tilesim::program {

/// First and last kernel, both included.
struct Lifetime { std::int64_t first = 0, last = 0; };

/// Numbers kernels in execution order; every call numbers its function's kernels again.
class KernelNumbering {
 public:
  /// The call context that `call` leads to from context `from`; 0 is the main body.
  std::int32_t enter(std::int32_t from, const Call* call) {
    return calls_.try_emplace({from, call}, static_cast<std::int32_t>(calls_.size()) + 1).first->second;
  }
  void add(std::int32_t place, const Scope* scope, std::int64_t number) { kernels_[{place, scope}] = number; }
  /// The number of a kernel; -1 if the scope is not a separate kernel.
  std::int64_t number(const std::vector<const Call*>& path, const Scope* scope) const;

 private:
  std::map<std::pair<std::int32_t, const Call*>, std::int32_t> calls_;
  std::map<std::pair<std::int32_t, const Scope*>, std::int64_t> kernels_;
};

struct Lifetimes {
  /// For each tensor with separate bytes: the spans of kernels in which its contents must be kept.
  std::map<std::string, std::vector<Lifetime>> spans;
  std::map<std::string, std::string> owners;  ///< for each tensor: the tensor whose bytes it uses
  /// For each kernel: the number of leading kernels that are complete before it stores anything.
  std::vector<std::int64_t> complete;
  std::vector<const Scope*> kernels;  ///< null for a statement outside of kernels
  KernelNumbering numbers;
  bool known = true;  ///< false: too many kernels, or calls behind conditions
};

Lifetimes lifetimes(const Program& program);

}  // namespace tilesim::program
