// Masks of attention that depend on no input: those that hide nothing go, causal ones and windows become attributes.
#include <algorithm>
#include <limits>
#include <map>

#include "tilesim/base/error.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/graph/edit.hpp"
#include "tilesim/graph/kind.hpp"
#include "tilesim/graph/recognition.hpp"

namespace tilesim::recognition {

namespace {

constexpr std::int64_t largest_mask = std::int64_t{1} << 25;  ///< elements of all that must be evaluated

/// Elements of a value that follows from constants alone; nothing where it does not or is too large.
class Known {
 public:
  Known(const Reader& reader, const Evaluator& evaluate) : reader_(reader), evaluate_(evaluate) {}

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

/// What a mask comes to.
struct Meaning {
  bool hides = false, all_alike = true, rows_hidden = false;
  std::int64_t offset = 0, window = 0;  ///< of a causal one
  bool causal = false;
};

/// Visible keys [begin, end) of one row where they are one run and nothing is added to them.
struct Run { std::int64_t begin, end; };
std::optional<Run> run_of(const Array& mask, std::int64_t first, std::int64_t keys) {
  const bool boolean = mask.dtype() == DType::boolean;
  const double lowest = mask.dtype() == DType::f16 ? -6e4 : -1e9;  // exp of it, less any score, is 0
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

/// Key t visible to query s iff s + offset - window < t <= s + offset, at all rows.
std::optional<Meaning> meaning_of(const Array& mask, std::int64_t queries, std::int64_t keys) {
  const std::int64_t rows = mask.shape().size() < 2 ? 1 : mask.shape()[mask.shape().size() - 2];
  if (mask.shape().empty() || mask.shape().back() != keys) return std::nullopt;
  Meaning meaning;
  std::vector<Run> runs;
  for (std::int64_t row = 0; row < mask.size() / std::max<std::int64_t>(keys, 1); ++row) {
    const auto run = run_of(mask, row * keys, keys);
    if (!run) return std::nullopt;
    meaning.hides = meaning.hides || run->end - run->begin < keys;
    if (row < rows) {
      runs.push_back(*run);
      meaning.rows_hidden = meaning.rows_hidden || run->begin == run->end;
    } else {
      const Run& first = runs[at(row % rows)];
      meaning.all_alike = meaning.all_alike && first.begin == run->begin && first.end == run->end;
    }
  }
  if (!meaning.hides || rows != queries || !meaning.all_alike || meaning.rows_hidden) return meaning;
  // Rows that do not reach the last key tell the offset, rows that do not start at the first one the window.
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

bool plain(const Op& op) {
  return op.kind == Kind::attention && op.operands.size() > 3 && op.operands[3] != no_value &&
         !op.attributes.flag("causal") && op.attributes.integer("window", 0) == 0;
}

}  // namespace

void known_masks(Graph& graph, const Evaluator& evaluate, std::vector<Change>& changes) {
  for (GraphFunction& function : graph.functions) {
    std::map<ValueId, std::optional<Meaning>> meanings;
    for (std::size_t i = 0; i < function.ops.size(); ++i) {
      if (!plain(function.ops[i])) continue;
      const Reader reader(graph, function);
      Op& op = function.ops[i];
      const std::int64_t queries = reader.shape(op.operands[0])[2], keys = reader.shape(op.operands[1])[2];
      const ValueId mask = op.operands[3];
      if (!meanings.count(mask)) {
        const auto elements = Known(reader, evaluate).elements(mask);
        meanings[mask] = elements ? meaning_of(*elements, queries, keys) : std::nullopt;
      }
      const std::optional<Meaning>& meaning = meanings[mask];
      if (!meaning || (meaning->hides && !meaning->causal)) continue;
      op.operands[3] = no_value;
      while (op.operands.back() == no_value) op.operands.pop_back();
      std::string after = "no mask";
      if (meaning->hides) {
        op.attributes.set("causal", true);
        op.attributes.set("causal_offset", meaning->offset);
        after = "causal, offset " + std::to_string(meaning->offset);
        if (meaning->window > 0) op.attributes.set("window", meaning->window);
        if (meaning->window > 0) after += ", window " + std::to_string(meaning->window);
      }
      changes.push_back(
          {"known_masks", function.name, op.name, "mask " + to_string(reader.type(mask)), after, op.source});
    }
  }
}

}  // namespace tilesim::recognition
