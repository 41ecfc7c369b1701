#include "tilesim/isa/check/wide_check.hpp"

#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <optional>

#include "tilesim/base/error.hpp"
#include "tilesim/isa/check/wide_values.hpp"
#include "tilesim/tile/strided.hpp"

namespace tilesim::isa {

namespace {

std::vector<TileView*> views_read(TileCompute& compute) {
  std::vector<TileView*> views;
  if (auto* mma = std::get_if<Mma>(&compute)) views = {&mma->a, &mma->b};
  if (auto* sort = std::get_if<tilesim::Sort>(&compute)) views = {&sort->in};
  if (auto* vector = std::get_if<VectorCompute>(&compute))
    for (TileView& view : vector->inputs) views.push_back(&view);
  return views;
}

std::vector<TileView*> views_written(TileCompute& compute) {
  std::vector<TileView*> views;
  if (auto* mma = std::get_if<Mma>(&compute)) views = {&mma->c};
  if (auto* sort = std::get_if<tilesim::Sort>(&compute)) views = {&sort->keys, &sort->positions};
  if (auto* vector = std::get_if<VectorCompute>(&compute))
    for (VectorOutput& output : vector->outputs) views.push_back(&output.view);
  return views;
}

bool sums_floats(const VectorOutput& output) {
  return !output.reduce.empty() && is_float(output.view.dtype) && output.combiner == Combiner::add;
}

/// A compute of the sum of magnitudes of one output, separate so that the checked compute stays unchanged.
VectorCompute magnitudes_of(const VectorCompute& compute, std::size_t which, std::vector<std::byte>& sums) {
  VectorCompute found = compute;
  VectorOutput output = compute.outputs[which];
  VectorNode magnitude;
  magnitude.op = VectorNode::Op::function, magnitude.function = Function::abs;
  magnitude.arguments[0] = output.node;
  found.nodes.push_back(magnitude);
  const DType dtype = output.view.dtype == DType::f64 ? DType::f64 : DType::f32;
  sums = std::vector<std::byte>(static_cast<std::size_t>(wide_extent(output.view).count * host_bytes(dtype)));
  output.view.data = sums.data() - wide_extent(output.view).low * host_bytes(dtype);
  output.node = static_cast<int>(found.nodes.size()) - 1;
  output.view.dtype = dtype, output.accumulate = false;
  found.outputs = {output};
  return found;
}

double number_at(const TileView& view, std::int64_t offset) {
  double value = 0;
  read_run(view.data + offset * host_bytes(view.dtype), view.dtype, 1, 1, &value);
  return value;
}

std::string value_text(const TileView& view, std::int64_t offset) {
  if (dtype_class(view.dtype) == DTypeClass::signed_integer ||
      dtype_class(view.dtype) == DTypeClass::unsigned_integer) {
    std::int64_t value = 0;
    read_run(view.data + offset * host_bytes(view.dtype), view.dtype, 1, 1, &value);
    return std::to_string(value);
  }
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%.9g", number_at(view, offset));
  return text.data();
}

/// Error bound of a float sum of `terms` terms, for the sum of their magnitudes; empty: the sum may overflow.
std::optional<double> sum_bound(DType dtype, std::int64_t terms, double magnitudes) {
  const double most = dtype == DType::f64 ? 1e307 : 8e37, unit = dtype == DType::f64 ? 0x1p-52 : 0x1p-23;
  if (!(magnitudes < most)) return std::nullopt;
  double stored = 0, least = 0;  // errors of storing in a narrower type
  if (bits(dtype) <= 16) stored = 0x1p-7, least = 0x1p-14;
  if (bits(dtype) <= 8) stored = 0.25, least = 0.25;
  const double bound = static_cast<double>(terms + 1) * unit * magnitudes;
  return bound + stored * (magnitudes + bound) + least + std::numeric_limits<float>::min();
}

}  // namespace

void WideCheck::run(const TileCompute& compute) {
  const bool moves = std::holds_alternative<Permute>(compute) || std::holds_alternative<Indexed>(compute) ||
                     std::holds_alternative<Opaque>(compute);
  if (!moves && machine_.core.isa.functions.empty() && checked_.insert(signature_of(compute)).second) compare(compute);
  kernels_.run(compute);
}

void WideCheck::compare(const TileCompute& given) {
  if (!draws_wide(given)) return;
  TileCompute by_meaning = given, by_kernel = given;
  WideValues values(signature_of(given), divides_integers(given));
  std::vector<std::vector<std::byte>> memory;
  const auto place = [&](TileView& view, TileView& other, bool apart) {
    const WideExtent extent = wide_extent(view);
    memory.push_back(values.draw(view.dtype, extent.count));
    view.data = memory.back().data() - extent.low * host_bytes(view.dtype);
    if (apart) memory.push_back(memory.back());
    other.data = memory.back().data() - extent.low * host_bytes(view.dtype);
  };
  const auto read = views_read(by_meaning), read_too = views_read(by_kernel);
  for (std::size_t i = 0; i < read.size(); ++i) place(*read[i], *read_too[i], false);
  const auto written = views_written(by_meaning), written_too = views_written(by_kernel);
  for (std::size_t i = 0; i < written.size(); ++i) place(*written[i], *written_too[i], true);
  std::vector<std::vector<std::byte>> sums(written.size());
  std::vector<TileView> magnitudes(written.size());
  const std::vector<TileView> before = [&] {
    std::vector<TileView> all;
    for (const TileView* view : written) {
      memory.push_back({});
      const WideExtent extent = wide_extent(*view);
      const auto* first = view->data + extent.low * host_bytes(view->dtype);
      memory.back().assign(first, first + extent.count * host_bytes(view->dtype));
      all.push_back(*view);
      all.back().data = memory.back().data() - extent.low * host_bytes(view->dtype);
    }
    return all;
  }();
  try {
    if (const auto* vector = std::get_if<VectorCompute>(&by_meaning))
      for (std::size_t i = 0; i < vector->outputs.size(); ++i)
        if (sums_floats(vector->outputs[i])) {
          const VectorCompute of = magnitudes_of(*vector, i, sums[i]);
          execute(of);
          magnitudes[i] = of.outputs[0].view;
        }
    execute(by_meaning);
  } catch (const UserError&) {
    return;  // undefined for these values, such as a quotient by 0
  }
  const std::int64_t kernels = kernels_.by_kernel();
  try {
    (instead_ != nullptr ? *instead_ : kernels_).run(by_kernel);
  } catch (const UserError& error) {
    faults_.push_back({wide_text(given), 0, 0, error.what(), "a value", INFINITY, 0});
    return;
  }
  if (instead_ == nullptr && kernels_.by_kernel() == kernels) return;
  ++compared_;
  for (std::size_t i = 0; i < written.size(); ++i) {
    if (!must_agree(given, i)) continue;
    const TileView &right = *written[i], &found = *written_too[i];
    std::int64_t element = -1, all = 0;
    Fault fault;
    for_each_offset(right.dims.data(), right.dims.size(), [&](std::int64_t offset) {
      ++all;
      const auto bytes = static_cast<std::size_t>(host_bytes(right.dtype));
      const auto at = offset * host_bytes(right.dtype);
      if (element >= 0 || std::memcmp(right.data + at, found.data + at, bytes) == 0) return;
      const double a = number_at(found, offset), b = number_at(right, offset);
      if (is_float(right.dtype) && std::isnan(a) && std::isnan(b)) return;
      double bound = 0;
      if (!sums[i].empty()) {
        double whole = number_at(magnitudes[i], offset);
        if (std::get<VectorCompute>(given).outputs[i].accumulate) whole += std::abs(number_at(before[i], offset));
        const std::optional<double> most = sum_bound(right.dtype, wide_terms(given, i), whole);
        if (!most || !std::isfinite(b) || std::abs(a - b) <= *most) return;
        bound = *most;
      }
      element = all - 1;
      fault = {wide_text(given),          element,         0,    value_text(found, offset),
               value_text(right, offset), std::abs(a - b), bound};
      if (!std::isfinite(fault.difference)) fault.difference = INFINITY;
    });
    fault.elements = all;
    if (element >= 0) return faults_.push_back(std::move(fault));
  }
}

}  // namespace tilesim::isa
