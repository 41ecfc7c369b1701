// Finds operations on types that the machine's units do not support.
#include <algorithm>

#include "tilesim/base/error.hpp"
#include "tilesim/compile/plan/cannot_run.hpp"
#include "tilesim/compile/plan/plan.hpp"
#include "tilesim/compile/prepare/checks.hpp"

namespace tilesim::lower {

namespace {

/// Whether the result depends on the order or numeric value of integers. 64-bit registers hold signed integers, so u64
/// is not supported.
bool orders(Function function) {
  switch (function) {
    case Function::maximum:
    case Function::minimum:
    case Function::less:
    case Function::less_equal:
    case Function::greater:
    case Function::greater_equal:
    case Function::clamp:
    case Function::divide:
    case Function::remainder:
    case Function::floor_divide:
    case Function::power:
    case Function::shift_right:
    case Function::sign:
    case Function::abs:
    case Function::relu:
      return true;
    default:
      return false;
  }
}

bool orders(const Op& op, const GraphFunction& function) {
  switch (op.kind) {
    case Kind::elementwise:
      return orders(parse_function(op.attributes.text("function")));
    case Kind::convert:
      return is_float(function.value(op.results[0]).type.dtype);
    case Kind::reduce:
    case Kind::cumulative:
    case Kind::window_reduce: {
      const std::string& combiner = op.attributes.text("combiner");
      return combiner != "add" && combiner != "multiply";
    }
    default:
      return false;
  }
}

}  // namespace

bool computes(const VectorSpec& vector, DType dtype) {
  return vector.dtypes.empty() || dtype == DType::boolean || vector.dtypes.count(dtype) > 0;
}

void check_vector_dtypes(const Context& context, const std::vector<int>& ops) {
  const VectorSpec& vector = context.machine.core.vector;
  for (int index : ops) {
    const Op& op = context.function.ops[static_cast<std::size_t>(index)];
    const bool computed = op.kind == Kind::elementwise || op.kind == Kind::reduce || op.kind == Kind::cumulative ||
                          op.kind == Kind::window_reduce || op.kind == Kind::convolution || op.kind == Kind::contract ||
                          op.kind == Kind::sort || op.kind == Kind::top_k || op.kind == Kind::window_scatter ||
                          op.kind == Kind::linear_solve;
    for (ValueId operand : op.operands) {
      if (operand == no_value) continue;
      const DType dtype = context.value(operand).type.dtype;
      if (dtype == DType::u64 && orders(op, context.function))
        throw CannotRun(op, Lack::dtype,
                        {"the vector unit of " + context.machine.name + " orders 64-bit integers as signed ones",
                         op.name,
                         "u64",
                         {},
                         "convert to i64 first"});
      if (!computed || computes(vector, dtype)) continue;
      std::vector<std::string> allowed;
      for (const auto& [known, has] : vector.dtypes) allowed.emplace_back(name(known));
      throw CannotRun(op, Lack::dtype,
                      {"the vector unit of " + context.machine.name + " does not compute on this type", op.name,
                       std::string(name(dtype)), join(allowed), "convert the operands first"});
    }
  }
}

}  // namespace tilesim::lower
