// Checks kernels against the definitions of their computes, on values that programs seldom contain.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "tilesim/isa/latency/executor.hpp"

namespace tilesim::isa {

/// Executes computes by their kernels. Executes each distinct compute (by signature) once more on values over the full
/// range of its types: magnitudes of every exponent, -0, denormals, infinities, NaN, the smallest and largest integers.
/// The kernel's bits must then equal those of the definition; float sums must be within their bound, and any NaN
/// matches. Skips float products, computes that only move elements, and machines with user-defined instructions.
class WideCheck final : public TileExecutor {
 public:
  explicit WideCheck(const Machine& machine) : machine_(machine), kernels_(machine) {}
  /// Compares another executor instead of the kernels, for tests.
  WideCheck(const Machine& machine, TileExecutor& instead) : machine_(machine), kernels_(machine), instead_(&instead) {}
  void run(const TileCompute& compute) override;

  struct Fault {
    std::string compute;               ///< description of the compute
    std::int64_t element = 0;          ///< first differing element, in the result's row-major order
    std::int64_t elements = 0;         ///< number of elements of the result
    std::string kernel, meaning;       ///< values of kernel and definition
    double difference = 0, bound = 0;  ///< infinite if one of them is NaN
  };
  const std::vector<Fault>& faults() const { return faults_; }
  std::int64_t compared() const { return compared_; }  ///< number of distinct computes compared

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
