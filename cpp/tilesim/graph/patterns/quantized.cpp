// Products of dequantized numbers: multiplies and sums integers, then applies scales and zero points.
//
// sum (a - za)(b - zb) = sum a b - za sum b - zb sum a + k za zb (Jacob et al., "Quantization and Training of Neural
// Networks for Efficient Integer-Arithmetic-Only Inference", CVPR 2018, equation 7).
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "tilesim/base/shape.hpp"
#include "tilesim/graph/kind.hpp"
#include "tilesim/graph/patterns/recognition.hpp"

namespace tilesim::recognition {

namespace {

using enum Function;

constexpr double offset = 128;  ///< u8 is read as i8 by turning its highest bit

/// (q - zero) * scale; zero point and scale may be missing.
struct Side {
  ValueId q = no_value, scale = no_value, zero = no_value;
  std::optional<double> known_zero;
  int axis = -1;      ///< along which scale or zero vary
  bool real = false;  ///< floats, else integers
};

/// The one axis of x along which a broadcast part varies; -1 if it varies along none, empty if along several.
std::optional<int> varying(const Reader& reader, ValueId part, ValueId x) {
  const Shape& shape = reader.shape(part);
  const auto lead = reader.rank(x) - reader.rank(part);
  if (lead < 0) return std::nullopt;
  int axis = -1;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 1) continue;
    if (axis >= 0) return std::nullopt;
    axis = static_cast<int>(i) + static_cast<int>(lead);
  }
  return axis;
}

bool narrow(DType dtype) { return is_integer(dtype) && dtype != DType::boolean && bits(dtype) <= 8; }

/// Whether a dtype represents all signed integers of this many bits.
bool holds(DType dtype, int count) {
  return is_float(dtype) ? unit_roundoff(dtype) <= std::ldexp(1.0, -count) : is_integer(dtype) && bits(dtype) > count;
}

/// The value before conversions that keep all 8-bit integers.
ValueId widened_from(const Reader& reader, ValueId value) {
  while (const Op* convert = reader.op(value, Kind::convert)) {
    const DType from = reader.type(convert->operands[0]).dtype;
    if (!holds(reader.type(value).dtype, 8) || (!is_integer(from) && !is_float(from)) || from == DType::boolean) break;
    value = convert->operands[0];
  }
  return value;
}

/// Joins a part's axis with the side's axis; false if they differ.
bool varies_along(Side& side, const Reader& reader, ValueId part, ValueId x) {
  const auto axis = varying(reader, part, x);
  if (!axis || (*axis >= 0 && side.axis >= 0 && *axis != side.axis)) return false;
  side.axis = std::max(side.axis, *axis);
  return true;
}

/// Whether a value is a constant of integers from -128 to 255.
bool within_bytes(const Reader& reader, ValueId value) {
  constexpr double lowest = -128, highest = 255;
  const Weight* weight = reader.weight(reader.peeled(value));
  if (weight == nullptr || weight->source != Weight::Source::data || weight->data.empty() || weight->trainable)
    return false;
  for (std::int64_t i = 0; i < weight->data.size(); ++i) {
    const double number = weight->data.at(i);
    if (!(number >= lowest && number <= highest) || number != std::floor(number)) return false;
  }
  return true;
}

/// Largest distance of codes from their zero point; without one, of codes as i8 from 0.
double farthest(const Reader& reader, const Side& side) {
  const DType dtype = reader.type(side.q).dtype;
  const bool is_signed = dtype != DType::u8;
  const double low = is_signed ? -offset : 0, high = is_signed ? offset - 1 : 2 * offset - 1;
  if (!side.known_zero) return high - low;
  return std::max({offset, *side.known_zero - low, high - *side.known_zero});
}

/// Largest number of terms whose sum i32 holds for all codes.
std::int64_t longest_sum(const Reader& reader, const Side& a, const Side& b) {
  constexpr double largest = std::numeric_limits<std::int32_t>::max();
  return static_cast<std::int64_t>(largest / (farthest(reader, a) * farthest(reader, b)));
}

std::optional<Side> side_of(const Reader& reader, ValueId x) {
  Side side;
  side.real = is_float(reader.type(x).dtype);
  ValueId inner = reader.unconverted(x);
  if (const Op* product = side.real ? reader.elementwise(inner, multiply) : nullptr) {
    inner = product->operands[0];
    side.scale = product->operands[1];
    if (reader.shape(inner) != reader.shape(x) || !varies_along(side, reader, side.scale, x)) return std::nullopt;
  }
  inner = widened_from(reader, inner);
  if (const Op* shifted = reader.elementwise(inner, subtract)) {
    const ValueId zero = shifted->operands[1], point = widened_from(reader, zero);
    if (!holds(reader.type(inner).dtype, 9)) return std::nullopt;  // differences wrap or are rounded
    side.known_zero = reader.number(point);
    constexpr double lowest = -128, highest = 255;
    const auto fits = [&](double number) {
      return number == std::floor(number) && number >= lowest && number <= highest;
    };
    if (side.known_zero ? !fits(*side.known_zero) : !narrow(reader.type(point).dtype) && !within_bytes(reader, point))
      return std::nullopt;
    if (!side.known_zero && !varies_along(side, reader, zero, x)) return std::nullopt;
    if (!side.known_zero) side.zero = zero;
    inner = widened_from(reader, shifted->operands[0]);
  } else {
    side.known_zero = 0;
  }
  side.q = inner;
  const bool fits = narrow(reader.type(inner).dtype) && reader.shape(inner) == reader.shape(x);
  return fits ? std::optional(side) : std::nullopt;
}

/// Facts that contractions and convolutions share.
struct IntegerProduct {
  Op op;
  Side a, b;
  TensorType type;              ///< of the result
  std::int64_t depth = 0;       ///< terms of each sum
  Integers a_places, b_places;  ///< axis of the result for each axis of an operand, -1: summed
};

ValueId constant_like(Builder& builder, double number) { return builder.scalar(number, DType::i32); }

/// Reshapes a part with one axis of extent above 1 to broadcast along an axis of the result.
ValueId spread(Builder& builder, ValueId part, int axis, const Integers& places, std::size_t rank) {
  const std::int64_t count = element_count(builder.type(part).shape);
  Shape shape(axis < 0 ? 0 : rank, 1);
  if (axis >= 0) shape[at(places[at(axis)])] = count;
  return builder.type(part).shape == shape ? part : builder.reshape(part, shape);
}

ValueId as_i8(Builder& builder, ValueId q) {
  const DType dtype = builder.type(q).dtype;
  if (dtype == DType::i8) return q;
  if (dtype != DType::u8) return builder.convert(q, DType::i8);
  const ValueId turned = builder.elementwise(bitwise_xor, {q, builder.scalar(offset, DType::u8)});
  Attributes attributes;
  attributes.set("dtype", DType::i8);
  return builder.op(Kind::bitcast, {turned}, attributes)[0];
}

/// The zero point in i32 after `as_i8`; empty if it is 0.
std::optional<ValueId> zero_of(Builder& builder, const Side& side, ValueId given, DType dtype, const Integers& places,
                               std::size_t rank) {
  const double moved = dtype == DType::u8 ? offset : 0;
  if (side.known_zero) {
    if (*side.known_zero == moved) return std::nullopt;
    return constant_like(builder, *side.known_zero - moved);
  }
  ValueId zero = builder.convert(given, DType::i32);
  if (moved != 0) zero = builder.elementwise(subtract, {zero, constant_like(builder, moved)});
  return spread(builder, zero, element_count(builder.type(zero).shape) == 1 ? -1 : side.axis, places, rank);
}

/// Sums of q for the other side's zero point, in the result's shape with extents 1.
ValueId sums(Builder& builder, ValueId q, const Integers& places, std::size_t rank) {
  Integers dims;
  Shape shape(rank, 1);
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (places[i] < 0) dims.push_back(static_cast<std::int64_t>(i));
    if (places[i] >= 0) shape[at(places[i])] = builder.type(q).shape[i];
  }
  Attributes attributes;
  attributes.set("dims", dims);
  attributes.set("combiner", std::string("add"));
  return builder.reshape(builder.op(Kind::reduce, {builder.convert(q, DType::i32)}, attributes)[0], shape);
}

/// The values of a candidate's leaves by role, as `leaves_of` lists them.
struct Given {
  ValueId a, b, a_scale = no_value, b_scale = no_value, a_zero = no_value, b_zero = no_value, bias = no_value;
};

Given given(const IntegerProduct& product, const Values& leaves) {
  std::size_t next = 0;
  const auto take = [&](ValueId there) { return there == no_value ? no_value : leaves[next++]; };
  Given result{take(product.a.q), take(product.b.q)};
  result.a_scale = take(product.a.scale);
  result.b_scale = take(product.b.scale);
  result.a_zero = take(product.a.zero);
  result.b_zero = take(product.b.zero);
  if (product.op.operands.size() > 2) result.bias = take(product.op.operands[2]);
  return result;
}

Values leaves_of(const IntegerProduct& product) {
  Values leaves;
  const ValueId bias = product.op.operands.size() > 2 ? product.op.operands[2] : no_value;
  for (const ValueId value :
       {product.a.q, product.b.q, product.a.scale, product.b.scale, product.a.zero, product.b.zero, bias})
    if (value != no_value) leaves.push_back(value);
  return leaves;
}

/// Applies scales, bias and the result's dtype to the sums in i32.
ValueId scaled(Builder& builder, const IntegerProduct& product, const Given& values, ValueId sum) {
  const std::size_t rank = product.type.shape.size();
  const auto with_bias = [&](ValueId y, DType dtype) {
    if (values.bias == no_value) return y;
    ValueId bias = builder.convert(values.bias, dtype);
    if (product.op.kind == Kind::convolution) {
      Shape shape(rank, 1);
      shape[product.op.attributes.text("y_labels").find('C')] = element_count(builder.type(bias).shape);
      bias = builder.reshape(bias, shape);
    }
    return builder.elementwise(add, {y, bias});
  };
  if (!product.a.real) return with_bias(sum, DType::i32);
  const auto is_wide = [&](ValueId part) { return part != no_value && builder.type(part).dtype == DType::f64; };
  const bool wide = product.type.dtype == DType::f64 || is_wide(values.a_scale) || is_wide(values.b_scale);
  const DType real = wide ? DType::f64 : DType::f32;
  const auto scale = [&](ValueId part, const Side& side, const Integers& places) {
    const int axis = element_count(builder.type(part).shape) == 1 ? -1 : side.axis;
    return spread(builder, builder.convert(part, real), axis, places, rank);
  };
  ValueId factor = no_value;
  if (values.a_scale != no_value) factor = scale(values.a_scale, product.a, product.a_places);
  if (values.b_scale != no_value) {
    const ValueId other = scale(values.b_scale, product.b, product.b_places);
    factor = factor == no_value ? other : builder.elementwise(multiply, {factor, other});
  }
  ValueId y = builder.convert(sum, real);
  if (factor != no_value) y = builder.elementwise(multiply, {y, factor});
  y = with_bias(y, real);
  return wide ? y : builder.convert(y, product.type.dtype);
}

/// Pads x by its zero point and removes the convolution's pads.
ValueId padded(Builder& builder, ValueId x, ValueId zero, Attributes& attributes) {
  const std::string& labels = attributes.text("x_labels");
  const Integers pads = attributes.integers("pads", {});
  Integers low(labels.size(), 0), high = low, none = low;
  std::size_t spatial = 0;
  for (std::size_t axis = 0; axis < labels.size(); ++axis) {
    if (labels[axis] == 'N' || labels[axis] == 'C') continue;
    low[axis] = pads.empty() ? 0 : pads[2 * spatial];
    high[axis] = pads.empty() ? 0 : pads[2 * spatial + 1];
    ++spatial;
  }
  attributes.set("pads", Integers(2 * spatial, 0));
  if (low == none && high == none) return x;
  Attributes pad;
  pad.set("low", low);
  pad.set("high", high);
  pad.set("interior", none);
  pad.set("mode", std::string("constant"));
  return builder.op(Kind::pad, {x, builder.reshape(builder.convert(zero, DType::i8), {})}, pad)[0];
}

/// Sums of x over each window, for weights with a zero point.
ValueId window_sums(Builder& builder, ValueId x, ValueId w, Attributes attributes) {
  Shape shape = builder.type(w).shape;
  shape[attributes.text("w_labels").find('O')] = 1;
  Attributes all;
  all.set("shape", shape);
  all.set("dims", Integers{});
  const ValueId ones = builder.op(Kind::broadcast, {builder.scalar(1, DType::i8)}, all)[0];
  return builder.op(Kind::convolution, {x, ones}, attributes)[0];
}

ValueId build(Builder& builder, const IntegerProduct& product, const Values& leaves) {
  const Given values = given(product, leaves);
  const std::size_t rank = product.type.shape.size();
  const DType a_type = builder.type(values.a).dtype, b_type = builder.type(values.b).dtype;
  ValueId a = as_i8(builder, values.a);
  const ValueId b = as_i8(builder, values.b);
  const auto a_zero = zero_of(builder, product.a, values.a_zero, a_type, product.a_places, rank);
  const auto b_zero = zero_of(builder, product.b, values.b_zero, b_type, product.b_places, rank);
  Attributes attributes = product.op.attributes;
  attributes.set("dtype", DType::i32);
  const bool convolution = product.op.kind == Kind::convolution;
  if (convolution && a_zero) a = padded(builder, a, *a_zero, attributes);
  ValueId sum = builder.op(product.op.kind, {a, b}, attributes)[0];
  const auto take_off = [&](ValueId zero, ValueId of) {
    sum = builder.elementwise(subtract, {sum, builder.elementwise(multiply, {zero, of})});
  };
  if (a_zero) take_off(*a_zero, sums(builder, b, product.b_places, rank));
  if (b_zero)
    take_off(*b_zero, convolution ? window_sums(builder, a, b, attributes) : sums(builder, a, product.a_places, rank));
  if (a_zero && b_zero) {
    std::int64_t depth = 1;  // at the extents that are built: checks run at small ones
    for (std::size_t i = 0; i < product.b_places.size(); ++i)
      if (product.b_places[i] < 0) depth *= builder.type(b).shape[i];
    const ValueId both = builder.elementwise(multiply, {*a_zero, *b_zero});
    const ValueId count = constant_like(builder, static_cast<double>(depth));
    sum = builder.elementwise(add, {sum, builder.elementwise(multiply, {both, count})});
  }
  return scaled(builder, product, values, sum);
}

/// Finds the positions of the operands' axes in a contraction's result: batch axes, free axes of a, free axes of b.
bool place_contract(const Reader& reader, IntegerProduct& product) {
  const auto list = [&](const char* name) { return product.op.attributes.integers(name, {}); };
  std::int64_t next = static_cast<std::int64_t>(list("a_batch").size());
  const auto places = [&](ValueId x, const Integers& batch, const Integers& summed) {
    Integers result(at(reader.rank(x)), -1);
    for (std::size_t i = 0; i < batch.size(); ++i) result[at(batch[i])] = static_cast<std::int64_t>(i);
    for (std::int64_t axis = 0; axis < reader.rank(x); ++axis)
      if (!std::ranges::count(batch, axis) && !std::ranges::count(summed, axis)) result[at(axis)] = next++;
    return result;
  };
  product.a_places = places(product.op.operands[0], list("a_batch"), list("a_contract"));
  product.b_places = places(product.op.operands[1], list("b_batch"), list("b_contract"));
  product.depth = 1;
  for (const std::int64_t axis : list("a_contract")) product.depth *= reader.shape(product.op.operands[0])[at(axis)];
  // Sums have the order of the operand's axes, which must be the result's order.
  const auto ordered = [](const Integers& own) {
    Integers kept;
    std::ranges::copy_if(own, std::back_inserter(kept), [](std::int64_t place) { return place >= 0; });
    return std::ranges::is_sorted(kept);
  };
  return ordered(product.a_places) && ordered(product.b_places);
}

bool place_convolution(const Reader& reader, IntegerProduct& product) {
  const Attributes& attributes = product.op.attributes;
  const std::string &x = attributes.text("x_labels"), &w = attributes.text("w_labels");
  const auto channel = static_cast<std::int64_t>(attributes.text("y_labels").find('C'));
  if (attributes.integer("batch_groups", 1) != 1) return false;
  const Integers dilation = attributes.integers("input_dilation", {});
  const bool dilated = std::ranges::any_of(dilation, [](std::int64_t step) { return step != 1; });
  const Integers pads = attributes.integers("pads", {});
  const bool cut = std::ranges::any_of(pads, [](std::int64_t pad) { return pad < 0; });
  const double moved = reader.type(product.a.q).dtype == DType::u8 ? offset : 0;
  if ((dilated || cut) && product.a.known_zero != moved) return false;
  const double w_moved = reader.type(product.b.q).dtype == DType::u8 ? offset : 0;
  if (attributes.integer("groups", 1) != 1 && product.b.known_zero != w_moved) return false;
  product.a_places.assign(x.size(), -1);
  product.b_places.assign(w.size(), -1);
  product.b_places[w.find('O')] = channel;
  const Shape& shape = reader.shape(product.op.operands[1]);
  product.depth = element_count(shape) / std::max<std::int64_t>(1, shape[w.find('O')]);
  return product.a.axis < 0;
}

}  // namespace

namespace {

/// A product of codes; its sums may have too many terms for i32.
std::optional<IntegerProduct> integer_product(const Reader& reader, const Op& op) {
  if (op.kind != Kind::contract && op.kind != Kind::convolution) return std::nullopt;
  const auto a = side_of(reader, op.operands[0]), b = side_of(reader, op.operands[1]);
  if (!a || !b || a->real != b->real) return std::nullopt;
  IntegerProduct product{op, *a, *b, reader.type(op.results[0]), 0, {}, {}};
  const bool placed = op.kind == Kind::contract ? place_contract(reader, product) : place_convolution(reader, product);
  return placed ? std::optional(std::move(product)) : std::nullopt;
}

}  // namespace

std::optional<LongSums> long_integer_sums(const Reader& reader, const Op& op) {
  const std::optional<IntegerProduct> product = integer_product(reader, op);
  if (!product) return std::nullopt;
  const LongSums sums{product->depth, longest_sum(reader, product->a, product->b)};
  return sums.terms > sums.most ? std::optional(sums) : std::nullopt;
}

std::vector<Candidate> match_integer_product(const Reader& reader, const Op& op) {
  const std::optional<IntegerProduct> found = integer_product(reader, op);
  if (!found) return {};
  const IntegerProduct& product = *found;
  const Side *a = &product.a, *b = &product.b;
  const ValueId root = op.results[0];
  const auto summed = [](const Side& side, const Integers& places) {
    return side.axis >= 0 && places[at(side.axis)] < 0;
  };
  if (product.depth > longest_sum(reader, *a, *b) || summed(*a, product.a_places) || summed(*b, product.b_places))
    return {};
  const bool biased = op.operands.size() > 2 && op.operands[2] != no_value;
  const bool integer_bias = !biased || reader.type(op.operands[2]).dtype == DType::i32;
  if (!a->real && (reader.type(root).dtype != DType::i32 || !integer_bias)) return {};
  if (!a->real && a->q == op.operands[0] && b->q == op.operands[1]) return {};  // it is one already
  Candidate candidate;
  candidate.root = root, candidate.leaves = leaves_of(product);
  for (const ValueId scale : {a->scale, b->scale})
    if (scale != no_value) candidate.positive.push_back(scale);
  candidate.after = std::string(info(op.kind).name) + " of i8 in i32" + (a->real ? ", scaled" : "");
  candidate.shared_inside = true;
  candidate.build = [product](Builder& builder, const Values& leaves) { return build(builder, product, leaves); };
  return {candidate};
}

}  // namespace tilesim::recognition
