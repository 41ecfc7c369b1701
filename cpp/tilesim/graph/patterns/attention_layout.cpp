// Axes of attention: batch axes vary in k and v too; the other axes of the scores share keys.
#include "tilesim/graph/patterns/attention.hpp"

#include <algorithm>
#include <functional>
#include <numeric>

namespace tilesim::recognition::attention_layout {

namespace {

bool has(const Integers& list, std::int64_t axis) { return std::ranges::count(list, axis) > 0; }

Integers free_axes(std::int64_t rank, const Integers& batch, const Integers& sum) {
  Integers axes;
  for (std::int64_t axis = 0; axis < rank; ++axis)
    if (!has(batch, axis) && !has(sum, axis)) axes.push_back(axis);
  return axes;
}

Integers from_parts(std::initializer_list<Integers> parts) {
  Integers whole;
  for (const Integers& part : parts) whole.insert(whole.end(), part.begin(), part.end());
  return whole;
}

/// Puts the heads first among the axes that share keys: the last one that follows a batch axis in q.
void heads_first(Integers& shared, Integers& q_shared, const Integers& q_batch) {
  if (shared.size() != 2) return;
  const auto behind = [&](std::size_t i) { return has(q_batch, q_shared[i] - 1); };
  const std::size_t later = q_shared[1] > q_shared[0] ? 1 : 0;
  const std::size_t heads = behind(later) ? later : behind(1 - later) ? 1 - later : 0;
  if (heads == 0) return;
  std::swap(shared[0], shared[1]);
  std::swap(q_shared[0], q_shared[1]);
}

bool in_order(const Integers& permutation) {
  for (std::size_t i = 0; i < permutation.size(); ++i)
    if (permutation[i] != static_cast<std::int64_t>(i)) return false;
  return true;
}

}  // namespace

Product seen_from(const Op& op, bool second) {
  const auto list = [&](const char* name) { return op.attributes.integers(name, {}); };
  if (!second)
    return {op.operands[0],     op.operands[1], list("a_batch"), list("b_batch"), list("a_contract"),
            list("b_contract"), false};
  return {
      op.operands[1], op.operands[0], list("b_batch"), list("a_batch"), list("b_contract"), list("a_contract"), true};
}

std::optional<Layout> layout_of(const Reader& reader, const Product& first, Product second, const Integers& order,
                                std::int64_t dim) {
  for (Integers* axes : {&second.x_batch, &second.x_sum})
    for (std::int64_t& axis : *axes) axis = order[at(axis)];
  dim = order[at(dim)];
  const Integers queries = free_axes(reader.rank(first.x), first.x_batch, first.x_sum);
  const Integers keys = free_axes(reader.rank(first.y), first.y_batch, first.y_sum);
  const Integers widths = free_axes(reader.rank(second.y), second.y_batch, second.y_sum);
  if (keys.size() != 1 || widths.size() != 1 || first.x_sum.size() != 1 || second.x_sum != Integers{dim})
    return std::nullopt;
  const auto count = static_cast<std::int64_t>(first.x_batch.size() + queries.size() + 1);
  const std::int64_t start = static_cast<std::int64_t>(first.x_batch.size()) + (first.swapped ? 1 : 0);
  const std::int64_t key_axis = first.swapped ? start - 1 : start + static_cast<std::int64_t>(queries.size());
  if (dim != key_axis) return std::nullopt;
  Layout layout;
  Integers q_batch, q_shared, k_batch, v_batch, batch, shared;
  for (std::int64_t axis = 0; axis < count; ++axis) {
    if (axis == dim) continue;
    const auto in_second = std::ranges::find(second.x_batch, axis);
    const bool batched = axis < static_cast<std::int64_t>(first.x_batch.size());
    if (batched != (in_second != second.x_batch.end())) return std::nullopt;
    if (batched) {
      batch.push_back(axis);
      q_batch.push_back(first.x_batch[at(axis)]);
      k_batch.push_back(first.y_batch[at(axis)]);
      v_batch.push_back(second.y_batch[at(in_second - second.x_batch.begin())]);
    } else {
      shared.push_back(axis);
      q_shared.push_back(queries[at(axis - start)]);
    }
  }
  heads_first(shared, q_shared, q_batch);
  layout.batches = batch.size();
  layout.shared = shared.size();
  layout.q = from_parts({q_batch, q_shared, first.x_sum});
  layout.k = from_parts({k_batch, keys, first.y_sum});
  layout.v = from_parts({v_batch, second.y_sum, widths});
  layout.mask = from_parts({batch, shared, {dim}});
  // The result has the batch axes in the order of the second product, then the free ones.
  const Integers canonical = from_parts({batch, shared, {-1}});
  Integers result = second.x_batch;
  if (second.swapped) result.push_back(-1);
  for (const std::int64_t axis : order)
    if (has(shared, axis)) result.push_back(axis);
  if (!second.swapped) result.push_back(-1);
  for (const std::int64_t axis : result) layout.out.push_back(std::ranges::find(canonical, axis) - canonical.begin());
  return layout;
}

ValueId turned(Builder& builder, ValueId x, const Integers& permutation) {
  return in_order(permutation) ? x : builder.transpose(x, permutation);
}
ValueId shaped(Builder& builder, ValueId x, const Shape& shape) {
  return builder.type(x).shape == shape ? x : builder.reshape(x, shape);
}
std::int64_t product_of(const Shape& shape, std::size_t begin, std::size_t end) {
  return std::accumulate(shape.begin() + static_cast<std::ptrdiff_t>(begin),
                         shape.begin() + static_cast<std::ptrdiff_t>(end), std::int64_t{1}, std::multiplies<>());
}

Shape four(const Shape& shape, const Layout& layout) {
  const std::size_t b = layout.batches, s = layout.batches + layout.shared;
  const std::size_t outer = b == 0 ? 0 : b - 1, rows = layout.shared == 0 ? s : s - 1;
  return {product_of(shape, 0, outer), product_of(shape, outer, rows), product_of(shape, rows, s), shape.back()};
}

ValueId four_mask(Builder& builder, ValueId mask, const Shape& full, const Layout& layout, const Integers& level) {
  Shape shape = builder.type(mask).shape;
  shape.insert(shape.begin(), layout.mask.size() - shape.size(), 1);
  Integers permutation;
  for (const std::int64_t axis : layout.mask) permutation.push_back(level[at(axis)]);
  mask = turned(builder, shaped(builder, mask, shape), permutation);
  shape = builder.type(mask).shape;
  const std::size_t b = layout.batches, s = b + layout.shared;
  const std::size_t outer = b == 0 ? 0 : b - 1, rows = layout.shared == 0 ? s : s - 1;
  Shape filled = shape;  // axes that merge are repeated together
  const auto merge = [&](std::size_t begin, std::size_t end) {
    const bool varies = std::any_of(shape.begin() + static_cast<std::ptrdiff_t>(begin),
                                    shape.begin() + static_cast<std::ptrdiff_t>(end), [](auto n) { return n != 1; });
    for (std::size_t axis = begin; varies && axis < end; ++axis) filled[axis] = full[axis];
  };
  merge(0, outer);
  merge(outer, rows);
  if (filled != shape) {
    Attributes attributes;
    Integers dims(filled.size());
    std::iota(dims.begin(), dims.end(), 0);
    attributes.set("shape", filled);
    attributes.set("dims", dims);
    mask = builder.op(Kind::broadcast, {mask}, attributes)[0];
  }
  return shaped(builder, mask, four(filled, layout));
}

}  // namespace tilesim::recognition::attention_layout
