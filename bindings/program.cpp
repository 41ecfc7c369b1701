// Programs: JSON in and out, checks, functional execution.
#include "tilesim/program/program.hpp"

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "base/arrays.hpp"
#include "base/cancel.hpp"
#include "graph/graph.hpp"
#include "tilesim/base/json/tree.hpp"
#include "tilesim/graph/file.hpp"
#include "tilesim/isa/latency/executor.hpp"
#include "tilesim/program/count.hpp"
#include "tilesim/program/data_steps.hpp"
#include "tilesim/program/flat/cursor.hpp"
#include "tilesim/program/memory_plan.hpp"
#include "tilesim/program/run/execute.hpp"

namespace py = pybind11;
using namespace tilesim;
using program::Program;

namespace {

py::list tensors(const Program& program) {
  static const char* const roles[] = {"input", "output", "weight", "temporary", "state"};
  py::list rows;
  const auto compiled = bindings::cancellable([&] { return program::CompiledProgram(&program); });
  for (std::size_t i = 0; i < program.tensors.size(); ++i) {
    const program::Tensor& tensor = program.tensors[i];
    py::dict row;
    row["name"] = tensor.name;
    row["dtype"] = std::string(name(tensor.dtype));
    row["shape"] = py::tuple(py::cast(compiled.tensors[i].shape));
    row["role"] = roles[static_cast<std::size_t>(tensor.role)];
    row["alias_of"] = tensor.alias_of;
    row["weight"] = tensor.weight;
    rows.append(row);
  }
  return rows;
}

py::tuple contents(const Program& program) {
  const auto found = bindings::cancellable([&] { return program::contents(program); });
  py::list kernels;
  for (const auto& kernel : found.kernels)
    kernels.append(py::make_tuple(kernel.function, kernel.scope->kernel, py::tuple(py::cast(kernel.scope->operation))));
  return py::make_tuple(found.operations, found.sends, kernels);
}

py::list data_reads(const Program& program) {
  py::list rows;
  for (const auto& read : bindings::cancellable([&] { return program::data_reads(program); }))
    rows.append(py::make_tuple(read.tensor, read.rows, read.function, py::tuple(py::cast(read.operation))));
  return rows;
}

py::object step_that_stores(const Program& program, const std::string& tensor) {
  auto step = bindings::cancellable([&] { return program::step_that_stores(program, tensor); });
  if (!step) return py::none();
  return py::make_tuple(std::move(step->program), step->function, py::tuple(py::cast(step->operation)));
}

py::tuple memory_plan(const Program& program, std::int64_t granule) {
  const program::MemoryPlan plan = bindings::cancellable([&] { return program::plan_memory(program, granule); });
  py::list rows;
  for (const auto& place : plan.allocations)
    rows.append(py::make_tuple(place.tensor->name, place.address, place.bytes, place.first, place.last, place.alias_of,
                               place.level == program::Level::scratchpad));
  return py::make_tuple(plan.kernels, plan.peak_bytes, plan.live_bytes, plan.shared, rows, plan.scratchpad_peak,
                        plan.scratchpad_live, program.cores * program.contexts);
}

py::dict execute_program(const Program& program, const py::dict& inputs, const std::string& order, std::int64_t seed,
                         bool find_races, bool planned, const std::optional<Machine>& kernels) {
  program::ExecuteOptions options;
  const std::map<std::string, program::Order> orders{
      {"text", program::Order::text}, {"early_loads", program::Order::early_loads}, {"random", program::Order::random}};
  const auto found = orders.find(order);
  if (found == orders.end())
    throw UserError({"unknown order of execution", {}, "'" + order + "'", "text, early_loads, random", {}});
  options.order = found->second;
  options.seed = seed;
  options.find_races = find_races;
  options.planned = planned;
  std::map<std::string, Array> arrays;
  for (const auto& [key, value] : inputs)
    arrays[key.cast<std::string>()] = bindings::array_from_python(value, key.cast<std::string>());
  const auto results = bindings::cancellable([&](CancelToken& token) {
    options.cancel = &token;
    std::unique_ptr<isa::KernelExecutor> executor;
    if (kernels) executor = std::make_unique<isa::KernelExecutor>(*kernels);
    options.executor = executor.get();
    return program::execute(program, arrays, options);
  });
  py::dict outputs;
  for (const auto& [key, array] : results) outputs[py::str(key)] = bindings::array_to_python(array);
  return outputs;
}

}  // namespace

void init_program(py::module_& module) {
  py::class_<Program>(module, "Program", "A tile program.")
      .def_static(
          "from_json",
          [](const std::string& text, const std::string& source) {
            return bindings::cancellable([&] { return Program::from_json(*json_tree(Json::parse(text, source))); });
          },
          py::arg("text"), py::arg("source") = "text", "Parses the JSON form; raises UserError with line and path.")
      .def(
          "to_json",
          [](const Program& program) {
            return bindings::cancellable([&] { return json_tree(program.to_json())->dump(1); });
          },
          "The JSON form, schema \"tilesim.program\".")
      .def_static(
          "from_file",
          [](const GraphFile& file) {
            return bindings::cancellable([&] { return Program::from_json(file.header().at("program")); });
          },
          py::arg("file"), "The program of a .tsim file; raises UserError with line and path.")
      .def(
          "save",
          [](const Program& program, const std::string& path, const bindings::GraphValue& graph,
             const std::string& header) {
            bindings::cancellable([&] {
              Json whole = Json::parse(header);
              whole.set("program", program.to_json());
              save_compiled_graph(*graph, path, *json_tree(std::move(whole)));
            });
          },
          py::arg("path"), py::arg("graph"), py::arg("header"),
          "Writes .tsim: graph, program, and a JSON header of what else there is.")
      .def("contents", &contents,
           "Tile operations executed (loops of unknown length once), whether cores send to each other, and function, "
           "name and operations of every kernel.")
      .def(
          "check", [](const Program& program) { bindings::cancellable([&] { program::check(program); }); },
          "Checks structure, names and rings; raises UserError.")
      .def(
          "check_races", [](const Program& program) { bindings::cancellable([&] { program::check_races(program); }); },
          "Checks that each use waits for what it uses, among the first 20,000 statements; raises UserError.")
      .def("tensors", &tensors, "Name, dtype, shape, role of every tensor.")
      .def("data_reads", &data_reads,
           "Tensors whose values timing reads (of a function's own names also what calls pass for them): name, whether "
           "only transfers go through it, function and operations of the kernel.")
      .def("step_that_stores", &step_that_stores, py::arg("tensor"),
           "The step that makes a tensor, as a separate program, with its function and operations; none: nothing "
           "stores it.")
      .def("footprint", &program::footprint,
           "Bytes (with the padding of layouts) and name of every tensor that is not an alias, largest first.")
      .def("memory_plan", &memory_plan, py::arg("granule"),
           "Kernels, bytes at the peak and of the largest live set, whether tensors share bytes, and of each tensor "
           "name, address, bytes, first and last kernel, and the one in whose bytes it lies.")
      .def_readonly("name", &Program::name)
      .def_readonly("machine", &Program::machine)
      .def_readonly("notes", &Program::notes)
      .def_readonly("cores", &Program::cores);
  module.def("execute", &execute_program, py::arg("program"), py::arg("inputs"), py::arg("order") = "text",
             py::arg("seed") = 0, py::arg("find_races") = false, py::arg("planned") = false,
             py::arg("kernels") = py::none(),
             "Runs a program on arrays by tensor name; returns outputs and final state.");
  module.def(
      "mutants",
      [](const Program& program, const std::string& change) {
        const std::map<std::string, program::Change> known{{"erase", program::Change::erase},
                                                           {"repeat", program::Change::repeat},
                                                           {"delay", program::Change::delay},
                                                           {"fewer", program::Change::fewer}};
        const auto found = known.find(change);
        if (found == known.end()) throw UserError({"unknown change", {}, change, "erase, repeat, delay, fewer", {}});
        py::list list;
        auto mutants = bindings::cancellable([&] { return program::mutants(program, found->second); });
        for (auto& mutant : mutants) list.append(py::make_tuple(std::move(mutant.program), mutant.changed));
        return list;
      },
      py::arg("program"), py::arg("change") = "erase",
      "Programs with one synchronizing statement missing (erase), there twice (repeat) or one place later (delay), or\n"
      "with a wait for one piece less (fewer), and what that statement is.");
}
