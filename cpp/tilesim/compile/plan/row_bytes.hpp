// Counts the on-chip bytes of a vector kernel while operations join it.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "tilesim/compile/plan/plan.hpp"

namespace tilesim::lower {

/// The type in which a reduction of elements of this type accumulates.
DType sum_dtype(DType dtype);
/// Per axis of a space: whether a value of shape `own` has this axis (numpy alignment).
std::vector<bool> spanned_axes(const Shape& own, const Shape& space);
/// Bytes per element of the two buffers of an input or output.
std::int64_t ring_bytes(DType dtype);
/// Bytes of a reduction's state per row: two sums, and for argmax and argmin the index.
std::int64_t sum_bytes(const Op& reduce, DType operand);
bool is_arg_reduce(const Op& op);

/// The operations of one vector kernel in order, and the bytes of its full rows. The cost of adding an operation
/// depends on its operands, not on the number of operations.
class RowBytes {
 public:
  RowBytes(const Context& context, int first);
  /// Whether, with this operation, the kernel can still compute over its full space or over its rows.
  bool compatible(int op) const;
  /// Whether full rows still fit on chip with this operation; true if the rows already stream.
  bool stays_resident(int op);
  void add(int op);
  bool reduces() const { return reductions_ > 0; }
  bool closed() const { return closed_; }  ///< no operation may join
  bool fits();                             ///< whether full rows fit on chip

 private:
  const Op& operation(int i) const { return context_.function.ops[static_cast<std::size_t>(i)]; }
  const Shape& shape(ValueId value) const { return context_.value(value).type.shape; }
  Shape space_of(const Op& op) const;
  double bytes_of(ValueId value, const std::vector<std::int64_t>& dims) const;
  double inputs_of(const Op& op, const std::vector<std::int64_t>& dims) const;
  double read_bytes(const std::vector<std::int64_t>& dims);
  double output_of(const Op& op) const;
  double sums_of(const Op& op) const;

  const Context& context_;
  Shape space_;
  std::vector<std::int64_t> dims_;  ///< reduced dims of the kernel
  std::set<ValueId> produced_, read_;
  std::int64_t reductions_ = 0;
  bool closed_ = false;  ///< no operation may join
  double output_bytes_ = 0, sums_bytes_ = 0;
  std::vector<std::int64_t> known_dims_;  ///< dims for which known_bytes_ is valid
  double known_bytes_ = 0;                ///< bytes of all inputs
};

}  // namespace tilesim::lower
