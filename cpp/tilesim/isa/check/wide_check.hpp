// Checks kernels against the meaning of their computes, on values that programs seldom contain.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "tilesim/isa/latency/executor.hpp"

namespace tilesim::isa {

/// Carries out computes by their kernels, and each distinct one (by signature) once more on values drawn over all of
/// its types' range: magnitudes of every exponent, -0, denormals, infinities, NaN, the least and the largest integers.
/// There the kernel's bits must be those of the compute's meaning; sums of floats within their bound, a NaN is any NaN.
/// Products of floats, what only moves elements, and computes of a machine with instructions of its user's, whose
/// meaning is theirs, are left out.
class WideCheck final : public TileExecutor {
 public:
  explicit WideCheck(const Machine& machine) : machine_(machine), kernels_(machine) {}
  /// Another executor in the place of the kernels is compared, for tests.
  WideCheck(const Machine& machine, TileExecutor& instead) : machine_(machine), kernels_(machine), instead_(&instead) {}
  void run(const TileCompute& compute) override;

  struct Fault {
    std::string compute;               ///< what it is, in words
    std::int64_t element = 0;          ///< the first that differs, in the result's row-major order
    std::int64_t elements = 0;         ///< of the result
    std::string kernel, meaning;       ///< its two values
    double difference = 0, bound = 0;  ///< infinite where one of them is not a number
  };
  const std::vector<Fault>& faults() const { return faults_; }
  std::int64_t compared() const { return compared_; }  ///< distinct computes

 private:
  void compare(const TileCompute& compute);

  Machine machine_;
  KernelExecutor kernels_;
  TileExecutor* instead_ = nullptr;
  std::set<std::uint64_t> checked_;
  std::vector<Fault> faults_;
  std::int64_t compared_ = 0;
};

}  // namespace tilesim::isa
