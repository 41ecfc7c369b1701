#include "tilesim/report/result_check.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>

#include "tilesim/base/error.hpp"

namespace tilesim {

namespace {

bool is_type(const Json& value, const std::string& type) {
  switch (value.kind()) {
    case Json::Kind::null:
      return type == "null";
    case Json::Kind::boolean:
      return type == "boolean";
    case Json::Kind::integer:
      return type == "integer" || type == "number";
    case Json::Kind::number:
      return type == "number";
    case Json::Kind::string:
      return type == "string";
    case Json::Kind::array:
      return type == "array";
    case Json::Kind::object:
      return type == "object";
  }
  return false;
}

/// A type by name, or several of them.
bool is_one_of(const Json& value, const Json& types) {
  if (types.kind() != Json::Kind::array) return is_type(value, types.as_string());
  return std::ranges::any_of(types.items(), [&](const Json& type) { return is_type(value, type.as_string()); });
}

void check_number(const Json& value, const Json& schema) {
  if (!value.is_number()) return;
  const double number = value.as_double();
  if (const Json* low = schema.find("minimum"); low != nullptr && number < low->as_double())
    value.fail("out of range", "at least " + low->dump());
  if (const Json* low = schema.find("exclusiveMinimum"); low != nullptr && number <= low->as_double())
    value.fail("out of range", "more than " + low->dump());
  if (const Json* high = schema.find("maximum"); high != nullptr && number > high->as_double())
    value.fail("out of range", "at most " + high->dump());
}

void check_object(const Json& value, const Json& schema) {
  if (!value.is_object()) return;
  if (const Json* required = schema.find("required"))
    for (const Json& key : required->items()) value.at(key.as_string());
  const Json* properties = schema.find("properties");
  const Json* more = schema.find("additionalProperties");
  for (const auto& [key, member] : value.members()) {
    const Json* own = properties != nullptr ? properties->find(key) : nullptr;
    if (own != nullptr) {
      check_schema(member, *own);
    } else if (more != nullptr && more->is_object()) {
      check_schema(member, *more);
    } else if (more != nullptr && !more->as_bool()) {
      std::vector<std::string> known;
      if (properties != nullptr)
        for (const auto& [name, schema_of] : properties->members()) known.push_back(name);
      throw UserError({"unknown key", value.place(), "'" + key + "'", join(known), nearest(key, known)});
    }
  }
}

void check_array(const Json& value, const Json& schema) {
  if (!value.is_array()) return;
  const auto size = static_cast<std::int64_t>(value.size());
  if (const Json* least = schema.find("minItems"); least != nullptr && size < least->as_int())
    value.fail("too few items", "at least " + least->dump());
  if (const Json* most = schema.find("maxItems"); most != nullptr && size > most->as_int())
    value.fail("too many items", "at most " + most->dump());
  if (const Json* first = schema.find("prefixItems"))
    for (std::size_t i = 0; i < std::min(value.size(), first->size()); ++i)
      check_schema(value.items()[i], first->items()[i]);
  if (const Json* item = schema.find("items"))
    for (const Json& one : value.items()) check_schema(one, *item);
}

/// Sum of 64-bit integers in floating point, because it may exceed 64 bits.
double sum_of(const Json& object) {
  double sum = 0;
  for (const auto& [key, value] : object.members()) sum += value.as_double();
  return sum;
}

bool near(double a, double b, double slack) {
  return std::abs(a - b) <= slack + 1e-9 * std::max(std::abs(a), std::abs(b));
}

void check_sums(const Json& result) {
  const Json& cycles = result.at("cycles");
  const double total = cycles.as_double();
  const double seconds = total / result.at("hertz").as_double();
  if (!near(result.at("seconds").as_double(), seconds, 1e-15))
    result.at("seconds").fail("seconds are not cycles / hertz", Json(seconds).dump());
  for (const Json& unit : result.at("units").items())
    if (const Json& states = unit.at("cycles"); !near(sum_of(states), total, static_cast<double>(states.size())))
      states.fail("the states of a unit do not add up to the cycles of the run", cycles.dump());
  double exclusive = 0;
  const Json& operations = result.at("operations");
  for (const Json& operation : operations.items()) {
    exclusive += operation.at("exclusive").as_double();
    if (operation.at("finish").as_int() < operation.at("start").as_int())
      operation.at("finish").fail("an operation ends before it starts", "at least " + operation.at("start").dump());
  }
  // Shares of several jobs overlap in time: each counts from its job's arrival.
  const bool alone = result.find("jobs") == nullptr && operations.size() > 0;
  if (alone && !near(exclusive, total, static_cast<double>(operations.size())))
    operations.items()[0].at("exclusive").fail("the shares of the kernels do not add up to the cycles", cycles.dump());
}

void check_intervals(const Json& result) {
  const auto units = static_cast<std::int64_t>(result.at("units").size());
  const auto labels = static_cast<std::int64_t>(result.at("labels").size());
  const std::int64_t cycles = result.at("cycles").as_int();
  for (const Json& interval : result.at("intervals").items()) {
    const auto& numbers = interval.items();
    if (numbers[0].as_int() >= units) numbers[0].fail("unknown unit", "below " + std::to_string(units));
    if (numbers[1].as_int() >= labels) numbers[1].fail("unknown label", "below " + std::to_string(labels));
    if (numbers[2].as_int() > numbers[3].as_int() || numbers[3].as_int() > cycles)
      interval.fail("an interval does not lie within the run", "0 <= start <= finish <= " + std::to_string(cycles));
  }
}

void check_network(const Json& network) {
  const std::int64_t routers = network.at("routers").as_int();
  const auto check = [&](const Json& router) {
    if (router.as_int() >= routers) router.fail("unknown router", "below " + std::to_string(routers));
  };
  for (const Json& link : network.at("links").items()) {
    check(link.items()[0]);
    check(link.items()[1]);
  }
  for (const Json& endpoint : network.at("endpoints").items()) check(endpoint.at("router"));
}

void check_cores(const Json& result) {
  const Json* sorts = result.at("configuration").find("cores");
  if (sorts == nullptr) return;
  std::int64_t count = 0;
  for (const Json& sort : sorts->items()) count += sort.at("count").as_int();
  for (const Json& unit : result.at("units").items())
    if (unit.at("core").as_int() >= count)
      unit.at("core").fail("the machine has no such core", "below " + std::to_string(count));
}

}  // namespace

void check_schema(const Json& value, const Json& schema) {
  static constexpr std::array<std::string_view, 17> known{
      "$schema",    "title",      "description", "type",
      "const",      "enum",       "minimum",     "exclusiveMinimum",
      "maximum",    "properties", "required",    "additionalProperties",
      "items",      "minItems",   "maxItems",    "$id",
      "prefixItems"};
  for (const auto& [key, unused] : schema.members())
    require(std::ranges::find(known, key) != known.end(), "the schema has an unknown keyword");
  if (const Json* type = schema.find("type"); type != nullptr && !is_one_of(value, *type))
    value.fail("a value of another type", type->kind() == Json::Kind::array ? type->dump() : type->as_string());
  if (const Json* one = schema.find("const"); one != nullptr && !(value == *one))
    value.fail("another value", one->dump());
  if (const Json* some = schema.find("enum")) {
    const bool found = std::ranges::any_of(some->items(), [&](const Json& one) { return one == value; });
    if (!found) value.fail("another value", some->dump());
  }
  check_number(value, schema);
  check_object(value, schema);
  check_array(value, schema);
}

void check_result(const Json& result, const Json& schema) {
  check_schema(result, schema);
  check_sums(result);
  check_intervals(result);
  if (const Json* network = result.find("network")) check_network(*network);
  check_cores(result);
}

}  // namespace tilesim
