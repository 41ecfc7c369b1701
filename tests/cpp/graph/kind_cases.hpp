// One operation of every kind and form: what is legal with its result types, and what has to be refused.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tilesim/graph/builder.hpp"

namespace tilesim::kind_cases {

using Integers = std::vector<std::int64_t>;
using NamedAttributes = std::vector<std::pair<std::string, Attribute>>;

inline Attribute text(const char* value) { return std::string(value); }
inline Attribute number(std::int64_t value) { return value; }

struct Case {
  Kind kind;
  std::vector<TensorType> operands;  ///< dtype c64 and no axes: absent
  NamedAttributes attributes;
  std::vector<std::string> results;
};

inline TensorType f32(Shape shape) { return {DType::f32, std::move(shape)}; }
inline TensorType i32(Shape shape) { return {DType::i32, std::move(shape)}; }
inline const TensorType absent{DType::c64, {}};

/// The graph of one operation, kept alive by the caller.
inline std::vector<ValueId> add(Builder& builder, const Case& entry) {
  Attributes attributes;
  for (const auto& [name, value] : entry.attributes) attributes.set(name, value);
  std::vector<ValueId> operands;
  for (const TensorType& type : entry.operands)
    operands.push_back(type == absent ? no_value : builder.input("x" + std::to_string(operands.size()), type));
  const int results = std::max<int>(1, static_cast<int>(entry.results.size()));
  return builder.op(entry.kind, operands, attributes, "op", results);
}

inline NamedAttributes labels(const char* x, const char* w, const char* y, NamedAttributes more = {}) {
  more.insert(more.end(), {{"x_labels", text(x)}, {"w_labels", text(w)}, {"y_labels", text(y)}});
  return more;
}
inline NamedAttributes nchw(NamedAttributes more = {}) { return labels("NCHW", "OIHW", "NCHW", std::move(more)); }

inline const NamedAttributes matrix{{"a_contract", Integers{1}}, {"b_contract", Integers{0}}};

/// For one group of four devices.
inline NamedAttributes four(NamedAttributes more) {
  more.insert(more.end(), {{"groups", Integers{0, 1, 2, 3}}, {"group_size", number(4)}});
  return more;
}

/// Every kind with its results' types.
std::vector<Case> legal();

/// Operations that do not fit; their results are not looked at.
std::vector<Case> illegal();

}  // namespace tilesim::kind_cases
