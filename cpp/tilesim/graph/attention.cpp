#include "tilesim/graph/attention.hpp"

#include <algorithm>
#include <optional>

#include "tilesim/base/index.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/graph/kind.hpp"

namespace tilesim {

namespace {

constexpr std::int64_t most_positions = std::int64_t{1} << 30;  // of a cache whose shared pages are counted

/// Elements of a constant of integers; none: data alone says them.
std::optional<Array> known_integers(const Graph& graph, const GraphFunction& function, ValueId value) {
  for (const Op& op : function.ops) {
    if (op.kind != Kind::constant || op.results[0] != value) continue;
    const Weight& weight = graph.weights.at(op.attributes.text("reference"));
    if (weight.source == Weight::Source::random) return std::nullopt;
    return (weight.source == Weight::Source::data ? weight.data : weight.load(op.name)).to(DType::i64);
  }
  return std::nullopt;
}

/// The sum of s + by, between 0 and `most`, over s of [0, count).
double sum_between(std::int64_t count, std::int64_t by, std::int64_t most) {
  const std::int64_t from = std::clamp<std::int64_t>(-by, 0, count);
  const std::int64_t to = std::clamp<std::int64_t>(most - by, from, count);
  const auto rising = static_cast<double>(to - from);
  return rising * (static_cast<double>(from + by) + (rising - 1) / 2) +
         static_cast<double>(count - to) * static_cast<double>(most);
}

/// Keys [begin, end) that some query of a row sees, and pairs of a query and one of them.
struct Seen {
  std::int64_t begin = 0, end = 0;
  double pairs = 0;
};
Seen seen_of(const Op& op, const AttentionShape& shape, std::int64_t length) {
  if (shape.queries == 0) return {};
  const std::int64_t window = op.attributes.integer("window", 0), offset = shape.offset(op, length);
  const bool causal = op.attributes.flag("causal");
  Seen seen{0, length, static_cast<double>(shape.queries) * static_cast<double>(length)};
  if (causal) {
    seen.end = std::clamp<std::int64_t>(shape.queries + offset, 0, length);
    seen.pairs = sum_between(shape.queries, offset + 1, length);
  }
  if (window > 0) {
    seen.begin = std::clamp<std::int64_t>(offset - window + 1, 0, seen.end);
    seen.pairs -= sum_between(shape.queries, offset - window + 1, length);
  }
  return seen;
}

/// Different rows of pages that entries [b, ..] of a table name for keys [begin, end) of each row of the batch.
class SharedPages {
 public:
  SharedPages(const Array& table, const AttentionShape& shape)
      : table_(table), page_(shape.page), columns_(shape.cache / shape.page), seen_(at(shape.stored * shape.page)) {}
  void add(std::int64_t b, std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      const std::int64_t place = table_.as<std::int64_t>()[b * columns_ + t / page_] * page_ + t % page_;
      if (place >= 0 && at(place) < seen_.size()) seen_[at(place)] = true;
    }
  }
  std::int64_t count() const { return std::ranges::count(seen_, true); }

 private:
  const Array& table_;
  std::int64_t page_, columns_;
  std::vector<bool> seen_;
};

}  // namespace

AttentionShape attention_shape(const Op& op, std::span<const TensorType* const> operands) {
  const Shape &q = operands[attention_q]->shape, &k = operands[attention_k]->shape;
  AttentionShape shape;
  shape.batch = q[0], shape.heads = q[1], shape.queries = q[2], shape.depth = q[3];
  shape.key_heads = k[1];
  shape.width = operands[attention_v]->shape[3];
  shape.lengths = operands.size() > attention_kv_len && operands[attention_kv_len];
  shape.cache = k[2];
  if (operands.size() > attention_pages && operands[attention_pages]) {
    shape.page = k[2];
    shape.stored = k[0];
    shape.cache = k[2] * operands[attention_pages]->shape[1];
  }
  shape.keys = op.attributes.integer("kv_len", shape.cache);
  return shape;
}

AttentionShape attention_shape(const GraphFunction& function, const Op& op) {
  return attention_shape(op, operand_types(function, op));
}

AttentionReach attention_reach(const Graph& graph, const GraphFunction& function, const Op& op) {
  const AttentionShape shape = attention_shape(function, op);
  AttentionReach reach;
  reach.lengths.assign(at(shape.batch), shape.keys);
  if (shape.lengths) {
    const auto known = known_integers(graph, function, op.operands[attention_kv_len]);
    reach.known = known.has_value();
    for (std::int64_t b = 0; b < shape.batch; ++b)
      reach.lengths[at(b)] = known ? std::clamp<std::int64_t>(known->as<std::int64_t>()[b], 0, shape.keys) : 0;
  }
  const auto table =
      shape.paged() ? known_integers(graph, function, op.operands[attention_pages]) : std::optional<Array>();
  std::optional<SharedPages> places;
  if (table && shape.stored <= most_positions / shape.page) places.emplace(*table, shape);
  std::int64_t longest = 0, last = -1;
  Seen seen;
  for (std::int64_t b = 0; b < shape.batch; ++b) {
    if (reach.lengths[at(b)] != last) seen = seen_of(op, shape, last = reach.lengths[at(b)]);
    reach.pairs += seen.pairs;
    reach.rows += seen.end - seen.begin;
    longest = std::max(longest, seen.end - seen.begin);
    if (places) places->add(b, seen.begin, seen.end);
  }
  // Every entry of an unknown table may name the same page.
  if (shape.paged()) reach.rows = places ? places->count() : std::min(longest, shape.page);
  return reach;
}

}  // namespace tilesim
