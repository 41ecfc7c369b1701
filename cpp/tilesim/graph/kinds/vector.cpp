// elementwise, convert, bitcast, reduce, cumulative.
#include <algorithm>
#include <array>

#include "tilesim/base/shape.hpp"
#include "tilesim/graph/kinds/rules.hpp"

namespace tilesim::rules {
namespace {

using Results = std::span<const TensorType>;

const FunctionInfo& function_of(const Op& op) { return info(parse_function(op.attributes.text("function"))); }

bool has_integer_meaning(Function function) {
  static const std::array<bool, function_count> table = [] {
    std::array<bool, function_count> known{};
    constexpr std::array<std::int64_t, 3> ones{1, 1, 1};
    for (std::size_t i = 0; i < known.size(); ++i) {
      try {
        evaluate(static_cast<Function>(i), ones.data());
        known[i] = true;
      } catch (const UserError&) {
        known[i] = false;
      }
    }
    return known;
  }();
  return table[static_cast<std::size_t>(function)];
}

bool is_bitwise(Function function) {
  constexpr std::array bitwise{Function::bitwise_not, Function::popcount,   Function::bitwise_and, Function::bitwise_or,
                               Function::bitwise_xor, Function::shift_left, Function::shift_right};
  return std::ranges::find(bitwise, function) != bitwise.end();
}

std::vector<TensorType> infer_elementwise(const Op& op, Types operands, const Graph&) {
  const FunctionInfo& function = function_of(op);
  if (static_cast<int>(operands.size()) != function.arity)
    refuse("function '" + std::string(function.name) + "' has the wrong number of operands",
           std::to_string(operands.size()), std::to_string(function.arity));
  const std::size_t first = function.function == Function::select ? 1 : 0;
  if (first == 1) want_dtype(*operands[0], DType::boolean, "the condition");
  const DType dtype = operands[first]->dtype;
  Shape shape = operands[0]->shape;
  for (std::size_t i = 1; i < operands.size(); ++i) {
    if (i > first && operands[i]->dtype != dtype)
      refuse("the operands differ in dtype", to_string(*operands[first]) + " and " + to_string(*operands[i]),
             "equal dtypes", "Convert one of them (kind convert)");
    shape = broadcast_shapes(shape, operands[i]->shape);
  }
  const bool integer = is_integer(dtype) || dtype == DType::boolean;
  if (integer && !has_integer_meaning(function.function))
    refuse("function '" + std::string(function.name) + "' has no meaning on integers", std::string(name(dtype)),
           "a float dtype");
  if (!integer && is_bitwise(function.function))
    refuse("function '" + std::string(function.name) + "' works on bits", std::string(name(dtype)),
           "an integer dtype or bool");
  return {{function.returns_boolean ? DType::boolean : dtype, shape}};
}

Flops elementwise_flops(const Op& op, Types, Results results) {
  Flops flops;
  count_function(flops, parse_function(op.attributes.text("function")), static_cast<double>(count(results[0])));
  return flops;
}

std::vector<TensorType> infer_convert(const Op& op, Types operands, const Graph&) {
  return {{op.attributes.dtype("dtype"), operands[0]->shape}};
}

Flops convert_flops(const Op&, Types operands, Results results) {
  Flops flops;
  if (operands[0]->dtype != results[0].dtype) flops.simple = static_cast<double>(count(results[0]));
  return flops;
}

std::vector<TensorType> infer_bitcast(const Op& op, Types operands, const Graph&) {
  const DType from = operands[0]->dtype, to = op.attributes.dtype("dtype");
  Shape shape = operands[0]->shape;
  const auto [narrow, wide] = std::minmax({value_bits(from), value_bits(to)});
  const bool parts = narrow >= 8 && wide % narrow == 0;
  if (parts && bits(from) > narrow) {
    shape.push_back(wide / narrow);
  } else if (parts && bits(to) > narrow && !shape.empty() && shape.back() == wide / narrow) {
    shape.pop_back();
  } else if (narrow != wide) {
    refuse("bitcast keeps the width of an element, or makes the last axis of its parts",
           std::string(name(from)) + to_string(shape) + " to " + std::string(name(to)),
           "a dtype of " + std::to_string(value_bits(from)) + " bits");
  }
  return {{to, shape}};
}

/// A wider element reads all of its narrower parts.
Domain bitcast_domain(const Op&, Types operands, Results results) {
  Domain domain = over(results[0].shape);
  Access read = identity(std::min(rank(*operands[0]), rank(results[0])));
  if (rank(*operands[0]) > rank(results[0])) read.axes.emplace_back().window = operands[0]->shape.back();
  domain.operands.push_back(std::move(read));
  domain.results.push_back(identity(rank(results[0])));
  return domain;
}

// --- reduce, cumulative ---

bool is_index(const std::string& combiner) { return combiner == "argmax" || combiner == "argmin"; }

void check_combiner(const std::string& combiner, const TensorType& x) {
  const bool logical = combiner == "logical_and" || combiner == "logical_or";
  if (logical) want_dtype(x, DType::boolean, "the operand of a logical reduction");
  if (!logical && x.dtype == DType::boolean && combiner != "maximum" && combiner != "minimum")
    refuse("bool cannot be reduced this way", combiner, "logical_and, logical_or, maximum, minimum",
           "Convert it to an integer first (kind convert)");
}

std::vector<TensorType> infer_reduce(const Op& op, Types operands, const Graph&) {
  const TensorType& x = *operands[0];
  const std::string& combiner = op.attributes.text("combiner");
  check_combiner(combiner, x);
  const Integers dims = axes(op, "dims", rank(x));
  TensorType result{is_index(combiner) ? DType::i64 : x.dtype, {}};
  if (op.attributes.find("dtype")) result.dtype = op.attributes.dtype("dtype");
  if (is_index(combiner) && !is_integer(result.dtype))
    refuse(combiner + " gives indices", std::string(name(result.dtype)), "an integer dtype");
  const bool keep = op.attributes.flag("keep_dims");
  for (std::int64_t axis = 0; axis < rank(x); ++axis) {
    const bool reduced = contains(dims, axis);
    if (reduced && is_index(combiner) && x.shape[at(axis)] == 0) refuse(combiner + " of no elements", to_string(x));
    if (!reduced) result.shape.push_back(x.shape[at(axis)]);
    if (reduced && keep) result.shape.push_back(1);
  }
  return {result};
}

Flops combine_flops(const std::string& combiner, double elements, double results) {
  Flops flops;
  (combiner == "multiply" ? flops.multiply : flops.simple) = elements;
  if (combiner == "mean") flops.multiply += results;
  return flops;
}

Flops reduce_flops(const Op& op, Types operands, Results results) {
  return combine_flops(op.attributes.text("combiner"), static_cast<double>(count(*operands[0])),
                       static_cast<double>(count(results[0])));
}

Domain reduce_domain(const Op& op, Types operands, Results) {
  const Integers dims = axes(op, "dims", rank(*operands[0]));
  const bool keep = op.attributes.flag("keep_dims");
  Domain domain = over(operands[0]->shape);
  domain.operands.push_back(identity(rank(*operands[0])));
  Access result;
  for (std::int64_t axis = 0; axis < rank(*operands[0]); ++axis) {
    domain.reduction[at(axis)] = contains(dims, axis);
    if (!contains(dims, axis)) result.axes.push_back(along(axis));
    if (contains(dims, axis) && keep) result.axes.push_back({});
  }
  domain.results.push_back(std::move(result));
  return domain;
}

std::vector<TensorType> infer_cumulative(const Op& op, Types operands, const Graph&) {
  check_combiner(op.attributes.text("combiner"), *operands[0]);
  axis(op, "dim", rank(*operands[0]));
  return {*operands[0]};
}

Flops cumulative_flops(const Op& op, Types operands, Results) {
  return combine_flops(op.attributes.text("combiner"), static_cast<double>(count(*operands[0])), 0);
}

KindInfo elementwise_kind() {
  KindInfo kind = of_one(Kind::elementwise, "elementwise");
  kind.max_operands = 3;
  kind.operand_names = {"x", "y", "z"};
  kind.attributes = {required("function", AttributeType::text, function_names())};
  kind.infer = infer_elementwise;
  kind.flops = elementwise_flops;
  return kind;
}

}  // namespace

void add_vector(std::vector<KindInfo>& table) {
  using A = AttributeType;
  table.push_back(elementwise_kind());

  KindInfo convert = of_one(Kind::convert, "convert");
  convert.attributes = {required("dtype", A::dtype), optional("rounding", A::text, {"nearest_even", "toward_zero"}),
                        optional("overflow", A::text, {"ieee", "saturate"})};
  convert.infer = infer_convert;
  convert.flops = convert_flops;
  table.push_back(std::move(convert));

  KindInfo bitcast = of_one(Kind::bitcast, "bitcast");
  bitcast.attributes = {required("dtype", A::dtype)};
  bitcast.movement = true;
  bitcast.infer = infer_bitcast;
  bitcast.domain = bitcast_domain;
  table.push_back(std::move(bitcast));

  KindInfo reduce = of_one(Kind::reduce, "reduce");
  reduce.attributes = {
      required("dims", A::integers),
      required("combiner", A::text,
               {"add", "multiply", "maximum", "minimum", "logical_and", "logical_or", "mean", "argmax", "argmin"}),
      optional("keep_dims", A::flag), optional("dtype", A::dtype)};
  reduce.infer = infer_reduce;
  reduce.flops = reduce_flops;
  reduce.domain = reduce_domain;
  table.push_back(std::move(reduce));

  // Each element of the result depends on the preceding elements along `dim`; the domain describes one step.
  KindInfo cumulative = of_one(Kind::cumulative, "cumulative");
  cumulative.attributes = {required("dim", A::integer),
                           required("combiner", A::text, {"add", "multiply", "maximum", "minimum"}),
                           optional("reverse", A::flag), optional("exclusive", A::flag)};
  cumulative.infer = infer_cumulative;
  cumulative.flops = cumulative_flops;
  table.push_back(std::move(cumulative));
}

}  // namespace tilesim::rules
