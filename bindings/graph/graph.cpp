// Room graph: graphs and the passes that need no evaluator.
#include "tilesim/graph/graph.hpp"

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <ranges>

#include "base/arrays.hpp"
#include "base/cancel.hpp"
#include "graph/graph.hpp"
#include "graph/sharding.hpp"
#include "tilesim/base/error.hpp"
#include "tilesim/base/index.hpp"
#include "tilesim/base/json/tree.hpp"
#include "tilesim/graph/file.hpp"
#include "tilesim/graph/kind.hpp"
#include "tilesim/graph/passes.hpp"
#include "tilesim/graph/passes/unquantized.hpp"

namespace py = pybind11;
using namespace tilesim;
using bindings::cancellable;
using bindings::flops_dict;
using bindings::function_of;
using bindings::GraphValue;
using bindings::SharedGraph;
using bindings::to_tuple;
using bindings::values_of;

namespace {

using Names = std::vector<std::string>;

struct HeldParts {
  explicit HeldParts(std::shared_ptr<const Graph> held) : graph(std::move(held)), parts(*graph) {}
  std::shared_ptr<const Graph> graph;
  GraphParts parts;
};

std::string shown(const GraphValue& held) {
  const Graph& graph = *held;
  std::size_t count = 0;
  for (const GraphFunction& function : graph.functions) count += function.ops.size();
  return "<Graph \"" + graph.name + "\": " + std::to_string(count) + " operations, " +
         std::to_string(graph.parameter_count()) + " parameters>";
}

py::dict weight_dict(const Weight& weight) {
  constexpr const char* sources[] = {"data", "random", "file"};
  py::dict result;
  result["dtype"] = std::string(name(weight.type.dtype));
  result["shape"] = to_tuple(weight.type.shape);
  result["source"] = sources[static_cast<std::size_t>(weight.source)];
  result["trainable"] = weight.trainable;
  if (weight.source == Weight::Source::random) {
    result["seed"] = weight.seed;
    result["scale"] = weight.scale;
    result["offset"] = weight.offset;
  }
  return result;
}

const Weight& weight_named(const Graph& graph, const std::string& name) {
  if (const auto found = graph.weights.find(name); found != graph.weights.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [key, weight] : graph.weights) names.push_back(key);
  throw UserError(
      {"the weight does not exist", "graph \"" + graph.name + "\"", "'" + name + "'", {}, nearest(name, names)});
}

void set_weight(SharedGraph& shared, const std::string& name, const py::object& array) {
  const Array given = bindings::array_from_python(array, "weight \"" + name + "\"");
  Weight weight = weight_named(*shared.read(), name);
  const TensorType type{given.dtype(), given.shape()};
  if (type != weight.type)
    throw UserError(
        {"the array does not fit the weight", "weight \"" + name + "\"", to_string(type), to_string(weight.type), {}});
  weight.source = Weight::Source::data;
  weight.data = cancellable([&] { return given.clone(); });
  shared.in_place().weights[name] = std::move(weight);
}

void set_weight_file(SharedGraph& shared, const std::string& name, const std::string& path, std::int64_t byte_offset) {
  Weight weight = weight_named(*shared.read(), name);
  weight.source = Weight::Source::file;
  weight.data = Array();
  weight.path = path;
  weight.byte_offset = byte_offset;
  shared.in_place().weights[name] = std::move(weight);
}

using GraphClass = py::class_<SharedGraph>;

void bind_files(GraphClass& type) {
  type.def(py::init<>())
      .def_static(
          "from_json",
          [](const std::string& text, const std::string& directory, bool weights_anywhere) {
            return SharedGraph(cancellable(
                [&] { return graph_from_json(*json_tree(Json::parse(text)), directory, {weights_anywhere}); }));
          },
          py::arg("text"), py::arg("directory") = ".", py::arg("weights_anywhere") = false,
          "Reads the JSON form. directory: where relative paths of weight files start, and beyond which they may not "
          "lie unless weights_anywhere. Raises UserError with line and path.")
      .def(
          "to_json", [](const GraphValue& graph) { return cancellable([&] { return graph->text(); }); },
          "The JSON form, schema \"tilesim.graph\"; reads back to an equal graph.")
      .def(
          "save",
          [](const GraphValue& graph, const std::string& path, bool weights_anywhere) {
            cancellable([&] { save_graph(*graph, path, {weights_anywhere}); });
          },
          py::arg("path"), py::arg("weights_anywhere") = false,
          "Writes .json or .tsim (a JSON header, then the weights); the old file stands until the new one is whole. "
          "Raises UserError when the file cannot be written, or a weight's file lies outside of a .json's directory.")
      .def_static(
          "load",
          [](const std::string& path, bool weights_anywhere) {
            return SharedGraph(cancellable([&] { return load_graph(path, {weights_anywhere}); }));
          },
          py::arg("path"), py::arg("weights_anywhere") = false,
          "Reads .json or .tsim. Raises UserError with file, line and path.")
      .def(
          "save_compiled",
          [](const GraphValue& graph, const std::string& path, const std::string& header) {
            cancellable([&] { save_compiled_graph(*graph, path, Json::parse(header)); });
          },
          py::arg("path"), py::arg("header"), "Writes .tsim with a JSON header that holds more than the graph.")
      .def(
          "check", [](const GraphValue& graph) { cancellable([&] { check(*graph); }); },
          "Raises UserError naming function and operation.")
      .def(
          "copy", [](const SharedGraph& graph) { return SharedGraph(graph); },
          "Another graph with the same value; what changes one leaves the other alone.")
      .def("replaced", &SharedGraph::replaced, "Builders that build into it raise an error from then on.")
      .def(
          "equals",
          [](const GraphValue& a, const GraphValue& b) {
            return a.held == b.held ||
                   cancellable([&] { return *json_tree(a->to_json()) == *json_tree(b->to_json()); });
          },
          py::arg("other"), "Whether both have the same JSON form.")
      .def("__repr__", &shown);
}

void bind_contents(GraphClass& type) {
  type.def_property(
          "name", [](const GraphValue& graph) { return graph->name; },
          [](SharedGraph& shared, const std::string& name) { shared.in_place().name = name; })
      .def_property_readonly(
          "main", [](const GraphValue& graph) { return graph->entry().name; }, "Name of the entry function.")
      .def_property_readonly(
          "functions",
          [](const GraphValue& graph) {
            std::vector<std::string> names;
            for (const GraphFunction& function : graph->functions) names.push_back(function.name);
            return names;
          },
          "Names of all functions.")
      .def_property_readonly(
          "inputs", [](const GraphValue& graph) { return values_of(graph->entry(), graph->entry().inputs); },
          "Inputs of the entry function in order: name, dtype, shape.")
      .def_property_readonly(
          "outputs", [](const GraphValue& graph) { return values_of(graph->entry(), graph->entry().outputs); },
          "Outputs of the entry function in order: name, dtype, shape.")
      .def(
          "signature",
          [](const GraphValue& graph, const std::string& name) {
            const GraphFunction& function = function_of(*graph, name);
            return py::make_tuple(values_of(function, function.inputs), values_of(function, function.outputs));
          },
          py::arg("function"), "Inputs and outputs of any function. Raises UserError for an unknown one.")
      .def_property_readonly(
          "aliases",
          [](const GraphValue& graph) {
            std::vector<std::pair<int, int>> pairs;
            for (const Alias& alias : graph->entry().aliases) pairs.emplace_back(alias.output, alias.input);
            return pairs;
          },
          "Pairs (output, input) of the entry function: the output overwrites the input.")
      .def("operations", &bindings::operations, py::arg("function") = "",
           "Operations of a function (main by default): name, kind, operands, results, attributes, functions, source, "
           "flops "
           "by unit, compulsory bytes.")
      .def("communications", &bindings::communications, py::arg("function") = "",
           "Operations of a function that are between devices or run functions: name, kind, operands, results, "
           "attributes, functions, source.")
      .def("domain", &bindings::domain_of, py::arg("operation"), py::arg("function") = "",
           "Loop nest of one operation: names, extents and reduction of the dims, and per operand and result its axes "
           "as "
           "sums of (dim, coefficient) (None: not affine). Raises UserError for an unknown name.")
      .def(
          "weights",
          [](const GraphValue& graph) {
            py::dict result;
            for (const auto& [name, weight] : graph->weights) result[py::str(name)] = weight_dict(weight);
            return result;
          },
          "Weights by name: dtype, shape, source, trainable.")
      .def(
          "weight",
          [](const GraphValue& graph, const std::string& name) {
            return bindings::array_to_python(
                cancellable([&] { return weight_named(*graph, name).load(name).clone(); }));
          },
          py::arg("name"), "Elements of one weight. Raises UserError for an unknown name or an unreadable file.")
      .def("set_weight", &set_weight, py::arg("name"), py::arg("array"),
           "Replaces the elements of one weight; dtype and shape must agree.")
      .def("set_weight_file", &set_weight_file, py::arg("name"), py::arg("path"), py::arg("byte_offset") = 0,
           "Takes the elements of one weight from a file of raw little-endian elements, which is mapped when they are "
           "read.")
      .def(
          "parameter_count", [](const GraphValue& graph) { return graph->parameter_count(); },
          "Number of elements of all trainable weights.")
      .def(
          "flops", [](const GraphValue& graph) { return flops_dict(flops(*graph)); },
          "Operations by unit: matrix (a multiply-add is 2), simple, multiply, divide, transcendental.")
      .def(
          "compulsory_bytes", [](const GraphValue& graph) { return compulsory_bytes(*graph); },
          "Bytes of inputs, weights and outputs that must cross the chip's border at least.");
}

void bind_passes(GraphClass& type) {
  const auto pass = [&](const char* name, int (*run)(Graph&), const char* text) {
    type.def(name, [run](SharedGraph& shared) { return shared.change(run); }, text);
  };
  pass("remove_dead_code", &remove_dead_code, "Removes what no output needs; returns the number of operations.");
  pass("remove_no_ops", &remove_no_ops, "Removes operations that change nothing; returns the number of operations.");
  pass("merge_common_subexpressions", &merge_common_subexpressions,
       "Computes equal operations once; returns the number removed.");
  pass("inline_calls", &inline_calls, "Replaces calls by the callee's operations; returns the number of calls.");
  type.def(
          "expand",
          [](SharedGraph& shared, const std::vector<std::string>& kinds) {
            std::vector<Kind> wanted;
            for (const std::string& kind : kinds) wanted.push_back(parse_kind(kind));
            return shared.change([&](Graph& graph) {
              if (wanted.empty()) return expand(graph);
              return expand(graph, [&](const Op& op) { return std::ranges::find(wanted, op.kind) != wanted.end(); });
            });
          },
          py::arg("kinds") = std::vector<std::string>{},
          "Replaces composite operations (all, or those of `kinds`) by primitives; returns the number.")
      .def(
          "unquantized",
          [](const GraphValue& graph) { return SharedGraph(cancellable([&] { return unquantized(*graph); })); },
          "The graph without its roundings to narrow types. Raises Unsupported where bits of codes are used.")
      .def(
          "extract",
          [](const GraphValue& graph, const Names& operations, const Names& inputs, const Names& outputs) {
            return SharedGraph(cancellable([&] { return extract(*graph, operations, inputs, outputs); }));
          },
          py::arg("operations"), py::arg("inputs"), py::arg("outputs"),
          "Operations of the entry function as a separate graph, with the named values at its border. Raises "
          "UserError for an unknown name.")
      .def(
          "parts",
          [](const GraphValue& graph) { return cancellable([&] { return std::make_unique<HeldParts>(graph.held); }); },
          "For many parts of the graph as it is now: each costs what it has, not what the graph has.");
}

void bind_parts(py::module_& module) {
  py::class_<HeldParts>(module, "GraphParts", "Parts of a graph; names are looked up in one index.")
      .def(
          "extract",
          [](const HeldParts& held, const Names& operations, const Names& inputs, const Names& outputs) {
            return SharedGraph(cancellable([&] { return held.parts.extract(operations, inputs, outputs); }));
          },
          py::arg("operations"), py::arg("inputs"), py::arg("outputs"), "As of `Graph`.");
}

void bind_graph(py::module_& module) {
  GraphClass type(module, "Graph", "Operations on single-assignment tensors, in functions, with weights by name.");
  bind_parts(module);
  bind_files(type);
  bind_contents(type);
  bind_passes(type);
  bindings::bind_shardings(module, type);
}

}  // namespace

const GraphFunction& bindings::function_of(const Graph& graph, const std::string& name) {
  if (name.empty()) return graph.entry();
  for (const GraphFunction& function : std::views::reverse(graph.functions))  // what is asked for was built of late
    if (function.name == name) return function;
  std::vector<std::string> names;
  for (const GraphFunction& function : graph.functions) names.push_back(function.name);
  throw UserError({"the function does not exist", "graph \"" + graph.name + "\"", "'" + name + "'", join(names),
                   nearest(name, names)});
}

py::tuple bindings::to_tuple(const Shape& shape) { return py::tuple(py::cast(shape)); }

void bind_graph_file(py::module_& module) {
  py::class_<GraphFile>(module, "GraphFile", "A .tsim file, whose header is read once.")
      .def(py::init([](const std::string& path) { return cancellable([&] { return GraphFile(path); }); }),
           py::arg("path"))
      .def_property_readonly("compiled", &GraphFile::compiled)
      .def(
          "rest", [](const GraphFile& file) { return cancellable([&] { return file.rest().dump(); }); },
          "The header without graph and program, as JSON.")
      .def(
          "graph", [](const GraphFile& file) { return SharedGraph(cancellable([&] { return file.graph(); })); },
          "The graph; weights stay in the file.");
}

void init_graph(py::module_& module) {
  bind_graph(module);
  bind_graph_file(module);
  bindings::bind_builder(module);
}
