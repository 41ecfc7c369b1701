// The bytes that a gather or scatter moves.
#pragma once

#include <optional>

#include "tilesim/isa/movement/indexed_kernel.hpp"

namespace tilesim::isa {

/// `count` rows, each between a place that an index picks and the next one of the other side.
struct IndexedForm {
  std::int64_t count = 0, limit = 0;  ///< indices; how many there may be
  DType dtype = DType::f32, index_type = DType::i32;
  std::int64_t element = 4;                                      ///< bytes of a piece of the row
  std::vector<MoveDim> row;                                      ///< in bytes, of pieces
  bool nothing = false;                                          ///< rows are empty
  std::int64_t picked_step = 0, other_step = 0, index_step = 0;  ///< bytes
  Address picked = 0, other = 0, index = 0;
  bool scatter = false;
  std::optional<Combiner> combiner;
};

/// Unsupported where rows lie on each other, or what is written on what is read.
IndexedForm indexed_form(const Indexed& indexed, const IndexedAddresses& at);

/// Kernels that check indices begin with the place where they end if one lies outside.
void begin_checked(Code& code);
/// Ends the kernel there unless x[index] < x[limit], unsigned.
void check(Code& code, unsigned index, unsigned limit);

}  // namespace tilesim::isa
