// Counts the on-chip bytes of a vector kernel while operations join it.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "tilesim/compile/plan/plan.hpp"

namespace tilesim::lower {

/// The accumulation type of a reduction of elements of this type.
DType sum_dtype(DType dtype);
/// The axes of a space that a value of this shape spans: numpy alignment.
std::vector<bool> spanned_axes(const Shape& own, const Shape& space);
/// Bytes per element of an input's or output's ring of two buffers.
std::int64_t ring_bytes(DType dtype);
/// Bytes of a reduction's state per row: two sums; for argmax and argmin also the index.
std::int64_t sum_bytes(const Op& reduce, DType operand);
bool is_arg_reduce(const Op& op);

/// The operations of one vector kernel, in order, and the bytes of its whole rows. Adding an operation costs time in
/// proportion to its operands, not to the operations already there.
class RowBytes {
 public:
  RowBytes(const Context& context, int first);
  /// Whether the kernel can compute over its whole space, or over its rows, with this operation added.
  bool compatible(int op) const;
  /// Whether rows that fit on chip still do so with the operation added; true if they stream in passes already.
  bool stays_resident(int op);
  void add(int op);
  bool reduces() const { return reductions_ > 0; }
  bool closed() const { return closed_; }  ///< no operation may join
  bool fits();                             ///< whole rows fit on chip

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
  std::vector<std::int64_t> dims_;  ///< dims of the kernel's reductions
  std::set<ValueId> produced_, read_;
  std::int64_t reductions_ = 0;
  bool closed_ = false;  ///< no operation may join
  double output_bytes_ = 0, sums_bytes_ = 0;
  std::vector<std::int64_t> known_dims_;  ///< dims of known_bytes_
  double known_bytes_ = 0;                ///< bytes of all inputs
};

}  // namespace tilesim::lower
