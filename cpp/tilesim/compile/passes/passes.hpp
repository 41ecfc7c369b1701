// The list of passes, in order, over a program whose kernels are lowered.
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

/// Facts about a kernel from its lowering, in addition to its statements.
struct KernelFacts {
  std::int64_t contexts = 1;  ///< contexts per core that share the kernel
  bool divided = true;        ///< false: its loops are still to be split over the cores
  double compute = -1;        ///< cycles of the busiest unit by the closed form; negative: unknown
  double cycles = 0;          ///< cycles by the closed form, with all tensors in memory
};

/// A kernel that was lowered again with less scratchpad.
struct Smaller {
  program::Scope scope;
  KernelFacts facts;
};

/// A value that stays in the scratchpad across kernels of a body. Kernel numbers also count calls between the kernels.
struct Resident {
  std::string tensor, function;
  std::int64_t first = 0, last = 0;  ///< first and last kernel that use the value
  std::int64_t low = 0, high = 0;    ///< range of scratchpad bytes
  bool passed = false;               ///< a caller passes the value to the body and owns it
};

/// The residency of values between kernels that the user requests.
struct ResidencyWish {
  bool automatic = false;
  bool fitting = false;  ///< as many values as fit, whatever the estimated saving
  std::map<std::string, std::string> levels;
};

/// A program of separately lowered kernels, and facts for passes. The machine must outlive the object.
struct Lowering {
  program::Program program;
  Share whole;    ///< the machine of the program
  Share machine;  ///< the machine with each core's memories reduced to a context's part
  /// Per function (empty name: main body): facts about the scopes of its body, in order.
  std::map<std::string, std::vector<KernelFacts>> kernels;
  ResidencyWish wish = {};
  std::vector<Resident> residents = {};
  std::vector<std::pair<std::string, std::string>> states = {};  ///< outputs that are new values of states
  /// Lowers kernel number `kernel` of a function's body again with `bytes` bytes of scratchpad, before passes `divide`
  /// and `contexts`. Empty if it does not fit.
  std::function<std::optional<Smaller>(Lowering&, const std::string& function, std::size_t kernel, std::int64_t bytes)>
      again = {};
};

/// A pass. `run` must not change the results that the program computes.
struct Pass {
  const char* name;
  const char* what;
  std::vector<const char*> needs;  ///< passes that must run before
  void (*run)(Lowering& lowering);
};

/// Distributes a kernel over the cores and their contexts.
void distribute(Lowering& lowering, program::Scope& kernel, const KernelFacts& facts, TensorIndex& tensors);

/// The passes in order: divide, residency, overlap, ahead, addresses, apart, dying, check.
std::span<const Pass> passes();

/// Runs all passes and returns the program.
program::Program finished(Lowering lowering);

}  // namespace tilesim::lower
