// attention: scores of a block of queries, masked softmax in rows, product with v. Both products follow `numerics`.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "tilesim/base/index.hpp"
#include "tilesim/kernels/gemm.hpp"

namespace tilesim::kernels {
namespace {

struct Settings {
  double scale = 1, soft_cap = 0;
  bool causal = false, zero_row = true;
  std::int64_t offset = 0, window = 0;
};

struct Extents { std::int64_t batch = 0, heads = 0, key_heads = 0, queries = 0, keys = 0, depth = 0, width = 0; };

/// Keys [begin, end) visible to query `s`, apart from the mask operand.
std::pair<std::int64_t, std::int64_t> visible(const Settings& settings, const Extents& e, std::int64_t s) {
  std::int64_t begin = 0, end = e.keys;
  if (settings.causal) end = std::clamp<std::int64_t>(s + settings.offset + 1, 0, e.keys);
  if (settings.window > 0) begin = std::clamp<std::int64_t>(s + settings.offset - settings.window + 1, 0, e.keys);
  return {std::min(begin, end), end};
}

/// Scores to probabilities, in place. `mask` (added; -inf hides) may be null.
template <class T>
void probabilities(const Settings& settings, T* scores, const T* mask, std::int64_t keys, std::int64_t begin,
                   std::int64_t end) {
  const double lowest = -std::numeric_limits<double>::infinity();
  double best = lowest;
  std::fill(scores, scores + begin, T{0});
  std::fill(scores + end, scores + keys, T{0});
  for (std::int64_t t = begin; t < end; ++t) {
    double score = scores[t] * settings.scale;
    if (settings.soft_cap > 0) score = settings.soft_cap * std::tanh(score / settings.soft_cap);
    if (mask != nullptr)
      score = mask[t] == -std::numeric_limits<T>::infinity() ? lowest : score + static_cast<double>(mask[t]);
    scores[t] = static_cast<T>(score);
    best = score > best || score != score ? score : best;
  }
  if (best == lowest) {  // nothing visible
    std::fill(scores, scores + keys, settings.zero_row ? T{0} : std::numeric_limits<T>::quiet_NaN());
    return;
  }
  double sum = 0;
  for (std::int64_t t = begin; t < end; ++t) {
    scores[t] = std::exp(static_cast<T>(scores[t] - best));
    sum += scores[t];
  }
  for (std::int64_t t = begin; t < end; ++t) scores[t] = static_cast<T>(scores[t] / sum);
}

/// The first `count` positions of an axis.
Array first_of(const Array& x, std::int64_t axis, std::int64_t count) {
  const Shape& shape = x.shape();
  if (shape[at(axis)] == count) return x;
  Shape narrow = shape;
  narrow[at(axis)] = count;
  Array part(x.dtype(), narrow);
  std::int64_t rows = 1, inner = host_bytes(x.dtype());
  for (std::size_t i = 0; i < shape.size(); ++i)
    if (i != at(axis)) (i < at(axis) ? rows : inner) *= shape[i];
  for (std::int64_t row = 0; row < rows; ++row)
    std::memcpy(part.bytes() + row * count * inner, x.bytes() + row * shape[at(axis)] * inner, at(count * inner));
  return part;
}

/// The mask in the accumulator's type, to add, broadcast to [B, H, S, T]; bool: 0 or -inf.
Array additive_mask(const Array& mask, const Extents& e, DType sum_type) {
  Array added = mask.to(sum_type);
  if (mask.dtype() == DType::boolean) {
    Array values(DType::f64, mask.shape());
    for (std::int64_t i = 0; i < mask.size(); ++i) {
      values.as<double>()[i] = mask.as<std::uint8_t>()[i] != 0 ? 0.0 : -std::numeric_limits<double>::infinity();
    }
    added = values.to(sum_type);
  }
  return broadcasted(added, {e.batch, e.heads, e.queries, e.keys});
}

/// One head: q [S, D], k [T, D], v [T, E] -> out [S, E], a block of queries at a time.
template <class T>
void head(const Call& call, const Settings& settings, const Extents& e, const T* q, const T* k, const T* v,
          const T* mask, T* out, DType sum_type) {
  const std::int64_t block =
      std::clamp<std::int64_t>((std::int64_t{1} << 20) / std::max<std::int64_t>(1, e.keys), 1, e.queries);
  for (std::int64_t s = 0; s < e.queries; s += block) {
    const std::int64_t rows = std::min(block, e.queries - s);
    Array scores(sum_type, {rows, e.keys});
    gemm(call, {rows, e.keys, e.depth, true}, q + s * e.depth, k, scores.as<T>());
    for (std::int64_t row = 0; row < rows; ++row) {
      const auto [begin, end] = visible(settings, e, s + row);
      const T* mask_row = mask == nullptr ? nullptr : mask + (s + row) * e.keys;
      probabilities(settings, scores.as<T>() + row * e.keys, mask_row, e.keys, begin, end);
    }
    const Array weights = product_operand(call, scores, sum_type);
    T* part = out + s * e.width;
    if (e.keys == 0)
      std::fill(part, part + rows * e.width, settings.zero_row ? T{0} : std::numeric_limits<T>::quiet_NaN());
    gemm(call, {rows, e.width, e.keys, false}, weights.as<T>(), v, part);
  }
}

Settings settings_of(const Call& call, const Extents& e) {
  const Attributes& attributes = call.attributes();
  Settings settings;
  settings.scale = attributes.number("scale", 1 / std::sqrt(static_cast<double>(e.depth)));
  settings.soft_cap = attributes.number("soft_cap", 0);
  settings.causal = attributes.flag("causal");
  settings.offset = attributes.integer("causal_offset", e.keys - e.queries);
  settings.window = attributes.integer("window", 0);
  settings.zero_row = attributes.text("masked_row", "zero") == "zero";
  return settings;
}

}  // namespace

Results attention(const Call& call) {
  const Array& q = call.operand(0);
  const std::int64_t attended = call.attributes().integer("kv_len", call.operand(1).shape()[2]);
  const Array k = first_of(call.operand(1), 2, attended), v = first_of(call.operand(2), 2, attended);
  const TensorType& type = call.result();
  if (!is_float(q.dtype())) call.unsupported("attention of integers");
  const Extents e{q.shape()[0], q.shape()[1], k.shape()[1], q.shape()[2], k.shape()[2], q.shape()[3], v.shape()[3]};
  const Settings settings = settings_of(call, e);
  const DType sum_type = accumulator(call, q.dtype(), k.dtype(), type.dtype);
  const Array queries = product_operand(call, q, sum_type), keys = product_operand(call, k, sum_type);
  const Array values = product_operand(call, v, sum_type);
  Array mask;
  if (call.has(3)) {
    mask = call.operand(3);
    const std::int64_t last = static_cast<std::int64_t>(mask.shape().size()) - 1;
    if (last >= 0 && mask.shape()[at(last)] > 1) mask = first_of(mask, last, attended);
    mask = additive_mask(mask, e, sum_type);
  }
  Array out(sum_type, {e.batch, e.heads, e.queries, e.width});
  with_float(sum_type == DType::f64 ? Compute::f64 : Compute::f32, [&](auto zero) {
    using T = decltype(zero);
    for (std::int64_t i = 0; i < e.batch * e.heads; ++i) {
      const std::int64_t shared = i / e.heads * e.key_heads + i % e.heads / (e.heads / e.key_heads);
      head(call, settings, e, queries.as<T>() + i * e.queries * e.depth, keys.as<T>() + shared * e.keys * e.depth,
           values.as<T>() + shared * e.keys * e.width, call.has(3) ? mask.as<T>() + i * e.queries * e.keys : nullptr,
           out.as<T>() + i * e.queries * e.width, sum_type);
    }
  });
  return {out.to(type.dtype)};
}

}  // namespace tilesim::kernels
