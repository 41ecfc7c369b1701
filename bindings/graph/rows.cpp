// Room graph: operations and loop nests as Python reads them.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "graph/graph.hpp"
#include "tilesim/base/error.hpp"
#include "tilesim/base/index.hpp"
#include "tilesim/graph/kind.hpp"

namespace py = pybind11;
using namespace tilesim;
using bindings::function_of;
using bindings::GraphValue;
using bindings::to_tuple;

namespace {

struct AttributePython {
  py::object operator()(DType value) const { return py::str(std::string(name(value))); }
  template <class T>
  py::object operator()(const T& value) const {
    return py::cast(value);
  }
};

py::dict attributes_dict(const Attributes& attributes) {
  py::dict result;
  for (const auto& [key, value] : attributes.all()) result[py::str(key)] = std::visit(AttributePython{}, value);
  return result;
}

py::dict value_dict(const Value& value) {
  py::dict result;
  result["name"] = value.name;
  result["dtype"] = std::string(name(value.type.dtype));
  result["shape"] = to_tuple(value.type.shape);
  return result;
}

/// Ends a loop that makes Python objects and holds the GIL, where a signal's handler raises.
void obey_signals(std::size_t done) {
  if (done % 256 == 255 && PyErr_CheckSignals() != 0) throw py::error_already_set();
}

/// Values as dicts, each made once: who reads a value has the dict of who makes it.
class ValueDicts {
 public:
  explicit ValueDicts(const GraphFunction& function) : function_(function), made_(function.values.size()) {}

  py::list rows_of(const std::vector<ValueId>& ids) {
    py::list result;
    for (const ValueId id : ids) {
      if (id == no_value) {
        result.append(py::none());
        continue;
      }
      py::object& made = made_[at(id)];
      if (!made) made = value_dict(function_.value(id));
      result.append(made);
    }
    return result;
  }

 private:
  const GraphFunction& function_;
  std::vector<py::object> made_;
};

py::dict row_of(const Graph& graph, const Op& op, ValueDicts& values) {
  py::dict entry;
  entry["name"] = op.name;
  entry["kind"] = std::string(info(op.kind).name);
  entry["operands"] = values.rows_of(op.operands);
  entry["results"] = values.rows_of(op.results);
  entry["attributes"] = attributes_dict(op.attributes);
  py::list callees;
  for (const std::int32_t callee : op.functions) callees.append(graph.functions[at(callee)].name);
  entry["functions"] = callees;
  entry["source"] = op.source;
  return entry;
}

py::object axes_of(const Access& access) {
  if (!access.affine) return py::none();
  py::list axes;
  for (const AxisAccess& axis : access.axes) {
    std::vector<std::pair<int, std::int64_t>> terms;
    for (const AxisAccess::Term& term : axis.terms) terms.emplace_back(term.dim, term.coefficient);
    py::dict entry;
    entry["terms"] = terms;
    entry["constant"] = axis.constant;
    entry["divisor"] = axis.divisor;
    entry["may_leave"] = axis.may_leave;
    axes.append(entry);
  }
  return axes;
}

}  // namespace

py::dict bindings::flops_dict(const Flops& flops) {
  py::dict result;
  result["matrix"] = flops.matrix;
  result["simple"] = flops.simple;
  result["multiply"] = flops.multiply;
  result["divide"] = flops.divide;
  result["transcendental"] = flops.transcendental;
  return result;
}

py::list bindings::values_of(const GraphFunction& function, const std::vector<ValueId>& ids) {
  py::list result;
  for (const ValueId id : ids)
    result.append(id == no_value ? py::object(py::none()) : py::object(value_dict(function.value(id))));
  return result;
}

py::list bindings::operations(const GraphValue& held, const std::string& name) {
  const Graph& graph = *held;
  const GraphFunction& function = function_of(graph, name);
  ValueDicts values(function);
  py::list result;
  for (const Op& op : function.ops) {
    py::dict entry = row_of(graph, op, values);
    entry["flops"] = bindings::flops_dict(flops(graph, function, op));
    entry["bytes"] = compulsory_bytes(graph, function, op);
    result.append(entry);
    obey_signals(result.size());
  }
  return result;
}

py::list bindings::communications(const GraphValue& held, const std::string& name) {
  const Graph& graph = *held;
  const GraphFunction& function = function_of(graph, name);
  ValueDicts values(function);
  py::list result;
  for (const Op& op : function.ops) {
    if (op.functions.empty() && info(op.kind).effect != Effect::collective) continue;
    result.append(row_of(graph, op, values));
    obey_signals(result.size());
  }
  return result;
}

py::dict bindings::domain_of(const GraphValue& graph, const std::string& operation, const std::string& name) {
  const GraphFunction& function = function_of(*graph, name);
  const auto op = std::ranges::find(function.ops, operation, &Op::name);
  if (op == function.ops.end()) {
    std::vector<std::string> names;
    for (const Op& other : function.ops) names.push_back(other.name);
    throw UserError({"the operation does not exist",
                     "function \"" + function.name + "\"",
                     "'" + operation + "'",
                     {},
                     nearest(operation, names)});
  }
  const Domain nest = domain(function, *op);
  py::list operands, results;
  for (const Access& access : nest.operands) operands.append(axes_of(access));
  for (const Access& access : nest.results) results.append(axes_of(access));
  py::dict result;
  result["names"] = nest.names;
  result["extents"] = nest.extents;
  result["reduction"] = nest.reduction;
  result["operands"] = operands;
  result["results"] = results;
  return result;
}
