#include "tilesim/graph/graph.hpp"

#include <algorithm>

#include "tilesim/base/error.hpp"

namespace tilesim {

void Attributes::set(const std::string& name, Attribute value) {
  const auto at = std::lower_bound(values_.begin(), values_.end(), name,
                                   [](const auto& entry, const std::string& key) { return entry.first < key; });
  if (at != values_.end() && at->first == name)
    at->second = std::move(value);
  else
    values_.insert(at, {name, std::move(value)});
}

const Attribute* Attributes::find(std::string_view name) const {
  for (const auto& [key, value] : values_)
    if (key == name) return &value;
  return nullptr;
}

namespace {

template <class T>
const T& get(const Attribute* attribute, std::string_view name) {
  const T* value = attribute ? std::get_if<T>(attribute) : nullptr;
  if (!value) throw InternalError("attribute '" + std::string(name) + "' is missing or has another type");
  return *value;
}

}  // namespace

bool Attributes::flag(std::string_view name, bool fallback) const {
  const Attribute* found = find(name);
  return found ? get<bool>(found, name) : fallback;
}
std::int64_t Attributes::integer(std::string_view name) const { return get<std::int64_t>(find(name), name); }
std::int64_t Attributes::integer(std::string_view name, std::int64_t fallback) const {
  return find(name) ? integer(name) : fallback;
}
double Attributes::number(std::string_view name) const {
  const Attribute* found = find(name);
  if (const auto* whole = found ? std::get_if<std::int64_t>(found) : nullptr) return static_cast<double>(*whole);
  return get<double>(found, name);
}
double Attributes::number(std::string_view name, double fallback) const { return find(name) ? number(name) : fallback; }
const std::string& Attributes::text(std::string_view name) const { return get<std::string>(find(name), name); }
std::string Attributes::text(std::string_view name, const std::string& fallback) const {
  return find(name) ? text(name) : fallback;
}
const std::vector<std::int64_t>& Attributes::integers(std::string_view name) const {
  return get<std::vector<std::int64_t>>(find(name), name);
}
std::vector<std::int64_t> Attributes::integers(std::string_view name, const std::vector<std::int64_t>& fallback) const {
  return find(name) ? integers(name) : fallback;
}
DType Attributes::dtype(std::string_view name) const { return get<DType>(find(name), name); }

std::string to_string(const TensorType& type) { return std::string(name(type.dtype)) + to_string(type.shape); }

std::int64_t Graph::parameter_count() const {
  std::int64_t count = 0;
  for (const auto& [key, weight] : weights)
    if (weight.trainable) count += element_count(weight.type.shape);
  return count;
}

}  // namespace tilesim
