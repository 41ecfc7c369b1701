// ragged_contract: one matrix product per group of rows.
#include <algorithm>

#include "tilesim/kernels/gemm.hpp"

namespace tilesim::kernels {

Results ragged_contract(const Call& call) {
  const Array &a = call.operand(0), &b = call.operand(1);
  const Array sizes = call.operand(2).to(DType::i64);
  const TensorType& type = call.result();
  const DType sum_type = accumulator(call, a.dtype(), b.dtype(), type.dtype);
  const bool transposed = call.attributes().flag("b_transposed");
  const std::int64_t rows = a.shape()[0], depth = a.shape()[1], width = type.shape[1];
  const Array left = product_operand(call, a, sum_type), right = product_operand(call, b, sum_type);
  Array sum(sum_type, type.shape);
  std::int64_t first = 0;
  for (std::int64_t group = 0; group < sizes.size(); ++group) {
    const std::int64_t size = sizes.as<std::int64_t>()[group];
    if (size < 0 || size > rows - first)
      call.fail("A group has too many rows, or less than none.", std::to_string(size),
                "0 to " + std::to_string(rows - first) + " for group " + std::to_string(group));
    with_accumulator(sum_type, [&](auto zero) {
      using T = decltype(zero);
      gemm(call, {size, width, depth, transposed}, left.as<T>() + first * depth, right.as<T>() + group * depth * width,
           sum.as<T>() + first * width);
    });
    first += size;
  }
  return {sum.to(type.dtype)};
}

}  // namespace tilesim::kernels
