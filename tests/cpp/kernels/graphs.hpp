// Small graphs for the kernel tests.
#pragma once

#include <initializer_list>
#include <utility>
#include <vector>

#include "tilesim/graph/builder.hpp"
#include "tilesim/kernels/kernels.hpp"

namespace tilesim::test {

inline Array floats(const Shape& shape, const std::vector<double>& values, DType dtype = DType::f32) {
  Array array(DType::f64, shape);
  for (std::size_t i = 0; i < values.size(); ++i) array.as<double>()[i] = values[i];
  return array.to(dtype);
}

/// -4 .. 4 in a fixed pattern: sums and products of these are exact in f32.
inline Array small_integers(const Shape& shape, std::uint64_t seed, DType dtype = DType::f32) {
  Array array(DType::f64, shape);
  std::uint64_t state = seed * 2654435761U + 12345;
  for (std::int64_t i = 0; i < array.size(); ++i) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    array.as<double>()[i] = static_cast<double>(state >> 33 & 0xff) / 255.0 * 8.99 - 4.5;
    array.as<double>()[i] = static_cast<double>(static_cast<std::int64_t>(array.as<double>()[i]));
  }
  return array.to(dtype);
}

using NamedAttributes = std::initializer_list<std::pair<const char*, Attribute>>;

inline Attributes attributes(NamedAttributes list) {
  Attributes result;
  for (const auto& [name, value] : list) result.set(name, value);
  return result;
}

/// A graph of one operation over inputs of the operands' types.
inline Graph one_op(Kind kind, const std::vector<Array>& operands, NamedAttributes list, int results = 1) {
  Graph graph;
  Builder builder(graph, "main");
  std::vector<ValueId> ids;
  for (const Array& operand : operands) {
    ids.push_back(builder.input("x" + std::to_string(ids.size()), {operand.dtype(), operand.shape()}));
  }
  for (const ValueId id : builder.op(kind, ids, attributes(list), "op", results)) builder.output(id);
  builder.finish();
  return graph;
}

inline Array run(Kind kind, const std::vector<Array>& operands, NamedAttributes list, const Numerics& numerics = {}) {
  EvaluateOptions options;
  options.numerics = numerics;
  return evaluate(one_op(kind, operands, list), operands, options)[0];
}

inline std::vector<double> values(const Array& array) {
  const Array wide = array.to(DType::f64);
  return {wide.as<double>(), wide.as<double>() + wide.size()};
}

}  // namespace tilesim::test
