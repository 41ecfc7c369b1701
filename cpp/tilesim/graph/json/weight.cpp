#include <cmath>
#include <cstring>
#include <filesystem>

#include "tilesim/base/interrupt.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/graph/file.hpp"
#include "tilesim/graph/json/form.hpp"

namespace tilesim::json_form {

namespace {

constexpr std::string_view alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

std::string base64(const Array& array) {  // RFC 4648
  const auto* bytes = reinterpret_cast<const unsigned char*>(array.bytes());
  const auto count = static_cast<std::size_t>(array.nbytes());
  std::string text;
  text.reserve((count + 2) / 3 * 4);
  for (std::size_t i = 0; i < count; i += 3) {
    if (i % 0xC000 == 0) worked(0x10000);
    std::uint32_t word = 0;
    for (std::size_t j = 0; j < 3; ++j) word = word << 8 | (i + j < count ? bytes[i + j] : 0U);
    for (std::size_t j = 0; j < 4; ++j) text += i + j > count ? '=' : alphabet[word >> (18 - 6 * j) & 63U];
  }
  return text;
}

Array from_base64(const Json& json, const TensorType& type) {
  const std::string& text = json.as_string();
  const auto count = static_cast<std::size_t>(element_count(type.shape) * host_bytes(type.dtype));
  if (text.size() != (count + 2) / 3 * 4)  // checked before memory is allocated
    json.fail("base64 data of the wrong length", std::to_string((count + 2) / 3 * 4) + " characters");
  Array array(type.dtype, type.shape);
  auto* bytes = reinterpret_cast<unsigned char*>(array.bytes());
  for (std::size_t i = 0; i < text.size(); i += 4) {
    if (i % 0x10000 == 0) worked(0x10000);
    std::uint32_t word = 0;
    for (std::size_t j = 0; j < 4; ++j) {
      const std::size_t digit = text[i + j] == '=' ? 0 : alphabet.find(text[i + j]);
      if (digit == std::string_view::npos) json.fail("not base64");
      word = word << 6 | static_cast<std::uint32_t>(digit);
    }
    for (std::size_t j = 0; j < 3; ++j)
      if (i / 4 * 3 + j < count) bytes[i / 4 * 3 + j] = static_cast<unsigned char>(word >> (16 - 8 * j) & 255U);
  }
  return array;
}

/// Writes infinities and NaN as texts, because JSON has no such numbers.
Json from_double(double value) {
  if (std::isnan(value)) return Json("nan");
  if (std::isinf(value)) return Json(value > 0 ? "inf" : "-inf");
  return Json(value);
}

double read_double(const Json& json) {
  if (!json.is_string()) return json.as_double();
  const std::string& text = json.as_string();
  if (text == "nan") return std::nan("");
  if (text != "inf" && text != "-inf") json.fail("not a number", "a number, \"nan\", \"inf\" or \"-inf\"");
  return text == "inf" ? HUGE_VAL : -HUGE_VAL;
}

bool exact_as_double(DType dtype) { return is_float(dtype); }

/// Whether an array may be written as numbers. Text would lose NaN payloads except the usual one, so such arrays are
/// base64.
bool readable(const Array& array) {
  if (array.size() > inline_elements || dtype_class(array.dtype()) == DTypeClass::complex ||
      array.dtype() == DType::u64)
    return false;
  if (!exact_as_double(array.dtype())) return true;
  for (std::int64_t i = 0; i < array.size(); ++i)
    if (std::isnan(array.at(i))) return false;
  return true;
}

Json from_data(const Array& array) {
  Json list = Json::array();
  for (std::int64_t i = 0; i < array.size(); ++i) {
    if (array.dtype() == DType::boolean)
      list.push(Json(array.int_at(i) != 0));
    else if (exact_as_double(array.dtype()))
      list.push(from_double(array.at(i)));
    else
      list.push(Json(array.int_at(i)));
  }
  return list;
}

Array read_data(const Json& json, const TensorType& type) {
  if (json.is_string()) return from_base64(json, type);
  const std::vector<Json>& items = json.items();
  if (static_cast<std::int64_t>(items.size()) != element_count(type.shape))
    json.fail("wrong number of elements", std::to_string(element_count(type.shape)) + " for " + to_string(type));
  if (exact_as_double(type.dtype) || dtype_class(type.dtype) == DTypeClass::complex) {
    Array wide(DType::f64, type.shape);
    for (std::size_t i = 0; i < items.size(); ++i) wide.as<double>()[i] = read_double(items[i]);
    return wide.to(type.dtype);
  }
  Array wide(DType::i64, type.shape);
  for (std::size_t i = 0; i < items.size(); ++i)
    wide.as<std::int64_t>()[i] = type.dtype == DType::boolean ? items[i].as_bool() : items[i].as_int();
  Array narrow = wide.to(type.dtype);
  for (std::size_t i = 0; i < items.size(); ++i)
    if (narrow.int_at(static_cast<std::int64_t>(i)) != wide.as<std::int64_t>()[i])
      items[i].fail("out of the range of " + std::string(name(type.dtype)));
  return narrow;
}

template <class T>
Json list_of(const std::vector<T>& values) {
  Json list = Json::array();
  for (const T& value : values) list.push(Json(value));
  return list;
}

}  // namespace

Json from_type(const TensorType& type) {
  Json json = Json::object();
  json.set("dtype", Json(std::string(name(type.dtype))));
  json.set("shape", list_of(type.shape));
  return json;
}

namespace {

DType read_dtype(const Json& json) {
  try {
    return parse_dtype(json.as_string());
  } catch (const UserError& error) {
    if (!error.parts().place.empty()) throw;
    json.fail(error.parts().what, error.parts().allowed, error.parts().suggestion);
  }
}

Shape read_shape(const Json& json) {
  Shape shape;
  for (const Json& extent : json.items()) shape.push_back(extent.as_int(0, std::int64_t{1} << 40));
  try {
    element_count(shape);
  } catch (const UserError& error) {
    json.fail(error.parts().what, error.parts().allowed);
  }
  return shape;
}

}  // namespace

TensorType read_type(ObjectReader& reader) {
  TensorType type;
  type.dtype = read_dtype(reader.required("dtype"));
  type.shape = read_shape(reader.required("shape"));
  return type;
}

Json from_weight(const Weight& weight) {
  Json json = from_type(weight.type);
  switch (weight.source) {
    case Weight::Source::random:
      json.set("source", "random");
      json.set("seed", Json(weight.seed));
      json.set("scale", from_double(weight.scale));
      if (weight.offset != 0) json.set("offset", from_double(weight.offset));
      break;
    case Weight::Source::file:
      json.set("source", "file");
      json.set("path", Json(weight.path));
      if (weight.byte_offset != 0) json.set("byte_offset", Json(weight.byte_offset));
      break;
    case Weight::Source::data:
      json.set("source", "data");
      json.set("data", readable(weight.data) ? from_data(weight.data) : Json(base64(weight.data)));
      break;
  }
  if (!weight.trainable) json.set("trainable", Json(false));
  return json;
}

namespace {

/// Path of a weight's file as the graph's file gives it; empty if the weight is in the .tsim file.
std::string read_path(const Json& json, const std::string& directory, bool anywhere) {
  const std::filesystem::path path = json.as_string();
  if (path.empty()) return {};
  if (json.as_string().find('\0') != std::string::npos) json.fail("a path holds a zero byte");
  const std::string whole =
      (path.is_absolute() ? path : std::filesystem::path(directory) / path).lexically_normal().string();
  if (!anywhere && !lies_below(whole, directory))
    json.fail("the file of a weight lies outside its graph's directory", "a path beside or below the graph's file",
              "Pass weights_anywhere=True for a graph that you trust");
  return whole;
}

}  // namespace

Weight read_weight(const Json& json, const std::string& directory, bool anywhere) {
  ObjectReader reader(json);
  Weight weight;
  weight.type = read_type(reader);
  weight.trainable = reader.boolean_or("trainable", true);
  const Json& source = reader.required("source");
  if (source.as_string() == "random") {
    weight.source = Weight::Source::random;
    weight.seed = reader.integer_or("seed", 0, INT64_MIN, INT64_MAX);
    weight.scale = reader.number_or("scale", weight.scale);
    weight.offset = reader.number_or("offset", 0);
  } else if (source.as_string() == "file") {
    weight.source = Weight::Source::file;
    weight.path = read_path(reader.required("path"), directory, anywhere);
    weight.byte_offset = reader.integer_or("byte_offset", 0, 0, INT64_MAX);
  } else if (source.as_string() == "data") {
    weight.source = Weight::Source::data;
    weight.data = read_data(reader.required("data"), weight.type);
  } else {
    const std::vector<std::string> known{"random", "file", "data"};
    source.fail("unknown source of a weight", join(known), nearest(source.as_string(), known));
  }
  reader.finish();
  return weight;
}

namespace {

struct AttributeJson {
  Json operator()(bool value) const { return Json(value); }
  Json operator()(std::int64_t value) const { return Json(value); }
  Json operator()(double value) const { return from_double(value); }
  Json operator()(const std::string& value) const { return Json(value); }
  Json operator()(const std::vector<std::int64_t>& values) const { return list_of(values); }
  Json operator()(const std::vector<std::string>& values) const { return list_of(values); }
  Json operator()(DType value) const { return Json(std::string(name(value))); }
};

}  // namespace

Json from_attribute(const Attribute& value) { return std::visit(AttributeJson{}, value); }

Attribute read_attribute(const Json& json, const AttributeInfo& info) {
  switch (info.type) {
    case AttributeType::flag:
      return json.as_bool();
    case AttributeType::integer:
      return json.as_int();
    case AttributeType::number:
      if (json.is_integer()) return json.as_int();
      return read_double(json);
    case AttributeType::text:
      return json.as_string();
    case AttributeType::integers: {
      std::vector<std::int64_t> values;
      for (const Json& item : json.items()) values.push_back(item.as_int());
      return values;
    }
    case AttributeType::texts: {
      std::vector<std::string> values;
      for (const Json& item : json.items()) values.push_back(item.as_string());
      return values;
    }
    case AttributeType::dtype:
      return read_dtype(json);
  }
  throw InternalError("an attribute has no type");
}

}  // namespace tilesim::json_form
