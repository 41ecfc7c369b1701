// Lifetimes of a program's tensors, in numbers of its kernels.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tilesim/program/program.hpp"

namespace tilesim::program {

/// First and last kernel (inclusive).
struct Lifetime { std::int64_t first = 0, last = 0; };

/// Numbers kernels in execution order. Every call numbers the kernels of its function again.
class KernelNumbering {
 public:
  /// The call context of `call` within context `from`; context 0 is the main body.
  std::int32_t enter(std::int32_t from, const Call* call) {
    return calls_.try_emplace({from, call}, static_cast<std::int32_t>(calls_.size()) + 1).first->second;
  }
  void add(std::int32_t place, const Scope* scope, std::int64_t number) { kernels_[{place, scope}] = number; }
  /// The number of a kernel; -1 if the scope is not a kernel.
  std::int64_t number(const std::vector<const Call*>& path, const Scope* scope) const;

 private:
  std::map<std::pair<std::int32_t, const Call*>, std::int32_t> calls_;
  std::map<std::pair<std::int32_t, const Scope*>, std::int64_t> kernels_;
};

struct Lifetimes {
  /// Per tensor that is not an alias: spans of kernels in which memory must keep its contents.
  std::map<std::string, std::vector<Lifetime>> spans;
  std::map<std::string, std::string> owners;  ///< per tensor: the tensor whose bytes it uses
  /// Per kernel k: a number n such that kernels 0 to n - 1 are complete before kernel k stores anything.
  std::vector<std::int64_t> complete;
  std::vector<const Scope*> kernels;  ///< null for a statement outside kernels
  KernelNumbering numbers;
  bool known = true;  ///< false: too many kernels, or calls inside conditions
};

Lifetimes lifetimes(const Program& program);

}  // namespace tilesim::program
