// Tile latencies as values: books that the engine asks, and their text form.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "tilesim/tile/latency_book.hpp"

namespace py = pybind11;
using namespace tilesim;

namespace {

py::dict to_python(const TileLatency& latency) {
  py::dict row;
  row["busy"] = latency.busy;
  row["weights_consumed"] = latency.weights_consumed;
  row["consumed"] = latency.consumed;
  row["first"] = latency.first;
  row["done"] = latency.done;
  row["limit"] = latency.limit;
  if (*latency.why != '\0') row["why"] = latency.why;
  return row;
}

void put(LatencyBook& book, const std::string& compute, const py::dict& row) {
  const auto [descriptor, history] = parse_compute(compute);
  const auto cycles = [&](const char* key) { return row[key].cast<std::int64_t>(); };
  const std::string why = row.contains("why") ? row["why"].cast<std::string>() : "";
  book.put(compute_text(descriptor, history),
           {cycles("busy"), cycles("weights_consumed"), cycles("consumed"), cycles("first"), cycles("done"), "",
            why.c_str()},
           row["limit"].cast<std::string>());
}

py::dict describe(const std::string& compute) {
  const auto [d, history] = parse_compute(compute);
  py::dict row;
  row["kind"] = std::string(name(d.kind));
  row["dtype"] = std::string(name(d.dtype));
  row["batch"] = d.batch;
  row["m"] = d.m;
  row["n"] = d.n;
  row["k"] = d.k;
  row["k_outer"] = d.k_outer;
  row["stationary_a"] = d.stationary_a;
  row["elements"] = d.elements;
  row["lane_extent"] = d.lane_extent;
  row["functions"] = d.functions;
  row["lane_reductions"] = d.lane_reductions;
  row["resident"] = history.weights_resident;
  row["pipelined"] = history.pipelined;
  return row;
}

}  // namespace

void init_latencies(py::module_& module) {
  py::class_<LatencyBook, std::shared_ptr<LatencyBook>>(module, "LatencyBook", "Tile latencies of one source.")
      .def(py::init<std::string>(), py::arg("source"))
      .def_property_readonly("source", &LatencyBook::source, "What the latencies come from.")
      .def("put", &put, py::arg("compute"), py::arg("latency"), "Adds or replaces the latency of a compute, in cycles.")
      .def(
          "entries",
          [](const LatencyBook& book) {
            py::dict rows;
            for (const auto& [compute, latency] : book.entries()) rows[py::str(compute)] = to_python(latency);
            return rows;
          },
          "All latencies by compute.")
      .def_readonly("hits", &LatencyBook::hits, "Lookups that found an entry.")
      .def_readonly("misses", &LatencyBook::misses, "Lookups that found none.")
      .def_readonly("refused", &LatencyBook::refused, "Computes without a kernel, and why.")
      .def_readonly("counts", &LatencyBook::counts, "Executions by compute, of source instruction.")
      .def_readonly("memory_hits", &LatencyBook::memory_hits, "Answers of the engine's own table in the last run.")
      .def_readonly("memory_misses", &LatencyBook::memory_misses, "What that table had to ask for in the last run.");
  module.def("describe_compute", &describe, py::arg("compute"), "The parts of a tile compute's text.");
  module.def(
      "closed_form_latency",
      [](const Machine& machine, const std::string& compute) {
        const auto [descriptor, history] = parse_compute(compute);
        return to_python(ClosedForm(machine).latency(descriptor, history));
      },
      py::arg("machine"), py::arg("compute"), "What the closed form says of a tile compute, in cycles.");
}
