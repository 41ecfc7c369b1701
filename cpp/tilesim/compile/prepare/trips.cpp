#include "tilesim/compile/prepare/trips.hpp"

#include <algorithm>
#include <map>

#include "tilesim/base/index.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/compile/prepare/open_loops.hpp"
#include "tilesim/compile/prepare/prepare.hpp"

namespace tilesim::lower {

const Op* producer(const GraphFunction& function, ValueId value) {
  for (const Op& op : function.ops)
    if (std::find(op.results.begin(), op.results.end(), value) != op.results.end()) return &op;
  return nullptr;
}

int place_of(const std::vector<ValueId>& list, ValueId value) {
  const auto found = std::find(list.begin(), list.end(), value);
  return found == list.end() ? -1 : static_cast<int>(found - list.begin());
}

namespace {

std::optional<std::int64_t> known(const Graph& graph, const GraphFunction& function, ValueId value) {
  const std::map<ValueId, double> scalars = known_scalars(graph, function);
  const auto found = scalars.find(value);
  if (found == scalars.end() || !is_integer(function.value(value).type.dtype)) return std::nullopt;
  return static_cast<std::int64_t>(found->second);
}

bool is_function(const Op* op, const char* name) {
  return op && op->kind == Kind::elementwise && op->attributes.text("function") == name;
}

class TripCount {
 public:
  TripCount(const Graph& graph, const GraphFunction& function, const Op& op)
      : graph_(graph),
        function_(function),
        op_(op),
        condition_(graph.functions[at(op.functions[0])]),
        body_(graph.functions[at(op.functions[1])]) {}

  std::optional<Counted> find() const {
    const Op* test = producer(condition_, condition_.outputs[0]);
    if (is_function(test, "less")) return counted(test->operands[0], test->operands[1], 0);
    if (is_function(test, "greater")) return counted(test->operands[1], test->operands[0], 0);
    if (is_function(test, "less_equal")) return counted(test->operands[0], test->operands[1], 1);
    if (is_function(test, "greater_equal")) return counted(test->operands[1], test->operands[0], 1);
    return std::nullopt;
  }

  std::optional<Counted> state(int place) const {
    if (!is_integer(body_.value(body_.inputs[at(place)]).type.dtype)) return std::nullopt;
    const auto first = known(graph_, function_, op_.operands[at(place)]), step = step_of(place);
    if (!first || !step) return std::nullopt;
    return Counted{place, *first, *step, 0};
  }

 private:
  /// A number known in the condition: a constant, or a state that the body does not change.
  std::optional<std::int64_t> limit_of(ValueId value) const {
    if (const auto number = known(graph_, condition_, value)) return number;
    const int place = place_of(condition_.inputs, value);
    if (place < 0 || body_.outputs[at(place)] != body_.inputs[at(place)]) return std::nullopt;
    return known(graph_, function_, op_.operands[at(place)]);
  }

  std::optional<std::int64_t> step_of(int place) const {
    const ValueId counter = body_.inputs[at(place)];
    const Op* next = producer(body_, body_.outputs[at(place)]);
    if (!is_function(next, "add")) return std::nullopt;
    if (next->operands[0] == counter) return known(graph_, body_, next->operands[1]);
    if (next->operands[1] == counter) return known(graph_, body_, next->operands[0]);
    return std::nullopt;
  }

  std::optional<Counted> counted(ValueId counter, ValueId limit, std::int64_t more) const {
    Counted result;
    result.place = place_of(condition_.inputs, counter);
    if (result.place < 0) return std::nullopt;
    const auto end = limit_of(limit), first = known(graph_, function_, op_.operands[at(result.place)]),
               step = step_of(result.place);
    if (!end || !first || !step || *step <= 0) return std::nullopt;
    result.start = *first;
    result.step = *step;
    result.trips = std::max<std::int64_t>(0, ceil_div(*end + more - *first, *step));
    return result;
  }

  const Graph& graph_;
  const GraphFunction& function_;
  const Op& op_;
  const GraphFunction &condition_, &body_;
};

}  // namespace

std::optional<Counted> counted_trips(const Graph& graph, const GraphFunction& function, const Op& op) {
  return TripCount(graph, function, op).find();
}

std::optional<Counted> counted_state(const Graph& graph, const GraphFunction& function, const Op& op, int place) {
  return TripCount(graph, function, op).state(place);
}

}  // namespace tilesim::lower

namespace tilesim {

namespace {

/// Visits called functions first.
void find_open(const Graph& graph, std::size_t number, std::vector<bool>& seen, std::vector<OpenLoop>& found) {
  if (seen[number]) return;
  seen[number] = true;
  const GraphFunction& function = graph.functions[number];
  for (const Op& op : function.ops)
    for (const std::int32_t callee : op.functions) find_open(graph, static_cast<std::size_t>(callee), seen, found);
  for (const Op& op : function.ops)
    if (op.kind == Kind::while_loop && !lower::counted_trips(graph, function, op))
      found.push_back({function.name, op.name});
}

}  // namespace

std::vector<OpenLoop> open_loops(const Graph& graph) {
  const bool any = std::ranges::any_of(graph.functions, [](const GraphFunction& function) {
    return std::ranges::any_of(function.ops, [](const Op& op) { return op.kind == Kind::while_loop; });
  });
  std::vector<OpenLoop> found;
  if (!any) return found;
  Graph work = graph;
  lower::fold_small(work);
  std::vector<bool> seen(work.functions.size(), false);
  find_open(work, static_cast<std::size_t>(work.main), seen, found);
  return found;
}

}  // namespace tilesim
