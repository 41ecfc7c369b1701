// Executes tile computes by their kernels.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "tilesim/isa/latency/kernel_runner.hpp"
#include "tilesim/isa/latency/latency.hpp"

namespace tilesim::isa {

/// Executes computes by their kernels in a hart's memory: arranges operands as kernels need, and copies results back.
/// Computes without a kernel are executed by their definitions, and counted by reason. Use it in one thread.
class KernelExecutor final : public TileExecutor {
 public:
  explicit KernelExecutor(const Machine& machine);
  void run(const TileCompute& compute) override;

  std::int64_t by_kernel() const { return by_kernel_; }
  /// Number of computes without a kernel, by reason.
  const std::map<std::string, std::int64_t>& others() const { return others_; }

 private:
  void product(const Mma& mma);
  void vector(const VectorCompute& compute);
  void permute(const Permute& permute);
  void indexed(const Indexed& indexed);
  void sort(const tilesim::Sort& sort);
  Stop start_code(const Kernel& kernel, Memory& memory) const;
  void run_code(const Kernel& kernel, Memory& memory) const;  ///< throws InternalError if it does not return

  struct PlacedProduct {
    MmaAddresses at;
    MmaBytes bytes;
    Address code = 0;
  };
  struct PlacedVector {
    RegisterForm form;
    std::string inexact;
    std::size_t core = 0, kernel = 0;  ///< indices of the core in `narrower_cores` and of its kernel
    Address code = 0;                  ///< 0: not written yet
  };
  using ShapedVector = std::vector<PlacedVector>;
  /// Kernels of a compute; or of parts with some of its results, if no kernel computes all.
  struct VectorParts {
    ShapedVector shapes;
    std::vector<std::vector<std::size_t>> outputs;  ///< results of each part; empty: one part with all results
  };
  Address placed(const Kernel& kernel);
  std::vector<VectorKernel> kernels_of(const VectorCompute& compute, const VectorAddresses& at, std::size_t core) const;
  VectorParts& parts_of(const VectorCompute& compute);
  /// Results of one kernel, in register order.
  struct VectorResults {
    VectorCompute compute;
    RegisterForm form;
    std::vector<std::vector<std::byte>> bytes;
  };
  bool collect(const VectorCompute& compute, std::vector<VectorResults>& results);
  VectorAddresses lay_out(const VectorCompute& compute, const RegisterForm& form);
  Address place_bytes(const void* data, std::size_t bytes);
  const PlacedProduct& kernel_of(const MmaForm& form);

  Machine machine_;
  CoreTiming core_;
  std::shared_ptr<const InstructionSet> set_;
  KernelRunner runner_;
  std::map<MmaForm, PlacedProduct> products_;
  std::map<std::vector<std::uint64_t>, VectorParts> vectors_;  ///< by signature and scalar values
  Address next_ = scratchpad_base;                             ///< next free address for operands
  std::int64_t by_kernel_ = 0;
  std::map<std::string, std::int64_t> others_;
};

}  // namespace tilesim::isa
