// Results: JSON and the hash of timing.
#include "tilesim/report/result.hpp"

#include <pybind11/pybind11.h>

#include "cancel.hpp"

namespace py = pybind11;
using namespace tilesim;

void init_report(py::module_& module) {
  py::class_<Result>(module, "Result", "What a simulation found.")
      .def_static(
          "from_json",
          [](const std::string& text) {
            return bindings::cancellable([&] { return Result::from_json(Json::parse(text, "result")); });
          },
          py::arg("text"), "Reads the JSON form.")
      .def(
          "to_json",
          [](const Result& result) { return bindings::cancellable([&] { return result.to_json().dump(1); }); },
          "The JSON form, schema \"tilesim.result\".")
      .def(
          "timing_hash",
          [](const Result& result) { return bindings::cancellable([&] { return result.timing_hash(); }); },
          "Hash of everything that timing decides: equal on every machine and build.")
      .def_readonly("cycles", &Result::cycles)
      .def_readonly("hertz", &Result::hertz);
}
