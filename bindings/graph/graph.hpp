// Graphs as Python holds them, and what the two files that bind the room graph share.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/cancel.hpp"
#include "tilesim/graph/graph.hpp"
#include "tilesim/graph/kind.hpp"

namespace tilesim::bindings {

/// A graph that calls may read while others change it: readers hold the value that was there when they began, and
/// changes are made to a copy that takes its place. Copies share the value. All members need the GIL.
class SharedGraph {
 public:
  SharedGraph() : value_(std::make_shared<Graph>()) {}
  SharedGraph(Graph graph) : value_(std::make_shared<Graph>(std::move(graph))) {}  // NOLINT: what calls return

  std::shared_ptr<const Graph> read() const { return value_; }

  /// Runs `change(graph)` without the GIL on a copy, which then takes the graph's place, and returns its result. Where
  /// another change was quicker, this one is made anew to its outcome.
  template <class Change>
  auto change(const Change& change) {
    for (;;) {
      const std::shared_ptr<Graph> seen = value_;
      auto copy = std::make_shared<Graph>(*seen);
      auto result = cancellable([&] { return change(*copy); });
      if (value_ != seen) continue;
      value_ = std::move(copy);
      ++passes_;
      return result;
    }
  }

  /// For what is quick and keeps the GIL: the graph itself unless a reader holds it, else a copy in its place.
  Graph& in_place() {
    if (value_.use_count() > 1) value_ = std::make_shared<Graph>(*value_);
    return *value_;
  }
  /// Number of changes that builders cannot go on from.
  std::int64_t passes() const { return passes_; }
  void replaced() { ++passes_; }

 private:
  std::shared_ptr<Graph> value_;
  std::int64_t passes_ = 0;
};

/// An argument that is a graph: the value that was there when the call began, whatever becomes of the object.
struct GraphValue {
  std::shared_ptr<const Graph> held;
  const Graph& operator*() const { return *held; }
  const Graph* operator->() const { return held.get(); }
};

/// The function called `name`, the entry for "". UserError with a suggestion.
const GraphFunction& function_of(const Graph& graph, const std::string& name);
pybind11::tuple to_tuple(const Shape& shape);
/// Attributes of a kind from a dict; UserError for an unknown one (with the nearest) or a wrong type.
Attributes attributes_from(Kind kind, const pybind11::dict& values);
void bind_builder(pybind11::module_& module);

/// Operations by unit.
pybind11::dict flops_dict(const Flops& flops);
/// Name, dtype and shape of each; None for no value.
pybind11::list values_of(const GraphFunction& function, const std::vector<ValueId>& ids);
/// A dict for each operation of a function, the entry for "". Ends where a signal's handler raises.
pybind11::list operations(const GraphValue& graph, const std::string& function);
/// Those that are between devices, and those that run functions.
pybind11::list communications(const GraphValue& graph, const std::string& function);
/// The loop nest of an operation.
pybind11::dict domain_of(const GraphValue& graph, const std::string& operation, const std::string& function);

}  // namespace tilesim::bindings

namespace pybind11::detail {

/// From the Python class Graph alone; made under the GIL, dropped under the GIL after the call.
template <>
struct type_caster<tilesim::bindings::GraphValue> {
  using Shared = make_caster<tilesim::bindings::SharedGraph>;
  static constexpr auto name = Shared::name;
  template <class>
  using cast_op_type = const tilesim::bindings::GraphValue&;

  bool load(handle source, bool convert) {
    Shared shared;
    if (!shared.load(source, convert) || source.is_none()) return false;
    value_.held = cast_op<const tilesim::bindings::SharedGraph&>(shared).read();
    return true;
  }
  operator const tilesim::bindings::GraphValue&() const { return value_; }

 private:
  tilesim::bindings::GraphValue value_;
};

}  // namespace pybind11::detail
