// Helpers over a Builder for passes that rewrite one operation as several. New names start with the operation's name.
#pragma once

#include <string>
#include <vector>

#include "tilesim/graph/builder.hpp"

namespace tilesim::lower {

class OpWriter {
 public:
  using Axes = std::vector<std::int64_t>;

  OpWriter(Builder& builder, const Op& op) : builder_(builder), op_(op) {}
  const Op& op() const { return op_; }
  const Shape& shape(ValueId x) const { return builder_.type(x).shape; }
  DType dtype(ValueId x) const { return builder_.type(x).dtype; }

  ValueId add(const char* name, Kind kind, std::vector<ValueId> operands, Attributes attributes);
  ValueId apply(const char* name, Function function, std::vector<ValueId> operands);
  ValueId converted(ValueId x, DType dtype);
  ValueId reshaped(ValueId x, Shape shape);
  ValueId transposed(ValueId x, Axes permutation);
  ValueId part(ValueId x, std::int64_t dim, std::int64_t first, std::int64_t last);
  ValueId joined(ValueId a, ValueId b, std::int64_t dim);
  ValueId zeros(DType dtype, const Shape& shape);
  /// Appends zeros along an axis until it has `extent` elements.
  ValueId extended(ValueId x, std::int64_t dim, std::int64_t extent);
  ValueId constant(const std::string& name, DType dtype, Shape shape, const std::vector<double>& values);
  /// A product of unrounded operands, summed in f32 or wider.
  ValueId product(const char* name, ValueId a, ValueId b, Axes a_contract, Axes b_contract, Axes batch = {},
                  ValueId bias = no_value);

 private:
  Builder& builder_;
  const Op& op_;
};

}  // namespace tilesim::lower
