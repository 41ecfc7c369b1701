// Kernels of tile computes, and how long they take.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <string>
#include <utility>
#include <vector>

#include "base/cancel.hpp"
#include "tilesim/isa/latency/kernel_text.hpp"
#include "tilesim/isa/table/user.hpp"
#include "tilesim/tile/latency_book.hpp"

namespace py = pybind11;
using namespace tilesim;

namespace {

/// What a text says.
class Said final : public ComputeSource {
 public:
  explicit Said(TileCompute compute) : compute_(std::move(compute)) {}
  TileCompute compute() const override { return compute_; }

 private:
  TileCompute compute_;
};

py::dict kernel_latency(const Machine& machine, const std::string& compute) {
  const isa::KernelText said = isa::kernel_text(compute);
  const bool product = said.descriptor.kind == ComputeKind::mma;
  const History history = product ? parse_compute(compute).second : History();
  TileLatency latency;
  bindings::cancellable(
      [&] { latency = isa::InstructionLatency(machine).latency(said.descriptor, history, Said(said.compute)); });
  py::dict row;
  row["busy"] = latency.busy, row["weights_consumed"] = latency.weights_consumed;
  row["consumed"] = latency.consumed, row["first"] = latency.first, row["done"] = latency.done;
  row["limit"] = latency.limit, row["why"] = latency.why;
  return row;
}

py::dict kernel_of(const Machine& machine, const std::string& compute, const std::vector<isa::Address>& places) {
  const isa::NamedKernel made = isa::named_kernel(machine, compute, places);
  const std::vector<std::uint32_t> image = made.kernel.image();
  py::dict told;
  told["code"] = py::bytes(reinterpret_cast<const char*>(image.data()), 4 * image.size());
  told["text"] = made.kernel.text(*isa::set_of(machine));
  std::vector<std::pair<std::string, std::int64_t>> operands;
  for (const auto& [name, bytes] : made.operands) operands.emplace_back(name, bytes);
  told["operands"] = operands;
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
             "What the kernel of a product or a permute takes on a machine's core, in cycles.");
  module.def("isa_kernel", &kernel_of, py::arg("machine"), py::arg("compute"), py::arg("places"),
             "Code and listing of the kernel of a product or a permute whose operands lie at these (three) addresses, "
             "and their names and bytes.");
}
