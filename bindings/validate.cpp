// Verification of a tiled program, kernel by kernel.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "base/arrays.hpp"
#include "base/cancel.hpp"
#include "graph/graph.hpp"
#include "tilesim/isa/latency/executor.hpp"
#include "tilesim/validate/verify.hpp"

namespace py = pybind11;
using namespace tilesim;

namespace {

py::list verify_program(const bindings::GraphValue& prepared, const program::Program& program, const Machine& machine,
                        const py::dict& inputs, bool exact, bool kernels) {
  std::map<std::string, Array> arrays;
  for (const auto& [key, value] : inputs)
    arrays[key.cast<std::string>()] = bindings::array_from_python(value, key.cast<std::string>());
  const auto rows = bindings::cancellable([&](CancelToken& token) {
    std::unique_ptr<isa::KernelExecutor> executor;
    if (kernels) executor = std::make_unique<isa::KernelExecutor>(machine);
    return validate::verify(*prepared, program, machine, arrays, exact, &token, executor.get());
  });
  py::list list;
  for (const validate::Comparison& row : rows) {
    py::dict entry;
    entry["operation"] = row.operation;
    entry["tensor"] = row.tensor;
    entry["elements"] = row.elements;
    entry["error"] = row.error;
    entry["bound"] = row.bound;
    entry["ratio"] = row.ratio;
    entry["largest"] = row.largest;
    entry["scale"] = row.scale;
    entry["worst"] = row.worst;
    entry["ok"] = row.ok;
    entry["exact"] = row.exact;
    entry["integer_error"] = row.integer_error;
    entry["integer_ratio"] = row.integer_ratio;
    entry["rounds"] = row.rounds;
    list.append(entry);
  }
  return list;
}

}  // namespace

void init_validate(py::module_& module) {
  module.def("verify", &verify_program, py::arg("prepared"), py::arg("program"), py::arg("machine"), py::arg("inputs"),
             py::arg("exact") = true, py::arg("kernels") = false,
             "Runs a program and compares every tensor that a kernel stores with the reference on the reference's\n"
             "operands; `exact`: also on values whose products and sums are exact. Rows: operation, tensor, elements,\n"
             "error, bound, ratio, largest, scale, worst position, ok, exact, integer_error, integer_ratio, rounds.");
}
