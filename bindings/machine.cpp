// Machines: files in, resolved descriptions out.
#include "tilesim/machine/machine.hpp"

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "tilesim/machine/settings.hpp"

namespace py = pybind11;
using namespace tilesim;

void init_machine(py::module_& module) {
  py::class_<Machine>(module, "Machine", "A chip's description, checked on load.")
      .def_static(
          "from_json",
          [](const std::string& text, const std::string& source) {
            return Machine::from_json(Json::parse(text, source));
          },
          py::arg("text"), py::arg("source") = "text", "Parses the JSON form; raises UserError with line and path.")
      .def_static("read_file", &Machine::read_file, py::arg("path"), "Reads a machine file.")
      .def(
          "to_json", [](const Machine& machine) { return machine.to_json().dump(1); },
          "The resolved JSON form: every setting.")
      .def(
          "replace",
          [](const Machine& machine, const std::map<std::string, std::string>& changes) {
            std::map<std::string, Json> values;
            for (const auto& [path, text] : changes) values[path] = Json::parse(text, path);
            return machine.replace(values);
          },
          py::arg("changes"), "A copy with settings replaced: path -> JSON text of the value.")
      .def_readonly("name", &Machine::name)
      .def_readonly("description", &Machine::description)
      .def_property_readonly(
          "hertz", [](const Machine& machine) { return machine.core.clock.hertz; }, "Core clock in Hz.")
      .def_property_readonly(
          "multiply",
          [](const Machine& machine) -> py::object {
            const auto& multiply = machine.core.array.numerics.multiply;
            return multiply ? py::object(py::str(std::string(name(*multiply)))) : py::object(py::none());
          },
          "Type that float operands of products are rounded to, or None.")
      .def_property_readonly(
          "sources", [](const Machine& machine) { return machine.sources; },
          "Setting path -> where the number comes from.")
      .def_property_readonly(
          "host",
          [](const Machine& machine) {
            py::dict result;
            result["device"] = machine.host.device;
            result["bytes_per_second"] = machine.host.bytes_per_second;
            result["latency_ps"] = machine.host.latency_ps;
            return result;
          },
          "The host: device, and bytes_per_second and latency_ps of the link to it.")
      .def_property_readonly(
          "sorts",
          [](const Machine& machine) {
            py::dict result;
            for (const CoreSort& sort : machine.sorts) result[py::str(sort.name)] = machine.cores_of(sort.name);
            return result;
          },
          "Sort of cores -> its cores' numbers; empty where all are alike.")
      .def("only", &Machine::only, py::arg("sort"), "A machine with the cores of one sort alone.")
      .def("hash", &Machine::hash, "Hash of all settings.")
      .def(
          "device",
          [](const Machine& machine) {
            const Device device = Device::from_machine(machine);
            py::dict matrix, vector;
            for (const auto& [dtype, rate] : device.matrix_rates) matrix[py::str(std::string(name(dtype)))] = rate;
            for (const auto& [dtype, rate] : device.vector_rates) vector[py::str(std::string(name(dtype)))] = rate;
            py::dict result;
            result["matrix_flops_per_second"] = matrix;
            result["vector_flops_per_second"] = vector;
            result["memory_bytes_per_second"] = device.memory_bytes_per_second;
            result["kernel_seconds"] = device.kernel_seconds;
            return result;
          },
          "Closed-form view: peak rates per dtype (FLOP/s), bytes/s, seconds per kernel.");
  module.def("machine_documentation", &machine_documentation, "Markdown table of every setting.");
  module.def(
      "machine_settings",
      [] {
        py::list rows;
        for (const Setting& s : machine_settings())
          rows.append(py::make_tuple(s.path, unit_name(s.unit), s.description));
        return rows;
      },
      "Path, unit and description of every setting.");
  module.def("machine_schema", [] { return machine_schema().dump(1); }, "JSON schema of a machine file.");
}
