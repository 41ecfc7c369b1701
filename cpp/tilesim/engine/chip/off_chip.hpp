// Off-chip memory of a simulation, the network between cores and memory, and the tensors in memory.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tilesim/engine/cache/level.hpp"
#include "tilesim/engine/chip/chip.hpp"
#include "tilesim/engine/memory/memory.hpp"
#include "tilesim/engine/memory/routed.hpp"
#include "tilesim/engine/memory/traffic.hpp"

namespace tilesim::engine {

/// Where a program's tensors are placed in off-chip memory, and which of them stay in the cache.
struct TensorPlan {
  /// Throws UserError if an option names a placement or a tensor that does not exist.
  TensorPlan(const program::CompiledProgram& program, const Chip& chip);

  MemoryMap map;  ///< addresses of tensors, relative to the start of the job
  std::vector<std::string> names;
  std::vector<std::size_t> owners;         ///< tensors that do not share the bytes of another tensor
  std::vector<std::int32_t> placements;    ///< per tensor; empty: memory has one region
  std::vector<bool> resident;              ///< per owner: whether the tensor stays in the cache
  std::vector<std::int32_t> free_tensors;  ///< ranges of tensor numbers that ended jobs no longer use
};

class OffChip {
 public:
  explicit OffChip(const Chip& chip);

  struct JobMemory {
    std::int64_t base = 0;          ///< address of the job's first byte
    std::int32_t first_tensor = 0;  ///< number of the job's first tensor in the cache statistics
  };
  /// Assigns addresses to a job's tensors. Throws UserError if the resident tensors exceed the cache.
  JobMemory place(TensorPlan& plan);
  void forget(TensorPlan& plan, const JobMemory& place);
  void drop(std::span<const Completion> completions);  ///< discards completions that nobody will request
  std::int64_t end() const { return next_base_; }      ///< first address after all tensors

  bool patterned() const { return tensors_ || chip_.memory == MemoryKind::bank; }
  std::int32_t new_pattern(std::int32_t tensor);
  Pattern& pattern(std::int32_t number) { return patterns_[static_cast<std::size_t>(number)]; }
  /// Call it at the end of a transfer. Returns the bytes that the transfer moved between cache and memory.
  std::int64_t drop_pattern(std::int32_t number, bool read, std::int64_t bytes);

  MemorySystem& port() { return *memory_; }
  const MemorySystem& port() const { return *memory_; }
  RoutedMemory* routed() { return routed_; }  ///< memory behind routers; null for the simple network
  const RoutedMemory* routed() const { return routed_; }
  Ports& ports();                                                   ///< ports of the simple network that sends also use
  const cache::Tensors* tensors() const { return tensors_.get(); }  ///< null: no cache
  std::vector<const cache::Level*> caches() const;
  std::int64_t longest_port() const;  ///< busy cycles of the busiest port, in core cycles

 private:
  std::int32_t add_tensors(const TensorPlan& plan);

  const Chip& chip_;
  std::unique_ptr<cache::Tensors> tensors_;
  std::unique_ptr<MemorySystem> memory_;
  RoutedMemory* routed_ = nullptr;
  Ports send_ports_;              ///< ports for sends if the memory model has none
  std::deque<Pattern> patterns_;  ///< access patterns of queued transfers; their addresses stay valid
  std::vector<std::int32_t> free_patterns_;
  std::int64_t next_base_ = 0;
};

}  // namespace tilesim::engine
