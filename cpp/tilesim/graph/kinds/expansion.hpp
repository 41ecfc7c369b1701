// Expands a composite operation into primitives. Internal to this module.
#pragma once

#include <vector>

#include "tilesim/graph/builder.hpp"

namespace tilesim {

/// Appends the primitives of `op` on `operands` to the function under construction; returns the results.
std::vector<ValueId> expand_op(Builder& builder, const Op& op, const std::vector<ValueId>& operands);

namespace expansion {

/// Adds operations to a Builder under names that start with the name of the composite operation.
class Expander {
 public:
  Expander(Builder& builder, const Op& op) : builder_(builder), op_(op) {}
  const Op& op() const { return op_; }
  Builder& builder() { return builder_; }
  const TensorType& type(ValueId value) const { return builder_.type(value); }
  const Shape& shape(ValueId value) const { return builder_.type(value).shape; }

  ValueId add(const char* name, Kind kind, std::vector<ValueId> operands, Attributes attributes);
  ValueId apply(const char* name, Function function, std::vector<ValueId> operands);
  ValueId reduce(const char* name, const char* combiner, ValueId x,
                 std::vector<std::int64_t> dims);  ///< keeps the reduced axes with extent 1
  /// Converts x to f32 unless x is f32 or wider; `back` converts to `dtype` again.
  ValueId widened(ValueId x);
  ValueId back(ValueId x, DType dtype);
  ValueId reshaped(const char* name, ValueId x, Shape shape);
  ValueId number(double value, DType dtype) { return builder_.scalar(value, dtype); }

 private:
  Builder& builder_;
  const Op& op_;
};

/// exp(x - max) / sum along `dim`, in the dtype of x: reduce maximum, subtract, exp, reduce add, divide.
ValueId softmax(Expander& expander, ValueId x, std::int64_t dim);
std::vector<ValueId> attention(Expander& expander, const std::vector<ValueId>& operands);
ValueId rotary(Expander& expander, const std::vector<ValueId>& operands);

}  // namespace expansion
}  // namespace tilesim
