// Groups of operations of the vector unit.
#include <algorithm>

#include "tilesim/compile/groups/groups.hpp"

namespace tilesim::lower {

namespace {

/// Maximum number of tensors per kernel: with more, each has too little of the scratchpad.
constexpr std::size_t most_streams = 24;

}  // namespace

void Grouping::place_vector(int i) {
  if (op(i).kind == Kind::iota) return;  // readers recompute it as an index
  if (rules_.resident_rows) {
    if (!join(i) && !join_readers(i)) rows_.emplace(graph_.add(Family::vector, i), RowBytes(context_, i));
    for (ValueId operand : op(i).operands)
      if (operand != no_value && !scalar(operand)) reading_[operand].insert(graph_.owner[index(i)]);
  } else if (!is_recomputable(op(i).kind)) {
    graph_.add(Family::vector, i);  // make_passes adds the operations that it recomputes
  }
}

/// Tensors that the operations load and store as one kernel.
std::set<ValueId> Grouping::streams_of(const std::set<int>& ops) const {
  std::set<ValueId> streams;
  for (int i : ops) {
    for (ValueId operand : op(i).operands) {
      if (operand == no_value || scalar(operand)) continue;
      const int producer = uses_.producer[index(operand)];
      if (producer < 0 || (!ops.count(producer) && op(producer).kind != Kind::iota)) streams.insert(operand);
    }
    for (ValueId result : op(i).results) {
      const std::vector<int>& readers = uses_.consumers[index(result)];
      const bool kept = rules_.resident_rows || graph_.owner[index(i)] >= 0;  // otherwise readers recompute it
      if (uses_.is_output[index(result)] ||
          (kept && std::any_of(readers.begin(), readers.end(), [&](int reader) { return !ops.count(reader); })))
        streams.insert(result);
    }
  }
  return streams;
}

/// The reason why an operation does not join the vector kernel that computes one of its operands; empty: it may.
std::string Grouping::why_not(int kernel, int i) {
  RowBytes& rows = rows_.at(kernel);
  if (rows.closed()) return "nothing joins a scan, a window, an index of an extreme or a reduction that drops its axes";
  if (!rows.compatible(i)) return "another shape, or a reduction along other axes";
  if (graph_.returns(kernel, i)) return "it depends on another reader of the kernel's results";
  if (!rows.stays_resident(i)) return "whole rows would no longer fit the scratchpad";
  return {};
}

bool Grouping::join(int i) {
  const bool reduce = op(i).kind == Kind::reduce;
  if (!reduce && !is_recomputable(op(i).kind)) return false;
  std::set<int> tried;
  for (ValueId operand : op(i).operands) {
    const int producer = operand == no_value ? -1 : uses_.producer[index(operand)];
    const int kernel = producer < 0 ? -1 : graph_.owner[index(producer)];
    if (kernel < 0 || graph_.kernels[index(kernel)].family != Family::vector || !tried.insert(kernel).second) continue;
    const Rule rule = reduce || rows_.at(kernel).reduces() ? Rule::rows : Rule::elementwise;
    if (!rules_.has(rule)) continue;
    if (const Apart* why = apart(operand)) {
      refused(rule, kernel, i, *why);
      continue;
    }
    if (const auto why = cut(rule, i)) {
      refused(rule, kernel, i, *why);
      continue;
    }
    if (std::string why = why_not(kernel, i); !why.empty()) {
      refused(rule, kernel, i, std::move(why));
      continue;
    }
    graph_.own(i, kernel);
    rows_.at(kernel).add(i);
    taken(rule, kernel, i);
    if (rules_.has(Rule::branches)) join_branches(kernel, i);
    return true;
  }
  return false;
}

/// Whether the kernel computes an operand of the operation, so that other rules decide.
bool Grouping::makes_operand(int kernel, int i) const {
  return std::ranges::any_of(op(i).operands, [&](ValueId operand) {
    const int producer = operand == no_value ? -1 : uses_.producer[index(operand)];
    return producer >= 0 && graph_.owner[index(producer)] == kernel;
  });
}

/// Joins a vector kernel that reads the same tensor, so that the tensor is loaded once.
bool Grouping::join_readers(int i) {
  const bool reduce = op(i).kind == Kind::reduce;
  if (!rules_.has(Rule::siblings) || (!reduce && !is_recomputable(op(i).kind))) return false;
  constexpr int most_tried = 3;  // kernels, the latest first; others depend on them
  const Shape space = shape(reduce ? op(i).operands[0] : op(i).results[0]);
  for (ValueId operand : op(i).operands) {
    const auto readers = operand == no_value ? reading_.end() : reading_.find(operand);
    if (readers == reading_.end() || apart(operand) || shape(operand) != space) continue;
    int tried = 0;
    if (const auto why = cut(Rule::siblings, i)) {
      refused(Rule::siblings, *readers->second.rbegin(), i, *why);
      return false;
    }
    for (auto reader = readers->second.rbegin(); reader != readers->second.rend() && tried < most_tried; ++reader) {
      const int kernel = *reader;
      const std::vector<int>& ops = graph_.kernels[index(kernel)].ops;
      if (ops.empty() || rows_.at(kernel).closed() || makes_operand(kernel, i)) continue;
      ++tried;
      std::string why = why_not(kernel, i);
      std::set<int> all(ops.begin(), ops.end());
      all.insert(i);
      if (why.empty() && streams_of(all).size() > most_streams) why = "one kernel would have too many tensors";
      if (!why.empty()) {
        refused(Rule::siblings, kernel, i, std::move(why));
        continue;
      }
      graph_.own(i, kernel);
      rows_.at(kernel).add(i);
      taken(Rule::siblings, kernel, i);
      if (rules_.has(Rule::branches)) join_branches(kernel, i);
      return true;
    }
  }
  return false;
}

/// Merges the kernels whose results the operation combines.
void Grouping::join_branches(int kernel, int i) {
  for (ValueId operand : op(i).operands) {
    const int producer = operand == no_value ? -1 : uses_.producer[index(operand)];
    const int other = producer < 0 ? -1 : graph_.owner[index(producer)];
    if (other < 0 || other == kernel || graph_.kernels[index(other)].family != Family::vector) continue;
    if (const Apart* why = apart(operand))
      refused(Rule::branches, other, i, *why);
    else if (const auto cheaper = cut(Rule::branches, i))
      refused(Rule::branches, other, i, *cheaper);
    else
      merge_kernels(kernel, other);
  }
}

bool Grouping::merge_kernels(int into, int from) {
  const std::vector<int>&a = graph_.kernels[index(into)].ops, &b = graph_.kernels[index(from)].ops;
  std::set<int> all(a.begin(), a.end());
  all.insert(b.begin(), b.end());
  const auto no = [&](const char* why) { return refused(Rule::branches, from, *all.rbegin(), why), false; };
  if (graph_.leads_around(into, from) || graph_.leads_around(from, into))
    return no("a path leads from one to the other through a third kernel");
  if (streams_of(all).size() > most_streams) return no("one kernel would have too many tensors");
  std::optional<RowBytes> rows;
  const bool fitted = rows_.at(into).fits() && rows_.at(from).fits();
  for (int i : all) {
    if (!rows) {
      rows.emplace(context_, i);
      continue;
    }
    if (!rows->compatible(i)) return no("another shape, or reductions along other axes");
    rows->add(i);
  }
  if (fitted && !rows->fits()) return no("whole rows would no longer fit the scratchpad");
  for (int i : b) taken(Rule::branches, into, i);
  for (Looked& looked : looked_)
    if (looked.kernel == from) looked.kernel = into;
  graph_.merge(into, from);
  for (auto& [value, readers] : reading_)
    if (readers.erase(from)) readers.insert(into);
  rows_.erase(from);
  rows_.erase(into);
  rows_.emplace(into, std::move(*rows));
  return true;
}

/// Each reduction and each value that must be stored becomes a kernel that recomputes its elementwise producers.
void Grouping::make_passes() {
  for (int i = 0; i < count(); ++i) {
    if (graph_.owner[index(i)] >= 0 || !is_recomputable(op(i).kind)) continue;
    if (stored(op(i).results[0])) graph_.add(Family::vector, i);
  }
  std::map<int, int> computed_in;  // by operation that several kernels recompute: the first elementwise kernel
  for (int k = 0; k < static_cast<int>(graph_.kernels.size()); ++k) {
    Kernel& kernel = graph_.kernels[index(k)];
    if (kernel.family != Family::vector && kernel.family != Family::product) continue;
    if (kernel.anchor >= 0 && is_product(op(kernel.anchor).kind)) add_tails(kernel, k);
    std::set<int> ops(kernel.ops.begin(), kernel.ops.end());
    std::vector<std::pair<ValueId, int>> pending;  // value, operation that reads it
    const auto read = [&](int member) {
      for (ValueId operand : op(member).operands) pending.emplace_back(operand, member);
    };
    for (int member : kernel.ops) read(member);
    while (!pending.empty()) {
      const auto [value, reader] = pending.back();
      pending.pop_back();
      const int producer = value == no_value || scalar(value) ? -1 : uses_.producer[index(value)];
      if (producer < 0 || graph_.owner[index(producer)] >= 0 || !is_recomputable(op(producer).kind)) continue;
      if (!ops.insert(producer).second) continue;
      read(producer);
      if (op(producer).kind != Kind::iota)
        taken(kernel.anchor >= 0 ? Rule::prologue : recomputing(producer, reader), k, producer);
    }
    kernel.ops.assign(ops.begin(), ops.end());
    if (rules_.has(Rule::siblings)) join_pass(k, computed_in);
  }
}

/// Merges an elementwise kernel into the first one of its shape that recomputes one of the same operations.
void Grouping::join_pass(int k, std::map<int, int>& computed_in) {
  std::vector<int>& ops = graph_.kernels[index(k)].ops;
  const auto again = [&](int i) { return graph_.owner[index(i)] < 0 && op(i).kind != Kind::iota; };
  if (std::ranges::any_of(ops, [&](int i) { return !is_recomputable(op(i).kind); })) return;
  int into = k;
  for (int i : ops)
    if (const auto found = computed_in.find(i); into == k && again(i) && found != computed_in.end())
      into = found->second;
  if (into != k) {
    std::vector<int>& others = graph_.kernels[index(into)].ops;
    std::set<int> all(others.begin(), others.end());
    all.insert(ops.begin(), ops.end());
    const auto makes = [&](int kernel) { return [this, kernel](int i) { return makes_operand(kernel, i); }; };
    const bool waits = graph_.leads_around(into, k) || graph_.leads_around(k, into) ||
                       std::ranges::any_of(ops, makes(into)) || std::ranges::any_of(others, makes(k));
    const bool alike = shape(op(ops.back()).results[0]) == shape(op(others.back()).results[0]);
    if (waits || !alike || streams_of(all).size() > most_streams) {
      into = k;
    } else {
      taken(Rule::siblings, into, ops.back());
      std::erase_if(ops, again);
      graph_.merge(into, k);
      others.assign(all.begin(), all.end());
    }
  }
  for (int i : graph_.kernels[index(into)].ops)
    if (again(i)) computed_in.try_emplace(i, into);
}

/// The rule that lets a kernel recompute an operand of one of its operations.
Rule Grouping::recomputing(int producer, int reader) const {
  if (is_product(op(reader).kind)) return Rule::prologue;
  if (uses_.consumers[index(op(producer).results[0])].size() > 1) return Rule::recompute;
  return op(reader).kind == Kind::reduce ? Rule::rows : Rule::elementwise;
}

/// Whether an elementwise result must be stored because some reader cannot recompute it.
bool Grouping::stored(ValueId value) const {
  if (uses_.is_output[index(value)] || apart(value)) return true;
  const int producer = uses_.producer[index(value)];
  if (computed_by_readers_.count(producer)) return false;
  for (int reader : uses_.consumers[index(value)]) {
    const Op& consumer = op(reader);
    if (op(producer).kind != Kind::iota && !rules_.has(recomputing(producer, reader))) return true;
    if (is_product(consumer.kind)) {
      const bool only =
          uses_.consumers[index(value)].size() == 1 && consumer.kind == Kind::contract && consumer.operands[0] == value;
      if (!rules_.product_prologue || !only) return true;
    } else if (!is_recomputable(consumer.kind) && consumer.kind != Kind::reduce) {
      return true;  // movement, views, calls and windows read memory
    } else if (graph_.owner[index(reader)] >= 0 &&
               graph_.kernels[index(graph_.owner[index(reader)])].family == Family::product) {
      return true;  // an epilogue reads it
    }
  }
  return false;
}

}  // namespace tilesim::lower
