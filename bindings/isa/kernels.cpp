// Kernels of tile computes, and how long they take.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "base/cancel.hpp"
#include "tilesim/base/error.hpp"
#include "tilesim/isa/latency/dry_run.hpp"
#include "tilesim/isa/latency/latency.hpp"
#include "tilesim/isa/table/user.hpp"
#include "tilesim/tile/compute.hpp"
#include "tilesim/tile/latency_book.hpp"

namespace py = pybind11;
using namespace tilesim;

namespace {

/// A product of these numbers whose operands lie without gaps.
class Dense final : public ComputeSource {
 public:
  explicit Dense(const Descriptor& d) : d_(d) {}
  TileCompute compute() const override {
    if (d_.kind != ComputeKind::mma)
      throw Unsupported({"the text does not say which kernel this is", {}, std::string(name(d_.kind)), "mma", {}});
    Mma mma;
    mma.batch_dims = 1, mma.k_dims = 2, mma.packed = 1;
    mma.stationary_a = d_.stationary_a, mma.accumulate = d_.accumulate;
    const DType sums = is_float(d_.dtype) ? DType::f32 : DType::i32;
    mma.a.dtype = d_.dtype, mma.b.dtype = d_.second, mma.c.dtype = sums;
    const std::int64_t m = d_.m, n = d_.n, k = d_.k, ko = d_.k_outer;
    mma.a.dims = {{d_.batch, ko * m * k}, {m, k}, {ko, m * k}, {k, 1}};
    mma.b.dims = {{d_.batch, ko * k * n}, {ko, k * n}, {k, n}, {n, 1}};
    mma.c.dims = {{d_.batch, m * n}, {m, n}, {n, 1}};
    return mma;
  }

 private:
  const Descriptor& d_;
};

py::dict kernel_latency(const Machine& machine, const std::string& compute) {
  const auto [descriptor, history] = parse_compute(compute);
  TileLatency latency;
  bindings::cancellable(
      [&] { latency = isa::InstructionLatency(machine).latency(descriptor, history, Dense(descriptor)); });
  py::dict row;
  row["busy"] = latency.busy, row["weights_consumed"] = latency.weights_consumed;
  row["consumed"] = latency.consumed, row["first"] = latency.first, row["done"] = latency.done;
  row["limit"] = latency.limit;
  return row;
}

py::dict kernel_of(const Machine& machine, const std::string& compute, isa::Address moving, isa::Address kept,
                   isa::Address sums) {
  const auto [descriptor, history] = parse_compute(compute);
  const isa::CoreTiming core = isa::core_of(machine);
  const TileCompute built = Dense(descriptor).compute();
  const isa::MmaForm form = isa::form_of(machine, std::get<Mma>(built), descriptor);
  const isa::MmaBytes bytes = isa::bytes_of(core, form);
  constexpr double most = 1 << 28;  // more is no tile
  if (static_cast<double>(form.batch) * static_cast<double>(form.taps) * static_cast<double>(form.depth) *
              static_cast<double>(form.moving + form.across) >
          most ||
      static_cast<double>(form.batch) * static_cast<double>(form.moving) * static_cast<double>(form.across) > most)
    throw UserError({"operands of a kernel are too large", {}, compute, "2^28 elements", {}});
  const auto set = isa::set_of(machine);
  const isa::Kernel kernel = isa::mma_kernel(*set, core, form, {moving, kept, sums});
  const std::vector<std::uint32_t> image = kernel.image();
  py::dict told;
  told["code"] = py::bytes(reinterpret_cast<const char*>(image.data()), 4 * image.size());
  told["text"] = kernel.text(*set);
  told["bytes"] = std::vector<std::int64_t>{bytes.moving, bytes.kept, bytes.sums};
  return told;
}

}  // namespace

void init_isa_kernels(py::module_& module) {
  module.def(
      "isa_version",
      [] {
        std::uint64_t hash = 0xCBF29CE484222325ULL;
        const auto add = [&](const std::string& text) {
          for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3ULL;
        };
        for (const isa::InstructionInfo& info : isa::InstructionSet::standard()->all())
          add(info.name), add(info.operands), add(info.timing), add(std::to_string(info.encoding.match));
        return std::to_string(isa::generator_version) + "-" + std::to_string(hash);
      },
      "The version of kernels: of their generator, and of the instructions.");
  module.def("isa_latency", &kernel_latency, py::arg("machine"), py::arg("compute"),
             "What the kernel of a product takes on a machine's core, in cycles.");
  module.def("isa_kernel", &kernel_of, py::arg("machine"), py::arg("compute"), py::arg("moving"), py::arg("kept"),
             py::arg("sums"),
             "Code and listing of the kernel of a product, and the bytes of its operands as they lie.");
}
