// Room kernels: reference evaluation, and the graph passes that need an evaluator.
#include "tilesim/kernels/run/devices.hpp"

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <string>
#include <tuple>

#include "base/arrays.hpp"
#include "base/cancel.hpp"
#include "graph/graph.hpp"
#include "tilesim/base/error.hpp"
#include "tilesim/graph/builder.hpp"
#include "tilesim/graph/passes.hpp"
#include "tilesim/graph/passes/devices.hpp"
#include "tilesim/graph/passes/zero_tiles.hpp"

namespace py = pybind11;
using namespace tilesim;
using bindings::array_from_python;
using bindings::arrays_from_python;
using bindings::arrays_to_python;
using bindings::GraphValue;
using bindings::SharedGraph;

namespace {

/// {"multiply": "bf16", "multiply_tf32": bool, "accumulate": "f32"}, each optional.
Numerics numerics_from(const py::dict& settings) {
  Numerics numerics;
  for (const auto& [key, value] : settings) {
    const auto name = key.cast<std::string>();
    if (name == "multiply") {
      if (!value.is_none()) numerics.multiply = parse_dtype(value.cast<std::string>());
    } else if (name == "multiply_tf32") {
      numerics.multiply_tf32 = value.cast<bool>();
    } else if (name == "accumulate") {
      numerics.accumulate = parse_dtype(value.cast<std::string>());
    } else {
      const std::vector<std::string> known{"multiply", "multiply_tf32", "accumulate"};
      throw UserError({"unknown setting of numerics", {}, name, join(known), nearest(name, known)});
    }
  }
  return numerics;
}

py::list evaluate_graph(const GraphValue& graph, const py::iterable& inputs, const py::dict& numerics) {
  const std::vector<Array> arrays = arrays_from_python(inputs);
  EvaluateOptions options;
  options.numerics = numerics_from(numerics);
  return arrays_to_python(bindings::cancellable([&](CancelToken& token) {
    options.cancel = &token;
    return evaluate(*graph, arrays, options);
  }));
}

/// `inputs`: per device a sequence of arrays.
py::list evaluate_on_devices(const GraphValue& graph, const py::iterable& inputs, const py::dict& numerics) {
  std::vector<std::vector<Array>> arrays;
  for (const py::handle own : inputs) arrays.push_back(arrays_from_python(py::reinterpret_borrow<py::iterable>(own)));
  EvaluateOptions options;
  options.numerics = numerics_from(numerics);
  const std::vector<std::vector<Array>> outputs = bindings::cancellable([&](CancelToken& token) {
    options.cancel = &token;
    return evaluate_devices(*graph, arrays, options);
  });
  py::list result;
  for (const std::vector<Array>& own : outputs) result.append(arrays_to_python(own));
  return result;
}

/// Seconds of each operation, by function and name, summed over its calls.
py::list time_graph(const GraphValue& graph, const py::iterable& inputs, int runs) {
  struct Row {
    const GraphFunction* function;
    const Op* op;
    std::vector<double> seconds;  ///< per run
    std::int64_t calls = 0;
  };
  using Clock = std::chrono::steady_clock;
  const std::vector<Array> arrays = arrays_from_python(inputs);
  std::vector<Row> rows;
  std::map<const Op*, std::size_t> known;
  bindings::cancellable([&](CancelToken& token) {
    for (int run = 0; run < runs; ++run) {
      EvaluateOptions options;
      options.cancel = &token;
      Clock::time_point last = Clock::now();
      options.observe = [&](const GraphFunction& function, const Op& op, const std::vector<Array>&) {
        const double seconds = std::chrono::duration<double>(Clock::now() - last).count();
        const auto [found, fresh] = known.emplace(&op, rows.size());
        if (fresh) rows.push_back({&function, &op, std::vector<double>(static_cast<std::size_t>(runs)), 0});
        Row& row = rows[found->second];
        // What ran inside a call was observed there.
        if (op.kind != Kind::call) row.seconds[static_cast<std::size_t>(run)] += seconds;
        if (run == 0) ++row.calls;
        last = Clock::now();
      };
      evaluate(*graph, arrays, options);
    }
    return 0;
  });
  py::list list;
  for (Row& row : rows) {
    py::dict entry;
    entry["function"] = row.function->name;
    entry["operation"] = row.op->name;
    entry["kind"] = std::string(info(row.op->kind).name);
    entry["calls"] = row.calls;
    entry["seconds"] = *std::ranges::min_element(row.seconds);
    list.append(entry);
  }
  return list;
}

/// One operation on arrays (None: absent), in a graph of its own.
py::list evaluate_single(const std::string& kind_name, const py::iterable& operands, const py::dict& attributes,
                         int results, const py::dict& numerics) {
  const Kind kind = parse_kind(kind_name);
  Graph graph;
  Builder builder(graph, "main");
  std::vector<ValueId> ids;
  py::list present;
  for (const py::handle operand : operands) {
    ids.push_back(no_value);
    if (operand.is_none()) continue;
    const Array array = array_from_python(operand);
    ids.back() = builder.input("operand " + std::to_string(ids.size()), {array.dtype(), array.shape()});
    present.append(operand);
  }
  for (const ValueId id : builder.op(kind, ids, bindings::attributes_from(kind, attributes), kind_name, results))
    builder.output(id);
  builder.finish();
  return evaluate_graph({std::make_shared<const Graph>(std::move(graph))}, present, numerics);
}

const Evaluator exact_evaluator = [](const Graph& graph, const GraphFunction& function, const Op& op,
                                     const std::vector<Array>& operands) {
  return evaluate_op(graph, function, op, operands);
};

/// operations: what their data are, by name. weights: arrays by what they are ("cycles", "b.values"). Each operation
/// NAME gets a plan NAME.sparse, with which names of its weights begin; these are the same bytes for all.
void mark_sparse_products(SharedGraph& shared, const std::map<std::string, std::string>& operations,
                          const std::vector<std::int64_t>& plan, const py::dict& weights) {
  std::map<std::string, Weight> made;
  for (const auto& [part, array] : weights) {
    Weight weight;
    const auto key = py::cast<std::string>(part);
    weight.source = Weight::Source::data;
    weight.trainable = false;
    weight.data = bindings::array_from_python(py::reinterpret_borrow<py::object>(array), key).clone();
    weight.type = {weight.data.dtype(), weight.data.shape()};
    made[key] = std::move(weight);
  }
  shared.change([&](Graph& graph) {
    for (Op& op : graph.entry().ops) {
      const auto found = operations.find(op.name);
      if (found == operations.end()) continue;
      const std::string name = op.name + ".sparse";
      op.attributes.set("sparse", name);
      op.attributes.set("sparse_plan", plan);
      op.attributes.set("sparse_data", found->second);
      for (const auto& [key, weight] : made) graph.weights[name + "." + key] = weight;
    }
    return true;
  });
}

}  // namespace

void init_kernels(py::module_& module) {
  module.def("evaluate", &evaluate_graph, py::arg("graph"), py::arg("inputs"), py::arg("numerics") = py::dict(),
             "Outputs of a graph by the reference kernels, as a list of arrays. `inputs` follow the graph's inputs; "
             "`numerics` may "
             "hold multiply and accumulate (dtype names) and multiply_tf32. Raises UserError on a wrong input.");
  module.def(
      "evaluate_devices", &evaluate_on_devices, py::arg("graph"), py::arg("inputs"), py::arg("numerics") = py::dict(),
      "Outputs per device of a graph that several devices run together, from inputs per device. Raises UserError "
      "where devices do not agree on a loop or branch with operations between them.");
  module.def(
      "loop_trips",
      [](const GraphValue& graph, const py::iterable& inputs) {
        std::map<std::pair<std::string, std::string>, std::pair<std::int64_t, std::int64_t>> trips;
        EvaluateOptions options;
        options.loops = [&](const GraphFunction& function, const Op& op, std::int64_t count) {
          auto& range = trips.emplace(std::pair{function.name, op.name}, std::pair{count, count}).first->second;
          range = {std::min(range.first, count), std::max(range.second, count)};
        };
        const std::vector<Array> arrays = arrays_from_python(inputs);
        bindings::cancellable([&](CancelToken& token) {
          options.cancel = &token;
          return evaluate(*graph, arrays, options);
        });
        return trips;
      },
      py::arg("graph"), py::arg("inputs"),
      "Fewest and most trips that each loop, by function and operation, makes on these inputs.");
  module.def(
      "count_trips",
      [](SharedGraph& shared, const std::vector<std::tuple<std::string, std::string, std::int64_t, bool>>& trips) {
        std::vector<Trips> all;
        for (const auto& [function, operation, count, masked] : trips)
          all.push_back({function, operation, count, masked});
        shared.change([&](Graph& graph) {
          count_trips(graph, all);
          return 0;
        });
      },
      py::arg("graph"), py::arg("trips"),
      "Gives loops, by function and operation, a number of trips, in place; True: the most, later ones keep the "
      "state.");
  module.def(
      "one_of_alike_devices", [](SharedGraph& shared) { return shared.change(one_of_alike_devices); }, py::arg("graph"),
      "Replaces operations between devices by what they give where all devices hold the same tensors, in place; their "
      "names.");
  module.def("time_operations", &time_graph, py::arg("graph"), py::arg("inputs"), py::arg("runs") = 1,
             "Runs a graph by the reference kernels `runs` times. Rows: function, operation, kind, calls (per run), "
             "seconds (of the\nfastest run, all calls together).");
  module.def("evaluate_op", &evaluate_single, py::arg("kind"), py::arg("operands"), py::arg("attributes") = py::dict(),
             py::arg("results") = 1, py::arg("numerics") = py::dict(),
             "Results of one operation on arrays (None: absent operand) by its reference kernel, as a list of arrays.");
  module.def(
      "random_inputs",
      [](const GraphValue& graph, std::int64_t seed) {
        return arrays_to_python(
            bindings::cancellable([&](CancelToken& token) { return random_inputs(*graph, seed, &token); }));
      },
      py::arg("graph"), py::arg("seed") = 0,
      "Deterministic inputs of a graph: floats uniform in [-1, 1], integers small and legal as indices, random bools.");
  module.def(
      "random_ranges", [](const GraphValue& graph) { return random_ranges(*graph); }, py::arg("graph"),
      "Pairs (first, end) that integers among a graph's random inputs lie in, input by input.");
  module.def(
      "random_input",
      [](const std::string& dtype, const Shape& shape, std::size_t index, std::pair<std::int64_t, std::int64_t> range,
         std::int64_t seed) {
        return bindings::array_to_python(bindings::cancellable(
            [&](CancelToken& token) { return random_input({parse_dtype(dtype), shape}, index, range, seed, &token); }));
      },
      py::arg("dtype"), py::arg("shape"), py::arg("index"), py::arg("range"), py::arg("seed") = 0,
      "Random input `index` of a graph that need not be at hand, as random_inputs would draw it.");
  module.def(
      "has_kernel", [](const std::string& kind) { return has_kernel(parse_kind(kind)); }, py::arg("kind"),
      "Whether a kind has a reference kernel.");
  module.def(
      "fold_constants",
      [](SharedGraph& shared, std::int64_t max_elements) {
        return shared.change([&](Graph& graph) { return fold_constants(graph, exact_evaluator, max_elements); });
      },
      py::arg("graph"), py::arg("max_elements") = std::int64_t{1} << 20,
      "Evaluates operations on constants with at most max_elements results, in place; returns how many.");
  module.def(
      "recognise",
      [](SharedGraph& shared, const std::vector<std::string>& passes) {
        py::list rows;
        const std::vector<Change> changes =
            shared.change([&](Graph& graph) { return recognise(graph, exact_evaluator, passes); });
        for (const Change& change : changes) {
          py::dict row;
          row["pass"] = change.pass;
          row["function"] = change.function;
          row["operation"] = change.operation;
          row["before"] = change.before;
          row["after"] = change.after;
          row["source"] = change.source;
          rows.append(row);
        }
        return rows;
      },
      py::arg("graph"), py::arg("passes"),
      "Recognises patterns by the passes named, in place; returns what was replaced: pass, function, operation, "
      "before, "
      "after, source. Raises UserError for an unknown name.");
  module.def("recognition_passes", &recognition_passes, "Names of the passes that recognise patterns, in order.");
  module.def("recognised_functions", &recognised_functions,
             "Elementwise functions that the pass 'activations' knows spellings of.");
  module.def(
      "mark_zero_tiles",
      [](SharedGraph& shared, const std::set<std::string>& leave) {
        return shared.change([&](Graph& graph) { return mark_zero_tiles(graph, leave); });
      },
      py::arg("graph"), py::arg("leave") = std::set<std::string>{},
      "Adds to products with a weight that has tiles of zeros where these are, in place; a line for each of them. "
      "leave: names of products that stay as they are.");
  module.def(
      "find_zero_tiles",
      [](SharedGraph& shared, const std::set<std::string>& leave) {
        return shared.change([&](Graph& graph) { return find_zero_tiles(graph, leave); });
      },
      py::arg("graph"), py::arg("leave") = std::set<std::string>{},
      "Adds tests of tiles of activations to the products that read them, in place; a line for each of them. leave: "
      "names of products that stay as they are.");
  module.def("mark_sparse_products", &mark_sparse_products, py::arg("graph"), py::arg("operations"), py::arg("plan"),
             py::arg("weights"),
             "Gives contracts of the entry a plan for sparse cores, and the graph the weights that belong to it.");
  module.def(
      "fold_batch_norm",
      [](SharedGraph& shared) {
        return shared.change([](Graph& graph) { return fold_batch_norm(graph, exact_evaluator); });
      },
      py::arg("graph"),
      "Folds batch_norm into a preceding convolution or contract with weights, in place; returns how many.");
}
