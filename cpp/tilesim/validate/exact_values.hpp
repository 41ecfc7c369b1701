// Values for a run in which products and sums come out exactly, so that a tiled program and the reference must agree
// bit by bit where a bound on rounding would be too wide to show a lost tile.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "tilesim/base/array.hpp"
#include "tilesim/graph/graph.hpp"

namespace tilesim::validate {

/// keep: the values of the ordinary run (integers, scalars, values on which indices and loops depend). dense: 1 and 2
/// of either sign (vectors: positive), so that a lost term changes a sum. one_hot: every second vector along `axes` has
/// one element; for operands of products with an inexact operand. peaks: along `axes`, a few zeros among numbers whose
/// exponential is 0; for softmax, whose sum is then a whole number. zero: zeros, the maxima of peaks.
enum class Draw : std::uint8_t { keep, dense, one_hot, peaks, zero };

struct Pattern {
  Draw draw = Draw::keep;
  std::vector<std::int64_t> axes;
};

/// Per function and value. `tensors`: names of the program's tensors. Values of bodies of loops and branches are kept.
struct Patterns {
  std::vector<std::vector<Pattern>> values;
  std::vector<bool> frozen;  ///< per function: all values stay as the reference computes them
};
Patterns patterns_of(const Graph& graph, const std::set<std::string>& tensors);

/// Whether the result consists of elements or bits of the first operand, so that a program need not store it.
bool is_view(const Op& op);

/// The drawn values, which depend only on pattern, type and name.
Array drawn(const Pattern& pattern, DType dtype, const Shape& shape, const std::string& name);

/// The reference name of a value that is a constant; empty for others.
std::string constant_of(const GraphFunction& function, ValueId value);
/// References of weights whose zeros programs use.
std::set<std::string> with_known_zeros(const Graph& graph);
/// `other`, of the same type, with zeros where the given array has them.
Array with_zeros_of(const Array& given, const Array& other);

}  // namespace tilesim::validate
