// Executes tile computes by their kernels.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "tilesim/isa/latency/kernel_runner.hpp"
#include "tilesim/isa/latency/latency.hpp"

namespace tilesim::isa {

/// Operands are laid out as kernels take them in a memory of the hart, and results are brought back. A compute without
/// kernel is carried out by its meaning, and counted with the reason. One thread at a time.
class KernelExecutor final : public TileExecutor {
 public:
  explicit KernelExecutor(const Machine& machine);
  void run(const TileCompute& compute) override;

  std::int64_t by_kernel() const { return by_kernel_; }
  /// Reason -> how many.
  const std::map<std::string, std::int64_t>& others() const { return others_; }

 private:
  void product(const Mma& mma);
  void vector(const VectorCompute& compute);
  void permute(const Permute& permute);
  void indexed(const Indexed& indexed);
  void sort(const tilesim::Sort& sort);
  Stop start_code(const Kernel& kernel, Memory& memory) const;
  void run_code(const Kernel& kernel, Memory& memory) const;  ///< InternalError unless it returns

  struct PlacedProduct {
    MmaAddresses at;
    MmaBytes bytes;
    Address code = 0;
  };
  struct PlacedVector {
    RegisterForm form;
    std::string inexact;
    std::size_t core = 0, kernel = 0;  ///< of `narrower_cores`, of its kernels
    Address code = 0;                  ///< 0: not written yet
  };
  using ShapedVector = std::vector<PlacedVector>;
  /// Of a compute; of parts with some of its results each, where no kernel makes all of them.
  struct VectorParts {
    ShapedVector shapes;
    std::vector<std::vector<std::size_t>> outputs;  ///< of the parts; none: there are shapes
  };
  Address placed(const Kernel& kernel);
  std::vector<VectorKernel> kernels_of(const VectorCompute& compute, const VectorAddresses& at, std::size_t core) const;
  VectorParts& parts_of(const VectorCompute& compute);
  /// Results in their registers' order.
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
  std::map<std::vector<std::uint64_t>, VectorParts> vectors_;  ///< by signature and values of scalars
  Address next_ = scratchpad_base;                             ///< free for operands
  std::int64_t by_kernel_ = 0;
  std::map<std::string, std::int64_t> others_;
};

}  // namespace tilesim::isa
