// Closed-form models on numpy arrays.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <vector>

#include "base/cancel.hpp"
#include "tilesim/analytic/gemm.hpp"
#include "tilesim/base/error.hpp"

namespace py = pybind11;
using namespace tilesim;
using namespace tilesim::analytic;

namespace {

using Column = py::array_t<double, py::array::c_style | py::array::forcecast>;
using Values = std::map<std::string, double>;

double take(const Values& values, const std::string& key, double standard) {
  const auto found = values.find(key);
  return found == values.end() ? standard : found->second;
}

GemmConstants constants_from(const Values& values) {
  GemmConstants constants;
  std::vector<std::string> names;
  for (const auto& info : gemm_constants()) {
    names.emplace_back(info.name);
    constants.*info.field = take(values, names.back(), info.standard);
  }
  for (const auto& [key, value] : values)
    if (std::find(names.begin(), names.end(), key) == names.end())
      throw UserError({"unknown constant", {}, "'" + key + "'", join(names), nearest(key, names)});
  return constants;
}

GemmModel model_from(const Values& hardware, const Values& scheme, const Values& constants,
                     const std::vector<std::array<double, 8>>& kernels) {
  GemmModel model;
  const GemmHardware h;
  model.hardware = {take(hardware, "units", h.units),
                    take(hardware, "clock", h.clock),
                    take(hardware, "flops_per_second", h.flops_per_second),
                    take(hardware, "memory_bytes_per_second", h.memory_bytes_per_second),
                    take(hardware, "cache_bytes", h.cache_bytes),
                    take(hardware, "cache_bytes_per_clock", h.cache_bytes_per_clock),
                    take(hardware, "near_bytes", h.near_bytes),
                    take(hardware, "near_bytes_per_clock", h.near_bytes_per_clock),
                    take(hardware, "block_bytes", h.block_bytes),
                    take(hardware, "lane_flops_per_clock", h.lane_flops_per_clock)};
  const GemmScheme s;
  model.scheme = {take(scheme, "activation_bytes", s.activation_bytes),
                  take(scheme, "weight_bytes", s.weight_bytes),
                  take(scheme, "output_bytes", s.output_bytes),
                  take(scheme, "cast_bytes", s.cast_bytes),
                  take(scheme, "weight_sets", s.weight_sets),
                  take(scheme, "widens", 0) != 0,
                  take(scheme, "warm", 1) != 0,
                  take(scheme, "packs_beyond", s.packs_beyond),
                  take(scheme, "calls", s.calls),
                  take(scheme, "host", s.host),
                  take(scheme, "rules", 0) != 0};
  model.constants = constants_from(constants);
  for (const auto& k : kernels) model.kernels.push_back({k[0], k[1], k[2], k[3], k[4], k[5], k[6], k[7]});
  model.check();
  return model;
}

py::array predict(const GemmModel& model, const Column& batch, const Column& m, const Column& n, const Column& k,
                  bool terms) {
  const py::ssize_t count = batch.size();
  if (m.size() != count || n.size() != count || k.size() != count)
    throw UserError("batch, m, n and k need equally many elements");
  std::vector<py::ssize_t> extents{count};
  if (terms) extents.push_back(gemm_term_count);
  py::array_t<double> out(extents);
  const double *pb = batch.data(), *pm = m.data(), *pn = n.data(), *pk = k.data();
  double* to = out.mutable_data();
  bindings::cancellable([&] {
    for (py::ssize_t i = 0; i < count; ++i) {
      worked(512);
      const GemmTerms row = model.predict(pb[i], pm[i], pn[i], pk[i]);
      if (terms)
        std::copy(row.begin(), row.end(), to + i * gemm_term_count);
      else
        to[i] = row[0];
    }
  });
  return out;
}

}  // namespace

void init_closed_forms(py::module_& module);  // closed_forms.cpp
void init_sparse(py::module_& module);        // sparse.cpp

void init_analytic(py::module_& module) {
  py::class_<GemmModel>(module, "GemmModel", "Closed-form time of matrix products on one device with one scheme.")
      .def(py::init(&model_from), py::arg("hardware"), py::arg("scheme"), py::arg("constants"), py::arg("kernels"),
           "From specification, scheme, constants and kernels (tile m, n, k, most splits, ranges of m and of n).")
      .def(
          "seconds",
          [](const GemmModel& model, const Column& batch, const Column& m, const Column& n, const Column& k) {
            return predict(model, batch, m, n, k, false);
          },
          py::arg("batch"), py::arg("m"), py::arg("n"), py::arg("k"),
          "Seconds per row of four arrays of equal length, shape [count].")
      .def(
          "terms",
          [](const GemmModel& model, const Column& batch, const Column& m, const Column& n, const Column& k) {
            return predict(model, batch, m, n, k, true);
          },
          py::arg("batch"), py::arg("m"), py::arg("n"), py::arg("k"),
          "Every term per row, shape [count, terms]; columns are gemm_term_names().");
  init_closed_forms(module);
  init_sparse(module);
}
