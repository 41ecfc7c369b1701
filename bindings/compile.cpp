// compile: a Graph and a Machine to a Program.
#include "tilesim/compile/compile.hpp"

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "cancel.hpp"
#include "mapping.hpp"
#include "tilesim/compile/prepare.hpp"

namespace py = pybind11;

namespace {

tilesim::program::Program compile_graph(const tilesim::Graph& graph, const tilesim::Machine& machine,
                                        const std::string& fuse, const std::map<std::string, py::dict>& mappings,
                                        const std::string& mapping, const std::string& only, std::int64_t cores) {
  tilesim::CompileOptions options;
  options.fuse = fuse;
  options.mapping = mapping;
  options.only = only;
  options.cores = cores;
  for (const auto& [operation, nest] : mappings)
    options.mappings[operation] = tilesim::bindings::nest_from_python(nest, operation);
  return tilesim::bindings::cancellable([&](tilesim::CancelToken& token) {
    options.cancel = &token;
    return tilesim::compile(graph, machine, options);
  });
}

py::list product_choices(const tilesim::Graph& graph, const tilesim::Machine& machine, const std::string& fuse,
                         const std::string& mapping) {
  tilesim::CompileOptions options;
  options.fuse = fuse;
  options.mapping = mapping;
  std::vector<tilesim::ProductChoice> choices;
  options.record = &choices;
  tilesim::bindings::cancellable([&](tilesim::CancelToken& token) {
    options.cancel = &token;
    return tilesim::compile(graph, machine, options);
  });
  py::list rows;
  for (tilesim::ProductChoice& choice : choices) {
    py::dict row;
    row["function"] = choice.function;
    row["operation"] = choice.operation;
    row["nest"] = tilesim::bindings::nest_to_python(choice.nest);
    row["problem"] = py::cast(tilesim::bindings::MappingProblem{std::move(choice.problem), machine});
    rows.append(row);
  }
  return rows;
}

}  // namespace

void init_compile(py::module_& module) {
  module.def(
      "compile", &compile_graph, py::arg("graph"), py::arg("machine"), py::arg("fuse") = "all",
      py::arg("mappings") = std::map<std::string, py::dict>{}, py::arg("mapping") = "heuristic", py::arg("only") = "",
      py::arg("cores") = 0,
      "Lowers a graph for a machine. mappings: operation name -> {tiles, order, depths, unit}, tile sizes in "
      "elements;\n"
      "mapping: how other products are mapped, one of mapping_strategies(); only: lower just this product, to time it "
      "alone;\n"
      "cores: that share the work, 0 for all.\n"
      "Raises Unsupported for what the machine cannot run and UserError when no tile fits the scratchpad.");
  module.def("product_choices", &product_choices, py::arg("graph"), py::arg("machine"), py::arg("fuse") = "all",
             py::arg("mapping") = "heuristic",
             "Every product of a graph as compiled: function, operation, nest, and its mapping problem.");
  module.def(
      "prepared",
      [](const tilesim::Graph& graph, const tilesim::Machine& machine) {
        return tilesim::lower::prepare(graph, machine, {}).graph;
      },
      py::arg("graph"), py::arg("machine"),
      "The graph that lowering works on: expanded and folded; its weights are the program's.");
  module.def(
      "has_lowering", [](const std::string& kind) { return tilesim::has_lowering(tilesim::parse_kind(kind)); },
      py::arg("kind"), "Whether the kind can be compiled, directly or through its expansion.");
}
