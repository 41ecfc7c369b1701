// The ordered list of passes over a program whose kernels are lowered.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tilesim/compile/plan/plan.hpp"
#include "tilesim/machine/share.hpp"
#include "tilesim/program/program.hpp"

namespace tilesim::lower {

/// Facts on a kernel from its lowering, in addition to its statements.
struct KernelFacts {
  std::int64_t contexts = 1;  ///< contexts per core that share it
  bool divided = true;        ///< the lowering has split it over the cores; false: its loops are still to be split
  double compute = -1;        ///< cycles of the busiest unit by the closed form; below 0: unknown
  double cycles = 0;          ///< cycles of the kernel by the closed form, with all tensors in memory
};

/// A kernel that was lowered again for less scratchpad.
struct Smaller {
  program::Scope scope;
  KernelFacts facts;
};

/// A value in the scratchpad across kernels of a body. Kernel numbers also count the calls between them.
struct Resident {
  std::string tensor, function;
  std::int64_t first = 0, last = 0;  ///< first and last kernel that use the value
  std::int64_t low = 0, high = 0;    ///< bytes of the scratchpad
  bool passed = false;               ///< a caller of the body passes the value and owns it
};

/// The requested residency of values between kernels.
struct ResidencyWish {
  bool automatic = false;
  bool fitting = false;  ///< as many values as fit, regardless of the estimated saving
  std::map<std::string, std::string> levels;
};

/// A program of separately lowered kernels, and facts for passes. The machine must outlive it.
struct Lowering {
  program::Program program;
  Share whole;    ///< the machine of the program
  Share machine;  ///< each core's memories reduced to a context's share
  /// By function (empty name: the main body): facts on the scopes of its body, in order.
  std::map<std::string, std::vector<KernelFacts>> kernels;
  ResidencyWish wish = {};
  std::vector<Resident> residents = {};
  std::vector<std::pair<std::string, std::string>> states = {};  ///< outputs that are new values of states
  /// Lowers kernel number `kernel` of a function's body again for this many bytes of scratchpad, before `divide` and
  /// `contexts`; empty if it does not fit.
  std::function<std::optional<Smaller>(Lowering&, const std::string& function, std::size_t kernel, std::int64_t bytes)>
      again = {};
};

/// A pass; `run` does not change the results that the program computes.
struct Pass {
  const char* name;
  const char* what;
  std::vector<const char*> needs;  ///< passes that must have run before
  void (*run)(Lowering& lowering);
};

/// Distributes a kernel over the cores and their contexts.
void distribute(Lowering& lowering, program::Scope& kernel, const KernelFacts& facts, TensorIndex& tensors);

/// The passes, in order: divide, residency, overlap, ahead, addresses, apart, dying, check.
std::span<const Pass> passes();

/// Runs all passes.
program::Program finished(Lowering lowering);

}  // namespace tilesim::lower
