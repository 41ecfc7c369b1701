// contract and convolution.
#include <algorithm>

#include "tilesim/base/shape.hpp"
#include "tilesim/graph/kinds/rules.hpp"

namespace tilesim::rules {
namespace {

// --- contract ---

struct ContractAxes { Integers a_batch, b_batch, a_contract, b_contract, a_free, b_free; };

Integers free_axes(std::int64_t rank, const Integers& batch, const Integers& contracted) {
  Integers result;
  for (std::int64_t axis = 0; axis < rank; ++axis)
    if (!contains(batch, axis) && !contains(contracted, axis)) result.push_back(axis);
  return result;
}

ContractAxes contract_axes(const Op& op, const TensorType& a, const TensorType& b) {
  ContractAxes result{axes(op, "a_batch", rank(a)),
                      axes(op, "b_batch", rank(b)),
                      axes(op, "a_contract", rank(a)),
                      axes(op, "b_contract", rank(b)),
                      {},
                      {}};
  result.a_free = free_axes(rank(a), result.a_batch, result.a_contract);
  result.b_free = free_axes(rank(b), result.b_batch, result.b_contract);
  return result;
}

/// A suggestion for two matrices that would match if one of them were transposed.
std::string transposed(const TensorType& a, const TensorType& b, std::int64_t left, std::int64_t right) {
  if (rank(a) != 2 || rank(b) != 2) return {};
  if (a.shape[at(1 - left)] == b.shape[at(right)]) return "Transpose a: a.transpose(1, 0)";
  return a.shape[at(left)] == b.shape[at(1 - right)] ? "Transpose b: b.transpose(1, 0)" : "";
}

void check_pairs(const TensorType& a, const TensorType& b, const Integers& left, const Integers& right,
                 const std::string& role) {
  if (left.size() != right.size())
    refuse("a and b have different numbers of " + role + " axes", to_string(left) + " and " + to_string(right),
           "lists of equal length");
  for (std::size_t i = 0; i < left.size(); ++i)
    if (a.shape[at(left[i])] != b.shape[at(right[i])])
      refuse(role + " axis " + std::to_string(left[i]) + " of a and axis " + std::to_string(right[i]) +
                 " of b differ in extent",
             to_string(a) + " and " + to_string(b), "equal extents", transposed(a, b, left[i], right[i]));
}

void check_disjoint(const Integers& batch, const Integers& contracted, const char* operand) {
  for (const std::int64_t axis : batch)
    if (contains(contracted, axis))
      refuse("axis " + std::to_string(axis) + " of " + operand + " is both a batch and a contracted axis");
}

std::string conversion(DType dtype) {
  const std::string to(name(dtype));
  return "Convert an operand: x.convert('" + to + "'), in PyTorch x.to(dtype)";
}

/// Result dtype of a product: the attribute, or the operands' common dtype (i32 for integers below 32 bits).
DType product_dtype(const Op& op, const TensorType& a, const TensorType& b) {
  const bool same_sort = is_float(a.dtype) == is_float(b.dtype) && is_integer(a.dtype) == is_integer(b.dtype);
  if (!same_sort || a.dtype == DType::boolean)
    refuse("the operands of a product must both be floating point or both be integers",
           to_string(a) + " and " + to_string(b), "equal dtypes", conversion(a.dtype));
  if (op.attributes.find("dtype")) {
    const DType dtype = op.attributes.dtype("dtype");
    if (is_float(a.dtype) && !is_float(dtype))
      refuse("a product of floats cannot have an integer dtype", std::string(name(dtype)), "a float dtype");
    return dtype;
  }
  if (a.dtype != b.dtype)
    refuse("the operands of a product differ in dtype", to_string(a) + " and " + to_string(b), "equal dtypes",
           conversion(a.dtype));
  if (is_integer(a.dtype) && bits(a.dtype) < 32) return DType::i32;
  return a.dtype;
}

/// Checks a storage format. After "block:" comes the extent of a block in elements.
void check_format(const Op& op, const std::string& attribute) {
  static const std::vector<std::string> known{"dense", "bitmap", "csr", "csc", "2:4", "zero_tiles", "block:32"};
  const std::string format = op.attributes.text(attribute, "dense");
  const bool block = format.starts_with("block:") && format.size() > 6 && format.size() < 12 && format[6] != '0' &&
                     format.find_first_not_of("0123456789", 6) == std::string::npos;
  if (!block && std::find(known.begin(), known.end(), format) == known.end())
    refuse("attribute '" + attribute + "' names an unknown format of zeros", "'" + format + "'",
           "dense, bitmap, csr, csc, block:N, 2:4, zero_tiles");
}

/// The second operand without compression: a 2:4 element is eight elements along the single contracted axis.
TensorType expanded(const Op& op, const TensorType& a, const TensorType& b) {
  if (!is_two_of_four(b.dtype)) return b;
  const Integers from = axes(op, "a_contract", rank(a)), to = axes(op, "b_contract", rank(b));
  if (from.size() != 1 || to.size() != 1 || plain_of(b.dtype) != a.dtype)
    refuse("an operand in the pattern 2:4 is contracted along one axis, with one of its plain dtype",
           to_string(a) + " and " + to_string(b));
  TensorType whole{plain_of(b.dtype), b.shape};
  const std::int64_t depth = a.shape[at(from[0])];
  if (ceil_div(depth, pattern_neighbours) != whole.shape[at(to[0])])
    refuse("an operand in the pattern 2:4 does not cover the contraction", to_string(a) + " and " + to_string(b),
           "an element for every 8 along the contracted axis");
  whole.shape[at(to[0])] = depth;
  return whole;
}

std::vector<TensorType> infer_contract(const Op& op, Types operands, const Graph&) {
  check_format(op, "a_format");
  check_format(op, "b_format");
  const TensorType& a = *operands[0];
  const TensorType b = expanded(op, a, *operands[1]);
  const ContractAxes axes = contract_axes(op, a, b);
  check_disjoint(axes.a_batch, axes.a_contract, "a");
  check_disjoint(axes.b_batch, axes.b_contract, "b");
  check_pairs(a, b, axes.a_batch, axes.b_batch, "batch");
  check_pairs(a, b, axes.a_contract, axes.b_contract, "contracted");
  TensorType result{product_dtype(op, a, b), {}};
  for (const std::int64_t axis : axes.a_batch) result.shape.push_back(a.shape[at(axis)]);
  for (const std::int64_t axis : axes.a_free) result.shape.push_back(a.shape[at(axis)]);
  for (const std::int64_t axis : axes.b_free) result.shape.push_back(b.shape[at(axis)]);
  element_count(result.shape);
  if (present(operands, 2)) want_broadcastable(*operands[2], result.shape, "bias");
  return {result};
}

/// Appends dims named `stem` (if one) or stem0, stem1, ...; returns the index of the first.
int add_dims(Domain& domain, const std::string& stem, const Shape& shape, const Integers& axes, bool reduction) {
  const int first = static_cast<int>(domain.extents.size());
  for (std::size_t i = 0; i < axes.size(); ++i) {
    domain.extents.push_back(shape[at(axes[i])]);
    domain.names.push_back(axes.size() == 1 ? stem : stem + std::to_string(i));
    domain.reduction.push_back(reduction);
  }
  return first;
}

void place(Access& access, const Integers& axes, int first) {
  for (std::size_t i = 0; i < axes.size(); ++i) access.axes[at(axes[i])] = along(first + static_cast<int>(i));
}

Domain contract_domain(const Op& op, Types operands, std::span<const TensorType> results) {
  const TensorType &a = *operands[0], &b = *operands[1];
  const ContractAxes axes = contract_axes(op, a, b);
  Domain domain;
  const int batch = add_dims(domain, "b", a.shape, axes.a_batch, false);
  const int m = add_dims(domain, "m", a.shape, axes.a_free, false);
  const int n = add_dims(domain, "n", b.shape, axes.b_free, false);
  const bool pattern = is_two_of_four(b.dtype);
  const int k = add_dims(domain, "k", pattern ? b.shape : a.shape, pattern ? axes.b_contract : axes.a_contract, true);
  domain.operands.resize(operands.size());
  domain.operands[0].axes.resize(a.shape.size());
  domain.operands[1].axes.resize(b.shape.size());
  place(domain.operands[0], axes.a_batch, batch);
  place(domain.operands[0], axes.a_free, m);
  place(domain.operands[0], axes.a_contract, k);
  if (pattern) {
    const std::int64_t depth = a.shape[at(axes.a_contract[0])];
    AxisAccess& axis = domain.operands[0].axes[at(axes.a_contract[0])];
    axis.terms = {{k, pattern_neighbours}};
    axis.window = pattern_neighbours;
    axis.may_leave = depth % pattern_neighbours != 0;
  }
  place(domain.operands[1], axes.b_batch, batch);
  place(domain.operands[1], axes.b_free, n);
  place(domain.operands[1], axes.b_contract, k);
  // The result's axes are the dims b, m, n in this order.
  if (present(operands, 2)) domain.operands[2] = broadcasted(operands[2]->shape, results[0].shape);
  for (std::size_t i = 3; i < operands.size(); ++i) domain.operands[i].affine = false;  // steer which tiles there are
  domain.results.push_back(identity(rank(results[0])));
  return domain;
}

Flops contract_flops(const Op& op, Types operands, std::span<const TensorType> results) {
  const ContractAxes axes = contract_axes(op, *operands[0], *operands[1]);
  double depth = 1;
  for (const std::int64_t axis : axes.a_contract) depth *= static_cast<double>(operands[0]->shape[at(axis)]);
  const auto elements = static_cast<double>(count(results[0]));
  Flops flops;
  flops.matrix = 2 * elements * depth;
  if (present(operands, 2)) flops.simple = elements;
  return flops;
}

// --- convolution ---

struct ConvolutionShape {
  std::string spatial;  ///< letters in the order of x_labels
  Integers strides, pads, window_dilation, input_dilation;
  std::int64_t groups = 1, batch_groups = 1;
  Integers x, w, y;  ///< axes: N (O, N), C (I, C), then spatial letters
};

/// Axes of `labels` for lead[0], lead[1] and each spatial letter.
Integers label_axes(const Op& op, const char* attribute, const std::string& lead, const std::string& spatial,
                    const TensorType* type) {
  const std::string& labels = op.attributes.text(attribute);
  const std::string wanted = lead + spatial;
  const auto wrong = [&] {
    refuse("attribute '" + std::string(attribute) + "' does not name the axes", "\"" + labels + "\"",
           "the letters of \"" + wanted + "\", each once");
  };
  if (labels.size() != wanted.size()) wrong();
  if (type && type->shape.size() != labels.size())
    refuse("attribute '" + std::string(attribute) + "' does not fit the operand", "\"" + labels + "\"",
           "one letter per axis of " + to_string(*type));
  Integers axes;
  for (const char letter : wanted) {
    if (std::ranges::count(labels, letter) != 1) wrong();
    axes.push_back(static_cast<std::int64_t>(labels.find(letter)));
  }
  return axes;
}

ConvolutionShape convolution_shape(const Op& op, Types operands) {
  ConvolutionShape result;
  for (const char letter : op.attributes.text("x_labels"))
    if (letter != 'N' && letter != 'C') result.spatial += letter;
  const auto spatial = static_cast<std::int64_t>(result.spatial.size());
  result.x = label_axes(op, "x_labels", "NC", result.spatial, operands[0]);
  result.w = label_axes(op, "w_labels", "OI", result.spatial, operands[1]);
  result.y = label_axes(op, "y_labels", "NC", result.spatial, nullptr);
  result.strides = sized(op, "strides", spatial, 1, 1);
  result.pads = sized(op, "pads", 2 * spatial, 0, -largest_setting);
  result.window_dilation = sized(op, "window_dilation", spatial, 1, 1);
  result.input_dilation = sized(op, "input_dilation", spatial, 1, 1);
  result.groups = op.attributes.integer("groups", 1);
  result.batch_groups = op.attributes.integer("batch_groups", 1);
  return result;
}

void check_groups(const ConvolutionShape& conv, std::int64_t batch, std::int64_t channels, std::int64_t in_channels,
                  std::int64_t out_channels) {
  if (conv.groups < 1 || conv.batch_groups < 1)
    refuse("groups and batch_groups must be positive",
           std::to_string(conv.groups) + " and " + std::to_string(conv.batch_groups), "at least 1");
  if (conv.groups > 1 && conv.batch_groups > 1) refuse("groups and batch_groups cannot both exceed 1");
  if (channels % conv.groups != 0 || channels / conv.groups != in_channels)
    refuse("the channels of x do not fit the weights", std::to_string(channels) + " channels",
           std::to_string(in_channels * conv.groups) + " channels, those of the weights times the groups");
  if (out_channels % (conv.groups * conv.batch_groups) != 0)
    refuse("the output channels are not a multiple of the groups", std::to_string(out_channels),
           "a multiple of " + std::to_string(conv.groups * conv.batch_groups));
  if (batch % conv.batch_groups != 0)
    refuse("the batch is not a multiple of batch_groups", std::to_string(batch),
           "a multiple of " + std::to_string(conv.batch_groups));
}

std::vector<TensorType> infer_convolution(const Op& op, Types operands, const Graph&) {
  const TensorType &x = *operands[0], &w = *operands[1];
  const ConvolutionShape conv = convolution_shape(op, operands);
  const std::int64_t outputs = w.shape[at(conv.w[0])], batch = x.shape[at(conv.x[0])];
  check_groups(conv, batch, x.shape[at(conv.x[1])], w.shape[at(conv.w[1])], outputs);
  TensorType result{product_dtype(op, x, w), Shape(x.shape.size())};
  result.shape[at(conv.y[0])] = batch / conv.batch_groups;
  result.shape[at(conv.y[1])] = outputs;
  for (std::size_t i = 0; i < conv.spatial.size(); ++i)
    result.shape[at(conv.y[i + 2])] =
        window_extent(x.shape[at(conv.x[i + 2])], w.shape[at(conv.w[i + 2])], conv.strides[i], conv.pads[2 * i],
                      conv.pads[2 * i + 1], conv.window_dilation[i], conv.input_dilation[i]);
  if (present(operands, 2)) want_shape(*operands[2], {outputs}, "bias");
  return {result};
}

int add_dim(Domain& domain, const std::string& name, std::int64_t extent, bool reduction) {
  domain.extents.push_back(extent);
  domain.names.push_back(name);
  domain.reduction.push_back(reduction);
  return static_cast<int>(domain.extents.size()) - 1;
}

/// group * size + dim; only dim if there is one group.
AxisAccess grouped(int group, std::int64_t size, int dim) {
  AxisAccess access;
  if (group >= 0) access.terms.push_back({group, size});
  access.terms.push_back({dim, 1});
  return access;
}

/// Name of the dim of a letter: o<letter> for outputs, k<letter> for taps.
std::string dim_name(char prefix, char letter) {
  return {prefix, letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter};
}

Domain convolution_domain(const Op& op, Types operands, std::span<const TensorType> results) {
  const TensorType &x = *operands[0], &w = *operands[1], &y = results[0];
  const ConvolutionShape conv = convolution_shape(op, operands);
  const std::int64_t depth = w.shape[at(conv.w[1])], all_groups = conv.groups * conv.batch_groups;
  const std::int64_t outputs = w.shape[at(conv.w[0])] / all_groups, images = y.shape[at(conv.y[0])];
  Domain domain;
  domain.operands.resize(operands.size());
  domain.results.resize(1);
  Access &ax = domain.operands[0], &aw = domain.operands[1], &ay = domain.results[0];
  ax.axes.resize(x.shape.size());
  aw.axes.resize(w.shape.size());
  ay.axes.resize(y.shape.size());
  const int n = add_dim(domain, "n", images, false);
  const int group = all_groups > 1 ? add_dim(domain, "g", all_groups, false) : -1;
  const int oc = add_dim(domain, "oc", outputs, false);
  std::vector<int> out, tap;
  for (std::size_t i = 0; i < conv.spatial.size(); ++i)
    out.push_back(add_dim(domain, dim_name('o', conv.spatial[i]), y.shape[at(conv.y[i + 2])], false));
  const int ic = add_dim(domain, "ic", depth, true);
  for (std::size_t i = 0; i < conv.spatial.size(); ++i)
    tap.push_back(add_dim(domain, dim_name('k', conv.spatial[i]), w.shape[at(conv.w[i + 2])], true));
  ax.axes[at(conv.x[0])] = grouped(conv.batch_groups > 1 ? group : -1, images, n);
  ax.axes[at(conv.x[1])] = grouped(conv.groups > 1 ? group : -1, depth, ic);
  aw.axes[at(conv.w[0])] = ay.axes[at(conv.y[1])] = grouped(group, outputs, oc);
  aw.axes[at(conv.w[1])] = along(ic);
  ay.axes[at(conv.y[0])] = along(n);
  for (std::size_t i = 0; i < conv.spatial.size(); ++i) {
    AxisAccess& axis = ax.axes[at(conv.x[i + 2])];
    axis.terms = {{out[i], conv.strides[i]}, {tap[i], conv.window_dilation[i]}};
    axis.constant = -conv.pads[2 * i];
    axis.divisor = conv.input_dilation[i];
    const std::int64_t last = (domain.extents[at(out[i])] - 1) * conv.strides[i] +
                              (domain.extents[at(tap[i])] - 1) * conv.window_dilation[i] + axis.constant;
    axis.may_leave = axis.constant < 0 || last > (x.shape[at(conv.x[i + 2])] - 1) * axis.divisor;
    aw.axes[at(conv.w[i + 2])] = along(tap[i]);
    ay.axes[at(conv.y[i + 2])] = along(out[i]);
  }
  if (present(operands, 2)) domain.operands[2].axes = {ay.axes[at(conv.y[1])]};
  return domain;
}

Flops convolution_flops(const Op& op, Types operands, std::span<const TensorType> results) {
  const ConvolutionShape conv = convolution_shape(op, operands);
  const auto outputs = static_cast<double>(operands[1]->shape[at(conv.w[0])]);
  const auto elements = static_cast<double>(count(results[0]));
  Flops flops;
  flops.matrix = outputs == 0 ? 0 : 2 * elements * static_cast<double>(count(*operands[1])) / outputs;
  if (present(operands, 2)) flops.simple = elements;
  return flops;
}

}  // namespace

void add_products(std::vector<KindInfo>& table) {
  using A = AttributeType;
  table.push_back(
      {.kind = Kind::contract,
       .name = "contract",
       .min_operands = 2,
       .max_operands = 5,
       .min_results = 1,
       .max_results = 1,
       .operand_names = {"a", "b", "bias", "before", "beside"},
       .attributes = {optional("a_batch", A::integers), optional("b_batch", A::integers),
                      optional("a_contract", A::integers), optional("b_contract", A::integers),
                      optional("dtype", A::dtype), optional("precision", A::text, {"default", "exact"}),
                      optional("a_format", A::text), optional("b_format", A::text), optional("a_tiles", A::text),
                      optional("b_tiles", A::text), optional("sparse", A::text), optional("sparse_plan", A::integers),
                      optional("sparse_data", A::text)},
       .infer = infer_contract,
       .flops = contract_flops,
       .domain = contract_domain});
  table.push_back({.kind = Kind::convolution,
                   .name = "convolution",
                   .min_operands = 2,
                   .max_operands = 3,
                   .min_results = 1,
                   .max_results = 1,
                   .operand_names = {"x", "w", "bias"},
                   .attributes = {required("x_labels", A::text), required("w_labels", A::text),
                                  required("y_labels", A::text), optional("strides", A::integers),
                                  optional("pads", A::integers), optional("window_dilation", A::integers),
                                  optional("input_dilation", A::integers), optional("groups", A::integer),
                                  optional("batch_groups", A::integer), optional("dtype", A::dtype)},
                   .infer = infer_convolution,
                   .flops = convolution_flops,
                   .domain = convolution_domain});
}

}  // namespace tilesim::rules
