// Groups around one product: operations that read its result or compute its operands.
#include <algorithm>

#include "tilesim/compile/groups/groups.hpp"

namespace tilesim::lower {

void Grouping::make_product(int i) {
  const int kernel = graph_.add(Family::product, i);
  if (rules_.has(Rule::epilogue)) grow_epilogue(kernel);
  if (rules_.has(Rule::row_extremes) && rules_.reduce_epilogue) end_with_extreme(kernel);
}

/// Whether the product's kernel may compute this reader of its results in its epilogue.
bool Grouping::may_end(int kernel, int next, const Shape& result) {
  const Op& reader = op(next);
  if (graph_.owner[index(next)] >= 0 || !is_recomputable(reader.kind) || reader.kind == Kind::iota) return false;
  for (ValueId operand : reader.operands) {
    const int producer = operand == no_value ? -1 : uses_.producer[index(operand)];
    if (producer < 0 || graph_.owner[index(producer)] != kernel) continue;
    if (const Apart* why = apart(operand)) return refused(Rule::epilogue, kernel, next, *why), false;
  }
  if (shape(reader.results[0]) != result)
    return refused(Rule::epilogue, kernel, next, "its result has another shape than the product"), false;
  if (const auto why = cut(Rule::epilogue, next)) return refused(Rule::epilogue, kernel, next, *why), false;
  if (graph_.returns(kernel, next))
    return refused(Rule::epilogue, kernel, next, "it depends on another reader of the product"), false;
  return true;
}

/// Adds elementwise readers of the product to its kernel, in order; values with other readers are also stored.
void Grouping::grow_epilogue(int kernel) {
  const int anchor = graph_.kernels[index(kernel)].anchor;
  const Shape result = shape(op(anchor).results[0]);
  std::set<int> pending, seen;
  const auto look = [&](int made) {
    const ValueId value = op(made).results[0];
    const std::vector<int>& readers = uses_.consumers[index(value)];
    const bool also = readers.size() != 1 || uses_.is_output[index(value)];
    for (int reader : readers) {
      if (also && rules_.native) {
        if (is_recomputable(op(reader).kind))
          refused(Rule::epilogue, kernel, reader, "its operand has other readers, so the chip's compiler stores it");
      } else if (seen.insert(reader).second) {
        pending.insert(reader);
      }
    }
  };
  look(anchor);
  while (!pending.empty()) {
    const int next = *pending.begin();
    pending.erase(pending.begin());
    if (!may_end(kernel, next, result)) continue;
    graph_.own(next, kernel);
    look(next);
  }
  for (int i : graph_.kernels[index(kernel)].ops)
    if (i != anchor) taken(Rule::epilogue, kernel, i);
}

/// Adds a maximum or minimum over the columns of the last value. Sums are excluded: their rounding would change.
void Grouping::end_with_extreme(int kernel) {
  const Kernel& product = graph_.kernels[index(kernel)];
  const ValueId value = op(product.ops.back()).results[0];
  const Shape& result = shape(value);
  for (int reader : uses_.consumers[index(value)]) {
    const Op& candidate = op(reader);
    if (graph_.owner[index(reader)] >= 0 || candidate.kind != Kind::reduce) continue;
    const std::string combiner = candidate.attributes.text("combiner");
    const std::vector<std::int64_t>& dims = candidate.attributes.integers("dims");
    if (combiner != "maximum" && combiner != "minimum") continue;
    if (dims.size() != 1 || dims[0] + 1 != static_cast<std::int64_t>(result.size())) {
      refused(Rule::row_extremes, kernel, reader, "it reduces other axes than the columns");
      continue;
    }
    if (const Apart* why = apart(value)) {
      refused(Rule::row_extremes, kernel, reader, *why);
      continue;
    }
    if (result.back() * 8 * 4 * 8 > context_.machine.core.scratchpad.bytes) {
      refused(Rule::row_extremes, kernel, reader, "whole rows do not fit the scratchpad");
      continue;
    }
    graph_.own(reader, kernel);
    taken(Rule::row_extremes, kernel, reader);
    return;
  }
}

}  // namespace tilesim::lower
