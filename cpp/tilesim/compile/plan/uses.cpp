#include "tilesim/compile/plan/uses.hpp"

namespace tilesim::lower {

Uses::Uses(const GraphFunction& function)
    : producer(function.values.size(), -1),
      consumers(function.values.size()),
      is_output(function.values.size(), false) {
  for (int i = 0; i < static_cast<int>(function.ops.size()); ++i) {
    const Op& op = function.ops[static_cast<std::size_t>(i)];
    for (ValueId value : op.results)
      if (value != no_value) producer[static_cast<std::size_t>(value)] = i;
    for (ValueId value : op.operands) {
      if (value == no_value) continue;
      auto& list = consumers[static_cast<std::size_t>(value)];
      if (list.empty() || list.back() != i) list.push_back(i);
    }
  }
  for (ValueId value : function.outputs) is_output[static_cast<std::size_t>(value)] = true;
}

bool is_recomputable(Kind kind) { return kind == Kind::elementwise || kind == Kind::convert || kind == Kind::iota; }

bool is_vector_kind(Kind kind) {
  return is_recomputable(kind) || kind == Kind::reduce || kind == Kind::cumulative || kind == Kind::window_reduce;
}

}  // namespace tilesim::lower
