// Recognises attention in primitive operations: product, scale, cap, masks, softmax, product. Batch axes vary in k and
// v too; the other axes of the scores share keys: query heads of one key head, and queries.
#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>

#include "tilesim/base/shape.hpp"
#include "tilesim/graph/kind.hpp"
#include "tilesim/graph/patterns/attention.hpp"

namespace tilesim::recognition {

namespace {

using namespace attention_layout;
using enum Function;

constexpr double hides = -1e30;  ///< numbers below hide a key whatever its score

/// The changes of the scores between the two products.
struct Scores {
  double scale = 1, soft_cap = 0;
  Values added;               ///< masks and biases that are added
  ValueId kept = no_value;    ///< condition of a select that hides where false
  ValueId hidden = no_value;  ///< .. where true
  double hiding = 0;          ///< what it hides with
  const Op* product = nullptr;
  Integers order;                ///< axis i of the softmax is axis order[i] of where we are
  std::vector<Integers> levels;  ///< order where each added mask was met, then that of the select
  Integers select_level;
};

/// The operand that leads to the scores, and the other operand as a number.
struct Step {
  ValueId next;
  double number;
};
std::optional<Step> with_number(const Reader& reader, const Op& op, bool either) {
  if (const auto right = reader.number(op.operands[1])) return Step{op.operands[0], *right};
  if (!either) return std::nullopt;
  if (const auto left = reader.number(op.operands[0])) return Step{op.operands[1], *left};
  return std::nullopt;
}

/// Whether a value is computed from a product by elementwise operations.
bool leads_to_product(const Reader& reader, ValueId value, int depth = 12) {
  const Op* op = reader.op(value);
  if (op == nullptr || depth == 0) return false;
  if (op->kind == Kind::contract) return true;
  if (op->kind != Kind::elementwise && op->kind != Kind::convert && op->kind != Kind::transpose) return false;
  return std::ranges::any_of(op->operands, [&](ValueId id) { return leads_to_product(reader, id, depth - 1); });
}

/// Moves one operation from the softmax towards the product; false if the operation does not belong to attention.
bool descend(const Reader& reader, ValueId& value, Scores& scores) {
  const Op* op = reader.op(value);
  if (op == nullptr) return false;
  if (op->kind == Kind::convert) {
    value = op->operands[0];
    return is_float(reader.type(value).dtype);
  }
  if (op->kind == Kind::transpose) {
    value = op->operands[0];
    for (std::int64_t& axis : scores.order) axis = op->attributes.integers("permutation")[at(axis)];
    return true;
  }
  const auto function = reader.function_of(value);
  const bool below = scores.scale != 1 || scores.soft_cap != 0;
  if (function == multiply || function == divide) {
    const auto step = with_number(reader, *op, function == multiply);
    if (!step || step->number == 0) return false;
    const double factor = function == multiply ? step->number : 1 / step->number;
    const Op* bounded = reader.elementwise(reader.unconverted(step->next), tanh);
    if (bounded != nullptr && function == multiply && !below) {
      scores.soft_cap = step->number;
      scores.scale = step->number;  // of what the tanh reads
      value = bounded->operands[0];
      return true;
    }
    scores.scale *= factor;
    value = step->next;
    return true;
  }
  if (function == add && !below) {
    const int score = leads_to_product(reader, op->operands[0]) ? 0 : 1;
    scores.added.push_back(op->operands[at(1 - score)]);
    scores.levels.push_back(scores.order);
    value = op->operands[at(score)];
    return true;
  }
  if (function == select && !below && scores.kept == no_value && scores.hidden == no_value) {
    for (const int i : {1, 2}) {
      const auto number = reader.number(op->operands[at(i)]);
      if (!number || *number > hides) continue;
      (i == 2 ? scores.kept : scores.hidden) = op->operands[0];
      scores.hiding = *number;
      scores.select_level = scores.order;
      value = op->operands[at(3 - i)];
      return true;
    }
  }
  return false;
}

std::optional<Scores> scores_of(const Reader& reader, ValueId value) {
  Scores scores;
  scores.order.resize(reader.shape(value).size());
  std::iota(scores.order.begin(), scores.order.end(), 0);
  for (int step = 0; step < 16; ++step) {
    if (const Op* product = reader.op(value, Kind::contract)) {
      if (product->operands.size() != 2) return std::nullopt;
      scores.product = product;
      // Levels from the product's axes: axis a of the scores is axis level[a] of the mask.
      const auto from_product = [&](Integers& level) {
        Integers mapped(level.size());
        for (std::size_t i = 0; i < level.size(); ++i) mapped[at(scores.order[i])] = level[i];
        level = mapped;
      };
      for (Integers& level : scores.levels) from_product(level);
      if (!scores.select_level.empty()) {
        from_product(scores.select_level);
        scores.levels.push_back(scores.select_level);
      }
      return scores;
    }
    if (!descend(reader, value, scores)) return std::nullopt;
  }
  return std::nullopt;
}

/// The operand of a product without a numeric factor, by which `scale` is multiplied.
ValueId unscaled(const Reader& reader, ValueId value, double& scale) {
  const ValueId inner = reader.unconverted(value);
  const auto function = reader.function_of(inner);
  if (function != multiply && function != divide) return value;
  const auto step = with_number(reader, *reader.op(inner), function == multiply);
  if (!step || step->number == 0) return value;
  scale *= function == multiply ? step->number : 1 / step->number;
  return step->next;
}

/// The mask before a broadcast to the scores' shape, if there is one.
ValueId before_broadcast(const Reader& reader, ValueId mask) {
  const Op* op = reader.op(mask, Kind::broadcast);
  if (op == nullptr) return mask;
  const Integers& dims = op->attributes.integers("dims");
  const std::int64_t lead = reader.rank(mask) - static_cast<std::int64_t>(dims.size());
  for (std::size_t i = 0; i < dims.size(); ++i)
    if (dims[i] != lead + static_cast<std::int64_t>(i)) return mask;
  return before_broadcast(reader, op->operands[0]);
}

struct AttentionMatch {
  Layout layout;
  std::vector<Integers> levels;  ///< of the masks: axes of the scores in their order
  double scale, soft_cap;
  std::string masked_row;
  std::size_t added;    ///< leaves 3 .. are added to the scores
  bool kept, inverted;  ///< the leaf behind them hides where false (inverted: true)
  double hiding;        ///< what it hides with
  DType root;
};

/// The one mask operand, or no_value.
ValueId mask_of(Builder& builder, const AttentionMatch& match, const Values& leaves, const Shape& full) {
  const DType wide = builder.type(leaves[0]).dtype == DType::f64 ? DType::f64 : DType::f32;
  ValueId mask = no_value;
  const auto join_mask = [&](ValueId next) {
    next = builder.type(next).dtype == DType::boolean ? next : builder.convert(next, wide);
    mask = mask == no_value ? next : builder.elementwise(add, {mask, next});
  };
  for (std::size_t i = 3; i < 3 + match.added; ++i)
    join_mask(four_mask(builder, leaves[i], full, match.layout, match.levels[i - 3]));
  if (!match.kept) return mask;
  const ValueId keep = four_mask(builder, leaves.back(), full, match.layout, match.levels.back());
  if (match.hiding == -std::numeric_limits<double>::infinity() && mask == no_value)
    return match.inverted ? builder.elementwise(logical_not, {keep}) : keep;
  const ValueId zero = builder.scalar(0, wide), hidden = builder.scalar(match.hiding, wide);
  join_mask(builder.elementwise(select, {keep, match.inverted ? hidden : zero, match.inverted ? zero : hidden}));
  return mask;
}

ValueId build_attention(Builder& builder, const AttentionMatch& match, const Values& leaves) {
  const Layout& layout = match.layout;
  const ValueId q = turned(builder, leaves[0], layout.q), k = turned(builder, leaves[1], layout.k);
  const ValueId v = turned(builder, leaves[2], layout.v);
  const Shape rows = builder.type(q).shape, keys = builder.type(k).shape, values = builder.type(v).shape;
  Shape full = rows;
  full.back() = keys[keys.size() - 2];
  const std::size_t b = layout.batches, outer = b == 0 ? 0 : b - 1;
  const auto pairs = [&](const Shape& shape) {
    return Shape{product_of(shape, 0, outer), product_of(shape, outer, b), shape[b], shape[b + 1]};
  };
  Values operands{shaped(builder, q, four(rows, layout)), shaped(builder, k, pairs(keys)),
                  shaped(builder, v, pairs(values))};
  const ValueId mask = mask_of(builder, match, leaves, full);
  if (mask != no_value) operands.push_back(mask);
  Attributes attributes;
  attributes.set("scale", match.scale);
  if (match.soft_cap != 0) attributes.set("soft_cap", match.soft_cap);
  if (mask != no_value) attributes.set("masked_row", match.masked_row);
  ValueId y = builder.op(Kind::attention, operands, attributes)[0];
  Shape unmerged(rows.begin(), rows.end() - 1);
  unmerged.push_back(values.back());
  return turned(builder, shaped(builder, y, unmerged), layout.out);
}

/// Weights: a softmax, or a select that puts 0 in the rows for which `condition` is true. The condition states that a
/// row sees no key (`hidden`), or that it sees one.
struct Weights {
  const Op* softmax = nullptr;
  ValueId condition = no_value;
  bool hidden = false;
};
Weights weights_of(const Reader& reader, ValueId value) {
  value = reader.unconverted(value);
  const Op* chosen = reader.elementwise(value, select);
  if (chosen == nullptr) return {reader.op(value, Kind::softmax), no_value, false};
  for (const int i : {1, 2})
    if (reader.number(chosen->operands[at(i)]) == 0.0)
      return {reader.op(reader.unconverted(chosen->operands[at(3 - i)]), Kind::softmax), chosen->operands[0], i == 1};
  return {};
}

/// Reads conditions on rows of scores.
class Rows {
 public:
  Rows(const Reader& reader, const Op& softmax, const Scores& scores)
      : reader_(reader), softmax_(softmax), scores_(scores), rank_(reader.rank(softmax.operands[0])) {}

  /// Whether a condition is true exactly for rows that see no key (`hidden`), or exactly for rows that see one.
  bool tells(ValueId condition, bool hidden) const {
    const ValueId value = reader_.peeled(condition);
    if (const Op* turned = reader_.elementwise(value, logical_not)) return tells(turned->operands[0], !hidden);
    if (const ValueId best = compared(value, hidden); best != no_value) {
      const Op* top = reader_.op(reader_.peeled(best), Kind::reduce);
      return top != nullptr && top->attributes.text("combiner") == "maximum" && is_scores(top->operands[0]) &&
             along_keys(condition, *top);
    }
    const Op* all = reader_.op(value, Kind::reduce);
    if (all == nullptr) return false;
    const std::string& combiner = all->attributes.text("combiner");
    const bool every = combiner == "logical_and" || combiner == "minimum";
    const bool some = combiner == "logical_or" || combiner == "maximum";
    return (hidden ? every : some) && key_tells(all->operands[0], hidden) && along_keys(condition, *all);
  }

 private:
  bool is_scores(ValueId value) const {
    return reader_.unconverted(value) == reader_.unconverted(softmax_.operands[0]);
  }
  /// The value that a comparison with -inf tests: equal if `hidden`, else not equal (NaN hides nothing); or no_value.
  ValueId compared(ValueId value, bool hidden) const {
    const Op* op = reader_.elementwise(value, hidden ? equal : not_equal);
    for (const int i : {0, 1})
      if (op != nullptr && reader_.number(op->operands[at(i)]) == -std::numeric_limits<double>::infinity())
        return op->operands[at(1 - i)];
    return no_value;
  }
  bool key_tells(ValueId value, bool hidden) const {
    const bool only_mask = scores_.added.empty() && scores_.hiding == -std::numeric_limits<double>::infinity();
    if (only_mask && reader_.peeled(value) == reader_.peeled(hidden ? scores_.hidden : scores_.kept)) return true;
    if (const Op* turned = reader_.elementwise(value, logical_not)) return key_tells(turned->operands[0], !hidden);
    const ValueId score = compared(value, hidden);
    return score != no_value && is_scores(score);
  }
  /// Whether a reduction is over the keys only, and its result belongs to the same row.
  bool along_keys(ValueId value, const Op& reduce) const {
    const std::int64_t lead = rank_ - reader_.rank(reduce.operands[0]);
    if (reduce.attributes.integers("dims") != Integers{softmax_.attributes.integer("dim") - lead}) return false;
    Integers where(reader_.shape(reduce.operands[0]).size());
    std::iota(where.begin(), where.end(), lead);
    return reader_.repeats(value, reduce, rank_, where);
  }

  const Reader& reader_;
  const Op& softmax_;
  const Scores& scores_;
  std::int64_t rank_;
};

std::optional<Candidate> candidate_of(const Reader& reader, const Op& op, bool second) {
  const Product outer = seen_from(op, second);
  const Weights weights = weights_of(reader, outer.x);
  const Op* softmax = weights.softmax;
  if (softmax == nullptr) return std::nullopt;
  auto scores = scores_of(reader, softmax->operands[0]);
  if (!scores) return std::nullopt;
  const bool zero = weights.condition != no_value, masked = scores->hiding != 0 || !scores->added.empty();
  if (zero && !(masked && Rows(reader, *softmax, *scores).tells(weights.condition, weights.hidden)))
    return std::nullopt;
  for (const bool keys_first : {false, true}) {
    Product inner = seen_from(*scores->product, keys_first);
    const auto layout = layout_of(reader, inner, outer, scores->order, softmax->attributes.integer("dim"));
    if (!layout) continue;
    AttentionMatch match{*layout,
                         scores->levels,
                         scores->scale,
                         scores->soft_cap,
                         zero ? "zero" : "nan",
                         scores->added.size(),
                         scores->kept != no_value || scores->hidden != no_value,
                         scores->hidden != no_value,
                         scores->hiding,
                         reader.type(op.results[0]).dtype};
    Candidate candidate;
    candidate.root = op.results[0];
    candidate.leaves = {unscaled(reader, inner.x, match.scale), unscaled(reader, inner.y, match.scale), outer.y};
    for (ValueId& leaf : candidate.leaves)
      if (const ValueId narrow = reader.unconverted(leaf); reader.type(narrow).dtype == match.root) leaf = narrow;
    if (std::ranges::any_of(candidate.leaves, [&](ValueId leaf) { return reader.type(leaf).dtype != match.root; }))
      return std::nullopt;
    for (const ValueId mask : scores->added) candidate.leaves.push_back(before_broadcast(reader, mask));
    if (match.kept)
      candidate.leaves.push_back(before_broadcast(reader, scores->kept != no_value ? scores->kept : scores->hidden));
    if (candidate.leaves.size() > 3) candidate.mask = candidate.leaves.back();
    candidate.after = "attention";
    candidate.build = [match](Builder& builder, const Values& leaves) {
      return build_attention(builder, match, leaves);
    };
    return candidate;
  }
  return std::nullopt;
}

}  // namespace

std::vector<Candidate> match_attention(const Reader& reader, const Op& op) {
  if (op.kind != Kind::contract || op.operands.size() != 2) return {};
  std::vector<Candidate> candidates;
  for (const bool second : {false, true})
    if (auto candidate = candidate_of(reader, op, second)) candidates.push_back(std::move(*candidate));
  return candidates;
}

}  // namespace tilesim::recognition
