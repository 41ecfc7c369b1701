// Partitioning: a graph with shardings to one that every device runs.
#include "tilesim/cluster/partition/partition.hpp"

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cmath>

#include "base/cancel.hpp"
#include "graph/graph.hpp"
#include "tilesim/base/dtype.hpp"
#include "tilesim/graph/kind.hpp"

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

}  // namespace

void init_cluster_partition(py::module_& module) {
  module.def("partition_graph", &partition_graph, py::arg("graph"),
             "A graph that names a mesh and shardings as (local graph, inputs, outputs, what was inserted and why). "
             "Raises UserError for shardings that do not fit.");
  module.def("partition_rules", &partition_rules, py::arg("graph"),
             "By operation of the entry function: its kind, and how each of its loop dimensions may be divided.");
}
