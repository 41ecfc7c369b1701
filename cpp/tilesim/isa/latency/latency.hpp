// Latencies of tile computes, measured by running their kernels on a core of the machine.
#pragma once

#include <memory>
#include <string>

#include "tilesim/isa/kernel/mma_kernel.hpp"
#include "tilesim/isa/kernel/vector_kernel.hpp"
#include "tilesim/isa/movement/indexed_kernel.hpp"
#include "tilesim/isa/movement/permute_kernel.hpp"
#include "tilesim/isa/pipeline/pipeline.hpp"
#include "tilesim/tile/tile.hpp"

namespace tilesim::isa {

/// Version of the kernel generator and of the pipeline model: part of the store's key.
inline constexpr int generator_version = 6;

/// Addresses of a product's operands for timing: separate, each loadable by one instruction.
inline constexpr MmaAddresses timed_addresses{Address{1} << 24, Address{1} << 26, Address{1} << 28};

/// The array's form of a product. Throws Unsupported if no kernel can compute it.
MmaForm form_of(const Machine& machine, const Mma& mma, const Descriptor& descriptor);

/// The unit that is busy longest during a kernel; the front end only if it is hardly ever free.
const char* busiest(const Pipeline& pipeline);

/// The reason for a kernel's time, besides the work of its busiest unit; `before`: states of the units at `cycles`
/// before the end.
const char* reason_of(const Pipeline& pipeline, const std::vector<UnitTimes>& before, std::int64_t cycles);

/// Latency of a kernel on an otherwise idle core: `done` is its time, `busy` the time that an immediately following
/// second one adds. Throws Unsupported for a compute without a kernel.
class InstructionLatency final : public LatencyModel {
 public:
  explicit InstructionLatency(const Machine& machine);
  using LatencyModel::latency;
  TileLatency latency(const Descriptor& descriptor, const History& history, const ComputeSource& source) override;
  std::string_view name() const override { return "instruction"; }

  const CoreTiming& core() const { return table_->core; }
  const std::shared_ptr<PipelineTable>& table() const { return table_; }
  /// The kernel of the last latency; empty for a product, or a compute with declared cycles.
  const Kernel& taken() const { return taken_; }
  /// Simulates every trip of every loop, for tests.
  void every_trip() { every_trip_ = true; }

 private:
  TileLatency vector(const VectorCompute& compute, const Descriptor& descriptor) const;
  Kernel best_vector(const VectorCompute& compute) const;
  TileLatency permute(const Permute& compute) const;
  TileLatency indexed(const Indexed& compute) const;
  TileLatency sort(const tilesim::Sort& compute) const;
  TileLatency best(const std::vector<Kernel>& kernels) const;
  TileLatency product(const Mma& mma, const Descriptor& descriptor, const History& history) const;

  Machine machine_;
  std::shared_ptr<PipelineTable> table_;
  bool every_trip_ = false;
  mutable Kernel taken_;
};

}  // namespace tilesim::isa
