// sort and top_k: stable, by keys in a total order or by a comparator function.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "tilesim/kernels/kernel.hpp"

namespace tilesim::kernels {
namespace {

/// -1, 0, 1; NaN is larger than every number and equals NaN; -0 equals 0.
template <class T>
int order(T a, T b) {
  const bool a_nan = a != a, b_nan = b != b;
  if (a_nan || b_nan) return a_nan == b_nan ? 0 : a_nan ? 1 : -1;
  return a < b ? -1 : a > b ? 1 : 0;
}

/// A key operand in the type in which keys are compared.
struct Key {
  Array values;
  Compute compute;
  bool is_unsigned;

  int compare(std::int64_t a, std::int64_t b) const {
    if (is_unsigned) return order(values.as<std::uint64_t>()[a], values.as<std::uint64_t>()[b]);
    return with_type(compute, [&](auto zero) {
      using T = decltype(zero);
      return order(values.as<T>()[a], values.as<T>()[b]);
    });
  }
};

Key key_of(const Call& call, const Array& x) {
  const Compute compute = compute_type(call, x.dtype());
  return {x.to(dtype_of(compute)), compute, x.dtype() == DType::u64};
}

/// Element positions of one row along an axis.
std::vector<std::int64_t> row_positions(const AxisView& view, std::int64_t row) {
  std::vector<std::int64_t> positions(static_cast<std::size_t>(view.extent));
  const std::int64_t base = row / view.inner * view.extent * view.inner + row % view.inner;
  for (std::int64_t i = 0; i < view.extent; ++i) positions[static_cast<std::size_t>(i)] = base + i * view.inner;
  return positions;
}

void copy_element(const Array& from, std::int64_t source, Array& to, std::int64_t target) {
  const std::int64_t bytes = host_bytes(from.dtype());
  std::memcpy(to.bytes() + target * bytes, from.bytes() + source * bytes, static_cast<std::size_t>(bytes));
}

Array element(const Array& x, std::int64_t position) {
  Array scalar(x.dtype(), {});
  copy_element(x, position, scalar, 0);
  return scalar;
}

/// Merge sort; a comparator that is not a strict weak order only makes the resulting order arbitrary.
void merge_sort(std::vector<std::int64_t>& items, const std::function<bool(std::int64_t, std::int64_t)>& before) {
  std::vector<std::int64_t> other(items.size());
  for (std::size_t width = 1; width < items.size(); width *= 2) {
    for (std::size_t begin = 0; begin < items.size(); begin += 2 * width) {
      const std::size_t middle = std::min(begin + width, items.size()), end = std::min(begin + 2 * width, items.size());
      std::size_t left = begin, right = middle;
      for (std::size_t out = begin; out < end; ++out) {
        const bool take_right = left == middle || (right < end && before(items[right], items[left]));
        other[out] = take_right ? items[right++] : items[left++];
      }
    }
    items.swap(other);
  }
}

}  // namespace

Results sort(const Call& call) {
  const Attributes& attributes = call.attributes();
  const AxisView view = axis_view(call.operand(0).shape(), attributes.integer("dim"));
  const bool descending = attributes.flag("descending");
  std::vector<Key> keys;
  if (call.op.functions.empty())
    for (std::int64_t i = 0; i < attributes.integer("keys", 1); ++i)
      keys.push_back(key_of(call, call.operand(static_cast<std::size_t>(i))));
  const auto by_keys = [&](std::int64_t a, std::int64_t b) {
    for (const Key& key : keys)
      if (const int found = key.compare(a, b); found != 0) return descending ? found > 0 : found < 0;
    return false;
  };
  const auto by_function = [&](std::int64_t a, std::int64_t b) {
    std::vector<Array> scalars;
    for (const Array& x : call.operands) {
      scalars.push_back(element(x, a));
      scalars.push_back(element(x, b));
    }
    return run_callee(call, 0, scalars)[0].int_at(0) != 0;
  };
  const std::function<bool(std::int64_t, std::int64_t)> before =
      call.op.functions.empty() ? std::function<bool(std::int64_t, std::int64_t)>(by_keys) : by_function;
  Results results;
  for (const Array& x : call.operands) results.emplace_back(x.dtype(), x.shape());
  for (std::int64_t row = 0; row < view.outer * view.inner && view.extent > 0; ++row) {
    call.poll();
    const std::vector<std::int64_t> positions = row_positions(view, row);
    std::vector<std::int64_t> sorted = positions;
    merge_sort(sorted, before);
    for (std::size_t operand = 0; operand < results.size(); ++operand)
      for (std::size_t i = 0; i < sorted.size(); ++i)
        copy_element(call.operand(operand), sorted[i], results[operand], positions[i]);
  }
  return results;
}

Results top_k(const Call& call) {
  const Attributes& attributes = call.attributes();
  const Array& x = call.operand(0);
  const std::int64_t dim = attributes.integer("dim"), k = attributes.integer("k");
  const bool largest = attributes.flag("largest", true);
  const AxisView view = axis_view(x.shape(), dim), kept = axis_view(call.result(0).shape, dim);
  const Key key = key_of(call, x);
  Array values(x.dtype(), call.result(0).shape), indices(DType::i64, call.result(1).shape);
  for (std::int64_t row = 0; row < view.outer * view.inner && k > 0; ++row) {
    if (row % 256 == 0) call.poll();
    const std::vector<std::int64_t> positions = row_positions(view, row), targets = row_positions(kept, row);
    std::vector<std::int64_t> chosen(positions.size());
    std::iota(chosen.begin(), chosen.end(), 0);
    std::partial_sort(chosen.begin(), chosen.begin() + k, chosen.end(), [&](std::int64_t a, std::int64_t b) {
      const int found = key.compare(positions[static_cast<std::size_t>(a)], positions[static_cast<std::size_t>(b)]);
      return found != 0 ? (largest ? found > 0 : found < 0) : a < b;
    });
    for (std::size_t i = 0; i < static_cast<std::size_t>(k); ++i) {
      copy_element(x, positions[static_cast<std::size_t>(chosen[i])], values, targets[i]);
      indices.as<std::int64_t>()[targets[i]] = chosen[i];
    }
  }
  return {values, indices.to(call.result(1).dtype)};
}

}  // namespace tilesim::kernels
