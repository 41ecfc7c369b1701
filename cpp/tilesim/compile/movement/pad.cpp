// Padding: each axis is divided into pieces, and each combination of pieces is a strided copy.
#include <algorithm>

#include "tilesim/base/error.hpp"
#include "tilesim/base/index.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/compile/movement/movement.hpp"
#include "tilesim/compile/plan/views.hpp"

namespace tilesim::lower {

namespace {

/// Positions to, to + to_step, ... of an axis hold elements from, from + from_step, ... of the operand's axis. The run
/// repeats `repeats` times, `period` positions apart.
struct PadSegment {
  std::int64_t count = 0, from = 0, from_step = 1, to = 0, to_step = 1;
  std::int64_t repeats = 1, period = 0;
};

}  // namespace

std::optional<double> MovementLowering::pad_value() const {
  if (op_.operands.size() > 1 && context_.counters.count(op_.operands[1]))
    unsupported("the padding is the counter of a loop");
  return padding_value(context_, op_);
}

void MovementLowering::pad() {
  const std::string mode = op_.attributes.text("mode", "constant");
  if (mode == "constant") return pad_constant();
  if (mode != "edge" && mode != "reflect") unsupported("mode " + mode + " has no lowering");
  pad_mirrored(mode == "reflect");
}

namespace {

/// Whether the tensor ends with the operand along each padded axis, so that positions outside the operand are outside
/// the tensor. Along other axes the operand may be a part of the tensor.
bool ends_where_padded(const Placement& placement, const Shape& shape, const Op& pad) {
  if (!placement.moved.empty() || placement.fill) return false;
  const std::vector<std::int64_t>&low = pad.attributes.integers("low"), &high = pad.attributes.integers("high");
  std::vector<bool> open(shape.size(), false);
  for (std::size_t dim = 0; dim < shape.size(); ++dim) open[dim] = low[dim] > 0 || high[dim] > 0;
  for (std::size_t axis = 0; axis < placement.axes.size(); ++axis) {
    const AxisAccess& access = placement.axes[axis];
    if (access.terms.size() != 1 || access.terms[0].coefficient != 1 || access.constant != 0) continue;
    const std::size_t dim = at(access.terms[0].dim);
    if (shape[dim] == placement.tensor_shape[axis]) open[dim] = false;
  }
  return std::ranges::none_of(open, [](bool one) { return one; });
}

}  // namespace

/// Reads outside the tensor give the value if it ends with the operand at padded axes and no padding is interior.
/// Otherwise writes the value everywhere first, then the remaining operand elements over it.
void MovementLowering::pad_constant() {
  const ValueId x = op_.operands[0];
  const std::vector<std::int64_t>& low = op_.attributes.integers("low");
  const std::vector<std::int64_t> interior =
      op_.attributes.integers("interior", std::vector<std::int64_t>(low.size(), 0));
  const std::vector<AxisAccess> plain = plain_axes(shape_.size());
  const bool dilated = std::any_of(interior.begin(), interior.end(), [](std::int64_t v) { return v > 0; });
  const std::optional<double> value = pad_value();
  if (!dilated && value && ends_where_padded(placement(x), shape(x), op_)) {
    std::vector<AxisAccess> from;
    for (std::size_t axis = 0; axis < low.size(); ++axis) from.push_back(affine_axis(axis, 1, -low[axis]));
    return copy(shape_, placement(x), from, placement(y_), plain, value);
  }
  Shape main;
  std::swap(main, main_);  // the kernel's mapping applies to the copy of the elements, not to the fill
  if (value)
    fill(*value);
  else
    copy(shape_, placement(op_.operands[1]), {}, placement(y_), plain);
  Shape kept;
  std::vector<AxisAccess> from, to;
  for (std::size_t axis = 0; axis < low.size(); ++axis) {
    const std::int64_t step = interior[axis] + 1;
    const std::int64_t first = std::max<std::int64_t>(0, ceil_div(-low[axis], step));
    const std::int64_t end = std::min(shape(x)[axis], floor_div(shape_[axis] - 1 - low[axis], step) + 1);
    kept.push_back(std::max<std::int64_t>(0, end - first));
    from.push_back(affine_axis(axis, 1, first));
    to.push_back(affine_axis(axis, step, low[axis] + first * step));
  }
  main_ = kept;
  copy(kept, placement(x), from, placement(y_), to);
}

namespace {

/// Runs of elements outside an axis of `extent`. With `reflect`, they come backwards from either end (without the
/// edge), then forwards, and so on, with a period of 2 * (extent - 1) positions.
std::vector<PadSegment> outside_pieces(std::int64_t extent, std::int64_t low, std::int64_t high, bool reflect) {
  std::vector<PadSegment> pieces;
  if (!reflect || extent == 1) {
    if (low > 0) pieces.push_back({low, 0, 0, 0, 1, 1, 0});
    if (high > 0) pieces.push_back({high, extent - 1, 0, low + extent, 1, 1, 0});
    return pieces;
  }
  const std::int64_t half = extent - 1, period = 2 * half;
  // `second`: the run begins in the second half of a period.
  const auto add = [&](bool above, bool second, std::int64_t repeats, std::int64_t done, std::int64_t count) {
    if (count <= 0 || repeats <= 0) return;
    const std::int64_t near = done * period + (second ? half : 0);  // positions between the run and the operand
    if (above) {
      const std::int64_t from = second ? 1 : extent - 2;
      pieces.push_back({count, from, second ? 1 : -1, low + extent + near, 1, repeats, period});
    } else {
      const std::int64_t nearest = low - 1 - near;        // rightmost position of the run nearest the operand
      const std::int64_t last = second ? extent - 2 : 1;  // its element
      const std::int64_t step = second ? 1 : -1;          // change of the element per position
      const std::int64_t first = last - step * (count - 1);
      const std::int64_t to = nearest - (count - 1) - (repeats - 1) * period;
      pieces.push_back({count, first, step, to, 1, repeats, period});
    }
  };
  for (const bool above : {false, true}) {
    const std::int64_t amount = above ? high : low, whole = amount / period, rest = amount % period;
    add(above, false, whole, 0, half);
    add(above, true, whole, 0, half);
    add(above, false, 1, whole, std::min(rest, half));
    add(above, true, 1, whole, rest - half);
  }
  return pieces;
}

}  // namespace

/// Each combination of the axes' pieces is one copy; the copies write each element once.
void MovementLowering::pad_mirrored(bool reflect) {
  const ValueId x = op_.operands[0];
  const std::vector<std::int64_t>&low = op_.attributes.integers("low"), &high = op_.attributes.integers("high");
  std::vector<std::vector<PadSegment>> axes;
  for (std::size_t axis = 0; axis < low.size(); ++axis) {
    const std::int64_t extent = shape(x)[axis];
    axes.push_back({{extent, 0, 1, low[axis], 1, 1, 0}});
    for (const PadSegment& piece : outside_pieces(extent, low[axis], high[axis], reflect)) axes.back().push_back(piece);
  }
  std::vector<std::size_t> choice(axes.size(), 0);
  while (true) {
    Shape space;
    std::vector<AxisAccess> from, to;
    for (std::size_t axis = 0; axis < axes.size(); ++axis) {
      const PadSegment& piece = axes[axis][choice[axis]];
      AxisAccess read, write;
      read.constant = piece.from;
      write.constant = piece.to;
      if (piece.repeats > 1) {
        write.terms.push_back({static_cast<int>(space.size()), piece.period});
        space.push_back(piece.repeats);
      }
      if (piece.from_step != 0) read.terms.push_back({static_cast<int>(space.size()), piece.from_step});
      write.terms.push_back({static_cast<int>(space.size()), piece.to_step});
      space.push_back(piece.count);
      from.push_back(std::move(read));
      to.push_back(std::move(write));
    }
    copy(space, placement(x), from, placement(y_), to);
    std::size_t axis = 0;
    while (axis < axes.size() && ++choice[axis] == axes[axis].size()) choice[axis++] = 0;
    if (axis == axes.size()) return;
  }
}

}  // namespace tilesim::lower
