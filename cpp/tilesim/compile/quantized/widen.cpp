// Widens narrow operands of products for arrays that multiply wider types.
#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "tilesim/base/widening.hpp"
#include "tilesim/compile/quantized/quantized.hpp"
#include "tilesim/graph/edit.hpp"

namespace tilesim::lower {

namespace {

/// The type to which both operands of a product are widened; empty: they keep their types.
std::optional<DType> widened_operands(const std::array<DType, 2>& dtypes, const std::map<DType, double>& rates) {
  const auto multiplies = [&](DType dtype) {
    const auto rate = rates.find(dtype);
    return rate != rates.end() && rate->second > 0;
  };
  if (dtypes[0] == dtypes[1] && multiplies(dtypes[0])) return std::nullopt;
  for (const DType wide : {DType::i8, DType::bf16, DType::f16, DType::f32})
    if (multiplies(wide) && std::ranges::all_of(dtypes, [&](DType dtype) {
          return dtype == wide || (is_float(dtype) == is_float(wide) && holds_narrow(wide, dtype));
        }))
      return wide;
  return std::nullopt;
}

}  // namespace

void widen_operands(GraphFunction& function, const Share& machine) {
  if (machine.core.array.count == 0) return;
  edit::Names names(function);
  std::vector<Op> ops;
  for (Op& op : function.ops) {
    const bool product = op.kind == Kind::contract || op.kind == Kind::convolution || op.kind == Kind::ragged_contract;
    std::array<DType, 2> dtypes{};
    for (std::size_t i = 0; product && i < 2; ++i) dtypes[i] = function.value(op.operands[i]).type.dtype;
    const std::optional<DType> wanted = product ? widened_operands(dtypes, machine.core.array.rates) : std::nullopt;
    if (wanted) op.attributes.set("dtype", function.value(op.results[0]).type.dtype);
    for (std::size_t i = 0; wanted && i < 2; ++i) {
      if (dtypes[i] == *wanted) continue;
      Op convert;
      convert.kind = Kind::convert;
      convert.name = names.taken(op.name + (i == 0 ? ".a" : ".b") + ".widened");
      convert.source = op.source;
      convert.attributes.set("dtype", *wanted);
      convert.operands = {op.operands[i]};
      const Shape shape = function.value(op.operands[i]).type.shape;
      function.values.push_back({names.taken(convert.name), TensorType{*wanted, shape}});
      op.operands[i] = static_cast<ValueId>(function.values.size()) - 1;
      convert.results = {op.operands[i]};
      ops.push_back(std::move(convert));
    }
    ops.push_back(std::move(op));
  }
  function.ops = std::move(ops);
}

}  // namespace tilesim::lower
