// Off-chip memory of a simulation, the network to it, and the tensors in it.
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

/// Properties of a program's tensors for off-chip memory.
struct TensorPlan {
  /// Throws UserError for a placement or a resident tensor that is not in the program.
  TensorPlan(const program::CompiledProgram& program, const Chip& chip);

  MemoryMap map;  ///< addresses start at 0
  std::vector<std::string> names;
  std::vector<std::size_t> owners;         ///< tensors that own their bytes
  std::vector<std::int32_t> placements;    ///< per tensor; empty: one region
  std::vector<bool> resident;              ///< per owner: whether it stays in the cache
  std::vector<std::int32_t> free_tensors;  ///< free numbers, from completed jobs
};

class OffChip {
 public:
  explicit OffChip(const Chip& chip);

  struct JobMemory {
    std::int64_t base = 0;
    std::int32_t first_tensor = 0;
  };  ///< address; number of the first tensor in the cache
  /// Places a job's tensors. Throws UserError if resident tensors exceed the cache.
  JobMemory place(TensorPlan& plan);
  void forget(TensorPlan& plan, const JobMemory& place);
  void drop(std::span<const Completion> completions);  ///< completions that no caller will request
  std::int64_t end() const { return next_base_; }      ///< bytes that tensors occupy

  bool patterned() const { return tensors_ || chip_.memory == MemoryKind::bank; }
  std::int32_t new_pattern(std::int32_t tensor);
  Pattern& pattern(std::int32_t number) { return patterns_[static_cast<std::size_t>(number)]; }
  /// Call it at the end of a transfer. Returns the bytes moved between cache and memory.
  std::int64_t drop_pattern(std::int32_t number, bool read, std::int64_t bytes);

  MemorySystem& port() { return *memory_; }
  const MemorySystem& port() const { return *memory_; }
  RoutedMemory* routed() { return routed_; }  ///< memory behind a network with routers; null for the simple network
  const RoutedMemory* routed() const { return routed_; }
  Ports& ports();                                                   ///< ports of the simple network, for sends
  const cache::Tensors* tensors() const { return tensors_.get(); }  ///< null: without a cache
  std::vector<const cache::Level*> caches() const;
  std::int64_t longest_port() const;  ///< core cycles in which the busiest port moved bytes

 private:
  std::int32_t add_tensors(const TensorPlan& plan);

  const Chip& chip_;
  std::unique_ptr<cache::Tensors> tensors_;
  std::unique_ptr<MemorySystem> memory_;
  RoutedMemory* routed_ = nullptr;
  Ports send_ports_;              ///< if memory has no ports
  std::deque<Pattern> patterns_;  ///< of queued transfers; addresses stay valid
  std::vector<std::int32_t> free_patterns_;
  std::int64_t next_base_ = 0;
};

}  // namespace tilesim::engine
