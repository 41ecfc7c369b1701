// Recognises softmax, log_softmax and normalizations in reductions.
#include <algorithm>
#include <cmath>

#include "tilesim/base/shape.hpp"
#include "tilesim/graph/kind.hpp"
#include "tilesim/graph/patterns/recognition.hpp"

namespace tilesim::recognition {

namespace {

using enum Function;

/// The reduction by `combiner` whose result a value broadcasts, or null.
const Op* reduction(const Reader& reader, ValueId value, std::string_view combiner) {
  const Op* op = reader.op(reader.peeled(value), Kind::reduce);
  return op != nullptr && op->attributes.text("combiner") == combiner ? op : nullptr;
}

/// max(x) over one axis, or the larger of it and a finite number.
const Op* row_maximum(const Reader& reader, ValueId value) {
  value = reader.peeled(value);
  if (const Op* bounded = reader.elementwise(value, maximum)) {
    for (const int i : {0, 1})
      if (const auto low = reader.number(bounded->operands[at(i)]); low && *low < -1e300)
        return reduction(reader, bounded->operands[at(1 - i)], "maximum");
  }
  return reduction(reader, value, "maximum");
}

/// x and the axis if value is exp(x - max(x)); x may be permuted (empty permutation: it is not).
struct Exponential {
  ValueId x, shifted;
  std::int64_t dim;
  Integers permutation;
};
/// For each axis of the original tensor, the axis of the permuted one.
Integers inverse(const Integers& permutation) {
  Integers result(permutation.size());
  for (std::size_t i = 0; i < permutation.size(); ++i) result[at(permutation[i])] = static_cast<std::int64_t>(i);
  return result;
}
std::optional<Exponential> exponential(const Reader& reader, ValueId value) {
  const Op* power = reader.elementwise(reader.unconverted(value), exp);
  if (power == nullptr) return std::nullopt;
  const ValueId shifted = power->operands[0];
  const Op* difference = reader.elementwise(reader.unconverted(shifted), subtract);
  if (difference == nullptr) return std::nullopt;
  const ValueId x = difference->operands[0];
  const Op* top = row_maximum(reader, difference->operands[1]);
  if (top == nullptr) {  // the maximum was taken before x was transposed
    const ValueId before = reader.peeled(difference->operands[1]);
    if (const Op* turned = reader.op(before, Kind::transpose)) top = row_maximum(reader, turned->operands[0]);
  }
  if (top == nullptr || top->attributes.integers("dims").size() != 1) return std::nullopt;
  const std::int64_t dim = top->attributes.integers("dims")[0];
  const std::int64_t rank = reader.rank(shifted);
  if (reader.shape(x) != reader.shape(shifted)) return std::nullopt;
  if (reader.unconverted(top->operands[0]) == reader.unconverted(x)) {
    if (!reader.repeats(difference->operands[1], *top, rank)) return std::nullopt;
    return Exponential{x, shifted, dim, {}};
  }
  const Op* turned = reader.op(x, Kind::transpose);
  if (turned == nullptr || turned->operands[0] != top->operands[0]) return std::nullopt;
  const Integers& permutation = turned->attributes.integers("permutation");
  if (!reader.repeats(difference->operands[1], *top, rank, inverse(permutation))) return std::nullopt;
  return Exponential{turned->operands[0], shifted, inverse(permutation)[at(dim)], permutation};
}

bool sums(const Reader& reader, ValueId sum, ValueId value, std::int64_t dim) {
  const Op* total = reduction(reader, sum, "add");
  return total != nullptr && total->attributes.integers("dims") == Integers{dim} &&
         reader.unconverted(total->operands[0]) == reader.unconverted(value) &&
         reader.repeats(sum, *total, reader.rank(value));
}

Candidate row_candidate(const Reader& reader, ValueId root, const Exponential& row, Kind kind) {
  Candidate candidate;
  candidate.root = root;
  candidate.leaves = {row.x};
  candidate.after = std::string(info(kind).name);
  const DType dtype = reader.type(root).dtype;
  candidate.build = [row, kind, dtype](Builder& builder, const Values& leaves) {
    Attributes attributes;
    attributes.set("dim", row.dim);
    const ValueId x = row.permutation.empty() ? leaves[0] : builder.transpose(leaves[0], row.permutation);
    const ValueId y = builder.op(kind, {x}, attributes)[0];
    return builder.type(leaves[0]).dtype == DType::f64 ? y : builder.convert(y, dtype);
  };
  return candidate;
}

}  // namespace

std::vector<Candidate> match_softmax(const Reader& reader, const Op& op) {
  if (op.kind != Kind::elementwise) return {};
  const ValueId root = op.results[0];
  if (reader.elementwise(root, divide) != nullptr) {
    const auto row = exponential(reader, op.operands[0]);
    if (row && sums(reader, op.operands[1], op.operands[0], row->dim))
      return {row_candidate(reader, root, *row, Kind::softmax)};
  }
  if (reader.elementwise(root, multiply) != nullptr) {
    for (const int i : {0, 1}) {
      const auto row = exponential(reader, op.operands[at(i)]);
      const Op* inverse = reader.elementwise(reader.peeled(op.operands[at(1 - i)]), reciprocal);
      if (const Op* ratio = reader.elementwise(reader.peeled(op.operands[at(1 - i)]), divide);
          ratio != nullptr && reader.number(ratio->operands[0]) == 1.0 && row &&
          sums(reader, ratio->operands[1], op.operands[at(i)], row->dim) &&
          reader.repeats(op.operands[at(1 - i)], *reduction(reader, ratio->operands[1], "add"), reader.rank(root)))
        return {row_candidate(reader, root, *row, Kind::softmax)};
      if (row && inverse != nullptr && sums(reader, inverse->operands[0], op.operands[at(i)], row->dim) &&
          reader.repeats(op.operands[at(1 - i)], *reduction(reader, inverse->operands[0], "add"), reader.rank(root)))
        return {row_candidate(reader, root, *row, Kind::softmax)};
    }
  }
  if (reader.elementwise(root, subtract) != nullptr) {
    const Op* logarithm = reader.elementwise(reader.peeled(op.operands[1]), log);
    const Op* total = logarithm == nullptr ? nullptr : reduction(reader, logarithm->operands[0], "add");
    const auto row = total == nullptr ? std::nullopt : exponential(reader, total->operands[0]);
    if (row && reader.unconverted(row->shifted) == reader.unconverted(op.operands[0]) &&
        total->attributes.integers("dims") == Integers{row->dim} &&
        reader.repeats(op.operands[1], *total, reader.rank(root)))
      return {row_candidate(reader, root, *row, Kind::log_softmax)};
  }
  return {};
}

namespace {

/// value = mean over dims of `of`.
struct Mean {
  ValueId of;
  Integers dims;
  const Op* reduce;
};
std::optional<Mean> mean_of(const Reader& reader, ValueId value) {
  value = reader.peeled(value);
  if (const Op* direct = reduction(reader, value, "mean"))
    return Mean{direct->operands[0], direct->attributes.integers("dims"), direct};
  const Op* scaled = reader.op(value, Kind::elementwise);
  if (scaled == nullptr || scaled->operands.size() != 2) return std::nullopt;
  for (const int i : {0, 1}) {
    const Op* total = reduction(reader, scaled->operands[at(i)], "add");
    const auto factor = reader.number(scaled->operands[at(1 - i)]);
    if (total == nullptr || !factor) continue;
    double count = 1;
    for (const std::int64_t dim : total->attributes.integers("dims"))
      count *= static_cast<double>(reader.shape(total->operands[0])[at(dim)]);
    const bool divides = reader.function_of(value) == divide && i == 0 && *factor == count;
    const double off = std::abs(*factor - 1 / count);
    const bool multiplies =
        reader.function_of(value) == multiply && off <= reader.rounding(scaled->operands[at(1 - i)]) + 1e-15 / count;
    if (divides || multiplies) return Mean{total->operands[0], total->attributes.integers("dims"), total};
  }
  return std::nullopt;
}

/// x where value = x * x.
ValueId squared(const Reader& reader, ValueId value) {
  value = reader.unconverted(value);
  if (const Op* product = reader.elementwise(value, multiply))
    return product->operands[0] == product->operands[1] ? product->operands[0] : no_value;
  const Op* raised = reader.elementwise(value, power);
  return raised != nullptr && reader.number(raised->operands[1]) == 2.0 ? raised->operands[0] : no_value;
}

/// x where value is x - mean(x) over dims.
struct Centered {
  ValueId x;
  Integers dims;
};
std::optional<Centered> centered_of(const Reader& reader, ValueId value) {
  const Op* difference = reader.elementwise(reader.unconverted(value), subtract);
  const auto mean = difference == nullptr ? std::nullopt : mean_of(reader, difference->operands[1]);
  if (!mean || reader.unconverted(mean->of) != reader.unconverted(difference->operands[0])) return std::nullopt;
  if (!reader.repeats(difference->operands[1], *mean->reduce, reader.rank(value))) return std::nullopt;
  return Centered{difference->operands[0], mean->dims};
}

/// Mean of x where value = mean(x^2) - mean(x)^2, perhaps kept above 0; `squares`: the sum of squares.
struct Variance {
  Mean mean;
  const Op* squares;
};
std::optional<Variance> fast_variance(const Reader& reader, ValueId value) {
  value = reader.peeled(value);
  if (const Op* positive = reader.elementwise(value, relu)) value = reader.peeled(positive->operands[0]);
  if (const Op* positive = reader.elementwise(value, maximum))
    for (const int i : {0, 1})
      if (reader.number(positive->operands[at(i)]) == 0.0) value = reader.peeled(positive->operands[at(1 - i)]);
  const Op* difference = reader.elementwise(value, subtract);
  if (difference == nullptr) return std::nullopt;
  const auto squares = mean_of(reader, difference->operands[0]);
  const ValueId root = squared(reader, reader.peeled(difference->operands[1]));
  const auto mean = root == no_value ? std::nullopt : mean_of(reader, root);
  const ValueId x = squares ? squared(reader, squares->of) : no_value;
  if (!mean || x == no_value || reader.unconverted(x) != reader.unconverted(mean->of)) return std::nullopt;
  if (squares->dims != mean->dims) return std::nullopt;
  return Variance{{x, mean->dims, mean->reduce}, squares->reduce};
}

/// Rows of `centered` divided by the root of the mean of their squares.
struct Deviation {
  ValueId centered;
  Integers dims;
  double epsilon;
  std::vector<const Op*> reduces;  ///< what must be repeated along the rows
  bool fast = false;               ///< of x itself, less the square of its mean
};
/// value = sqrt(mean(x^2) + epsilon), or its reciprocal.
std::optional<Deviation> deviation(const Reader& reader, ValueId value, bool inverse) {
  value = reader.peeled(value);
  ValueId inner = no_value;
  if (const Op* root = reader.elementwise(value, inverse ? rsqrt : sqrt)) {
    inner = root->operands[0];
  } else if (const Op* raised = reader.elementwise(value, power);
             raised != nullptr && reader.number(raised->operands[1]) == (inverse ? -0.5 : 0.5)) {
    inner = raised->operands[0];
  } else if (const Op* turned = reader.elementwise(value, reciprocal); turned != nullptr && inverse) {
    return deviation(reader, turned->operands[0], false);
  } else if (const Op* ratio = reader.elementwise(value, divide);
             ratio != nullptr && inverse && reader.number(ratio->operands[0]) == 1.0) {
    return deviation(reader, ratio->operands[1], false);
  } else {
    return std::nullopt;
  }
  const Op* sum = reader.elementwise(reader.peeled(inner), add);
  for (const int i : {0, 1}) {
    const auto epsilon = sum == nullptr ? std::nullopt : reader.number(sum->operands[at(i)]);
    if (!epsilon || *epsilon < 0) continue;
    if (const auto fast = fast_variance(reader, sum->operands[at(1 - i)]))
      return Deviation{fast->mean.of, fast->mean.dims, *epsilon, {fast->mean.reduce, fast->squares}, true};
    const auto mean = mean_of(reader, sum->operands[at(1 - i)]);
    const ValueId x = mean ? squared(reader, mean->of) : no_value;
    if (x != no_value) return Deviation{x, mean->dims, *epsilon, {mean->reduce}};
  }
  return std::nullopt;
}

/// The operand of a normalization, before it was widened if the result is as narrow as that.
ValueId source_of(const Reader& reader, ValueId x, ValueId root) {
  const ValueId narrow = reader.unconverted(x);
  return reader.type(narrow).dtype == reader.type(root).dtype ? narrow : x;
}

/// Scale or bias of normalized axes: the tensor that a value that varies over `dims` only broadcasts.
std::optional<ValueId> parameter(const Reader& reader, ValueId value, const TensorType& x, const Integers& dims) {
  const ValueId own = reader.peeled(value);
  Shape compact;
  for (const std::int64_t dim : dims) compact.push_back(x.shape[at(dim)]);
  std::erase(compact, 1);
  Shape shape = reader.shape(own);
  std::erase(shape, 1);
  if (shape != compact || !is_float(reader.type(own).dtype)) return std::nullopt;
  const auto places = reader.places(value, own);
  if (!places) return std::nullopt;
  const auto lead = static_cast<std::int64_t>(x.shape.size()) - reader.rank(value);
  Integers along, wanted;
  for (std::size_t i = 0; i < places->size(); ++i)
    if (reader.shape(own)[i] != 1) along.push_back((*places)[i] + lead);
  for (const std::int64_t dim : dims)
    if (x.shape[at(dim)] != 1) wanted.push_back(dim);
  return along == wanted ? std::optional(own) : std::nullopt;
}

Candidate norm_candidate(const Reader& reader, ValueId root, Values leaves, const std::string& mode,
                         const Integers& dims, double epsilon) {
  Candidate candidate;
  candidate.root = root;
  candidate.leaves = std::move(leaves);
  candidate.after = "normalize (" + mode + ")";
  const DType dtype = reader.type(root).dtype;
  candidate.build = [=](Builder& builder, const Values& given) {
    Attributes attributes;
    attributes.set("mode", mode);
    attributes.set("dims", dims);
    attributes.set("epsilon", epsilon);
    Values operands{given[0]};
    Shape shape;
    for (const std::int64_t dim : dims) shape.push_back(builder.type(given[0]).shape[at(dim)]);
    for (std::size_t i = 1; i < given.size(); ++i)
      operands.push_back(builder.type(given[i]).shape == shape ? given[i] : builder.reshape(given[i], shape));
    const ValueId y = builder.op(Kind::normalize, operands, attributes)[0];
    return builder.type(given[0]).dtype == DType::f64 ? y : builder.convert(y, dtype);
  };
  return candidate;
}

/// Matches rows times or divided by `rstd`; `scale` may be a factor of `rstd`.
std::vector<Candidate> rows_by(const Reader& reader, ValueId root, ValueId x, ValueId rstd, bool inverse,
                               ValueId scale) {
  const auto rows = deviation(reader, rstd, inverse);
  if (!rows || reader.shape(x) != reader.shape(root)) return {};
  const auto repeated = [&](const Op* reduce) { return reader.repeats(rstd, *reduce, reader.rank(root)); };
  if (!std::ranges::all_of(rows->reduces, repeated)) return {};
  std::vector<Candidate> found;
  Values parameters;
  if (scale != no_value) {
    const auto own = parameter(reader, scale, reader.type(x), rows->dims);
    if (!own) return {};
    parameters.push_back(*own);
  }
  const auto add_candidate = [&](ValueId leaf, const char* mode) {
    Values leaves{source_of(reader, leaf, root)};
    leaves.insert(leaves.end(), parameters.begin(), parameters.end());
    found.push_back(norm_candidate(reader, root, leaves, mode, rows->dims, rows->epsilon));
  };
  const auto centered = centered_of(reader, x);
  const ValueId wanted = rows->fast && centered ? centered->x : x;
  if (reader.unconverted(rows->centered) != reader.unconverted(wanted)) return {};
  if (centered && centered->dims == rows->dims) add_candidate(centered->x, "layer");
  if (!rows->fast) add_candidate(x, "rms");
  return found;
}

/// Matches normalized rows at a division or product.
std::vector<Candidate> match_rows(const Reader& reader, const Op& op) {
  const ValueId root = op.results[0];
  const auto function = reader.function_of(root);
  if (function == divide) return rows_by(reader, root, op.operands[0], op.operands[1], false, no_value);
  if (function != multiply) return {};
  for (const int i : {0, 1}) {
    const ValueId x = op.operands[at(i)], other = op.operands[at(1 - i)];
    auto found = rows_by(reader, root, x, other, true, no_value);
    const Op* scaled = reader.elementwise(reader.unconverted(other), multiply);
    for (const int k : {0, 1})
      if (found.empty() && scaled != nullptr)
        found = rows_by(reader, root, x, scaled->operands[at(k)], true, scaled->operands[at(1 - k)]);
    if (!found.empty()) return found;
  }
  return {};
}

/// Matches scale or bias after a normalization that has none yet.
std::vector<Candidate> match_affine(const Reader& reader, const Op& op) {
  const ValueId root = op.results[0];
  const auto function = reader.function_of(root);
  if (function != multiply && function != add) return {};
  for (const int i : {0, 1}) {
    const ValueId rows = reader.unconverted(op.operands[at(i)]);
    const Op* norm = reader.op(rows, Kind::normalize);
    if (norm == nullptr || norm->results.size() != 1 || !norm->attributes.find("dims")) continue;
    const std::string& mode = norm->attributes.text("mode");
    if (mode != "layer" && mode != "rms") continue;
    const bool scales = function == multiply;
    if (norm->operands.size() != (scales ? 1U : 2U)) continue;
    const Integers& dims = norm->attributes.integers("dims");
    const auto own = parameter(reader, op.operands[at(1 - i)], reader.type(norm->operands[0]), dims);
    if (!own || reader.shape(root) != reader.shape(rows)) continue;
    Values leaves = norm->operands;
    leaves[0] = source_of(reader, leaves[0], root);
    leaves.push_back(*own);
    return {norm_candidate(reader, root, leaves, mode, dims, norm->attributes.number("epsilon"))};
  }
  return {};
}

}  // namespace

std::vector<Candidate> match_normalize(const Reader& reader, const Op& op) {
  if (op.kind != Kind::elementwise || op.operands.size() != 2) return {};
  if (!is_float(reader.type(op.results[0]).dtype)) return {};
  std::vector<Candidate> found = match_affine(reader, op);
  return found.empty() ? match_rows(reader, op) : found;
}

}  // namespace tilesim::recognition
