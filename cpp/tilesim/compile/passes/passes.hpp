// What is done to a program once its kernels are lowered: a list, in order.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "tilesim/machine/share.hpp"
#include "tilesim/program/program.hpp"

namespace tilesim::lower {

/// What lowering says of a kernel beside its statements.
struct KernelFacts {
  std::int64_t contexts = 1;  ///< of a core, that share it
  bool divided = true;        ///< each core has its part; else its loops are to be divided
};

/// A program whose kernels are lowered, each for itself, and what passes know beside it. The machine must outlive it.
struct Lowering {
  program::Program program;
  Share whole;    ///< that the program has for itself
  Share machine;  ///< with a context's share of each core's memories
  /// Of the scopes of each function's body, in order; under no name, of the program's own.
  std::map<std::string, std::vector<KernelFacts>> kernels;
};

/// `run` leaves a program that computes the same.
struct Pass {
  const char* name;
  const char* what;
  std::vector<const char*> needs;  ///< passes that have run before
  void (*run)(Lowering& lowering);
};

/// divide, contexts, overlap, addresses, check.
std::span<const Pass> passes();

/// All of them.
program::Program finished(Lowering lowering);

}  // namespace tilesim::lower
