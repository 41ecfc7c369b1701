// The bytes that a gather or scatter moves.
#pragma once

#include <optional>

#include "tilesim/isa/movement/indexed_kernel.hpp"

namespace tilesim::isa {

/// A gather or scatter of `count` rows between indexed positions of one side and consecutive positions of the other.
struct IndexedForm {
  std::int64_t count = 0, limit = 0;  ///< number of indices; number of positions
  DType dtype = DType::f32, index_type = DType::i32;
  std::int64_t element = 4;                                      ///< bytes of a piece of a row
  std::vector<MoveDim> row;                                      ///< dims of pieces, in bytes
  bool nothing = false;                                          ///< rows are empty
  std::int64_t picked_step = 0, other_step = 0, index_step = 0;  ///< strides in bytes
  Address picked = 0, other = 0, index = 0;
  bool scatter = false;
  std::optional<Combiner> combiner;
};

/// Throws Unsupported if rows overlap, or if the output overlaps the input.
IndexedForm indexed_form(const Indexed& indexed, const IndexedAddresses& at);

/// Begins a kernel with checked indices; the exit for an index out of range comes first.
void begin_checked(Code& code);
/// Leaves the kernel unless x[index] < x[limit], unsigned.
void check(Code& code, unsigned index, unsigned limit);

}  // namespace tilesim::isa
