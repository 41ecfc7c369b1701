// Partitioning: a graph with shardings to one that every device runs.
#include "tilesim/cluster/partition/partition.hpp"

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cmath>

#include "base/cancel.hpp"
#include "graph/graph.hpp"
#include "tilesim/base/dtype.hpp"
#include "tilesim/graph/kind.hpp"
#include "tilesim/graph/sharding.hpp"

namespace py = pybind11;
using namespace tilesim;
using bindings::cancellable;
using bindings::function_of;
using bindings::GraphValue;
using bindings::SharedGraph;
using bindings::to_tuple;

namespace {

py::list to_list(const std::vector<partitioning::Border>& borders) {
  py::list rows;
  for (const partitioning::Border& border : borders) {
    py::dict row;
    row["name"] = border.name;
    row["dtype"] = std::string(name(border.type.dtype));
    row["shape"] = to_tuple(border.type.shape);
    row["sharding"] = border.sharding.text();
    if (!border.weight.empty()) row["weight"] = border.weight;
    rows.append(row);
  }
  return rows;
}

py::list to_list(const std::vector<partitioning::Inserted>& inserted) {
  py::list rows;
  for (const partitioning::Inserted& entry : inserted) {
    py::dict row;
    row["function"] = entry.function;
    row["operation"] = entry.consumer;
    row["inserted"] = entry.operation;
    row["kind"] = entry.kind;
    row["value"] = entry.value;
    row["reason"] = entry.reason;
    row["devices"] = entry.devices;
    row["wire_bytes"] = static_cast<std::int64_t>(std::ceil(entry.bytes));
    rows.append(row);
  }
  return rows;
}

py::tuple partition_graph(const GraphValue& graph) {
  partitioning::Partitioned made = cancellable([&] { return partitioning::partition(*graph); });
  return py::make_tuple(SharedGraph(std::move(made.graph)), to_list(made.inputs), to_list(made.outputs),
                        to_list(made.inserted));
}

py::dict partition_rules(const GraphValue& graph) {
  py::dict rules;
  for (const Op& op : graph->entry().ops)
    rules[py::str(op.name)] =
        py::make_tuple(std::string(info(op.kind).name), partitioning::describe_rule(graph->entry(), op));
  return rules;
}

py::tuple shardy_module(const GraphValue& graph) {
  Graph opened = cancellable([&] { return partitioning::opened(*graph); });
  std::string text = partitioning::shardy_module(opened);
  return py::make_tuple(SharedGraph(std::move(opened)), std::move(text));
}

using ResultShardings = std::vector<std::tuple<std::size_t, std::size_t, std::vector<std::string>>>;

/// A value of which nothing is said is whole. Divisions that are given already stay, where less is said.
void annotate_results(SharedGraph& shared, const std::vector<std::string>& inputs, const ResultShardings& results) {
  const auto say = [](Value& value, const std::string* text) {
    auto sharding = std::make_shared<Sharding>();
    if (text && !text->empty()) *sharding = Sharding::parse(*text);
    sharding->given = true;
    sharding->axes.resize(value.type.shape.size());
    if (value.sharding && value.sharding->given)
      for (std::size_t axis = 0; axis < sharding->axes.size(); ++axis)
        if (sharding->axes[axis].parts.size() < value.sharding->axes[axis].parts.size())
          sharding->axes[axis] = value.sharding->axes[axis];
    value.sharding = std::move(sharding);
  };
  shared.change([&](Graph& graph) {
    GraphFunction& entry = graph.functions[static_cast<std::size_t>(graph.main)];
    for (std::size_t i = 0; i < entry.inputs.size(); ++i)
      say(entry.values[static_cast<std::size_t>(entry.inputs[i])], i < inputs.size() ? &inputs[i] : nullptr);
    for (const auto& [f, index, texts] : results) {
      GraphFunction& function = graph.functions.at(f);
      const Op& op = function.ops.at(index);
      for (std::size_t i = 0; i < op.results.size(); ++i)
        say(function.values[static_cast<std::size_t>(op.results[i])], i < texts.size() ? &texts[i] : nullptr);
    }
    check(graph);
    return static_cast<int>(results.size());
  });
}

SharedGraph spread_graph(const GraphValue& graph) {
  return SharedGraph(cancellable([&] { return partitioning::spread(*graph); }));
}

}  // namespace

void init_cluster_partition(py::module_& module) {
  module.def("partition_graph", &partition_graph, py::arg("graph"),
             "A graph that names a mesh and shardings as (local graph, inputs, outputs, what was inserted and why). "
             "Raises UserError for shardings that do not fit.");
  module.def("spread_graph", &spread_graph, py::arg("graph"),
             "A graph that names a mesh with the sharding of every value. Raises UserError for shardings that do not "
             "fit.");
  module.def("shardy_module", &shardy_module, py::arg("graph"),
             "A graph that names a mesh as (the graph with its calls opened, a module of Shardy's dialect about it). "
             "Raises UserError for shardings that do not fit.");
  module.def("annotate_results", &annotate_results, py::arg("graph"), py::arg("inputs"), py::arg("results"),
             "Says shardings of the inputs, and of results by (function, operation, shardings): what is not said is "
             "whole.");
  module.def("partition_rules", &partition_rules, py::arg("graph"),
             "By operation of the entry function: its kind, and how each of its loop dimensions may be divided.");
}
