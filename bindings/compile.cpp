// compile: a Graph and a Machine to a Program.
#include "tilesim/compile/compile.hpp"

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "cancel.hpp"
#include "tilesim/compile/prepare.hpp"

namespace py = pybind11;

namespace {

tilesim::program::Program compile_graph(const tilesim::Graph& graph, const tilesim::Machine& machine,
                                        const std::string& fuse, const std::map<std::string, py::dict>& mappings) {
  tilesim::CompileOptions options;
  options.fuse = fuse;
  for (const auto& [operation, nest] : mappings) {
    tilesim::mapping::Nest& target = options.mappings[operation];
    target.tiles = nest["tiles"].cast<std::vector<std::int64_t>>();
    target.order = nest["order"].cast<std::vector<int>>();
    target.depths = nest["depths"].cast<std::vector<std::int64_t>>();
  }
  return tilesim::bindings::cancellable([&](tilesim::CancelToken& token) {
    options.cancel = &token;
    return tilesim::compile(graph, machine, options);
  });
}

}  // namespace

void init_compile(py::module_& module) {
  module.def(
      "compile", &compile_graph, py::arg("graph"), py::arg("machine"), py::arg("fuse") = "all",
      py::arg("mappings") = std::map<std::string, py::dict>{},
      "Lowers a graph for a machine. mappings: operation name -> {tiles, order, depths}, tile sizes in elements.\n"
      "Raises Unsupported for what the machine cannot run and UserError when no tile fits the scratchpad.");
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
