// contract: operands permuted to [batch, m, k] and [batch, k, n], then one matrix product per batch.
#include <algorithm>
#include <numeric>

#include "tilesim/kernels/gemm.hpp"

namespace tilesim::kernels {
namespace {

using Axes = std::vector<std::int64_t>;

Axes free_axes(std::size_t rank, const Axes& batch, const Axes& contracted) {
  Axes result;
  for (std::int64_t axis = 0; axis < static_cast<std::int64_t>(rank); ++axis) {
    const bool used = std::ranges::count(batch, axis) + std::ranges::count(contracted, axis) > 0;
    if (!used) result.push_back(axis);
  }
  return result;
}

Axes chain(const Axes& a, const Axes& b, const Axes& c) {
  Axes all = a;
  all.insert(all.end(), b.begin(), b.end());
  all.insert(all.end(), c.begin(), c.end());
  return all;
}

std::int64_t extent(const Shape& shape, const Axes& axes) {
  std::int64_t product = 1;
  for (const std::int64_t axis : axes) product *= shape[static_cast<std::size_t>(axis)];
  return product;
}

}  // namespace

Results contract(const Call& call) {
  const Array &a = call.operand(0), &b = call.operand(1);
  const Attributes& attributes = call.attributes();
  const Axes a_batch = attributes.integers("a_batch", {}), b_batch = attributes.integers("b_batch", {});
  const Axes a_contract = attributes.integers("a_contract", {}), b_contract = attributes.integers("b_contract", {});
  const Axes a_free = free_axes(a.shape().size(), a_batch, a_contract);
  const Axes b_free = free_axes(b.shape().size(), b_batch, b_contract);
  const TensorType& type = call.result();
  const DType sum_type = accumulator(call, a.dtype(), b.dtype(), type.dtype);

  GemmShape shape{extent(a.shape(), a_free), extent(b.shape(), b_free), extent(a.shape(), a_contract), false};
  const Axes transposed = chain(b_batch, b_free, b_contract);
  shape.b_transposed = std::ranges::is_sorted(transposed);
  const Axes b_order = shape.b_transposed ? transposed : chain(b_batch, b_contract, b_free);
  const Array left = permuted(product_operand(call, a, sum_type), chain(a_batch, a_free, a_contract));
  const Array right = permuted(product_operand(call, b, sum_type), b_order);
  Array sum(sum_type, type.shape);
  with_accumulator(sum_type, [&](auto zero) {
    using T = decltype(zero);
    for (std::int64_t batch = 0; batch < extent(a.shape(), a_batch); ++batch) {
      gemm(call, shape, left.as<T>() + batch * shape.m * shape.k, right.as<T>() + batch * shape.k * shape.n,
           sum.as<T>() + batch * shape.m * shape.n);
    }
  });
  return {add_bias(call, std::move(sum), call.has(2) ? &call.operand(2) : nullptr, type)};
}

}  // namespace tilesim::kernels
