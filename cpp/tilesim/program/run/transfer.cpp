#include "tilesim/program/run/transfer.hpp"

#include <cstring>

#include "tilesim/base/error.hpp"

namespace tilesim::program {

void fail_outside_tensor(const ResolvedTransfer& t, std::size_t axis, std::int64_t index) {
  throw UserError({"A transfer leaves its tensor.",
                   {},
                   "index " + std::to_string(index) + " of axis " + std::to_string(axis),
                   "0 to " + std::to_string((*t.shape)[axis] - 1),
                   "give a fill value to allow this"});
}

void fail_outside_slot(const ResolvedTransfer& t, std::int64_t low, std::int64_t high) {
  throw UserError({"A transfer leaves its slot.",
                   {},
                   "elements " + std::to_string(low) + " to " + std::to_string(high),
                   "0 to " + std::to_string(t.slot_elements - 1),
                   {}});
}

namespace {

template <class U>
void copy_elements(const std::byte* from, std::int64_t from_stride, std::byte* to, std::int64_t to_stride,
                   std::int64_t count) {
  const U* source = reinterpret_cast<const U*>(from);
  U* target = reinterpret_cast<U*>(to);
  for (std::int64_t i = 0; i < count; ++i) target[i * to_stride] = source[i * from_stride];
}

void copy_run(const std::byte* from, std::int64_t from_stride, std::byte* to, std::int64_t to_stride,
              std::int64_t count, int size) {
  if (from_stride == 1 && to_stride == 1) {
    std::memcpy(to, from, static_cast<std::size_t>(count * size));
    return;
  }
  switch (size) {
    case 1:
      return copy_elements<std::uint8_t>(from, from_stride, to, to_stride, count);
    case 2:
      return copy_elements<std::uint16_t>(from, from_stride, to, to_stride, count);
    case 4:
      return copy_elements<std::uint32_t>(from, from_stride, to, to_stride, count);
    case 8:
      return copy_elements<std::uint64_t>(from, from_stride, to, to_stride, count);
    default:  // several values
      for (std::int64_t i = 0; i < count; ++i)
        std::memcpy(to + i * to_stride * size, from + i * from_stride * size, static_cast<std::size_t>(size));
  }
}

}  // namespace

void load_block(const ResolvedTransfer& t, std::byte* slot) {
  const int size = host_bytes(t.dtype);
  std::byte fill[32] = {};
  if (is_two_of_four(t.dtype)) {
    if (t.fill != 0) throw UserError({"Only zeros lie outside of a 2:4 tensor.", {}, std::to_string(t.fill), "0", {}});
  } else {
    convert(&t.fill, DType::f64, fill, t.dtype, 1, Rounding::nearest_even,
            is_float(t.dtype) ? Overflow::ieee : Overflow::saturate);
  }
  for_each_run(t, [&](const Run& run) {
    std::byte* to = slot + run.slot_offset * size;
    if (run.inside) {
      copy_run(t.tensor + run.tensor_offset * size, run.tensor_stride, to, run.slot_stride, run.count, size);
    } else {
      copy_run(fill, 0, to, run.slot_stride, run.count, size);
    }
  });
}

void store_block(const ResolvedTransfer& t, const std::byte* slot) {
  const int size = host_bytes(t.dtype);
  for_each_run(t, [&](const Run& run) {
    if (!run.inside) return;
    copy_run(slot + run.slot_offset * size, run.slot_stride, t.tensor + run.tensor_offset * size, run.tensor_stride,
             run.count, size);
  });
}

}  // namespace tilesim::program
