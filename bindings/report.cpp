// Results: JSON and the hash of timing.
#include "tilesim/report/result.hpp"

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "base/cancel.hpp"
#include "base/messages.hpp"
#include "tilesim/report/result_check.hpp"
#include "tilesim/report/turns.hpp"

namespace py = pybind11;
using namespace tilesim;

namespace {

/// Values for Python, the same as of a JSON text that is read there. Ctrl-C ends it between two values.
class ToPython {
 public:
  py::object operator()(const Json& json) {
    if (++values_ % 4096 == 0) bindings::raise_pending();
    switch (json.kind()) {
      case Json::Kind::boolean:
        return py::bool_(json.as_bool());
      case Json::Kind::integer:
        return py::int_(json.as_int());
      case Json::Kind::number:
        return py::float_(json.as_double());
      case Json::Kind::string:
        return bindings::readable(json.as_string());
      case Json::Kind::array:
        return list(json.items());
      case Json::Kind::object:
        return dict(json.members());
      default:
        return py::none();
    }
  }

 private:
  py::object list(const std::vector<Json>& items) {
    py::list list(items.size());
    for (std::size_t i = 0; i < items.size(); ++i) list[i] = (*this)(items[i]);
    return list;
  }

  py::object dict(const std::vector<Json::Member>& members) {
    py::dict dict;
    for (const auto& [key, value] : members) {
      PyObject* name = bindings::readable(key).release().ptr();
      PyUnicode_InternInPlace(&name);  // rows have the same keys
      dict[py::reinterpret_steal<py::object>(name)] = (*this)(value);
    }
    return dict;
  }

  std::size_t values_ = 0;
};

}  // namespace

void init_report(py::module_& module) {
  py::class_<Result>(module, "Result", "What a simulation found.")
      .def_static(
          "from_json",
          [](const std::string& text) {
            return bindings::cancellable([&] { return Result::from_json(Json::parse(text, "result")); });
          },
          py::arg("text"), "Reads the JSON form.")
      .def_static(
          "check",
          [](const std::string& text, const std::string& source, const std::string& schema) {
            const Json result = Json::parse(text, source);
            check_result(result, Json::parse(schema, "schema of results"));
          },
          py::arg("text"), py::arg("source"), py::arg("schema"),
          "UserError with file, line and path for an invalid result: by its schema, and by sums that must "
          "agree.")
      .def(
          "to_json",
          [](const Result& result) { return bindings::cancellable([&] { return result.to_json().dump(1); }); },
          "The JSON form, schema \"tilesim.result\".")
      .def(
          "data",
          [](const Result& result) {
            const Json json = bindings::cancellable([&] { return result.to_json(); });
            return py::dict(ToPython()(json));
          },
          "The JSON form as dicts and lists.")
      .def(
          "timing_hash",
          [](const Result& result) { return bindings::cancellable([&] { return result.timing_hash(); }); },
          "Hash of everything that timing decides: equal on every machine and build.")
      .def(
          "counts",
          [](const Result& result) {
            std::vector<std::tuple<std::string, std::string, std::string, std::string, double>> rows;
            for (const Count& one : result.counts)
              rows.emplace_back(one.part, one.item, one.level, one.operation, one.number);
            return rows;
          },
          "What takes energy: part, item, level, operation (empty: none caused it), number.")
      .def_readonly("cycles", &Result::cycles)
      .def_readonly("hertz", &Result::hertz);
  py::class_<Turns>(module, "Turns", "One result from parts that take turns: a machine's, its host's, the link's.")
      .def(py::init<std::int64_t, bool>(), py::arg("hertz"), py::arg("timeline"),
           "hertz: of the machine's clock; timeline: record intervals of host and link.")
      .def("part", &Turns::part, py::arg("result"), "The machine's turn.")
      .def(
          "elsewhere",
          [](Turns& turns, const std::string& unit, const std::string& name, std::int64_t picoseconds,
             const std::string& operation, std::int64_t load_bytes, std::int64_t store_bytes,
             double work) { turns.elsewhere({unit, name, operation, picoseconds, load_bytes, store_bytes, work}); },
          py::arg("unit"), py::arg("name"), py::arg("picoseconds"), py::arg("operation"), py::arg("load_bytes") = 0,
          py::arg("store_bytes") = 0, py::arg("work") = 0.0, "The host's turn (unit \"host\") or the \"link\"'s.")
      .def("finish", &Turns::finish, "The result; program, machine, hashes and configuration are the caller's.");
}
