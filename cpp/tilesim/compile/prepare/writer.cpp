#include "tilesim/compile/prepare/writer.hpp"

#include "tilesim/base/index.hpp"

namespace tilesim::lower {

ValueId OpWriter::add(const char* name, Kind kind, std::vector<ValueId> operands, Attributes attributes) {
  return builder_.op(kind, std::move(operands), std::move(attributes), op_.name + "." + name)[0];
}

ValueId OpWriter::apply(const char* name, Function function, std::vector<ValueId> operands) {
  return builder_.elementwise(function, std::move(operands), op_.name + "." + name);
}

ValueId OpWriter::converted(ValueId x, DType to) {
  if (dtype(x) == to) return x;
  Attributes attributes;
  attributes.set("dtype", to);
  return add("convert", Kind::convert, {x}, std::move(attributes));
}

ValueId OpWriter::reshaped(ValueId x, Shape to) {
  if (shape(x) == to) return x;
  Attributes attributes;
  attributes.set("shape", std::move(to));
  return add("reshape", Kind::reshape, {x}, std::move(attributes));
}

ValueId OpWriter::transposed(ValueId x, Axes permutation) {
  Attributes attributes;
  attributes.set("permutation", std::move(permutation));
  return add("transpose", Kind::transpose, {x}, std::move(attributes));
}

ValueId OpWriter::part(ValueId x, std::int64_t dim, std::int64_t first, std::int64_t last) {
  Shape start(shape(x).size(), 0), limit = shape(x);
  start[at(dim)] = first;
  limit[at(dim)] = last;
  Attributes attributes;
  attributes.set("start", std::move(start));
  attributes.set("limit", std::move(limit));
  return add("part", Kind::slice, {x}, std::move(attributes));
}

ValueId OpWriter::joined(ValueId a, ValueId b, std::int64_t dim) {
  Attributes attributes;
  attributes.set("dim", dim);
  return add("joined", Kind::concat, {a, b}, std::move(attributes));
}

ValueId OpWriter::zeros(DType dtype, const Shape& shape) {
  Attributes attributes;
  attributes.set("shape", shape);
  attributes.set("dims", Axes{});
  return add("zeros", Kind::broadcast, {builder_.scalar(0, dtype)}, std::move(attributes));
}

ValueId OpWriter::extended(ValueId x, std::int64_t dim, std::int64_t extent) {
  const Axes none(shape(x).size(), 0);
  Axes high = none;
  high[at(dim)] = extent - shape(x)[at(dim)];
  Attributes attributes;
  attributes.set("low", none);
  attributes.set("high", std::move(high));
  attributes.set("interior", none);
  attributes.set("mode", std::string("constant"));
  return add("extended", Kind::pad, {x}, std::move(attributes));
}

ValueId OpWriter::constant(const std::string& name, DType dtype, Shape shape, const std::vector<double>& values) {
  Array wide(DType::f64, shape);
  std::copy(values.begin(), values.end(), wide.as<double>());
  Weight weight;
  weight.type = {dtype, std::move(shape)};
  weight.source = Weight::Source::data;
  weight.data = wide.to(dtype);
  weight.trainable = false;
  return builder_.weight(name + "." + std::string(tilesim::name(dtype)), std::move(weight));
}

ValueId OpWriter::product(const char* name, ValueId a, ValueId b, Axes a_contract, Axes b_contract, Axes batch,
                          ValueId bias) {
  Attributes attributes;
  attributes.set("a_batch", batch);
  attributes.set("b_batch", std::move(batch));
  attributes.set("a_contract", std::move(a_contract));
  attributes.set("b_contract", std::move(b_contract));
  attributes.set("dtype", dtype(a));
  attributes.set("precision", std::string("exact"));
  std::vector<ValueId> operands{a, b};
  if (bias != no_value) operands.push_back(bias);
  return add(name, Kind::contract, std::move(operands), std::move(attributes));
}

}  // namespace tilesim::lower
