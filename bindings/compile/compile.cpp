// compile: a Graph and a Machine to a Program.
#include "tilesim/compile/compile.hpp"
#include "tilesim/compile/groups/rules.hpp"
#include "tilesim/engine/engine.hpp"

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "base/cancel.hpp"
#include "base/messages.hpp"
#include "graph/graph.hpp"
#include "mapping/mapping.hpp"

namespace py = pybind11;

namespace {

py::dict row_of(const tilesim::FusionCandidate& candidate) {
  py::dict row;
  row["candidate"] = tilesim::bindings::readable(candidate.candidate);
  row["rule"] = candidate.rule;
  py::list operations;
  for (const std::string& name : candidate.operations) operations.append(tilesim::bindings::readable(name));
  row["operations"] = operations;
  row["bytes_saved"] = candidate.bytes_saved;
  row["cycles_saved"] = candidate.cycles_saved;
  row["recomputed_flops"] = candidate.recomputed_flops;
  row["decision"] = candidate.decision;
  row["reason"] = tilesim::bindings::readable(candidate.reason);
  return row;
}

py::list fusion_rules() {
  py::list rules;
  for (const tilesim::lower::RuleInfo& rule : tilesim::lower::fusion_rules()) {
    py::dict row;
    row["rule"] = std::string(rule.name);
    row["matches"] = std::string(rule.matches);
    row["legal"] = std::string(rule.legal);
    row["saves"] = std::string(rule.saves);
    row["rounding"] = std::string(rule.rounding);
    rules.append(row);
  }
  return rules;
}

/// Simulated as the machine is by default; without banks and routers, whose parts the caller has.
tilesim::Timed timed(const tilesim::program::Program& program, const tilesim::Machine& machine,
                     tilesim::CancelToken& cancel) {
  tilesim::CancelToken quiet;
  quiet.check = [&cancel] {
    cancel.poll();
    return false;
  };
  tilesim::SimulateOptions options;
  options.network = "simple";
  if (machine.memory.kind == "bank") options.memory = "simple";
  options.cancel = &quiet;
  const tilesim::Result result = tilesim::simulate(program, machine, options);
  std::map<std::string, std::int64_t> busy;
  for (const tilesim::UnitUse& unit : result.units)
    if (unit.kind == "array" || unit.kind == "vector")
      busy[unit.kind] += unit.cycles[static_cast<int>(tilesim::UnitState::busy)];
  return {result.cycles, std::max(busy["vector"], busy["array"] / std::max<std::int64_t>(1, machine.core.array.count)),
          result.memory_read_bytes + result.memory_written_bytes};
}

tilesim::program::Program compile_graph(const tilesim::bindings::GraphValue& graph, const tilesim::Machine& machine,
                                        const std::string& fuse, const std::map<std::string, py::dict>& mappings,
                                        const std::string& mapping, const std::string& only, std::int64_t cores,
                                        std::int64_t contexts, std::optional<py::list> groups,
                                        const std::string& residency, const std::map<std::string, std::string>& levels,
                                        const std::string& layout, const py::object& counted, bool is_timed,
                                        std::optional<py::dict> unused, const std::vector<std::string>& notes) {
  tilesim::CompileOptions options;
  options.residency = residency;
  options.levels = levels;
  options.fuse = fuse;
  options.layout = layout;
  options.mapping = mapping;
  options.only = only;
  options.cores = cores;
  options.contexts = contexts;
  options.notes = notes;
  std::map<std::string, std::string> multiplied;
  if (unused) options.unused = &multiplied;
  for (const auto& [operation, nest] : mappings) {
    if (nest.contains("lane"))
      options.vectors[operation] = tilesim::bindings::tiles_from_python(nest, operation);
    else
      options.mappings[operation] = tilesim::bindings::nest_from_python(nest, operation);
  }
  std::vector<tilesim::FusionCandidate> candidates;
  if (groups) options.record_fusion = &candidates;
  tilesim::program::Program program = tilesim::bindings::cancellable(
      [&](tilesim::CancelToken& token) {
        options.cancel = &token;
        if (is_timed) options.timed = [&](const tilesim::program::Program& one) { return timed(one, machine, token); };
        return tilesim::compile(*graph, machine, options);
      },
      py::none(), counted);
  for (const tilesim::FusionCandidate& row : candidates) groups->append(row_of(row));
  for (const auto& [operation, note] : multiplied) (*unused)[py::str(operation)] = note;
  return program;
}

template <class Choice, class Make>
py::list rows_of(std::vector<Choice>& choices, Make make) {
  py::list rows;
  for (Choice& choice : choices) {
    py::dict row;
    row["function"] = choice.function;
    row["operation"] = choice.operation;
    make(choice, row);
    rows.append(row);
  }
  return rows;
}

py::tuple choices(const tilesim::bindings::GraphValue& graph, const tilesim::Machine& machine, const std::string& fuse,
                  const std::string& mapping, std::int64_t contexts, std::int64_t each) {
  tilesim::CompileOptions options;
  options.contexts = contexts;
  options.each = each;
  options.fuse = fuse;
  options.mapping = mapping;
  std::vector<tilesim::ProductChoice> products;
  std::vector<tilesim::VectorChoice> vectors;
  options.record = &products;
  options.record_vectors = &vectors;
  const auto whole = std::make_shared<const tilesim::Machine>(machine);  // the problems outlive the caller's
  tilesim::bindings::cancellable([&](tilesim::CancelToken& token) {
    options.cancel = &token;
    return tilesim::compile(*graph, *whole, options);
  });
  using namespace tilesim::bindings;
  return py::make_tuple(rows_of(products,
                                [&](tilesim::ProductChoice& choice, py::dict& row) {
                                  row["nest"] = nest_to_python(choice.nest);
                                  row["problem"] =
                                      py::cast(MappingProblem{std::move(choice.problem), choice.machine, whole});
                                }),
                        rows_of(vectors, [&](tilesim::VectorChoice& choice, py::dict& row) {
                          row["nest"] = tiles_to_python(choice.tiles);
                          row["problem"] = py::cast(VectorProblem{std::move(choice.problem), choice.machine, whole});
                        }));
}

void translate(std::exception_ptr pointer) {
  try {
    if (pointer) std::rethrow_exception(pointer);
  } catch (const tilesim::CannotRun& error) {
    py::object instance = tilesim::bindings::unsupported(error);
    instance.attr("operation") = tilesim::bindings::readable(error.reason().operation);
    instance.attr("function") = tilesim::bindings::readable(error.reason().function);
    instance.attr("lack") = tilesim::bindings::readable(std::string(name(error.reason().lack)));
    PyErr_SetObject(py::type::of(instance).ptr(), instance.ptr());
  }
}

}  // namespace

void init_sides(py::module_& module);  // sides.cpp

void init_compile(py::module_& module) {
  init_sides(module);
  py::register_local_exception_translator(translate);  // asked before that of all errors
  module.def(
      "compile", &compile_graph, py::arg("graph"), py::arg("machine"), py::arg("fuse") = "all",
      py::arg("mappings") = std::map<std::string, py::dict>{}, py::arg("mapping") = "profile", py::arg("only") = "",
      py::arg("cores") = 0, py::arg("contexts") = 0, py::arg("groups") = py::none(), py::arg("residency") = "none",
      py::arg("levels") = std::map<std::string, std::string>{}, py::arg("layout") = "auto",
      py::arg("counted") = py::none(), py::arg("timed") = false, py::arg("unused") = py::none(),
      py::arg("notes") = std::vector<std::string>{},
      "Lowers a graph for a machine. mappings: operation name -> {tiles, order, depths, unit}, tile sizes in "
      "elements;\n"
      "mapping: how other products are mapped, one of mapping_strategies(); only: lower just this kernel, to time it "
      "alone;\n"
      "cores: that share the work, 0 for all; contexts: of a core, that share every kernel without a given "
      "mapping;\n"
      "fuse: \"all\", \"none\" or names of rules with commas between; groups: a list that gets a row for each group "
      "looked at.\n"
      "residency: auto or none, values between kernels that stay in scratchpads; levels: name of a value -> memory or "
      "scratchpad; layout: \"auto\", or \"given\" for tensors in their own order of axes; counted: called with kernels "
      "done "
      "and all, at most 20 times a second; timed: of a small program the fastest of several, by simulation; unused: a "
      "dict that gets products whose tiles of zeros are still multiplied, with a note each; notes: the "
      "first ones of the program.\n"
      "Raises Unsupported, with operation, function and lack, for what the machine cannot run, and UserError when no "
      "tile fits the scratchpad.");
  module.def("fusion_rules", &fusion_rules,
             "Rules by which operations become one kernel: rule, matches, legal, saves, rounding.");
  module.def("mapping_choices", &choices, py::arg("graph"), py::arg("machine"), py::arg("fuse") = "all",
             py::arg("mapping") = "profile", py::arg("contexts") = 1, py::arg("each") = 0,
             "Products and vector kernels of a graph as compiled: function, operation, nest, and the mapping problem.");
  module.def(
      "prepared",
      [](const tilesim::bindings::GraphValue& graph, const tilesim::Machine& machine, std::int64_t cores,
         const std::string& fuse, std::int64_t contexts, const std::string& mapping,
         const std::vector<std::string>& mapped, const std::optional<std::set<std::string>>& attentions) {
        tilesim::CompileOptions options;
        options.attentions = attentions;
        options.cores = cores;
        options.fuse = fuse;
        options.contexts = contexts;
        options.mapping = mapping;
        for (const std::string& operation : mapped) options.mappings[operation];
        return tilesim::bindings::SharedGraph(tilesim::bindings::cancellable([&](tilesim::CancelToken& token) {
          options.cancel = &token;
          return tilesim::prepared_graph(*graph, machine, options);
        }));
      },
      py::arg("graph"), py::arg("machine"), py::arg("cores") = 0, py::arg("fuse") = "all", py::arg("contexts") = 1,
      py::arg("mapping") = "profile", py::arg("mapped") = std::vector<std::string>{},
      py::arg("attentions") = py::none(),
      "The graph that lowering works on: expanded and folded; its weights are the program's.");
  module.def(
      "open_loops",
      [](const tilesim::bindings::GraphValue& graph) {
        std::vector<std::pair<std::string, std::string>> found;
        for (const tilesim::OpenLoop& loop : tilesim::open_loops(*graph))
          found.emplace_back(loop.function, loop.operation);
        return found;
      },
      py::arg("graph"), "Function and operation of every loop whose number of trips only data know.");
  module.def(
      "has_lowering", [](const std::string& kind) { return tilesim::has_lowering(tilesim::parse_kind(kind)); },
      py::arg("kind"), "Whether the kind can be compiled, directly or through its expansion.");
}
