// Attention masks that depend on no input: removes masks that hide no key, turns causal masks and windows into
// attributes, and removes keys that no query sees (the unused part of a cache) by kv_len.
#include <algorithm>
#include <limits>
#include <map>

#include "tilesim/base/error.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/graph/attention.hpp"
#include "tilesim/graph/edit.hpp"
#include "tilesim/graph/kind.hpp"
#include "tilesim/graph/patterns/recognition.hpp"

namespace tilesim::recognition {

namespace {

constexpr std::int64_t largest_mask = std::int64_t{1} << 25;  ///< limit on elements that must be evaluated

/// Evaluates values that depend on constants only; returns nothing for other values, and for values that are too large.
class ConstantValues {
 public:
  ConstantValues(const Reader& reader, const Evaluator& evaluate) : reader_(reader), evaluate_(evaluate) {}

  std::optional<Array> elements(ValueId value) {
    std::int64_t count = 0;
    if (!follows(value, count)) return std::nullopt;
    return evaluated(value);
  }

 private:
  bool follows(ValueId value, std::int64_t& count) {
    if (values_.count(value)) return true;
    const Op* op = reader_.op(value);
    if (op == nullptr || info(op->kind).effect != Effect::pure || !op->functions.empty()) return false;
    if (op->results.size() != 1) return false;
    if (op->kind == Kind::constant) {
      const Weight* weight = reader_.weight(value);
      if (weight == nullptr || weight->source == Weight::Source::random || weight->trainable) return false;
    }
    count += element_count(reader_.shape(value));
    if (count > largest_mask) return false;
    return std::ranges::all_of(op->operands, [&](ValueId id) { return id == no_value || follows(id, count); });
  }

  Array evaluated(ValueId value) {
    if (const auto found = values_.find(value); found != values_.end()) return found->second;
    const Op& op = *reader_.op(value);
    std::vector<Array> operands;
    for (const ValueId id : op.operands) operands.push_back(id == no_value ? Array() : evaluated(id));
    return values_[value] = evaluate_(reader_.graph(), reader_.function(), op, operands)[0];
  }

  const Reader& reader_;
  const Evaluator& evaluate_;
  std::map<ValueId, Array> values_;
};

/// What a mask expresses: offset, window, lengths.
struct Meaning {
  bool hides = false, all_alike = true, rows_hidden = false;
  bool uniform = true;                  ///< every row sees the keys [0, attended)
  std::int64_t attended = 0;            ///< end of the keys that at least one row sees
  std::int64_t offset = 0, window = 0;  ///< of a causal mask
  bool causal = false;
};

/// Visible keys [begin, end) of a row, if they are contiguous and have no bias.
struct Run { std::int64_t begin, end; };
std::optional<Run> run_of(const Array& mask, std::int64_t first, std::int64_t keys) {
  const bool boolean = mask.dtype() == DType::boolean;
  const double lowest = mask.dtype() == DType::f16 ? -6e4 : -1e9;  // exp(lowest - any score) is 0
  Run run{0, 0};
  int changes = 0;
  bool before = false;
  for (std::int64_t t = 0; t < keys; ++t) {
    const double value = mask.at(first + t);
    const bool seen = boolean ? value != 0 : value == 0;
    if (!boolean && !seen && !(value <= lowest)) return std::nullopt;  // a bias
    if (seen && !before) {
      run.begin = t;
      if (++changes > 1) return std::nullopt;
    }
    if (seen) run.end = t + 1;
    before = seen;
  }
  return run;
}

/// Finds offset and window such that query s sees key t if and only if s + offset - window < t <= s + offset.
std::optional<Meaning> meaning_of(const Array& mask, std::int64_t queries, std::int64_t keys) {
  const std::int64_t rows = mask.shape().size() < 2 ? 1 : mask.shape()[mask.shape().size() - 2];
  if (mask.shape().empty() || mask.shape().back() != keys) return std::nullopt;
  Meaning meaning;
  std::vector<Run> runs;
  for (std::int64_t row = 0; row < mask.size() / std::max<std::int64_t>(keys, 1); ++row) {
    const auto run = run_of(mask, row * keys, keys);
    if (!run) return std::nullopt;
    const bool hidden = run->begin == run->end;
    meaning.hides = meaning.hides || run->end - run->begin < keys;
    meaning.uniform = meaning.uniform && run->begin == 0 && (row == 0 || run->end == meaning.attended);
    meaning.attended = std::max(meaning.attended, run->end);
    meaning.rows_hidden = meaning.rows_hidden || hidden;
    if (row < rows) {
      runs.push_back(*run);
    } else {
      const Run& first = runs[at(row % rows)];
      meaning.all_alike = meaning.all_alike && first.begin == run->begin && first.end == run->end;
    }
  }
  if (!meaning.hides || rows != queries || !meaning.all_alike || meaning.rows_hidden) return meaning;
  // Rows that end before the last key determine the offset; rows that start after the first key, the window.
  meaning.offset =
      std::ranges::all_of(runs, [&](const Run& run) { return run.end == keys; }) ? keys - 1 : runs[0].end - 1;
  for (std::size_t s = 0; s < runs.size(); ++s)
    if (runs[s].begin > 0) meaning.window = static_cast<std::int64_t>(s) + meaning.offset - runs[s].begin + 1;
  meaning.causal = true;
  for (std::int64_t s = 0; s < queries; ++s) {
    const std::int64_t end = std::min(s + meaning.offset + 1, keys);
    const std::int64_t begin =
        meaning.window > 0 ? std::max<std::int64_t>(0, s + meaning.offset - meaning.window + 1) : 0;
    const Run& run = runs[at(s)];
    meaning.causal = meaning.causal && run.begin == begin && run.end == end;
  }
  return meaning;
}

/// Whether the operation has a length per batch row, which determines the end of the cache.
bool has_lengths(const Op& op) {
  return op.operands.size() > attention_kv_len && op.operands[attention_kv_len] != no_value;
}

bool plain(const Op& op) {
  return op.kind == Kind::attention && op.operands.size() > 3 && op.operands[3] != no_value &&
         !op.attributes.flag("causal") && op.attributes.integer("window", 0) == 0 &&
         op.attributes.find("kv_len") == nullptr;
}

/// Replaces the mask by equivalent attributes, if there are any. Returns the text of the change, or an empty text.
std::string simplify(Op& op, const Meaning& meaning, std::int64_t keys) {
  const bool shorter = meaning.attended < keys && !meaning.rows_hidden;
  const bool uniform = meaning.uniform && !meaning.rows_hidden;
  std::string after;
  if (shorter) {
    op.attributes.set("kv_len", meaning.attended);
    after = "the first " + std::to_string(meaning.attended) + " keys";
  }
  if (meaning.hides && !uniform && !meaning.causal) return after;
  op.operands[3] = no_value;
  while (op.operands.back() == no_value) op.operands.pop_back();
  if (uniform || !meaning.hides) return after.empty() ? "no mask" : after;
  op.attributes.set("causal", true);
  op.attributes.set("causal_offset", meaning.offset);
  after += (after.empty() ? "" : ", ") + std::string("causal, offset ") + std::to_string(meaning.offset);
  if (meaning.window > 0) op.attributes.set("window", meaning.window);
  if (meaning.window > 0) after += ", window " + std::to_string(meaning.window);
  return after;
}

/// Removes keys that the last query of a causal attention does not see. Returns the text of the change, or an empty
/// text.
std::string cut_behind_last_query(Op& op, std::int64_t queries, std::int64_t keys) {
  if (op.kind != Kind::attention || !op.attributes.flag("causal") || op.attributes.find("kv_len") != nullptr ||
      has_lengths(op))
    return "";
  const std::int64_t offset = op.attributes.integer("causal_offset", keys - queries), seen = queries + offset;
  if (queries == 0 || offset < 0 || seen >= keys) return "";
  op.attributes.set("kv_len", seen);
  if (queries == 1 && op.attributes.integer("window", 0) == 0) op.attributes.set("causal", false);  // sees them all
  return "the first " + std::to_string(seen) + " keys";
}

}  // namespace

void known_masks(Graph& graph, const Evaluator& evaluate, std::vector<Change>& changes) {
  for (GraphFunction& function : graph.functions) {
    std::map<ValueId, std::optional<Meaning>> meanings;
    for (std::size_t i = 0; i < function.ops.size(); ++i) {
      if (function.ops[i].kind != Kind::attention) continue;
      const Reader reader(graph, function);
      Op& op = function.ops[i];
      const AttentionShape shape = attention_shape(function, op);
      const std::int64_t queries = shape.queries, keys = shape.cache;
      if (const std::string after = cut_behind_last_query(op, queries, keys); !after.empty())
        changes.push_back({"known_masks", function.name, op.name, std::to_string(keys) + " keys", after, op.source});
      if (!plain(op)) continue;
      const ValueId mask = op.operands[3];
      if (!meanings.count(mask)) {
        const auto elements = ConstantValues(reader, evaluate).elements(mask);
        meanings[mask] = elements ? meaning_of(*elements, queries, keys) : std::nullopt;
      }
      if (!meanings[mask]) continue;
      // With lengths, queries are the last positions of their row, unless an offset is given.
      if (has_lengths(op) && (meanings[mask]->rows_hidden || meanings[mask]->attended < keys)) continue;
      const std::string before = "mask " + to_string(reader.type(mask));
      if (const std::string after = simplify(op, *meanings[mask], keys); !after.empty())
        changes.push_back({"known_masks", function.name, op.name, before, after, op.source});
    }
  }
}

}  // namespace tilesim::recognition
