// DMA transfers between off-chip memory and a core: a Transfer of a tile program, with numbers instead of expressions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tilesim/isa/state/memory.hpp"

namespace tilesim::isa {

struct Hart;

inline constexpr unsigned most_transfer_dims = 6;

/// Step d of `extent` has index first + d (in the row table's dim: first + rows[d]). Its element is at `outside_step`
/// bytes times the index from the outside base, and at `inside_step` bytes times d from the inside base. Indices
/// outside 0 … bound − 1 are outside the tensor.
struct TransferDim {
  std::uint64_t extent = 1;
  std::int64_t outside_step = 0, inside_step = 0;
  std::int64_t first = 0, bound = 1;
};

/// Layout in memory, little-endian; the outermost dim is the first.
struct TransferDescriptor {
  static constexpr std::uint32_t has_fill = 1, wide_rows = 2;

  std::uint64_t outside = 0, inside = 0;
  std::uint32_t element_bytes = 1, dims = 0;
  std::uint64_t fill = 0;  ///< bits of the fill element
  std::uint32_t flags = 0;
  std::uint32_t row_dim = 0;
  std::uint64_t rows = 0;  ///< address of 32-bit indices (`wide_rows`: 64-bit); 0: none
  TransferDim dim[most_transfer_dims];
};
static_assert(sizeof(TransferDescriptor) == 288 && offsetof(TransferDescriptor, dim) == 48);

/// A field in C syntax, for generated headers; `count` 0: not an array.
struct DescriptorField { std::string_view type, name, description; };
inline constexpr DescriptorField dim_fields[] = {
    {"uint64_t", "extent", "steps; 0: nothing moves"},
    {"int64_t", "outside_step", "bytes off chip from an index to the next"},
    {"int64_t", "inside_step", "bytes in the core from a step to the next"},
    {"int64_t", "first", "index of step 0"},
    {"int64_t", "bound", "indices are 0 to bound - 1; others lie outside the tensor"},
};
inline constexpr DescriptorField descriptor_fields[] = {
    {"uint64_t", "outside", "address off chip of index 0 in every dim"},
    {"uint64_t", "inside", "address in the core of step 0 in every dim"},
    {"uint32_t", "element_bytes", "1, 2, 4 or 8"},
    {"uint32_t", "dims", "0 to 6, from the outermost on; 0: one element"},
    {"uint64_t", "fill", "bits of an element that a load gets for one outside the tensor"},
    {"uint32_t", "flags", "TS_HAS_FILL, TS_WIDE_ROWS"},
    {"uint32_t", "row_dim", "the dim whose index is first + rows[step], where rows is not 0"},
    {"uint64_t", "rows", "address of int32_t (TS_WIDE_ROWS: int64_t) row indices; 0: none"},
};

/// Throws Trap: load fault, or illegal (`op`) for a number that is not allowed.
TransferDescriptor read_descriptor(Memory& memory, const Op& op, Address at);

/// Bytes of the elements inside the tensor. Throws Trap, load fault.
std::uint64_t bytes_in_tensor(Memory& memory, const Op& op, const TransferDescriptor& transfer);

/// Moves all elements, the last dim fastest; `offset` is added to the outside base. Throws Trap with the invalid
/// address before any change. An index outside its bound is invalid unless there is a fill (a store then skips such
/// elements).
void carry_out(Hart& hart, const Op& op, const TransferDescriptor& transfer, std::int64_t offset, bool store);

}  // namespace tilesim::isa
