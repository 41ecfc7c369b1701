// Numbers the kernels of a program in the order in which counters count them as complete.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "tilesim/program/program.hpp"

namespace tilesim::lower {

/// Numbers kernels in text order. With several streams (cores, contexts), each step of a kernel counts. A trip of a
/// graph loop counts all kernels of the functions that it calls.
class KernelNumbers {
 public:
  explicit KernelNumbers(const program::Program& program);

  /// Number of kernels in a statement of a function's body, by which the next kernel's number increases.
  std::int64_t kernels_in(const program::Statement& statement) const;
  std::int64_t kernels_in(const std::string& function) const;
  std::int64_t kernels_in(const program::Block& body) const;
  /// Number of streams: cores times contexts. The contexts of a core share its counters.
  std::int64_t streams() const { return streams_; }
  bool several() const { return streams_ > 1; }

  /// Whether the kernel is a graph loop, which calls a function per trip.
  static bool runs_functions(const program::Block& kernel);
  /// Number of consecutive steps in a kernel, at least 1.
  static std::int64_t steps_in(const program::Scope& kernel);

 private:
  const program::Program& program_;
  std::int64_t streams_;
  mutable std::map<std::string, std::int64_t> functions_;
};

}  // namespace tilesim::lower
