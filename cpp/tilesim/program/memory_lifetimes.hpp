// When the tensors of a program are used, in the order of its kernels.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tilesim/program/program.hpp"

namespace tilesim::program {

/// Kernels, both included.
struct Lifetime { std::int64_t first = 0, last = 0; };

struct Lifetimes {
  /// By tensor with bytes of its own: each span in which it must keep what it holds.
  std::map<std::string, std::vector<Lifetime>> spans;
  std::map<std::string, std::string> owners;  ///< by tensor: in whose bytes it lies
  /// By kernel: how many of the first kernels are complete before it stores anything.
  std::vector<std::int64_t> complete;
  std::vector<const Scope*> kernels;  ///< null: a statement outside of kernels
  bool known = true;                  ///< false: too many kernels, or calls behind conditions
};

Lifetimes lifetimes(const Program& program);

}  // namespace tilesim::program
