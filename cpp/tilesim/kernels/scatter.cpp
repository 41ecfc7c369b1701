// scatter (StableHLO's) and window_scatter. Combiners run in f32, f64 or i64; one rounding to the result's dtype.
#include <algorithm>
#include <cstring>

#include "tilesim/base/index.hpp"
#include "tilesim/kernels/combine.hpp"
#include "tilesim/kernels/kernel.hpp"

namespace tilesim::kernels {
namespace {

using Integers = std::vector<std::int64_t>;

bool contains(const Integers& list, std::int64_t value) { return std::ranges::find(list, value) != list.end(); }

/// For every batch position an index vector and a window: offsets of the window's elements in updates and in x.
struct ScatterPlan {
  Integers map;  ///< axes of x that the index vector addresses
  Shape x_shape, x_strides;
  Shape sizes;                           ///< window per axis of x
  Shape batch, batch_from, batch_index;  ///< extents; strides in updates and in indices
  std::int64_t index_step = 1;
  std::vector<std::pair<std::int64_t, std::int64_t>> window;  ///< offset in updates, offset in x
};

void add_window(ScatterPlan& plan, const Shape& extents, const Shape& from, const Shape& to) {
  const std::int64_t count = element_count(extents);
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t rest = i, source = 0, target = 0;
    for (std::size_t axis = extents.size(); axis-- > 0;) {
      source += rest % extents[axis] * from[axis];
      target += rest % extents[axis] * to[axis];
      rest /= extents[axis];
    }
    plan.window.emplace_back(source, target);
  }
}

ScatterPlan plan_of(const Call& call) {
  const Attributes& attributes = call.attributes();
  const Array &x = call.operand(0), &indices = call.operand(1), &updates = call.operand(2);
  const Integers& window = attributes.integers("update_window_dims");
  const Integers& inserted = attributes.integers("inserted_window_dims");
  const std::int64_t vector_dim = attributes.integer("index_vector_dim");
  const Shape from = row_major_strides(updates.shape()), index = row_major_strides(indices.shape());
  ScatterPlan plan;
  plan.map = attributes.integers("scatter_dims_to_operand_dims");
  plan.x_shape = x.shape();
  plan.x_strides = row_major_strides(x.shape());
  Shape extents, source, target;
  std::size_t next = 0;
  for (std::int64_t axis = 0; axis < static_cast<std::int64_t>(plan.x_shape.size()); ++axis) {
    if (contains(inserted, axis)) {
      plan.sizes.push_back(1);
      continue;
    }
    const std::size_t own = at(window[next++]);
    plan.sizes.push_back(updates.shape()[own]);
    extents.push_back(updates.shape()[own]);
    source.push_back(from[own]);
    target.push_back(plan.x_strides[at(axis)]);
  }
  add_window(plan, extents, source, target);
  for (std::int64_t axis = 0; axis < static_cast<std::int64_t>(from.size()); ++axis) {
    if (contains(window, axis)) continue;
    plan.batch.push_back(updates.shape()[at(axis)]);
    plan.batch_from.push_back(from[at(axis)]);
  }
  for (std::int64_t axis = 0; axis < static_cast<std::int64_t>(index.size()); ++axis) {
    if (axis == vector_dim) {
      plan.index_step = index[at(axis)];
    } else {
      plan.batch_index.push_back(index[at(axis)]);
    }
  }
  return plan;
}

/// Calls place(offset in updates, offset in x) for every window that lies in x, in the order of the indices.
template <class F>
void for_windows(const Call& call, const ScatterPlan& plan, F place) {
  const Array indices = call.operand(1).to(DType::i64);
  const bool strict = call.attributes().text("mode", "drop") == "error";
  const std::int64_t batches = element_count(plan.batch);
  for (std::int64_t batch = 0; batch < batches; ++batch) {
    if (batch % 4096 == 0) call.poll();
    std::int64_t rest = batch, position = 0, from = 0, to = 0;
    for (std::size_t axis = plan.batch.size(); axis-- > 0;) {
      const std::int64_t i = rest % plan.batch[axis];
      rest /= plan.batch[axis];
      position += i * plan.batch_index[axis];
      from += i * plan.batch_from[axis];
    }
    bool inside = true;
    for (std::size_t i = 0; i < plan.map.size(); ++i) {
      const std::size_t axis = at(plan.map[i]);
      const std::int64_t start = indices.as<std::int64_t>()[position + static_cast<std::int64_t>(i) * plan.index_step];
      inside &= start >= 0 && start <= plan.x_shape[axis] - plan.sizes[axis];
      if (!inside && strict)
        call.fail("A scatter index is out of range.", std::to_string(start),
                  "0 to " + std::to_string(plan.x_shape[axis] - plan.sizes[axis]) + " on axis " + std::to_string(axis));
      if (inside) to += start * plan.x_strides[axis];
    }
    if (inside) place(from, to);
  }
}

}  // namespace

Results scatter(const Call& call) {
  const ScatterPlan plan = plan_of(call);
  const Array &x = call.operand(0), &updates = call.operand(2);
  const std::string& combiner = call.attributes().text("combiner");
  if (combiner == "set") {
    Array result = x.clone();
    const auto bytes = static_cast<std::size_t>(host_bytes(x.dtype()));
    for_windows(call, plan, [&](std::int64_t from, std::int64_t to) {
      for (const auto& [source, target] : plan.window)
        std::memcpy(result.bytes() + (to + target) * static_cast<std::int64_t>(bytes),
                    updates.bytes() + (from + source) * static_cast<std::int64_t>(bytes), bytes);
    });
    return {result};
  }
  const Compute compute = compute_type(call, x.dtype());
  const Combiner function = parse_combiner(combiner);
  const bool flips = flips_u64(x.dtype(), function);
  Array wide = x.to(dtype_of(compute)).clone(), given = updates.to(dtype_of(compute)).clone();
  if (flips) {
    flip_u64(wide.as<std::int64_t>(), wide.size());
    flip_u64(given.as<std::int64_t>(), given.size());
  }
  with_type(compute, [&](auto zero) {
    using T = decltype(zero);
    with_combiner<T>(function, [&](auto step) {
      for_windows(call, plan, [&](std::int64_t from, std::int64_t to) {
        for (const auto& [source, target] : plan.window) {
          T& element = wide.as<T>()[to + target];
          element = step(element, given.as<T>()[from + source]);
        }
      });
    });
  });
  if (flips) flip_u64(wide.as<std::int64_t>(), wide.size());
  return {wide.to(x.dtype())};
}

namespace {

/// Offset in x of the first extreme element of the window that starts at `start` (may begin before x); -1: the window
/// has only padding.
template <class T>
std::int64_t extreme(const T* x, const Shape& shape, const Shape& strides, const Integers& window,
                     const Integers& start, bool largest) {
  std::int64_t best = -1;
  const std::int64_t count = element_count(window);
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t rest = i, offset = 0;
    bool inside = true;
    for (std::size_t axis = window.size(); axis-- > 0;) {
      const std::int64_t position = start[axis] + rest % window[axis];
      rest /= window[axis];
      inside &= position >= 0 && position < shape[axis];
      offset += position * strides[axis];
    }
    if (!inside) continue;
    if (best < 0 || (largest ? x[offset] > x[best] : x[offset] < x[best])) best = offset;
  }
  return best;
}

}  // namespace

Results window_scatter(const Call& call) {
  const Attributes& attributes = call.attributes();
  const Array &x = call.operand(0), &source = call.operand(1);
  const Integers& window = attributes.integers("window");
  const Integers strides = attributes.integers("strides", Integers(window.size(), 1));
  const Integers pads = attributes.integers("pads", Integers(2 * window.size(), 0));
  const bool largest = attributes.text("select") == "maximum";
  const Compute compute = compute_type(call, x.dtype());
  const Shape x_strides = row_major_strides(x.shape());
  if (x.dtype() == DType::u64) call.unsupported("u64");
  const Array wide = x.to(dtype_of(compute)), given = source.to(dtype_of(compute));
  return with_type(compute, [&](auto zero) -> Results {
    using T = decltype(zero);
    Array sums(compute == Compute::i64 ? DType::i64 : DType::f64, x.shape());
    Integers start(window.size());
    for (std::int64_t i = 0; i < source.size(); ++i) {
      if (i % 4096 == 0) call.poll();
      std::int64_t rest = i;
      for (std::size_t axis = window.size(); axis-- > 0;) {
        start[axis] = rest % source.shape()[axis] * strides[axis] - pads[2 * axis];
        rest /= source.shape()[axis];
      }
      const std::int64_t best = extreme(wide.as<T>(), x.shape(), x_strides, window, start, largest);
      if (best >= 0) sums.as<Wide<T>>()[best] += static_cast<Wide<T>>(given.as<T>()[i]);
    }
    return {sums.to(x.dtype())};
  });
}

}  // namespace tilesim::kernels
