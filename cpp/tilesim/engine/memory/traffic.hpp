// Memory traffic of transfers: where tensors lie, and the bursts that a transfer moves.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "tilesim/engine/memory/pattern.hpp"
#include "tilesim/machine/machine.hpp"
#include "tilesim/program/flat/cursor.hpp"

namespace tilesim::engine {

/// Tensors laid out from address 0 on, each at a page boundary, padded where their layout says so: one after the other,
/// or (`shared`) with temporaries where the memory plan puts them.
struct MemoryMap {
  struct MappedTensor {
    std::int64_t base = 0, bytes = 0;  ///< whole pages; bytes: 0 for a tensor in the bytes of another
    int element_bits = 32;
    std::vector<std::int64_t> strides;  ///< elements, of the padded layout; dense tensors only
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
  std::int64_t index_bytes = 0;  ///< part of `bytes`: indices of an indirect transfer, always read
  std::int64_t padding = 0;      ///< part of `bytes`: beyond the elements and indices that are asked for
};

/// Values of tensors that name rows.
class NamedRows {
 public:
  virtual ~NamedRows() = default;
  /// Row-major; empty: unknown.
  virtual std::span<const std::int64_t> values(int tensor) const = 0;
};

/// Bytes in whole bursts, and where they start, for a map that begins at `base`, a whole page. Elements outside the
/// tensor cost nothing. `pattern`: where all of them lie, if that is wanted. Rows named by data lie where `rows` say;
/// where those are unknown, one behind the other. Throws UserError for a row outside of its tensor.
Moved moved_bytes(const program::CompiledProgram& program, const MemoryMap& map, std::int64_t base,
                  const program::Cursor& cursor, const program::CompiledTransfer& transfer, std::int64_t burst_bytes,
                  Pattern* pattern = nullptr, const NamedRows* rows = nullptr);

/// Of a tensor in scratchpads, where no bursts are: the elements inside of it.
struct OnChip {
  std::int64_t bytes = 0;
  std::vector<std::pair<std::int64_t, std::int64_t>> held;  ///< of these, by other cores: virtual core, bytes
};
OnChip on_chip_bytes(const program::CompiledProgram& program, const program::Cursor& cursor,
                     const program::CompiledTransfer& transfer, std::int64_t core);

}  // namespace tilesim::engine
