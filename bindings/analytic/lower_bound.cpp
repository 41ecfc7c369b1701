// Lower bounds of bytes and time, and the lengths and page tables of attentions that they take as known.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <map>
#include <string>

#include "base/arrays.hpp"
#include "base/cancel.hpp"
#include "graph/graph.hpp"
#include "tilesim/analytic/lower_bound.hpp"

namespace py = pybind11;
using namespace tilesim;
using namespace tilesim::analytic;

namespace {

AttentionData attention_data(const py::dict& known) {
  AttentionData data;
  for (const auto& [key, value] : known)
    data[key.cast<std::string>()] = bindings::array_from_python(value, key.cast<std::string>());
  return data;
}

}  // namespace

void bind_lower_bound(py::module_& module) {
  const auto values = [](const LowerBound& bound) {
    py::dict found;
    found["bytes"] = bound.bytes;
    found["compulsory_bytes"] = bound.compulsory_bytes;
    found["capacity_bytes"] = bound.capacity_bytes;
    found["seconds"] = bound.seconds;
    found["array_seconds"] = bound.array_seconds;
    found["vector_seconds"] = bound.vector_seconds;
    found["memory_seconds"] = bound.memory_seconds;
    found["part"] = std::string(bound.part());
    py::list rows;
    for (const BoundRow& row : bound.rows) {
      py::dict one;
      one["operation"] = row.name;
      one["kind"] = row.kind;
      one["count"] = row.count;
      one["multiply_adds"] = row.multiply_adds;
      one["array_seconds"] = row.array_seconds;
      one["vector_seconds"] = row.vector_seconds;
      rows.append(one);
    }
    found["operations"] = rows;
    return found;
  };
  module.def(
      "lower_bound",
      [values](const bindings::GraphValue& graph, const Machine& machine, const py::dict& known) {
        const AttentionData data = attention_data(known);
        return values(bindings::cancellable([&] { return lower_bound(*graph, machine, data); }));
      },
      py::arg("graph"), py::arg("machine"), py::arg("known") = py::dict(),
      "Least bytes and seconds, with those of every operation. known: lengths and page tables of attentions by name.");
  module.def(
      "check_attention_data",
      [](const bindings::GraphValue& graph, const py::dict& data) {
        const AttentionData arrays = attention_data(data);
        bindings::cancellable([&] { check_attention_data(*graph, arrays); });
      },
      py::arg("graph"), py::arg("data"), "Rejects lengths beyond their cache and unknown pages.");
  module.def(
      "usual_attention_data",
      [](const bindings::GraphValue& graph) {
        const AttentionData data = bindings::cancellable([&] { return usual_attention_data(*graph); });
        py::dict found;
        for (const auto& [name, array] : data) found[py::str(name)] = bindings::array_to_python(array);
        return found;
      },
      py::arg("graph"), "Lengths and page tables that timing takes where none are given, by name.");
  module.def(
      "lower_bound_of_rates",
      [values](const bindings::GraphValue& graph, const std::map<std::string, double>& matrix,
               const std::map<std::string, double>& vector, double memory_bytes_per_second, const py::dict& known) {
        const AttentionData data = attention_data(known);
        Device device;
        device.memory_bytes_per_second = memory_bytes_per_second;
        for (const auto& [dtype, rate] : matrix) device.matrix_rates[parse_dtype(dtype)] = rate;
        for (const auto& [dtype, rate] : vector) device.vector_rates[parse_dtype(dtype)] = rate;
        return values(bindings::cancellable([&] { return lower_bound(*graph, device, data); }));
      },
      py::arg("graph"), py::arg("matrix"), py::arg("vector"), py::arg("memory_bytes_per_second"),
      py::arg("known") = py::dict(), "As lower_bound, for a device described only by its rates.");
}
