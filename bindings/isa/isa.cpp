// Instructions, assembler, timing of single instructions.
#include <pybind11/stl.h>

#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "base/cancel.hpp"
#include "isa/instructions.hpp"
#include "tilesim/isa/pipeline/protocol.hpp"
#include "tilesim/isa/text/assemble.hpp"
#include "tilesim/isa/text/disassemble.hpp"

namespace py = pybind11;
namespace tilesim::isa::bound {

using namespace tilesim;

namespace {

py::list run_loops(const std::string& core, const std::vector<std::tuple<std::string, unsigned, int, bool>>& cases,
                   bool every_trip, const std::string& file) {
  const CoreTiming timing = read_core(Json::parse(core, file));
  struct Outcome {
    double cycles = 0;
    std::string problem;
  };
  std::vector<Outcome> outcomes;
  bindings::cancellable([&] {
    for (const auto& [text, sew, lmul, one] : cases) {
      try {
        outcomes.push_back(
            {run_loop(InstructionSet::standard(), timing, {text, sew, lmul, one}, every_trip).cycles, {}});
      } catch (const UserError& error) {
        outcomes.push_back({0, error.what()});
      }
    }
  });
  py::list told;
  for (const Outcome& one : outcomes)
    told.append(one.problem.empty() ? py::object(py::float_(one.cycles)) : py::object(py::str(one.problem)));
  return told;
}

/// Times a list of instructions that nothing carries out, `times` over.
py::dict time_stream(const std::string& core, const std::string& text, unsigned sew, int lmul, std::uint64_t avl,
                     unsigned times, const std::optional<HeldSet>& set) {
  const CoreTiming timing = read_core(Json::parse(core, "core"));
  Pipeline pipeline(set.value_or(HeldSet()).set, timing);
  bindings::cancellable([&] { time_list(pipeline, text, {{}, sew, lmul, false}, avl, times); });
  py::dict told;
  told["cycles"] = pipeline.drain();
  told["instructions"] = pipeline.instructions();
  told["units"] = unit_times(pipeline.units());
  return told;
}

}  // namespace

void init(py::module_& module) {
  init_instructions(module);
  init_custom(module);
  init_operations(module);
  init_program(module);
  module.def(
      "isa_instructions",
      [](const std::optional<HeldSet>& set) {
        py::list rows;
        for (const InstructionInfo& info : set.value_or(HeldSet()).set->all()) rows.append(described(info));
        return rows;
      },
      py::arg("set") = py::none(), "All instructions of the standard table, or of a set.");
  module.def(
      "isa_assemble",
      [](const std::string& text, std::uint64_t address, const std::optional<HeldSet>& set) {
        const Assembled made = assemble(*set.value_or(HeldSet()).set, text, address);
        return std::make_pair(py::bytes(made.bytes), made.labels);
      },
      py::arg("text"), py::arg("address") = 0, py::arg("set") = py::none(),
      "Machine code of assembly text, and its labels.");
  module.def("isa_loops", run_loops, py::arg("core"), py::arg("cases"), py::arg("every_trip") = false,
             py::arg("file") = "core",
             "Cycles per instruction of the measuring loop: for (text, SEW, log2 LMUL, vl is 1) each, or why they are "
             "missing.");
  module.def("isa_time", time_stream, py::arg("core"), py::arg("text"), py::arg("sew") = 32, py::arg("lmul") = 0,
             py::arg("avl") = ~std::uint64_t{0}, py::arg("times") = 1, py::arg("set") = py::none(),
             "Cycles of a list of instructions that are timed and not executed, and the time of its units.");
  module.def(
      "isa_timing_classes",
      [] {
        py::dict found;
        for (const InstructionInfo& info : InstructionSet::standard()->all())
          if (info.is(is_vector) && !info.is(sets_vl)) found[info.name.c_str()] = class_name(class_of(info));
        return found;
      },
      "The timing class of each vector instruction.");
  module.def(
      "isa_disassemble",
      [](std::uint32_t bits, std::uint64_t address, const std::optional<HeldSet>& set) {
        return disassemble(*set.value_or(HeldSet()).set, bits, address);
      },
      py::arg("bits"), py::arg("address") = 0, py::arg("set") = py::none(),
      "Text of one instruction, '.word' for an unknown one.");
}

}  // namespace tilesim::isa::bound

void init_isa_kernels(py::module_& module);

void init_isa(py::module_& module) {
  tilesim::isa::bound::init(module);
  init_isa_kernels(module);
}
