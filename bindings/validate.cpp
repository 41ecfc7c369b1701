// Verification of a tiled program, kernel by kernel.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <limits>

#include "base/arrays.hpp"
#include "base/cancel.hpp"
#include "graph/graph.hpp"
#include "tilesim/isa/check/wide_check.hpp"
#include "tilesim/validate/verify.hpp"

namespace py = pybind11;
using namespace tilesim;

namespace {

/// A kernel that is wrong on values over all of its types' range, as a row.
validate::Comparison row_of(const isa::WideCheck::Fault& fault) {
  validate::Comparison row;
  row.operation = "kernel on wide values";
  row.tensor = fault.compute + ": element " + std::to_string(fault.element) + " is " + fault.kernel +
               " by the kernel, " + fault.meaning + " by its meaning";
  row.elements = fault.elements, row.worst = fault.element;
  row.error = row.largest = fault.difference, row.bound = fault.bound;
  row.ratio = fault.bound > 0 ? fault.difference / fault.bound : std::numeric_limits<double>::infinity();
  row.ok = false, row.exact = true;
  return row;
}

py::list verify_program(const bindings::GraphValue& prepared, const program::Program& program, const Machine& machine,
                        const py::dict& inputs, bool exact, bool kernels) {
  std::map<std::string, Array> arrays;
  for (const auto& [key, value] : inputs)
    arrays[key.cast<std::string>()] = bindings::array_from_python(value, key.cast<std::string>());
  const auto rows = bindings::cancellable([&](CancelToken& token) {
    std::unique_ptr<isa::WideCheck> executor;
    if (kernels) executor = std::make_unique<isa::WideCheck>(machine);
    auto found = validate::verify(*prepared, program, machine, arrays, exact, &token, executor.get());
    if (executor)
      for (const isa::WideCheck::Fault& fault : executor->faults()) found.push_back(row_of(fault));
    return found;
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
