// Constant indices that are an affine (mixed radix) function of positions: a gather with such indices becomes a view, a
// scatter becomes a padding. Internal to this module.
#pragma once

#include <optional>
#include <vector>

#include "tilesim/base/array.hpp"
#include "tilesim/graph/graph.hpp"

namespace tilesim::recognition {

/// A digit of a position along an axis: position = sum of digit * step. An axis has several digits if an index
/// restarts.
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

/// The affine function of positions that gives `values`; empty if there is no such function.
std::optional<Affine> affine_of(const Array& values);

/// Splits each axis of `extents` into digits, outer first, such that every function has one coefficient per digit;
/// empty if the digits of two functions do not nest.
std::optional<std::vector<Digit>> common_digits(const Shape& extents, const std::vector<const Affine*>& functions);

/// The function's coefficient of each digit.
std::vector<std::int64_t> coefficients(const Affine& function, const std::vector<Digit>& digits);

/// Appends operations to a list; infers names and types as Builder does.
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

/// The position that is read along an axis of a tensor: constant + sum of coefficient * digit.
struct AxisMap {
  struct Term {
    std::size_t digit;
    std::int64_t extent, coefficient;
  };
  std::int64_t constant = 0;
  std::vector<Term> terms;
};

/// Digits in the order of the axes of a view or of updates.
using Order = std::vector<std::size_t>;

/// Reads x through `maps`, one per axis; each digit occurs in one map. Sets `order` to the digits of the result's axes.
/// Overlapping digits (windows) become concatenated slices. Returns no_value if there would be too many.
ValueId viewed(Emitter& out, ValueId x, std::vector<AxisMap> maps, Order& order);

/// Adds `updates` (with axes `order`) to a tensor of zeros of shape `to`, at the positions given by `maps`. `distinct`:
/// updates do not overlap, so no addition is needed. Returns no_value if there would be too many terms.
ValueId placed(Emitter& out, ValueId updates, std::vector<AxisMap> maps, const Order& order, const Shape& to,
               bool distinct);

}  // namespace tilesim::recognition
