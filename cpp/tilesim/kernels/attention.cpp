// attention: scores of a block of queries, masked softmax in rows, product with v. Both products follow `numerics`.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "tilesim/base/index.hpp"
#include "tilesim/graph/attention.hpp"
#include "tilesim/kernels/gemm.hpp"

namespace tilesim::kernels {
namespace {

struct Settings {
  double scale = 1, soft_cap = 0;
  bool causal = false, zero_row = true;
  std::int64_t window = 0;
};

/// Extents for one row of the batch: `keys` of this row, `columns` of a row of the mask.
struct HeadExtents {
  std::int64_t heads = 0, key_heads = 0, queries = 0, keys = 0, depth = 0, width = 0, columns = 0, offset = 0;
};

/// Keys [begin, end) visible to query `s`, without regard to the mask operand.
std::pair<std::int64_t, std::int64_t> visible(const Settings& settings, const HeadExtents& e, std::int64_t s) {
  std::int64_t begin = 0, end = e.keys;
  if (settings.causal) end = std::clamp<std::int64_t>(s + e.offset + 1, 0, e.keys);
  if (settings.window > 0) begin = std::clamp<std::int64_t>(s + e.offset - settings.window + 1, 0, e.keys);
  return {std::min(begin, end), end};
}

/// Turns scores into probabilities in place; returns the logarithm of the sum of their exponentials. `mask` (added;
/// -inf hides) may be null.
template <class T>
double probabilities(const Settings& settings, T* scores, const T* mask, std::int64_t keys, std::int64_t begin,
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
    return lowest;
  }
  double sum = 0;
  for (std::int64_t t = begin; t < end; ++t) {
    scores[t] = std::exp(static_cast<T>(scores[t] - best));
    sum += scores[t];
  }
  for (std::int64_t t = begin; t < end; ++t) scores[t] = static_cast<T>(scores[t] / sum);
  return best + std::log(sum);
}

/// The keys or values of one row of the batch, [G, keys, width]: the first ones of its cache, or through its pages.
Array row_of(const Array& x, const AttentionShape& shape, const Array& pages, std::int64_t row, std::int64_t keys) {
  const std::int64_t width = x.shape()[3], line = width * host_bytes(x.dtype()), held = x.shape()[2];
  Array part(x.dtype(), {shape.key_heads, keys, width});
  const auto copy = [&](std::int64_t lead, std::int64_t group, std::int64_t from, std::int64_t count) {
    if (count > 0)
      std::memcpy(part.bytes() + (group * keys + from) * line,
                  x.bytes() + (lead * shape.key_heads + group) * held * line, at(count * line));
  };
  for (std::int64_t group = 0; group < shape.key_heads; ++group) {
    if (!shape.paged()) copy(row, group, 0, keys);
    for (std::int64_t from = 0; shape.paged() && from < keys; from += shape.page) {
      const std::int64_t page = pages.as<std::int64_t>()[row * pages.shape()[1] + from / shape.page];
      copy(page, group, from, std::min(shape.page, keys - from));
    }
  }
  return part;
}

/// Keys that each row of the batch has.
std::vector<std::int64_t> lengths_of(const Call& call, const AttentionShape& shape) {
  std::vector<std::int64_t> lengths(at(shape.batch), shape.keys);
  if (!call.has(attention_kv_len)) return lengths;
  const Array given = call.operand(attention_kv_len).to(DType::i64);
  std::copy_n(given.as<std::int64_t>(), shape.batch, lengths.begin());
  return lengths;
}

/// The mask in the accumulator's type, to add, broadcast to [B, H, S, T]; bool: 0 or -inf.
Array additive_mask(const Array& mask, const AttentionShape& shape, DType sum_type) {
  Array added = mask.to(sum_type);
  if (mask.dtype() == DType::boolean) {
    Array values(DType::f64, mask.shape());
    for (std::int64_t i = 0; i < mask.size(); ++i) {
      values.as<double>()[i] = mask.as<std::uint8_t>()[i] != 0 ? 0.0 : -std::numeric_limits<double>::infinity();
    }
    added = values.to(sum_type);
  }
  return broadcasted(added, {shape.batch, shape.heads, shape.queries, shape.cache});
}

/// One head: q [S, D], k [T, D], v [T, E] -> out [S, E], lse [S], a block of queries at a time.
template <class T>
void head(const Call& call, const Settings& settings, const HeadExtents& e, const T* q, const T* k, const T* v,
          const T* mask, T* out, T* lse, DType sum_type) {
  const std::int64_t block =
      std::clamp<std::int64_t>((std::int64_t{1} << 20) / std::max<std::int64_t>(1, e.keys), 1, e.queries);
  for (std::int64_t s = 0; s < e.queries; s += block) {
    const std::int64_t rows = std::min(block, e.queries - s);
    Array scores(sum_type, {rows, e.keys});
    gemm(call, {rows, e.keys, e.depth, true}, q + s * e.depth, k, scores.as<T>());
    for (std::int64_t row = 0; row < rows; ++row) {
      const auto [begin, end] = visible(settings, e, s + row);
      const T* mask_row = mask == nullptr ? nullptr : mask + (s + row) * e.columns;
      const double sum = probabilities(settings, scores.as<T>() + row * e.keys, mask_row, e.keys, begin, end);
      lse[s + row] = static_cast<T>(sum);
    }
    const Array weights = product_operand(call, scores, sum_type);
    T* part = out + s * e.width;
    if (e.keys == 0)
      std::fill(part, part + rows * e.width, settings.zero_row ? T{0} : std::numeric_limits<T>::quiet_NaN());
    gemm(call, {rows, e.width, e.keys, false}, weights.as<T>(), v, part);
  }
}

Settings settings_of(const Call& call, const AttentionShape& shape) {
  const Attributes& attributes = call.attributes();
  Settings settings;
  settings.scale = attributes.number("scale", 1 / std::sqrt(static_cast<double>(shape.depth)));
  settings.soft_cap = attributes.number("soft_cap", 0);
  settings.causal = attributes.flag("causal");
  settings.window = attributes.integer("window", 0);
  settings.zero_row = attributes.text("masked_row", "zero") == "zero";
  return settings;
}

}  // namespace

Results attention(const Call& call) {
  const Array& q = call.operand(attention_q);
  const TensorType& type = call.result();
  if (!is_float(q.dtype())) call.unsupported("attention of integers");
  const AttentionShape shape = attention_shape(call.function, call.op);
  const Settings settings = settings_of(call, shape);
  const auto table = [&](std::size_t operand) { return call.has(operand) ? call.operand(operand) : Array(); };
  if (const auto fault = attention_fault(shape, table(attention_kv_len), table(attention_pages)))
    call.fail(fault->what, fault->value, fault->allowed);
  const std::vector<std::int64_t> lengths = lengths_of(call, shape);
  const Array pages = shape.paged() ? table(attention_pages).to(DType::i64) : Array();
  const DType sum_type = accumulator(call, q.dtype(), q.dtype(), type.dtype);
  const Array queries = product_operand(call, q, sum_type);
  const bool masked = call.has(attention_mask);
  const Array mask = masked ? additive_mask(call.operand(attention_mask), shape, sum_type) : Array();
  Array out(sum_type, {shape.batch, shape.heads, shape.queries, shape.width});
  Array lse(sum_type, {shape.batch, shape.heads, shape.queries});
  with_float(sum_type == DType::f64 ? Compute::f64 : Compute::f32, [&](auto zero) {
    using T = decltype(zero);
    for (std::int64_t b = 0; b < shape.batch; ++b) {
      const std::int64_t length = lengths[at(b)];
      const HeadExtents e{shape.heads, shape.key_heads, shape.queries, length,
                          shape.depth, shape.width,     shape.cache,   shape.offset(call.op, length)};
      const auto own = [&](std::size_t operand) {
        return product_operand(call, row_of(call.operand(operand), shape, pages, b, length), sum_type);
      };
      const Array keys = own(attention_k), values = own(attention_v);
      for (std::int64_t h = 0; h < e.heads; ++h) {
        const std::int64_t i = b * e.heads + h, shared = h / (e.heads / e.key_heads);
        head(call, settings, e, queries.as<T>() + i * e.queries * e.depth, keys.as<T>() + shared * e.keys * e.depth,
             values.as<T>() + shared * e.keys * e.width, masked ? mask.as<T>() + i * e.queries * e.columns : nullptr,
             out.as<T>() + i * e.queries * e.width, lse.as<T>() + i * e.queries, sum_type);
      }
    }
  });
  Results results{out.to(type.dtype)};
  if (call.op.results.size() > 1) results.push_back(lse.to(call.result(1).dtype));
  return results;
}

}  // namespace tilesim::kernels
