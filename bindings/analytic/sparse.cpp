// Sparse cores on patterns (boolean arrays) and on counts of nonzeros.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/cancel.hpp"
#include "tilesim/base/error.hpp"
#include "tilesim/tile/sparse/tiles.hpp"

namespace py = pybind11;
using namespace tilesim;
using namespace tilesim::sparse;

namespace {

using Pattern = py::array_t<bool, py::array::c_style | py::array::forcecast>;
using AnyPattern = py::array_t<bool, py::array::forcecast>;  // views as they are

PatternView view_of(const py::array& pattern, const char* name) {
  if (pattern.ndim() != 2)
    throw UserError({"a pattern must be a matrix", name, std::to_string(pattern.ndim()) + " axes", "2 axes", {}});
  return {static_cast<const bool*>(pattern.data()), pattern.shape(0), pattern.shape(1), pattern.strides(0),
          pattern.strides(1)};
}

BitMatrix bits_of(const Pattern& pattern, const char* name) {
  const PatternView view = view_of(pattern, name);
  return {view.rows, view.columns, view.data, view.row_stride, view.column_stride};
}

Pattern array_of(const BitMatrix& bits) {
  Pattern pattern({bits.rows(), bits.columns()});
  bool* to = pattern.mutable_data();
  for (std::int64_t row = 0; row < bits.rows(); ++row)
    for (std::int64_t column = 0; column < bits.columns(); ++column) *to++ = bits.at(row, column);
  return pattern;
}

SparseCore core_from(const std::string& dataflow, const std::map<std::string, std::int64_t>& settings) {
  SparseCore core;
  core.dataflow = sparse_flow_named(dataflow);
  const std::pair<const char*, std::int64_t*> fields[] = {
      {"multipliers", &core.multipliers}, {"read_ports", &core.read_ports},     {"write_ports", &core.write_ports},
      {"lanes_a", &core.lanes_a},         {"lanes_b", &core.lanes_b},           {"tile_m", &core.tile_m},
      {"tile_n", &core.tile_n},           {"accumulators", &core.accumulators}, {"segment", &core.segment}};
  for (const auto& [name, value] : settings) {
    const auto* found =
        std::find_if(std::begin(fields), std::end(fields), [&](const auto& f) { return f.first == name; });
    if (found == std::end(fields)) throw InternalError("a sparse core has no setting " + name);
    *found->second = value;
  }
  core.check();
  return core;
}

std::map<std::string, double> values_of(const SparseTime& time) {
  return {{"cycles", time.cycles},
          {"products", time.products},
          {"placements", time.placements},
          {"partial_sums", time.partial_sums},
          {"spilled", time.spilled}};
}

py::array_t<std::int64_t> counts_of(const TileTimes& times, const std::vector<std::int64_t>& values) {
  py::array_t<std::int64_t> counts({times.tiles[0], times.tiles[1], times.tiles[2]});
  std::ranges::copy(values, counts.mutable_data());
  return counts;
}

}  // namespace

void init_sparse(py::module_& module) {
  module.def(
      "sparse_time",
      [](const std::string& dataflow, const std::map<std::string, std::int64_t>& settings, const Pattern& a,
         const Pattern& b, bool hold_b) {
        const SparseCore core = core_from(dataflow, settings);
        const BitMatrix of_a = bits_of(a, "a"), of_b = bits_of(b, "b");
        return values_of(bindings::cancellable([&] { return sparse_time(core, of_a, of_b, hold_b); }));
      },
      py::arg("dataflow"), py::arg("settings"), py::arg("a"), py::arg("b"), py::arg("hold_b") = false,
      "Cycles and counts of [m, k] times [k, n] on a sparse core, from the patterns of both.");
  module.def(
      "sparse_tile_times",
      [](const std::string& dataflow, const std::map<std::string, std::int64_t>& settings, const AnyPattern& a,
         const AnyPattern& b, const std::tuple<std::int64_t, std::int64_t, std::int64_t>& sizes, bool hold_b) {
        const SparseCore core = core_from(dataflow, settings);
        const PatternView of_a = view_of(a, "a"), of_b = view_of(b, "b");
        const auto [m, n, k] = sizes;
        const TileTimes times =
            bindings::cancellable([&] { return tile_times(core, of_a, of_b, {.m = m, .n = n, .k = k}, hold_b); });
        return std::make_pair(counts_of(times, times.cycles), counts_of(times, times.products));
      },
      py::arg("dataflow"), py::arg("settings"), py::arg("a"), py::arg("b"), py::arg("sizes"), py::arg("hold_b"),
      "Cycles and multiply-adds of each tile of so many elements of m, n, k.");
  module.def(
      "expected_sparse_time",
      [](const std::string& dataflow, const std::map<std::string, std::int64_t>& settings, std::int64_t m,
         std::int64_t n, std::int64_t k, std::int64_t a_nonzeros, std::int64_t b_nonzeros, bool hold_b) {
        const SparseCore core = core_from(dataflow, settings);
        const SparseCounts counts{m, n, k, a_nonzeros, b_nonzeros};
        return values_of(bindings::cancellable([&] { return expected_sparse_time(core, counts, hold_b); }));
      },
      py::arg("dataflow"), py::arg("settings"), py::arg("m"), py::arg("n"), py::arg("k"), py::arg("a_nonzeros"),
      py::arg("b_nonzeros"), py::arg("hold_b") = false, "The same in expectation, from counts of nonzeros.");
  module.def(
      "draw_patterns",
      [](std::int64_t m, std::int64_t n, std::int64_t k, double a_density, double b_density, std::uint64_t seed) {
        std::uint64_t state = seed;
        const BitMatrix a = draw_pattern(state, m, k, a_density), b = draw_pattern(state, k, n, b_density);
        return std::make_pair(array_of(a), array_of(b));
      },
      py::arg("m"), py::arg("n"), py::arg("k"), py::arg("a_density"), py::arg("b_density"),
      py::arg("seed") = std::uint64_t{88172645463325252},
      "Patterns of a, then of b, from one xorshift stream (left 13, right 7, left 17), densities in whole percents.");
}
