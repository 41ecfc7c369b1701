#include "tilesim/graph/attention.hpp"

#include <algorithm>
#include <optional>

#include "tilesim/base/error.hpp"
#include "tilesim/base/index.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/graph/edit.hpp"
#include "tilesim/graph/kind.hpp"
#include "tilesim/graph/passes.hpp"

namespace tilesim {

namespace {

constexpr std::int64_t most_positions = std::int64_t{1} << 30;  // largest cache whose shared pages are counted

/// Elements of an integer constant; empty if the value depends on data.
std::optional<Array> known_integers(const Graph& graph, const GraphFunction& function, ValueId value) {
  for (const Op& op : function.ops) {
    if (op.kind != Kind::constant || op.results[0] != value) continue;
    const Weight& weight = graph.weights.at(op.attributes.text("reference"));
    if (weight.source == Weight::Source::random) return std::nullopt;
    return (weight.source == Weight::Source::data ? weight.data : weight.load(op.name)).to(DType::i64);
  }
  return std::nullopt;
}

/// Sum over s in [0, count) of s + by, clamped to [0, most].
double sum_between(std::int64_t count, std::int64_t by, std::int64_t most) {
  const std::int64_t from = std::clamp<std::int64_t>(-by, 0, count);
  const std::int64_t to = std::clamp<std::int64_t>(most - by, from, count);
  const auto rising = static_cast<double>(to - from);
  return rising * (static_cast<double>(from + by) + (rising - 1) / 2) +
         static_cast<double>(count - to) * static_cast<double>(most);
}

/// Keys [begin, end) that at least one query of a row sees, and the number of pairs (query, visible key).
struct Seen {
  std::int64_t begin = 0, end = 0;
  double pairs = 0;
  std::int64_t queries = 0;  ///< queries that see at least one key
};
Seen seen_of(const Op& op, const AttentionShape& shape, std::int64_t length) {
  if (shape.queries == 0 || length == 0) return {};
  const std::int64_t window = op.attributes.integer("window", 0), offset = shape.offset(op, length);
  const bool causal = op.attributes.flag("causal");
  Seen seen{0, length, static_cast<double>(shape.queries) * static_cast<double>(length), shape.queries};
  std::int64_t first = 0, last = shape.queries;  // range of queries that see at least one key
  if (causal) {
    seen.end = std::clamp<std::int64_t>(shape.queries + offset, 0, length);
    seen.pairs = sum_between(shape.queries, offset + 1, length);
    first = std::clamp<std::int64_t>(-offset, 0, shape.queries);
  }
  if (window > 0) {
    seen.begin = std::clamp<std::int64_t>(offset - window + 1, 0, seen.end);
    seen.pairs -= sum_between(shape.queries, offset - window + 1, length);
    last = std::clamp<std::int64_t>(length + window - 1 - offset, 0, shape.queries);
  }
  seen.queries = std::max<std::int64_t>(0, last - first);
  return seen;
}

/// Counts the distinct page rows to which table entries [b, ..] map the keys [begin, end) of each batch row.
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
    reach.queries += seen.queries;
    reach.rows += seen.end - seen.begin;
    longest = std::max(longest, seen.end - seen.begin);
    if (places) places->add(b, seen.begin, seen.end);
  }
  // All entries of a table that depends on data may name the same page.
  if (shape.paged()) reach.rows = places ? places->count() : std::min(longest, shape.page);
  return reach;
}

namespace {

bool is_constant(const GraphFunction& function, ValueId value) {
  return std::ranges::any_of(function.ops,
                             [&](const Op& op) { return op.kind == Kind::constant && op.results[0] == value; });
}

/// Visits the lengths and the page table of every attention that has them.
template <class Visit>
void for_each_table(GraphFunction& function, const Visit& visit) {
  for (Op& op : function.ops)
    if (op.kind == Kind::attention)
      for (const std::size_t index : {attention_kv_len, attention_pages})
        if (index < op.operands.size() && op.operands[index] != no_value) visit(op, index);
}

/// Whether any attention has lengths or pages.
bool has_tables(const Graph& graph) {
  return std::ranges::any_of(graph.functions, [](const GraphFunction& function) {
    return std::ranges::any_of(
        function.ops, [](const Op& op) { return op.kind == Kind::attention && op.operands.size() > attention_kv_len; });
  });
}

}  // namespace

Array full_lengths(const AttentionShape& shape) {
  Array lengths(DType::i64, {shape.batch});
  std::fill_n(lengths.as<std::int64_t>(), shape.batch, shape.keys);
  return lengths;
}

Array pages_in_order(const AttentionShape& shape) {
  Array pages(DType::i64, {shape.batch, shape.cache / shape.page});
  for (std::int64_t i = 0; i < pages.size(); ++i) pages.as<std::int64_t>()[i] = i % shape.stored;
  return pages;
}

AttentionData usual_attention_data(const Graph& graph) {
  if (!has_tables(graph)) return {};
  Graph plain = graph;
  inline_calls(plain);
  GraphFunction& function = plain.entry();
  AttentionData data;
  for_each_table(function, [&](const Op& op, std::size_t index) {
    if (is_constant(function, op.operands[index])) return;
    const AttentionShape shape = attention_shape(function, op);
    data.try_emplace(function.value(op.operands[index]).name,
                     index == attention_pages ? pages_in_order(shape) : full_lengths(shape));
  });
  return data;
}

std::optional<AttentionFault> attention_fault(const AttentionShape& shape, const Array& lengths, const Array& pages) {
  const Array known = lengths.empty() ? Array() : lengths.to(DType::i64);
  for (std::int64_t b = 0; b < known.size(); ++b)
    if (const std::int64_t length = known.as<std::int64_t>()[b]; length < 0 || length > shape.keys)
      return AttentionFault{"kv_len of an attention exceeds its cache",
                            std::to_string(length) + " of batch row " + std::to_string(b),
                            "0 to " + std::to_string(shape.keys)};
  if (pages.empty() || (shape.lengths && known.empty())) return std::nullopt;
  const Array table = pages.to(DType::i64);
  const std::int64_t columns = table.shape()[1];
  for (std::int64_t b = 0; b < shape.batch; ++b) {
    const std::int64_t length = known.empty() ? shape.keys : known.as<std::int64_t>()[b];
    for (std::int64_t i = 0; i * shape.page < length; ++i)
      if (const std::int64_t page = table.as<std::int64_t>()[b * columns + i]; page < 0 || page >= shape.stored)
        return AttentionFault{"a page of an attention lies outside its cache",
                              "page " + std::to_string(page) + " (batch row " + std::to_string(b) + ", entry " +
                                  std::to_string(i) + " of the page table)",
                              "0 to " + std::to_string(shape.stored - 1)};
  }
  return std::nullopt;
}

void check_attention_data(const Graph& graph, const AttentionData& data) {
  if (data.empty() || !has_tables(graph)) return;
  Graph plain = graph;
  inline_calls(plain);
  const GraphFunction& function = plain.entry();
  for (const Op& op : function.ops) {
    if (op.kind != Kind::attention) continue;
    std::string place = op.name;
    const auto given = [&](std::size_t index) {
      if (index >= op.operands.size() || op.operands[index] == no_value) return Array();
      const Value& value = function.value(op.operands[index]);
      const auto found = data.find(value.name);
      if (found == data.end() || found->second.shape() != value.type.shape) return Array();
      place += ", " + value.name;
      return found->second;
    };
    const Array lengths = given(attention_kv_len), pages = given(attention_pages);
    if (const auto fault = attention_fault(attention_shape(function, op), lengths, pages))
      throw UserError({fault->what, place, fault->value, fault->allowed, {}});
  }
}

void know_attention_data(Graph& graph, const AttentionData& data) {
  if (data.empty() || !has_tables(graph)) return;
  GraphFunction& function = graph.entry();
  std::map<std::string, ValueId> made;
  std::vector<Op> constants;
  edit::Names names(function);
  for_each_table(function, [&](Op& op, std::size_t index) {
    const std::string name = function.value(op.operands[index]).name;
    const auto found = data.find(name);
    if (found == data.end() || is_constant(function, op.operands[index])) return;
    const TensorType type = function.value(op.operands[index]).type;
    if (found->second.shape() != type.shape) return;
    const auto [known, fresh] = made.try_emplace(name, no_value);
    if (fresh) {
      const std::string own = edit::fresh_weight(graph, names.fresh(name + ".known"));
      constants.push_back(edit::constant(function, names, own, type));
      known->second = constants.back().results[0];
      Weight& weight = graph.weights[own];
      weight.type = type;
      weight.source = Weight::Source::data;
      weight.data = found->second.to(type.dtype);
      weight.trainable = false;
    }
    op.operands[index] = known->second;
  });
  std::ranges::move(function.ops, std::back_inserter(constants));
  function.ops = std::move(constants);
}

}  // namespace tilesim
