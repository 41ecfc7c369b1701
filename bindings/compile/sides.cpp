// Placement of operations on machine and host.
#include "tilesim/compile/plan/sides.hpp"

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "base/cancel.hpp"

namespace py = pybind11;
using namespace tilesim;

namespace {

using Item = std::tuple<std::vector<int>, std::vector<int>, std::optional<std::int64_t>, std::optional<std::int64_t>>;

/// Beyond 64 bits for transfers of exabytes.
py::object number(Int128 value) {
  const py::object high = py::int_(static_cast<std::int64_t>(value >> 62));
  const py::object low = py::int_(static_cast<std::int64_t>(value & ((Int128{1} << 62) - 1)));
  return high * py::int_(std::int64_t{1} << 62) + low;
}

std::vector<bool> checked(const Sides& sides, const std::vector<bool>& host) {
  if (host.size() != sides.items.size()) throw UserError("a placement has a side for every operation");
  return host;
}

}  // namespace

void init_sides(py::module_& module) {
  module.def(
      "link_picoseconds",
      [](std::int64_t bytes_per_second, std::int64_t latency, std::int64_t bytes) {
        return number(SideLink{bytes_per_second, latency}.picoseconds(bytes));
      },
      py::arg("bytes_per_second"), py::arg("latency"), py::arg("bytes"), "Time of one transfer, rounded up.");
  py::class_<Sides>(module, "Sides", "Operations that run on a machine or on its host.")
      .def(py::init([](const std::vector<Item>& items, const std::vector<std::pair<std::int64_t, bool>>& values,
                       std::int64_t bytes_per_second, std::int64_t latency) {
             Sides sides;
             for (const auto& [operands, results, machine, host] : items)
               sides.items.push_back({operands, results, machine, host});
             for (const auto& [bytes, output] : values) sides.values.push_back({bytes, output});
             sides.link = {bytes_per_second, latency};
             return sides;
           }),
           py::arg("items"), py::arg("values"), py::arg("bytes_per_second"), py::arg("latency"),
           "items: values read and made (numbers), picoseconds on machine and host (none: cannot); values: bytes, and "
           "whether the whole gives them; higher numbers are of what lies on both sides.")
      .def(
          "cheapest", [](const Sides& sides) { return bindings::cancellable([&] { return sides.cheapest(); }); },
          "By item whether it runs on the host: the least time, and of those placements one with the fewest transfers.")
      .def(
          "crossings",
          [](const Sides& sides, const std::vector<bool>& host) {
            std::vector<std::pair<int, bool>> found;
            for (const Crossing& one : sides.crossings(checked(sides, host)))
              found.emplace_back(one.value, one.to_host);
            return found;
          },
          py::arg("host"), "Value, and whether it goes to the host, of every transfer.")
      .def(
          "turns",
          [](const Sides& sides, const std::vector<bool>& host) {
            const std::vector<bool> sides_of = checked(sides, host);
            return bindings::cancellable([&] { return sides.turns(sides_of); });
          },
          py::arg("host"), "Whether it is the host's, and its items, of every turn.");
}
