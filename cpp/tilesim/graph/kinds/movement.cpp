// Kinds that move or view bytes: reshape, transpose, broadcast, slice, reverse, pad, concat, copy, iota, constant.
#include <algorithm>

#include "tilesim/base/shape.hpp"
#include "tilesim/base/units.hpp"
#include "tilesim/graph/kinds/rules.hpp"

namespace tilesim::rules {
namespace {

using Results = std::span<const TensorType>;

std::vector<TensorType> infer_reshape(const Op& op, Types operands, const Graph&) {
  const Shape shape = shape_attribute(op);
  if (element_count(shape) != count(*operands[0]))
    refuse("reshape changes the number of elements", to_string(*operands[0]) + " to " + to_string(shape),
           std::to_string(count(*operands[0])) + " elements");
  return {{operands[0]->dtype, shape}};
}

std::vector<TensorType> infer_transpose(const Op& op, Types operands, const Graph&) {
  const TensorType& x = *operands[0];
  const Integers permutation = axes(op, "permutation", rank(x));
  if (permutation.size() != x.shape.size())
    refuse("attribute 'permutation' has the wrong length", to_string(permutation),
           "each axis of " + to_string(x) + " once");
  TensorType result{x.dtype, {}};
  for (const std::int64_t axis : permutation) result.shape.push_back(x.shape[at(axis)]);
  return {result};
}

Domain transpose_domain(const Op& op, Types, Results results) {
  const Integers& permutation = op.attributes.integers("permutation");
  Domain domain = over(results[0].shape);
  Access read;
  read.axes.resize(permutation.size());
  for (std::size_t i = 0; i < permutation.size(); ++i)
    read.axes[at(permutation[i])] = along(static_cast<std::int64_t>(i));
  domain.operands.push_back(std::move(read));
  domain.results.push_back(identity(rank(results[0])));
  return domain;
}

std::vector<TensorType> infer_broadcast(const Op& op, Types operands, const Graph&) {
  const TensorType& x = *operands[0];
  const Shape shape = shape_attribute(op);
  const Integers dims = axes(op, "dims", static_cast<std::int64_t>(shape.size()));
  if (dims.size() != x.shape.size())
    refuse("attribute 'dims' has the wrong length", to_string(dims), "one result axis per axis of " + to_string(x));
  for (std::size_t i = 0; i < dims.size(); ++i)
    if (x.shape[i] != 1 && x.shape[i] != shape[at(dims[i])])
      refuse("axis " + std::to_string(i) + " does not broadcast", to_string(x) + " to " + to_string(shape),
             "extent 1 or " + std::to_string(shape[at(dims[i])]));
  return {{x.dtype, shape}};
}

Domain broadcast_domain(const Op& op, Types operands, Results results) {
  const Integers& dims = op.attributes.integers("dims");
  Domain domain = over(results[0].shape);
  Access read;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const bool repeats = operands[0]->shape[i] == 1 && results[0].shape[at(dims[i])] != 1;
    read.axes.push_back(repeats ? AxisAccess{} : along(dims[i]));
  }
  domain.operands.push_back(std::move(read));
  domain.results.push_back(identity(rank(results[0])));
  return domain;
}

std::vector<TensorType> infer_slice(const Op& op, Types operands, const Graph&) {
  const TensorType& x = *operands[0];
  const Integers start = required_sized(op, "start", rank(x), 0), limit = required_sized(op, "limit", rank(x), 0);
  const Integers stride = sized(op, "stride", rank(x), 1, 1);
  TensorType result{x.dtype, {}};
  for (std::size_t i = 0; i < start.size(); ++i) {
    if (start[i] > limit[i] || limit[i] > x.shape[i])
      refuse("the slice leaves axis " + std::to_string(i), std::to_string(start[i]) + " to " + std::to_string(limit[i]),
             "0 <= start <= limit <= " + std::to_string(x.shape[i]));
    result.shape.push_back(ceil_div(limit[i] - start[i], stride[i]));
  }
  return {result};
}

Domain slice_domain(const Op& op, Types operands, Results results) {
  const Integers& start = op.attributes.integers("start");
  const Integers stride = sized(op, "stride", rank(*operands[0]), 1, 1);
  Domain domain = over(results[0].shape);
  Access read;
  for (std::size_t i = 0; i < start.size(); ++i) {
    read.axes.push_back(along(static_cast<std::int64_t>(i), stride[i]));
    read.axes.back().constant = start[i];
  }
  domain.operands.push_back(std::move(read));
  domain.results.push_back(identity(rank(results[0])));
  return domain;
}

std::vector<TensorType> infer_reverse(const Op& op, Types operands, const Graph&) {
  axes(op, "dims", rank(*operands[0]));
  return {*operands[0]};
}

Domain reverse_domain(const Op& op, Types operands, Results results) {
  Domain domain = over(results[0].shape);
  Access read = identity(rank(*operands[0]));
  for (const std::int64_t axis : op.attributes.integers("dims")) {
    read.axes[at(axis)] = along(axis, -1);
    read.axes[at(axis)].constant = operands[0]->shape[at(axis)] - 1;
  }
  domain.operands.push_back(std::move(read));
  domain.results.push_back(identity(rank(results[0])));
  return domain;
}

std::vector<TensorType> infer_pad(const Op& op, Types operands, const Graph&) {
  const TensorType& x = *operands[0];
  const Integers low = required_sized(op, "low", rank(x), -largest_setting),
                 high = required_sized(op, "high", rank(x), -largest_setting);
  const Integers interior = sized(op, "interior", rank(x), 0, 0);
  const bool constant = op.attributes.text("mode", "constant") == "constant";
  if (present(operands, 1)) {
    want_dtype(*operands[1], x.dtype, "the padding value");
    want_shape(*operands[1], {}, "the padding value");
  }
  TensorType result = x;
  for (std::size_t i = 0; i < low.size(); ++i) {
    if (!constant && (interior[i] != 0 || low[i] < 0 || high[i] < 0))
      refuse("modes edge and reflect pad outside only", "low " + to_string(low) + ", high " + to_string(high),
             "no interior and no negative padding");
    if (!constant && x.shape[i] == 0 && low[i] + high[i] > 0)
      refuse("modes edge and reflect need elements to repeat on axis " + std::to_string(i), to_string(x));
    const Int128 extent =
        static_cast<Int128>(std::max<std::int64_t>(0, x.shape[i] - 1)) * interior[i] + x.shape[i] + low[i] + high[i];
    if (extent > largest_extent) refuse("the padded axis is too long", to_string(x), "at most 2^62 elements");
    result.shape[i] = static_cast<std::int64_t>(extent);
    if (result.shape[i] < 0) refuse("negative padding removes more than axis " + std::to_string(i), to_string(x));
  }
  element_count(result.shape);
  return {result};
}

Domain pad_domain(const Op& op, Types operands, Results results) {
  if (op.attributes.text("mode", "constant") != "constant") return opaque_domain(op, operands, results);
  const TensorType& x = *operands[0];
  const Integers& low = op.attributes.integers("low");
  const Integers interior = sized(op, "interior", rank(x), 0, 0);
  Domain domain = over(results[0].shape);
  domain.operands.resize(operands.size());
  Access read = identity(rank(x));
  for (std::size_t i = 0; i < low.size(); ++i) {
    read.axes[i].constant = -low[i];
    read.axes[i].divisor = interior[i] + 1;
    const std::int64_t last = results[0].shape[i] - 1 - low[i];
    read.axes[i].may_leave = low[i] > 0 || last > (x.shape[i] - 1) * (interior[i] + 1);
  }
  domain.operands[0] = std::move(read);
  domain.results.push_back(identity(rank(results[0])));
  return domain;
}

std::vector<TensorType> infer_concat(const Op& op, Types operands, const Graph&) {
  TensorType result = *operands[0];
  const std::int64_t dim = axis(op, "dim", rank(result));
  for (std::size_t i = 1; i < operands.size(); ++i) {
    want_dtype(*operands[i], result.dtype, "an operand");
    Shape shape = operands[i]->shape;
    if (shape.size() == result.shape.size()) shape[at(dim)] = operands[0]->shape[at(dim)];
    if (shape != operands[0]->shape)
      refuse("operands of concat differ in an axis other than " + std::to_string(dim),
             to_string(*operands[0]) + " and " + to_string(*operands[i]), "equal extents on the other axes");
    result.shape[at(dim)] += operands[i]->shape[at(dim)];
  }
  element_count(result.shape);
  return {result};
}

std::vector<TensorType> infer_copy(const Op&, Types operands, const Graph&) { return {*operands[0]}; }

std::vector<TensorType> infer_iota(const Op& op, Types, const Graph&) {
  const Shape shape = shape_attribute(op);
  axis(op, "dim", static_cast<std::int64_t>(shape.size()));
  return {{op.attributes.dtype("dtype"), shape}};
}

std::vector<TensorType> infer_constant(const Op& op, Types, const Graph& graph) {
  const std::string& reference = op.attributes.text("reference");
  if (const auto found = graph.weights.find(reference); found != graph.weights.end()) return {found->second.type};
  std::vector<std::string> known;
  for (const auto& [name, weight] : graph.weights) known.push_back(name);
  refuse("the weight does not exist", "'" + reference + "'",
         known.size() > 12 ? std::to_string(known.size()) + " weights" : join(known), nearest(reference, known));
}

KindInfo movement(Kind kind, std::string_view name) {
  KindInfo made = of_one(kind, name);
  made.movement = true;
  return made;
}

void add_views(std::vector<KindInfo>& table) {
  using A = AttributeType;
  KindInfo reshape = movement(Kind::reshape, "reshape");
  reshape.attributes = {required("shape", A::integers)};
  reshape.infer = infer_reshape;
  reshape.domain = opaque_domain;
  table.push_back(std::move(reshape));

  KindInfo transpose = movement(Kind::transpose, "transpose");
  transpose.attributes = {required("permutation", A::integers)};
  transpose.infer = infer_transpose;
  transpose.domain = transpose_domain;
  table.push_back(std::move(transpose));

  KindInfo broadcast = movement(Kind::broadcast, "broadcast");
  broadcast.attributes = {required("shape", A::integers), required("dims", A::integers)};
  broadcast.infer = infer_broadcast;
  broadcast.domain = broadcast_domain;
  table.push_back(std::move(broadcast));

  KindInfo slice = movement(Kind::slice, "slice");
  slice.attributes = {required("start", A::integers), required("limit", A::integers), optional("stride", A::integers)};
  slice.infer = infer_slice;
  slice.domain = slice_domain;
  table.push_back(std::move(slice));

  KindInfo reverse = movement(Kind::reverse, "reverse");
  reverse.attributes = {required("dims", A::integers)};
  reverse.infer = infer_reverse;
  reverse.domain = reverse_domain;
  table.push_back(std::move(reverse));
}

}  // namespace

void add_movement(std::vector<KindInfo>& table) {
  using A = AttributeType;
  add_views(table);

  KindInfo pad = movement(Kind::pad, "pad");
  pad.max_operands = 2;
  pad.operand_names = {"x", "value"};
  pad.attributes = {required("low", A::integers), required("high", A::integers), optional("interior", A::integers),
                    optional("mode", A::text, {"constant", "edge", "reflect"})};
  pad.infer = infer_pad;
  pad.domain = pad_domain;
  table.push_back(std::move(pad));

  KindInfo concat = movement(Kind::concat, "concat");
  concat.max_operands = -1;
  concat.operand_names = {"x..."};
  concat.attributes = {required("dim", A::integer)};
  concat.infer = infer_concat;
  concat.domain = opaque_domain;
  table.push_back(std::move(concat));

  // layout: the copy changes the layout in memory and is never a no-op.
  KindInfo copy = movement(Kind::copy, "copy");
  copy.attributes = {optional("layout", A::flag)};
  copy.infer = infer_copy;
  table.push_back(std::move(copy));

  KindInfo iota = movement(Kind::iota, "iota");
  iota.min_operands = iota.max_operands = 0;
  iota.operand_names = {};
  iota.attributes = {required("shape", A::integers), required("dtype", A::dtype), required("dim", A::integer)};
  iota.infer = infer_iota;
  table.push_back(std::move(iota));

  KindInfo constant = movement(Kind::constant, "constant");
  constant.min_operands = constant.max_operands = 0;
  constant.operand_names = {};
  constant.attributes = {required("reference", A::text)};
  constant.infer = infer_constant;
  table.push_back(std::move(constant));
}

}  // namespace tilesim::rules
