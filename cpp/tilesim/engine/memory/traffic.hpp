// Memory traffic of transfers: addresses of tensors, and bursts that a transfer moves.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "tilesim/engine/memory/pattern.hpp"
#include "tilesim/machine/machine.hpp"
#include "tilesim/program/flat/cursor.hpp"

namespace tilesim::engine {

/// Addresses of tensors from 0 on, page-aligned, with the padding of their layouts: consecutive, or (`shared`) with
/// temporaries at the addresses of the memory plan.
struct MemoryMap {
  struct MappedTensor {
    std::int64_t base = 0, bytes = 0;  ///< in full pages; bytes: 0 for an alias
    int element_bits = 32;
    std::vector<std::int64_t> strides;  ///< in elements of the padded layout; dense tensors only
    std::vector<int> order;             ///< axes, minor first
    Shape tile;                         ///< empty: dense
    Shape padded;                       ///< extents with padding
  };
  std::vector<MappedTensor> entries;  ///< per tensor of the program
  explicit MemoryMap(const program::CompiledProgram& program, bool shared = false);
  std::int64_t end = 0;
};

struct Moved {
  std::int64_t address = 0, bytes = 0, elements = 0;
  std::int64_t index_bytes = 0;  ///< part of `bytes`: indices of an indirect transfer, which are always read
  std::int64_t padding = 0;      ///< part of `bytes` beyond requested elements and indices
};

/// Provides values of row index tensors.
class NamedRows {
 public:
  virtual ~NamedRows() = default;
  /// Values in row-major order; empty: unknown.
  virtual std::span<const std::int64_t> values(int tensor) const = 0;
};

/// Start and bytes of a transfer in full bursts, with a map at page address `base`. Elements outside the tensor cost
/// nothing. `pattern` receives all addresses unless null. Indirect rows use the indices in `rows`; unknown rows count
/// as consecutive. Throws UserError for a row outside its tensor.
Moved moved_bytes(const program::CompiledProgram& program, const MemoryMap& map, std::int64_t base,
                  const program::Cursor& cursor, const program::CompiledTransfer& transfer, std::int64_t burst_bytes,
                  Pattern* pattern = nullptr, const NamedRows* rows = nullptr);

/// Bytes of a transfer of a tensor in scratchpads, without bursts: its elements within the tensor.
struct OnChip {
  std::int64_t bytes = 0;
  std::vector<std::pair<std::int64_t, std::int64_t>> held;  ///< parts from other cores: virtual core, bytes
};
OnChip on_chip_bytes(const program::CompiledProgram& program, const program::Cursor& cursor,
                     const program::CompiledTransfer& transfer, std::int64_t core);

}  // namespace tilesim::engine
