#include "tilesim/graph/kinds/rules.hpp"

#include <algorithm>

#include "tilesim/base/shape.hpp"
#include "tilesim/base/units.hpp"

namespace tilesim::rules {

std::string place_of(const GraphFunction& function, const Op& op) {
  std::string place = "function \"" + function.name + "\", operation \"" + op.name + "\"";
  if (!op.source.empty()) place += " (" + op.source + ")";
  return place;
}

void refuse(const std::string& what, const std::string& got, const std::string& expected,
            const std::string& suggestion) {
  throw UserError({what, {}, got, expected, suggestion});
}

namespace {

void check_axis(const char* name, std::int64_t value, std::int64_t rank) {
  if (value >= 0 && value < rank) return;
  const bool from_end = value < 0 && value >= -rank;
  refuse("attribute '" + std::string(name) + "' names an axis that does not exist", std::to_string(value),
         rank == 0 ? "nothing, the tensor has no axes" : "0 to " + std::to_string(rank - 1),
         from_end ? "Count axes from the front: " + std::to_string(value + rank) : "");
}

Integers check_sized(const char* name, const Integers& values, std::int64_t count, std::int64_t low) {
  if (static_cast<std::int64_t>(values.size()) != count)
    refuse("attribute '" + std::string(name) + "' has the wrong length", to_string(values),
           std::to_string(count) + " integers");
  for (const std::int64_t value : values)
    if (value < low || value > largest_setting)
      refuse("attribute '" + std::string(name) + "' is out of range", to_string(values),
             "integers from " + std::to_string(low) + " to " + std::to_string(largest_setting));
  return values;
}

}  // namespace

std::int64_t axis(const Op& op, const char* name, std::int64_t rank) {
  const std::int64_t value = op.attributes.integer(name);
  check_axis(name, value, rank);
  return value;
}

Integers axes(const Op& op, const char* name, std::int64_t rank) {
  Integers values = op.attributes.integers(name, {});
  for (const std::int64_t value : values) check_axis(name, value, rank);
  Integers sorted = values;
  std::ranges::sort(sorted);
  if (std::ranges::adjacent_find(sorted) != sorted.end())
    refuse("attribute '" + std::string(name) + "' names an axis twice", to_string(values), "distinct axes");
  return values;
}

Integers sized(const Op& op, const char* name, std::int64_t count, std::int64_t fallback, std::int64_t low) {
  return check_sized(name, op.attributes.integers(name, Integers(at(count), fallback)), count, low);
}

Integers required_sized(const Op& op, const char* name, std::int64_t count, std::int64_t low) {
  return check_sized(name, op.attributes.integers(name), count, low);
}

Shape shape_attribute(const Op& op) {
  const Shape& shape = op.attributes.integers("shape");
  element_count(shape);
  return shape;
}

bool contains(const Integers& list, std::int64_t value) { return std::ranges::find(list, value) != list.end(); }

bool present(Types operands, std::size_t index) { return index < operands.size() && operands[index] != nullptr; }

void want_float(const TensorType& type, const char* role) {
  if (!is_float(type.dtype)) refuse(std::string(role) + " must be floating point", to_string(type), "a float dtype");
}

void want_integer(const TensorType& type, const char* role) {
  if (!is_integer(type.dtype)) refuse(std::string(role) + " must be integers", to_string(type), "an integer dtype");
}

void want_rank(const TensorType& type, std::int64_t wanted, const char* role) {
  if (rank(type) != wanted)
    refuse(std::string(role) + " has the wrong number of axes", to_string(type), std::to_string(wanted) + " axes");
}

void want_shape(const TensorType& type, const Shape& shape, const char* role) {
  if (type.shape != shape) refuse(std::string(role) + " has the wrong shape", to_string(type), to_string(shape));
}

void want_dtype(const TensorType& type, DType dtype, const char* role) {
  if (type.dtype != dtype)
    refuse(std::string(role) + " has the wrong dtype", to_string(type), std::string(name(dtype)),
           "Convert it first (kind convert)");
}

void want_broadcastable(const TensorType& type, const Shape& shape, const char* role) {
  bool fits = type.shape.size() <= shape.size();
  for (std::size_t i = 1; fits && i <= type.shape.size(); ++i) {
    const std::int64_t own = type.shape[type.shape.size() - i];
    fits = own == 1 || own == shape[shape.size() - i];
  }
  if (!fits)
    refuse(std::string(role) + " does not broadcast", to_string(type),
           "a shape that broadcasts to " + to_string(shape));
}

std::int64_t count(const TensorType& type) { return element_count(type.shape); }

DType compute_dtype(DType dtype) { return dtype == DType::f64 ? DType::f64 : DType::f32; }

std::int64_t window_extent(std::int64_t extent, std::int64_t window, std::int64_t stride, std::int64_t low,
                           std::int64_t high, std::int64_t dilation, std::int64_t hole) {
  if (window < 1) refuse("the window is empty", std::to_string(window), "at least 1");
  const Int128 holed = extent == 0 ? 0 : static_cast<Int128>(extent - 1) * hole + 1;
  const Int128 padded = holed + low + high, reach = static_cast<Int128>(window - 1) * dilation + 1;
  if (padded > largest_extent || reach > largest_extent)
    refuse("a padded or dilated axis is too long", {}, "at most 2^62 elements");
  if (padded < reach) return 0;
  return static_cast<std::int64_t>((padded - reach) / stride) + 1;
}

AxisAccess along(std::int64_t dim, std::int64_t coefficient) {
  AxisAccess access;
  access.terms.push_back({static_cast<int>(dim), coefficient});
  return access;
}

Access identity(std::int64_t rank) {
  Access access;
  for (std::int64_t axis = 0; axis < rank; ++axis) access.axes.push_back(along(axis));
  return access;
}

Access broadcasted(const Shape& from, const Shape& shape) {
  Access access;
  const std::size_t missing = shape.size() - from.size();
  for (std::size_t axis = 0; axis < from.size(); ++axis) {
    const bool repeats = from[axis] == 1 && shape[axis + missing] != 1;
    access.axes.push_back(repeats ? AxisAccess{} : along(static_cast<std::int64_t>(axis + missing)));
  }
  return access;
}

Access data_dependent() {
  Access access;
  access.affine = false;
  return access;
}

Domain over(const Shape& extents) {
  Domain domain;
  domain.extents = extents;
  for (std::size_t i = 0; i < extents.size(); ++i) domain.names.push_back("d" + std::to_string(i));
  domain.reduction.assign(extents.size(), false);
  return domain;
}

Domain elementwise_domain(const Op&, Types operands, std::span<const TensorType> results) {
  Domain domain = over(results[0].shape);
  for (const TensorType* operand : operands)
    domain.operands.push_back(operand ? broadcasted(operand->shape, results[0].shape) : Access{});
  domain.results.push_back(identity(rank(results[0])));
  return domain;
}

Domain opaque_domain(const Op&, Types operands, std::span<const TensorType> results) {
  Domain domain = results.empty() ? Domain{} : over(results[0].shape);
  domain.operands.assign(operands.size(), data_dependent());
  domain.results.assign(results.size(), data_dependent());
  if (!results.empty()) domain.results[0] = identity(rank(results[0]));
  return domain;
}

void count_function(Flops& flops, Function function, double elements) {
  const FunctionInfo& entry = info(function);
  const double operations = elements * entry.flops;
  switch (entry.flop_class) {
    case FlopClass::move:
      return;
    case FlopClass::simple:
      flops.simple += operations;
      return;
    case FlopClass::multiply:
      flops.multiply += operations;
      return;
    case FlopClass::divide:
      flops.divide += operations;
      return;
    case FlopClass::transcendental:
      flops.transcendental += operations;
      return;
  }
}

Flops no_flops(const Op&, Types, std::span<const TensorType>) { return {}; }

AttributeInfo optional(std::string name, AttributeType type, std::vector<std::string> allowed) {
  return {std::move(name), type, false, std::move(allowed)};
}

AttributeInfo required(std::string name, AttributeType type, std::vector<std::string> allowed) {
  return {std::move(name), type, true, std::move(allowed)};
}

KindInfo of_one(Kind kind, std::string_view name) {
  return {.kind = kind,
          .name = name,
          .min_operands = 1,
          .max_operands = 1,
          .min_results = 1,
          .max_results = 1,
          .operand_names = {"x"},
          .attributes = {},
          .infer = nullptr,
          .flops = no_flops,
          .domain = elementwise_domain};
}

}  // namespace tilesim::rules
