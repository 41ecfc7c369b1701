// Latencies of tile computes, measured by their kernels on a core of the machine.
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

/// Version of the kernels' generator and of the pipeline of machines: part of a store's key.
inline constexpr int generator_version = 6;

/// Where a product's operands lie when it is timed: apart, each address of one instruction.
inline constexpr MmaAddresses timed_addresses{Address{1} << 24, Address{1} << 26, Address{1} << 28};

/// What an array is given of a product. Unsupported where no kernel does it.
MmaForm form_of(const Machine& machine, const Mma& mma, const Descriptor& descriptor);

/// The unit that most of a kernel's time went to; the front end only where it was hardly ever free.
const char* busiest(const Pipeline& pipeline);

/// What the time of a kernel's busiest unit went to, beside its work; `before`: the states of the units until then, in
/// `cycles` before the end.
const char* reason_of(const Pipeline& pipeline, const std::vector<UnitTimes>& before, std::int64_t cycles);

/// Kernel on an otherwise idle core: `done` is its time alone, `busy` what a second one right behind it adds.
/// Unsupported for a compute without kernel.
class InstructionLatency final : public LatencyModel {
 public:
  explicit InstructionLatency(const Machine& machine);
  using LatencyModel::latency;
  TileLatency latency(const Descriptor& descriptor, const History& history, const ComputeSource& source) override;
  std::string_view name() const override { return "instruction"; }

  const CoreTiming& core() const { return table_->core; }
  const std::shared_ptr<PipelineTable>& table() const { return table_; }
  /// The kernel of the last latency; none of a product or of what declares its cycles.
  const Kernel& taken() const { return taken_; }
  /// Every trip of every loop, for tests.
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
