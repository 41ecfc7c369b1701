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

/// What lowering says of a kernel beside its statements.
struct KernelFacts {
  std::int64_t contexts = 1;  ///< of a core, that share it
  bool divided = true;        ///< each core has its part; else its loops are to be divided
  double compute = -1;        ///< cycles of the busiest unit by the closed form; below 0: not known
  double cycles = 0;          ///< of the whole kernel by it, with everything in memory
};

/// A kernel lowered once more, with less of the scratchpad.
struct Smaller {
  program::Scope scope;
  KernelFacts facts;
};

/// A value that stays in the scratchpad between kernels of a body, which are counted with the calls between them.
struct Resident {
  std::string tensor, function;
  std::int64_t first = 0, last = 0;  ///< kernels that use it
  std::int64_t low = 0, high = 0;    ///< bytes of the scratchpad
  bool passed = false;               ///< by a caller of the body, which the value belongs to
};

/// What was asked for of values between kernels.
struct ResidencyWish {
  bool automatic = false;
  bool fitting = false;  ///< as many as fit, whatever the estimate says of them
  std::map<std::string, std::string> levels;
};

/// A program whose kernels are lowered, each separately, and facts for passes. The machine must outlive it.
struct Lowering {
  program::Program program;
  Share whole;    ///< as it is in the program
  Share machine;  ///< with a context's share of each core's memories
  /// Of the scopes of each function's body, in order; under no name, of the program's own.
  std::map<std::string, std::vector<KernelFacts>> kernels;
  ResidencyWish wish = {};
  std::vector<Resident> residents = {};
  std::vector<std::pair<std::string, std::string>> states = {};  ///< outputs that are new values of states
  /// The kernel of this number of a function's body in so many bytes of scratchpad, as `divide` and `contexts` find it;
  /// nothing where it does not fit.
  std::function<std::optional<Smaller>(Lowering&, const std::string& function, std::size_t kernel, std::int64_t bytes)>
      again = {};
};

/// `run` leaves a program that computes the same.
struct Pass {
  const char* name;
  const char* what;
  std::vector<const char*> needs;  ///< passes that have run before
  void (*run)(Lowering& lowering);
};

/// A kernel over the cores and their contexts.
void distribute(Lowering& lowering, program::Scope& kernel, const KernelFacts& facts, TensorIndex& tensors);

/// divide, residency, overlap, ahead, addresses, apart, dying, check.
std::span<const Pass> passes();

/// All of them.
program::Program finished(Lowering lowering);

}  // namespace tilesim::lower
