// Kinds that move or view data and compute nothing.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "tilesim/base/error.hpp"
#include "tilesim/base/index.hpp"
#include "tilesim/kernels/kernel.hpp"

namespace tilesim::kernels {
namespace {

using Integers = std::vector<std::int64_t>;

/// First element of the box at `start`.
std::int64_t offset_of(const Shape& strides, const Integers& start) {
  return std::inner_product(strides.begin(), strides.end(), start.begin(), std::int64_t{0});
}

/// Copies the box of `extents` at `from_start` of `from` to `to_start` of `to`.
void copy_box(const Array& from, const Integers& from_start, Array& to, const Integers& to_start,
              const Shape& extents) {
  const Shape from_strides = row_major_strides(from.shape()), to_strides = row_major_strides(to.shape());
  if (std::ranges::count(extents, 0) > 0) return;
  const int bytes = host_bytes(from.dtype());
  strided_copy(extents, from.bytes() + offset_of(from_strides, from_start) * bytes, from_strides,
               to.bytes() + offset_of(to_strides, to_start) * bytes, to_strides, bytes);
}

/// Scalars from operand `first` on, each clamped so that `sizes` fits into `shape`.
Integers clamped_starts(const Call& call, std::size_t first, const Shape& shape, const Shape& sizes) {
  Integers starts(shape.size(), 0);
  const bool strict = call.attributes().text("mode", "clip") == "error";
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    const std::int64_t given = call.operand(first + axis).int_at(0), last = shape[axis] - sizes[axis];
    starts[axis] = std::clamp<std::int64_t>(given, 0, last);
    if (strict && starts[axis] != given)
      call.fail("A start is out of range.", std::to_string(given),
                "0 to " + std::to_string(last) + " on axis " + std::to_string(axis));
  }
  return starts;
}

void fill(Array& array, const Array& scalar) {
  const Shape zeros(array.shape().size(), 0);
  strided_copy(array.shape(), scalar.bytes(), zeros, array.bytes(), row_major_strides(array.shape()),
               host_bytes(array.dtype()));
}

/// The part of one padded axis that comes from the operand: elements [first, first + count), the first one lands at
/// `to`.
struct PaddedAxis { std::int64_t first = 0, count = 0, to = 0; };
PaddedAxis padded_axis(std::int64_t extent, std::int64_t low, std::int64_t interior, std::int64_t result) {
  const std::int64_t step = interior + 1;
  const std::int64_t first = low < 0 ? ceil_div(-low, step) : 0;
  const std::int64_t last = std::min(extent - 1, floor_div(result - 1 - low, step));
  return {first, std::max<std::int64_t>(0, last - first + 1), low + first * step};
}

Array pad_constant(const Array& x, const Array& value, const Integers& low, const Integers& interior,
                   const Shape& shape) {
  Array result(x.dtype(), shape);
  fill(result, value);
  const Shape from = row_major_strides(x.shape());
  Shape to = row_major_strides(shape), extents(shape.size());
  std::int64_t from_offset = 0, to_offset = 0;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    const PaddedAxis part = padded_axis(x.shape()[axis], low[axis], interior[axis], shape[axis]);
    extents[axis] = part.count;
    from_offset += part.first * from[axis];
    to_offset += part.to * to[axis];
    to[axis] *= interior[axis] + 1;
  }
  if (std::ranges::count(extents, 0) > 0) return result;
  const int bytes = host_bytes(x.dtype());
  strided_copy(extents, x.bytes() + from_offset * bytes, from, result.bytes() + to_offset * bytes, to, bytes);
  return result;
}

/// Index of the element at `position` of an axis of `extent`. Outside, edge repeats the last element; reflect mirrors
/// repeatedly, without the edge, as numpy does.
std::int64_t mirrored(std::int64_t position, std::int64_t extent, bool reflect) {
  if (!reflect || extent == 1) return std::clamp<std::int64_t>(position, 0, extent - 1);
  const std::int64_t period = 2 * (extent - 1);
  const std::int64_t wrapped = floor_mod(position, period);
  return wrapped < extent ? wrapped : period - wrapped;
}

Array pad_axis_mirrored(const Array& x, std::int64_t axis, std::int64_t low, std::int64_t high, bool reflect) {
  const AxisView view = axis_view(x.shape(), axis);
  Shape shape = x.shape();
  shape[at(axis)] = view.extent + low + high;
  Array result(x.dtype(), shape);
  const std::int64_t bytes = view.inner * host_bytes(x.dtype());
  for (std::int64_t outer = 0; outer < view.outer; ++outer) {
    for (std::int64_t i = 0; i < shape[at(axis)]; ++i) {
      const std::int64_t source = mirrored(i - low, view.extent, reflect);
      std::memcpy(result.bytes() + (outer * shape[at(axis)] + i) * bytes,
                  x.bytes() + (outer * view.extent + source) * bytes, at(bytes));
    }
  }
  return result;
}

}  // namespace

Results reshape(const Call& call) { return {call.operand(0).reshaped(call.result().shape)}; }

Results transpose(const Call& call) { return {permuted(call.operand(0), call.attributes().integers("permutation"))}; }

Results broadcast(const Call& call) {
  const Array& x = call.operand(0);
  const Shape& shape = call.result().shape;
  const Shape own = row_major_strides(x.shape());
  const Integers& dims = call.attributes().integers("dims");
  Shape strides(shape.size(), 0);
  for (std::size_t axis = 0; axis < dims.size(); ++axis) {
    if (x.shape()[axis] != 1) strides[at(dims[axis])] = own[axis];
  }
  Array result(x.dtype(), shape);
  strided_copy(shape, x.bytes(), strides, result.bytes(), row_major_strides(shape), host_bytes(x.dtype()));
  return {result};
}

Results slice(const Call& call) {
  const Array& x = call.operand(0);
  const Integers& start = call.attributes().integers("start");
  const Integers step = call.attributes().integers("stride", Integers(start.size(), 1));
  Array result(x.dtype(), call.result().shape);
  if (result.size() == 0) return {result};
  Shape strides = row_major_strides(x.shape());
  const std::int64_t offset = offset_of(strides, start);
  for (std::size_t axis = 0; axis < strides.size(); ++axis) strides[axis] *= step[axis];
  const int bytes = host_bytes(x.dtype());
  strided_copy(result.shape(), x.bytes() + offset * bytes, strides, result.bytes(), row_major_strides(result.shape()),
               bytes);
  return {result};
}

Results reverse(const Call& call) {
  const Array& x = call.operand(0);
  Array result(x.dtype(), x.shape());
  if (x.size() == 0) return {result};
  Shape strides = row_major_strides(x.shape());
  std::int64_t offset = 0;
  for (const std::int64_t axis : call.attributes().integers("dims")) {
    offset += strides[at(axis)] * (x.shape()[at(axis)] - 1);
    strides[at(axis)] = -strides[at(axis)];
  }
  const int bytes = host_bytes(x.dtype());
  strided_copy(x.shape(), x.bytes() + offset * bytes, strides, result.bytes(), row_major_strides(x.shape()), bytes);
  return {result};
}

Results pad(const Call& call) {
  const Array& x = call.operand(0);
  const Attributes& attributes = call.attributes();
  const Integers &low = attributes.integers("low"), &high = attributes.integers("high");
  const Integers interior = attributes.integers("interior", Integers(low.size(), 0));
  const std::string mode = attributes.text("mode", "constant");
  if (mode == "constant") {
    const Array value = call.has(1) ? call.operand(1) : Array(x.dtype(), {});
    return {pad_constant(x, value, low, interior, call.result().shape)};
  }
  Array result = x;
  for (std::size_t axis = 0; axis < low.size(); ++axis) {
    if (interior[axis] != 0) call.unsupported("interior padding in mode " + mode);
    if (low[axis] == 0 && high[axis] == 0) continue;
    if (x.shape()[axis] == 0) call.fail("Mode " + mode + " needs elements to repeat on each axis.");
    result = pad_axis_mirrored(result, static_cast<std::int64_t>(axis), low[axis], high[axis], mode == "reflect");
  }
  return {result};
}

Results concat(const Call& call) {
  const std::int64_t dim = call.attributes().integer("dim");
  Array result(call.result().dtype, call.result().shape);
  Integers start(result.shape().size(), 0);
  const Integers origin = start;
  for (const Array& part : call.operands) {
    copy_box(part, origin, result, start, part.shape());
    start[at(dim)] += part.shape()[at(dim)];
  }
  return {result};
}

Results dynamic_slice(const Call& call) {
  const Array& x = call.operand(0);
  const Shape& sizes = call.result().shape;
  Array result(x.dtype(), sizes);
  copy_box(x, clamped_starts(call, 1, x.shape(), sizes), result, Integers(sizes.size(), 0), sizes);
  return {result};
}

Results dynamic_update(const Call& call) {
  const Array &x = call.operand(0), &update = call.operand(1);
  Array result = x.clone();
  const Integers starts = clamped_starts(call, 2, x.shape(), update.shape());
  copy_box(update, Integers(starts.size(), 0), result, starts, update.shape());
  return {result};
}

Results iota(const Call& call) {
  const TensorType& type = call.result();
  const std::int64_t dim = call.attributes().integer("dim", 0);
  const AxisView view = axis_view(type.shape, dim);
  compute_type(call, type.dtype);
  Array ramp(DType::i64, {view.extent});
  std::iota(ramp.as<std::int64_t>(), ramp.as<std::int64_t>() + view.extent, std::int64_t{0});
  const Array typed = ramp.to(type.dtype);
  Array result(type.dtype, type.shape);
  strided_copy({view.outer, view.extent, view.inner}, typed.bytes(), {0, 1, 0}, result.bytes(),
               {view.extent * view.inner, view.inner, 1}, host_bytes(type.dtype));
  return {result};
}

Results convert(const Call& call) {
  const Array& x = call.operand(0);
  const Attributes& attributes = call.attributes();
  const bool truncate = attributes.text("rounding", "nearest_even") == "toward_zero";
  const bool saturate = attributes.text("overflow", "ieee") == "saturate";
  Array result(call.result().dtype, x.shape());
  tilesim::convert(x.bytes(), x.dtype(), result.bytes(), result.dtype(), x.size(),
                   truncate ? Rounding::toward_zero : Rounding::nearest_even,
                   saturate ? Overflow::saturate : Overflow::ieee);
  return {result};
}

Results bitcast(const Call& call) {
  const Array& x = call.operand(0);
  const TensorType& type = call.result();
  Array result(type.dtype, type.shape);
  std::memcpy(result.bytes(), x.bytes(), at(x.nbytes()));
  const int width = value_bits(type.dtype), ones = (1 << (width & 7)) - 1;
  if (width < 8) {  // the host keeps i4 and i2 sign-extended in their byte, other types in the low bits
    const bool extends = dtype_class(type.dtype) == DTypeClass::signed_integer;
    for (std::int64_t i = 0; i < x.size(); ++i) {
      std::uint8_t& byte = result.as<std::uint8_t>()[i];
      const bool negative = extends && (byte >> (width - 1) & 1) != 0;
      byte = static_cast<std::uint8_t>(negative ? byte | ~ones : byte & ones);
    }
  }
  return {result};
}

}  // namespace tilesim::kernels
