#include "tilesim/compile/plan/row_bytes.hpp"

#include <algorithm>

#include "tilesim/base/shape.hpp"
#include "tilesim/compile/plan/uses.hpp"

namespace tilesim::lower {

namespace {

constexpr double alignment = 2 * 64;  ///< bytes of padding for the two buffers of a ring

}  // namespace

DType sum_dtype(DType dtype) { return is_float(dtype) ? (dtype == DType::f64 ? DType::f64 : DType::f32) : DType::i64; }

std::vector<bool> spanned_axes(const Shape& own, const Shape& space) {
  std::vector<bool> result(space.size(), false);
  for (std::size_t i = 0; i < own.size(); ++i) {
    const std::size_t axis = i + space.size() - own.size();
    result[axis] = own[i] > 1 || space[axis] == 1;
  }
  return result;
}

std::int64_t ring_bytes(DType dtype) { return 2 * std::max(1, bits(dtype) / 8); }

std::int64_t sum_bytes(const Op& reduce, DType operand) {
  const std::int64_t sum = host_bytes(sum_dtype(operand));
  return is_arg_reduce(reduce) ? 4 * (sum + 8) : 2 * sum;  // extreme and index, for the tile and the row
}

bool is_arg_reduce(const Op& op) {
  if (op.kind != Kind::reduce) return false;
  const std::string& combiner = op.attributes.text("combiner");
  return combiner == "argmax" || combiner == "argmin";
}

RowBytes::RowBytes(const Context& context, int first) : context_(context) {
  space_ = space_of(operation(first));
  add(first);
}

Shape RowBytes::space_of(const Op& op) const { return shape(op.kind == Kind::reduce ? op.operands[0] : op.results[0]); }

bool RowBytes::compatible(int i) const {
  // Every reduction recomputes the operations before it; beyond this number a separate kernel is faster.
  constexpr std::int64_t most_reductions = 64;
  const Op& op = operation(i);
  if (closed_ || is_arg_reduce(op)) return false;
  const bool reduce = op.kind == Kind::reduce;
  if (reduce && reductions_ > 0 &&
      (op.attributes.integers("dims") != dims_ || !op.attributes.flag("keep_dims") || reductions_ >= most_reductions))
    return false;
  const Shape own = space_of(op);
  if (own == space_) return true;
  // A reduction over a per-row value would count it once per element of the row.
  if (reductions_ == 0 || reduce || own.size() != space_.size()) return false;
  for (std::size_t d = 0; d < own.size(); ++d) {
    const bool reduced = std::find(dims_.begin(), dims_.end(), static_cast<std::int64_t>(d)) != dims_.end();
    if (own[d] != (reduced ? 1 : space_[d])) return false;
  }
  return true;
}

/// Bytes of a value's ring if all axes have tiles of one element, except the axes in `dims`.
double RowBytes::bytes_of(ValueId value, const std::vector<std::int64_t>& dims) const {
  const TensorType& type = context_.value(value).type;
  const std::vector<bool> spans = spanned_axes(type.shape, space_);
  double elements = 1;
  for (std::int64_t dim : dims)
    if (spans[static_cast<std::size_t>(dim)])
      elements *= static_cast<double>(std::max<std::int64_t>(1, space_[static_cast<std::size_t>(dim)]));
  return elements * static_cast<double>(ring_bytes(type.dtype)) + alignment;
}

double RowBytes::inputs_of(const Op& op, const std::vector<std::int64_t>& dims) const {
  double bytes = 0;
  for (std::size_t i = 0; i < op.operands.size(); ++i) {
    const ValueId value = op.operands[i];
    if (value == no_value || produced_.count(value) || read_.count(value) || context_.scalars.count(value)) continue;
    if (std::find(op.operands.begin(), op.operands.begin() + static_cast<std::ptrdiff_t>(i), value) ==
        op.operands.begin() + static_cast<std::ptrdiff_t>(i))
      bytes += bytes_of(value, dims);
  }
  return bytes;
}

double RowBytes::read_bytes(const std::vector<std::int64_t>& dims) {
  if (dims != known_dims_) {
    known_bytes_ = 0;
    for (ValueId value : read_) known_bytes_ += bytes_of(value, dims);
    known_dims_ = dims;
  }
  return known_bytes_;
}

/// A reduction stores one element per row.
double RowBytes::output_of(const Op& op) const {
  return op.kind == Kind::reduce ? static_cast<double>(ring_bytes(context_.value(op.results[0]).type.dtype)) + alignment
                                 : bytes_of(op.results[0], dims_);
}

double RowBytes::sums_of(const Op& op) const {
  if (op.kind != Kind::reduce) return 0;
  return static_cast<double>(sum_bytes(op, context_.value(op.operands[0]).type.dtype)) + alignment;
}

bool RowBytes::stays_resident(int i) {
  const Op& op = operation(i);
  const auto capacity = static_cast<double>(context_.machine.core.scratchpad.bytes);
  if (!fits()) return true;
  const std::vector<std::int64_t> dims = op.kind == Kind::reduce ? op.attributes.integers("dims") : dims_;
  return read_bytes(dims) + inputs_of(op, dims) + output_of(op) + sums_bytes_ + sums_of(op) <= capacity;
}

bool RowBytes::fits() {
  return read_bytes(dims_) + output_bytes_ + sums_bytes_ <= static_cast<double>(context_.machine.core.scratchpad.bytes);
}

void RowBytes::add(int i) {
  const Op& op = operation(i);
  closed_ |= (!is_recomputable(op.kind) && op.kind != Kind::reduce) || is_arg_reduce(op);
  if (closed_) return;
  if (op.kind == Kind::reduce) {
    closed_ = !op.attributes.flag("keep_dims");
    dims_ = op.attributes.integers("dims");
    ++reductions_;
  }
  known_bytes_ = read_bytes(dims_) + inputs_of(op, dims_);
  output_bytes_ = output_of(op);
  sums_bytes_ += sums_of(op);
  for (ValueId value : op.operands)
    if (value != no_value && !produced_.count(value) && !context_.scalars.count(value)) read_.insert(value);
  for (ValueId value : op.results) produced_.insert(value);
}

}  // namespace tilesim::lower
