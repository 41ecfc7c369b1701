// Orders of pipelines, and when their passes begin and end.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "base/cancel.hpp"
#include "tilesim/base/error.hpp"
#include "tilesim/cluster/pipeline/carried.hpp"

namespace py = pybind11;
using namespace tilesim;
using namespace tilesim::cluster;

namespace {

using Whole = py::array_t<std::int64_t, py::array::c_style | py::array::forcecast>;

py::list rows_of(const PassOrder& order) {
  py::list result;
  for (const auto& row : order) {
    py::array_t<std::int32_t> one({static_cast<py::ssize_t>(row.size()), py::ssize_t{3}});
    auto to = one.mutable_unchecked<2>();
    for (py::ssize_t at = 0; at < to.shape(0); ++at) {
      const Pass& pass = row[static_cast<std::size_t>(at)];
      to(at, 0) = static_cast<int>(pass.kind);
      to(at, 1) = pass.chunk;
      to(at, 2) = static_cast<std::int32_t>(pass.micro);
    }
    result.append(one);
  }
  return result;
}

PassOrder order_of(const std::vector<py::array_t<std::int32_t, py::array::c_style | py::array::forcecast>>& rows) {
  PassOrder order;
  for (const auto& one : rows) {
    const auto from = one.unchecked<2>();
    require(from.shape(1) == 3, "a pass has a kind, a chunk and a micro-batch");
    std::vector<Pass>& row = order.emplace_back();
    for (py::ssize_t at = 0; at < from.shape(0); ++at) {
      require(from(at, 0) >= 0 && from(at, 0) < 4 && from(at, 1) >= 0 && from(at, 1) < 1 << 16 && from(at, 2) >= 0,
              "no such pass");
      row.push_back({static_cast<PassKind>(from(at, 0)), static_cast<std::uint16_t>(from(at, 1)),
                     static_cast<std::uint32_t>(from(at, 2))});
    }
  }
  return order;
}

std::span<const std::int64_t> all_of(const Whole& array) {
  return {array.data(), static_cast<std::size_t>(array.size())};
}

py::tuple run(const Carried& carried, const Whole& times, std::int64_t transfer) {
  require(times.ndim() == 2, "times are a table");
  const py::ssize_t steps = times.shape(1), stages = carried.stages();
  py::array_t<std::int64_t> begins({stages, steps}), ends({stages, steps});
  const std::span<std::int64_t> first{begins.mutable_data(), static_cast<std::size_t>(begins.size())};
  const std::span<std::int64_t> last{ends.mutable_data(), static_cast<std::size_t>(ends.size())};
  const auto from = all_of(times);
  bindings::cancellable([&] {
    std::fill(first.begin(), first.end(), 0);
    carried.run(from, static_cast<std::size_t>(steps), transfer, first, last);
    return 0;
  });
  return py::make_tuple(begins, ends);
}

py::list ends(const Carried& carried, const Whole& times, std::int64_t transfer) {
  const std::vector<std::int64_t> found = carried.ends(all_of(times), transfer);
  py::list result;
  std::size_t at = 0;
  for (const int count : carried.reached()) {
    result.append(py::array_t<std::int64_t>(count, found.data() + at));
    at += static_cast<std::size_t>(count);
  }
  return result;
}

}  // namespace

void init_cluster_pipeline(py::module_& module) {
  py::class_<Carried>(module, "PipelineOrder", "An order of passes, listed behind those that they wait for.")
      .def(py::init([](const std::string& schedule, int stages, int micros, int chunks, std::vector<int> before,
                       std::vector<int> after) {
             const Places places{stages, chunks, std::move(before), std::move(after)};
             return bindings::cancellable(
                 [&] { return Carried(pass_order(schedule, stages, micros, chunks), places, micros); });
           }),
           py::arg("schedule"), py::arg("stages"), py::arg("micros"), py::arg("chunks"), py::arg("before"),
           py::arg("after"),
           "Of a named schedule; before, after: per place, chunk x stages + stage, the one that a micro-batch comes "
           "from and goes to, -1: none.")
      .def(py::init([](const std::vector<py::array_t<std::int32_t, py::array::c_style | py::array::forcecast>>& rows,
                       int micros, int chunks, std::vector<int> before, std::vector<int> after) {
             const Places places{static_cast<int>(rows.size()), chunks, std::move(before), std::move(after)};
             return Carried(order_of(rows), places, micros);
           }),
           py::arg("rows"), py::arg("micros"), py::arg("chunks"), py::arg("before"), py::arg("after"),
           "Carries out custom rows of passes, in the form of `pipeline_order`.")
      .def_property_readonly("reached", &Carried::reached,
                             "Passes of each stage that come to be done: fewer than all where stages wait for each "
                             "other.")
      .def_property_readonly("passes", &Carried::passes, "How many come to be done.")
      .def("run", &run, py::arg("times"), py::arg("transfer"),
           "When each stage begins and ends, two arrays [stages, steps]; times: picoseconds [4 x places, steps], of "
           "forward passes, input gradients, weight gradients, both gradients.")
      .def("ends", &ends, py::arg("times"), py::arg("transfer"), "Of one step, the end of each pass, per stage.");
  module.def(
      "pipeline_order",
      [](const std::string& schedule, int stages, int micros, int chunks) {
        return rows_of(bindings::cancellable([&] { return pass_order(schedule, stages, micros, chunks); }));
      },
      py::arg("schedule"), py::arg("stages"), py::arg("micros"), py::arg("chunks"),
      "The passes of each stage, rows of kind (0 forward, 1 input gradient, 2 weight gradient, 3 both), chunk and "
      "micro-batch.");
}
