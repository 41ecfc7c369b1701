// Constant indices. If they are an affine (mixed radix) function of their positions, a gather becomes a view and a
// scatter a padding. Internal to this module.
#pragma once

#include <optional>
#include <vector>

#include "tilesim/base/array.hpp"
#include "tilesim/graph/graph.hpp"

namespace tilesim::recognition {

/// A part of an axis: a position is the sum of digit * step. An axis is split where an index restarts.
struct Digit {
  std::size_t axis;
  std::int64_t extent, step;
};

/// An index as a function of positions: constant + sum of coefficient * digit.
struct Affine {
  struct Term {
    Digit digit;
    std::int64_t coefficient;
  };
  std::int64_t constant = 0;
  std::vector<Term> terms;  ///< by axis, outer digits first; coefficients may be 0
};

/// The affine function that maps each position to its value; empty if `values` are not affine.
std::optional<Affine> affine_of(const Array& values);

/// Splits each axis of `extents` into digits, outer first, so that every function has one coefficient per digit; empty
/// if two functions restart at places that do not nest.
std::optional<std::vector<Digit>> common_digits(const Shape& extents, const std::vector<const Affine*>& functions);

/// The coefficient of each digit.
std::vector<std::int64_t> coefficients(const Affine& function, const std::vector<Digit>& digits);

/// Appends operations to a list, with names and types as in a builder.
class Emitter {
 public:
  virtual ~Emitter() = default;
  virtual ValueId emit(Kind kind, std::vector<ValueId> operands, Attributes attributes) = 0;
  virtual const Shape& shape(ValueId value) const = 0;
  ValueId reshape(ValueId x, Shape to);
  ValueId transpose(ValueId x, const std::vector<std::int64_t>& permutation);
  ValueId broadcast(ValueId x, Shape to, const std::vector<std::int64_t>& dims);
  ValueId slice(ValueId x, const Shape& start, const Shape& limit, const Shape& stride);
  ValueId pad(ValueId x, const Shape& low, const Shape& high, const Shape& interior);
  ValueId reverse(ValueId x, const std::vector<std::int64_t>& dims);
};

/// The position read along one axis of a tensor: constant + sum of coefficient * digit.
struct AxisMap {
  struct Term {
    std::size_t digit;
    std::int64_t extent, coefficient;
  };
  std::int64_t constant = 0;
  std::vector<Term> terms;
};

/// The digits, in the order of the axes of a view or of updates.
using Order = std::vector<std::size_t>;

/// x read through `maps`, one per axis; each digit is in one map. `order` receives the digits of the result's axes.
/// Overlapping digits (windows) become slices side by side. no_value if there would be too many.
ValueId viewed(Emitter& out, ValueId x, std::vector<AxisMap> maps, Order& order);

/// The sum of `updates` (axes: the digits of `order`) placed by `maps` in a tensor of zeros of shape `to`. no_value if
/// there would be too many terms. `distinct`: no two updates overlap, so that no addition is needed.
ValueId placed(Emitter& out, ValueId updates, std::vector<AxisMap> maps, const Order& order, const Shape& to,
               bool distinct);

}  // namespace tilesim::recognition
