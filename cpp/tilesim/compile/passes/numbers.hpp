// Numbers the kernels of a program in the order in which cores and queues count them as complete.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "tilesim/program/program.hpp"

namespace tilesim::lower {

/// Kernels in text order; of several streams (cores, contexts) each step of a kernel counts, and trips of the graph's
/// loops with all kernels of their functions.
class KernelNumbers {
 public:
  explicit KernelNumbers(const program::Program& program);

  /// Kernels of a statement of a function's body: what the next one's number is further.
  std::int64_t kernels_in(const program::Statement& statement) const;
  std::int64_t kernels_in(const std::string& function) const;
  std::int64_t kernels_in(const program::Block& body) const;
  /// Cores with all their contexts: those of a core share its counters.
  std::int64_t streams() const { return streams_; }
  bool several() const { return streams_ > 1; }

  /// A loop of the graph: its body is a function.
  static bool runs_functions(const program::Block& kernel);
  /// Steps that follow each other within a kernel, or one.
  static std::int64_t steps_in(const program::Scope& kernel);

 private:
  const program::Program& program_;
  std::int64_t streams_;
  mutable std::map<std::string, std::int64_t> functions_;
};

}  // namespace tilesim::lower
