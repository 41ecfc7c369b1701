// Writes a gather or scatter row by row.
#pragma once

#include <array>
#include <optional>

#include "tilesim/isa/movement/combine_writer.hpp"
#include "tilesim/isa/movement/indexed_form.hpp"

namespace tilesim::isa {

class IndexedRowWriter {
 public:
  /// Throws Unsupported if a row has too many parts, or if no instruction combines them.
  IndexedRowWriter(const InstructionSet& set, const CoreTiming& core, const IndexedForm& form);
  Kernel write();

 private:
  enum : std::uint8_t {
    limit = 8,
    step = 9,
    other = 10,
    indices = 11,
    picked = 31,
    counter = 30,
    in_step = 29,
    out_step = 3
  };
  void block(std::int64_t rows);
  void access(const MovePass& pass, std::int64_t rows);
  void load_old(const MovePass& pass, std::int64_t to, std::int64_t pointer);
  void add(unsigned reg, std::int64_t by);

  Code code_;
  const CoreTiming& core_;
  const IndexedForm& form_;
  Passes row_;  ///< addresses are offsets from the start of the row
  std::optional<CombineWriter> combiner_;
  static constexpr std::int64_t most_beside = 8;
  std::int64_t beside_, turn_ = 0;
  std::array<unsigned, most_beside> read_{18, 19, 20, 21, 22, 23, 24, 25}, place_{12, 13, 14, 15, 16, 17, 5, 28};
};

}  // namespace tilesim::isa
