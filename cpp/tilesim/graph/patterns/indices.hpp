// Constant indices. If they are an affine (mixed radix) function of their positions, a gather becomes a view and a
// scatter a padding. Internal to this module.
#pragma once

#include <optional>
#include <vector>

#include "tilesim/base/array.hpp"
#include "tilesim/graph/graph.hpp"

namespace tilesim::recognition {

/// A part of an axis: its positions are sum of digit * step. Axes are cut so where an index restarts.
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

/// Digits into which each axis of `extents` is cut so that every function has one coefficient on each, outer ones
/// first; nothing where two functions restart at places that do not nest.
std::optional<std::vector<Digit>> common_digits(const Shape& extents, const std::vector<const Affine*>& functions);

/// The coefficient of each digit.
std::vector<std::int64_t> coefficients(const Affine& function, const std::vector<Digit>& digits);

/// Appends operations to a list; names and types are made as a builder does.
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

/// Where one axis of a tensor is read: constant + sum of coefficient * digit.
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

/// x read through `maps`, one for each axis; every digit stands in one map. `order` becomes what the result's axes are.
/// Digits that overlap (windows) are slices beside each other. no_value where too many would be.
ValueId viewed(Emitter& out, ValueId x, std::vector<AxisMap> maps, Order& order);

/// The sum of what `updates`, whose axes are the digits of `order`, put where `maps` point in a tensor of zeros of
/// shape `to`. no_value where too many terms would be. `distinct`: whether no two may meet (then nothing is added).
ValueId placed(Emitter& out, ValueId updates, std::vector<AxisMap> maps, const Order& order, const Shape& to,
               bool distinct);

}  // namespace tilesim::recognition
