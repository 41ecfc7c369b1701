// Mapping problems: legality, bytes and time of nests, spaces and searches.
#include "mapping/mapping.hpp"
#include "base/messages.hpp"

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <chrono>
#include <set>

#include "base/cancel.hpp"
#include "tilesim/base/error.hpp"
#include "tilesim/mapping/space.hpp"

namespace py = pybind11;
using namespace tilesim;
using tilesim::bindings::MappingProblem;

namespace tilesim::bindings {

mapping::Nest nest_from_python(const py::dict& nest, const std::string& operation) {
  static const std::set<std::string> known{"tiles", "order", "depths", "unit", "sub", "contexts", "pack", "unfold"};
  for (const auto& [key, value] : nest)
    if (const auto text = py::isinstance<py::str>(key) ? key.cast<std::string>() : shown(key); !known.count(text))
      throw UserError({"unknown key of a nest",
                       operation,
                       "'" + text + "'",
                       "tiles, order, depths, sub, unit, contexts, pack, unfold",
                       {}});
  for (const char* key : {"tiles", "order", "depths"})
    if (!nest.contains(key)) throw UserError({std::string("a nest needs '") + key + "'", operation, {}, {}, {}});
  mapping::Nest result;
  try {
    result.tiles = nest["tiles"].cast<std::vector<std::int64_t>>();
    result.order = nest["order"].cast<std::vector<int>>();
    result.depths = nest["depths"].cast<std::vector<std::int64_t>>();
    if (nest.contains("sub")) result.sub = nest["sub"].cast<std::vector<std::int64_t>>();
    if (nest.contains("contexts")) result.contexts = nest["contexts"].cast<std::int64_t>();
    if (nest.contains("pack")) result.pack = nest["pack"].cast<int>();
    if (nest.contains("unfold")) result.unfold = nest["unfold"].cast<std::int64_t>();
  } catch (const std::runtime_error&) {
    throw UserError(
        {"tiles, order, depths and sub of a nest are lists of integers, contexts, pack and unfold are integers",
         operation,
         shown(nest),
         {},
         {}});
  }
  const py::object given = nest.contains("unit") ? py::object(nest["unit"]) : py::str("array");
  const std::string unit = py::isinstance<py::str>(given) ? given.cast<std::string>() : shown(given);
  if (unit != "array" && unit != "vector")
    throw UserError({"unknown unit", operation, "'" + unit + "'", "array, vector", {}});
  result.on_vector = unit == "vector";
  return result;
}

py::dict nest_to_python(const mapping::Nest& nest) {
  py::dict result;
  result["tiles"] = nest.tiles;
  result["order"] = nest.order;
  result["depths"] = nest.depths;
  result["unit"] = nest.on_vector ? "vector" : "array";
  if (!nest.sub.empty()) result["sub"] = nest.sub;
  if (nest.contexts != 1) result["contexts"] = nest.contexts;
  if (nest.pack >= 0) result["pack"] = nest.pack;
  if (nest.unfold > 0) result["unfold"] = nest.unfold;
  return result;
}

}  // namespace tilesim::bindings

namespace {

using bindings::nest_from_python;
using bindings::nest_to_python;

mapping::Nest checked(const MappingProblem& own, const py::dict& nest) {
  mapping::Nest result = nest_from_python(nest, own.problem.operation);
  const mapping::Legality verdict = bindings::legal_here(own, result);
  if (!verdict.legal)
    throw UserError({"this mapping is not legal: " + verdict.reason, own.problem.operation, {}, {}, {}});
  return result;
}

py::dict cost_to_python(const mapping::Cost& cost, double steps) {
  py::dict result;
  result["bytes"] = cost.bytes;
  result["epilogue_bytes"] = cost.leaf_bytes;
  result["transfers"] = cost.transfers;
  result["pieces"] = cost.pieces;
  result["compute_cycles"] = cost.compute;
  result["epilogue_cycles"] = cost.epilogue;
  result["memory_cycles"] = cost.memory;
  result["bound_cycles"] = cost.bound;
  result["limit"] = cost.limit;
  result["cycles"] = steps;
  return result;
}

/// Loops, buffers and pieces of a nest: what the program will have.
py::dict plan_to_python(const mapping::Problem& problem, const mapping::KernelPlan& plan) {
  py::list loops, buffers;
  for (const auto& loop : plan.loops)
    loops.append(py::make_tuple(problem.domain.names[static_cast<std::size_t>(loop.dim)], loop.trips));
  for (std::size_t i = 0; i < 3; ++i) {
    py::dict buffer;
    buffer["level"] = plan.level[i];
    buffer["elements"] = plan.buffers[i].elements;
    buffer["depth"] = plan.buffers[i].depth;
    buffer["pieces"] = plan.buffers[i].pieces;
    buffer["sent"] = plan.buffers[i].sent;
    buffers.append(buffer);
  }
  py::dict result;
  result["loops"] = loops;
  result["buffers"] = buffers;
  return result;
}

py::dict described_problem(const MappingProblem& own) {
  const mapping::Problem& problem = own.problem;
  py::dict result;
  result["operation"] = problem.operation;
  result["kernel"] = problem.kernel;
  result["names"] = problem.domain.names;
  result["extents"] = problem.domain.extents;
  result["m_dims"] = problem.m_dims;
  result["n_dims"] = problem.n_dims;
  result["k_dims"] = problem.k_dims;
  result["batch_dims"] = problem.batch_dims;
  const auto names = [](const std::vector<DType>& dtypes) {
    std::vector<std::string> texts;
    for (DType dtype : dtypes) texts.emplace_back(name(dtype));
    return texts;
  };
  result["dtypes"] = names(problem.dtypes);
  result["memory_dtypes"] = names(problem.memory_dtypes);
  result["shapes"] = problem.shapes;
  result["layouts"] = problem.minor_to_major;
  result["unit"] = problem.on_vector ? "vector" : "array";
  if (problem.contexts > 1) result["contexts"] = problem.contexts;
  if (problem.computed[0]) result["computed"] = true;
  result["epilogue_functions"] = problem.epilogue_functions;
  const auto maps = [](const Access& access) {
    py::list axes;
    for (const AxisAccess& axis : access.axes) {
      py::list terms;
      for (const auto& term : axis.terms) terms.append(py::make_tuple(term.dim, term.coefficient));
      axes.append(py::make_tuple(terms, axis.constant, axis.divisor));
    }
    return axes;
  };
  py::list accesses;
  for (std::size_t i = 0; i < 2; ++i) accesses.append(maps(problem.domain.operands[i]));
  accesses.append(maps(problem.domain.results[0]));
  result["accesses"] = accesses;
  py::list leaves, outputs;
  for (const mapping::Problem::Leaf& leaf : problem.leaves)
    leaves.append(py::make_tuple(leaf.of, maps(leaf.access), leaf.shape, name(leaf.dtype), leaf.minor_to_major));
  for (const mapping::Problem::Output& output : problem.outputs)
    outputs.append(py::make_tuple(name(output.dtype), output.reduced));
  result["leaves"] = leaves;
  result["outputs"] = outputs;
  return result;
}

py::dict search_problem(const MappingProblem& own, std::size_t keep, std::int64_t most_priced,
                        std::int64_t most_walked) {
  const mapping::SearchResult found = bindings::cancellable([&](CancelToken& token) {
    mapping::SearchOptions options;
    options.most_priced = most_priced;
    options.most_walked = most_walked;
    options.cancel = &token;
    return mapping::search(own.problem, own.machine, keep, options);
  });
  py::dict result;
  py::list best;
  for (const mapping::Ranked& ranked : found.best)
    best.append(py::make_tuple(nest_to_python(ranked.nest), cost_to_python(ranked.cost, ranked.cycles)));
  result["best"] = best;
  result["lower_bound"] = found.lower_bound;
  result["gap"] = found.gap();
  result["priced"] = found.priced;
  result["walked"] = found.walked;
  result["complete"] = found.complete;
  return result;
}

/// Legal candidates priced per second, for the benchmark.
double rate(const MappingProblem& own, std::int64_t count) {
  const mapping::Space space = mapping::space(own.problem, own.machine);
  mapping::CostModel model(own.problem, own.machine);
  std::vector<mapping::Nest> nests;
  for (std::uint64_t seed = 0; nests.size() < 4096 && seed < (1U << 20); ++seed)
    if (mapping::Nest nest = space.sample(seed); model.fits(nest)) nests.push_back(std::move(nest));
  if (nests.empty()) return 0;
  double sum = 0;
  const auto begin = std::chrono::steady_clock::now();
  for (std::int64_t i = 0; i < count; ++i) {
    if (i % 64 == 0) worked(1 << 12);
    const mapping::Nest& nest = nests[static_cast<std::size_t>(i) % nests.size()];
    if (model.fits(nest)) sum += model.price(nest).bound;
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return sum < 0 ? 0 : static_cast<double>(count) / seconds;
}

double price_rate(const MappingProblem& own, std::int64_t count) {
  return bindings::cancellable([&] { return rate(own, count); });
}

void init_space(py::module_& module) {
  py::class_<mapping::Space>(module, "MappingSpace",
                             "All combinations of tile sizes, orders and depths of one product.")
      .def_readonly("tiles", &mapping::Space::tiles, "Per dim, ascending.")
      .def_readonly("orders", &mapping::Space::orders, "Loops, outer to inner.")
      .def_readonly("depths", &mapping::Space::depths, "Buffers of a, b and the result.")
      .def_readonly("pieces", &mapping::Space::pieces, "Pieces in which a tile moves, per loop; first: whole tiles.")
      .def_readonly("packs", &mapping::Space::packs,
                    "Loop over the array's rows together with the innermost contracted one; -1: none.")
      .def(
          "cut",
          [](const mapping::Space& space, const py::dict& nest, std::size_t choice) {
            if (choice >= space.pieces.size())
              throw UserError({"no such choice of pieces",
                               "choice",
                               std::to_string(choice),
                               "0 to " + std::to_string(space.pieces.size() - 1),
                               {}});
            return nest_to_python(space.cut(nest_from_python(nest, "nest"), choice));
          },
          py::arg("nest"), py::arg("choice"), "The nest with its tiles in the pieces of this choice.")
      .def("count", &mapping::Space::count, "Combinations, legal or not.")
      .def(
          "at", [](const mapping::Space& space, std::uint64_t index) { return nest_to_python(space.at(index)); },
          py::arg("index"), "The combination with this number.")
      .def(
          "sample", [](const mapping::Space& space, std::uint64_t seed) { return nest_to_python(space.sample(seed)); },
          py::arg("seed"), "A combination drawn by a generator with this seed.")
      .def(
          "neighbours",
          [](const mapping::Space& space, const py::dict& nest) {
            py::list result;
            for (const auto& other : space.neighbours(nest_from_python(nest, "nest")))
              result.append(nest_to_python(other));
            return result;
          },
          py::arg("nest"), "Nests that differ in one choice.");
}

}  // namespace

void init_mapping(py::module_& module) {
  init_space(module);
  bindings::init_mapping_vector(module);
  py::class_<MappingProblem>(module, "MappingProblem", "What one product asks of a mapping, on one machine.")
      .def_property_readonly("info", &described_problem, "Dims, dtypes, shapes, layouts and access maps.")
      .def(
          "legal",
          [](const MappingProblem& own, const py::dict& nest) {
            const auto verdict = bindings::legal_here(own, nest_from_python(nest, own.problem.operation));
            return py::make_tuple(verdict.legal, verdict.reason);
          },
          py::arg("nest"), "(whether it is legal, which rule is broken and by how much)")
      .def(
          "cost",
          [](const MappingProblem& own, const py::dict& nest) {
            const mapping::Nest given = checked(own, nest);
            const auto [cost, steps] = bindings::cancellable([&] {
              mapping::CostModel model(own.problem, own.machine);
              const mapping::Cost priced = model.price(given);
              return std::pair(priced, model.cycles(given));
            });
            return cost_to_python(cost, steps);
          },
          py::arg("nest"), "Bytes and transfers of a, b, result; cycles in closed form and by walking the tiles.")
      .def(
          "bound",
          [](const MappingProblem& own, const py::dict& nest) {
            return mapping::CostModel(own.problem, own.machine).price(checked(own, nest)).bound;
          },
          py::arg("nest"), "Cycles in closed form, never above those of walking the tiles.")
      .def(
          "plan",
          [](const MappingProblem& own, const py::dict& nest) {
            return plan_to_python(own.problem, mapping::plan(own.problem, checked(own, nest)));
          },
          py::arg("nest"), "Loops (name, trips) and, of a, b and the sums, the buffers that the kernel will have.")
      .def(
          "scratchpad_bytes",
          [](const MappingProblem& own, const py::dict& nest) {
            return mapping::scratchpad_bytes(own.problem, checked(own, nest), own.machine);
          },
          py::arg("nest"), "Bytes of scratchpad that the nest takes.")
      .def(
          "heuristic",
          [](const MappingProblem& own) {
            mapping::Nest nest =
                bindings::cancellable([&] { return mapping::by_strategy("heuristic", own.problem, own.machine); });
            nest.on_vector = own.problem.on_vector;
            nest.contexts = own.problem.contexts;
            return nest_to_python(nest);
          },
          "The nest that the rule 'heuristic' chooses.")
      .def(
          "space",
          [](const MappingProblem& own, const std::string& sizes) {
            return mapping::space(own.problem, own.machine, mapping::parse_sizes(sizes));
          },
          py::arg("sizes") = "aligned", "The space of nests; sizes: 'aligned', 'all' or 'divisors'.")
      .def("search", &search_problem, py::arg("keep") = 1, py::arg("most_priced") = 60000, py::arg("most_walked") = 96,
           "The fastest nests by the cost model: best, lower_bound, gap, priced, walked, complete.")
      .def("price_rate", &price_rate, py::arg("count"),
           "Legality and closed forms per second over a random sample of legal nests.");
  module.def("mapping_strategies", [] { return mapping::strategies(); }, "Names of the rules that choose a nest.");
  module.def(
      "least_traffic",
      [](std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t words, const std::string& sizes) {
        const auto least =
            bindings::cancellable([&] { return mapping::least_traffic(m, n, k, words, mapping::parse_sizes(sizes)); });
        py::dict result;
        result["words"] = least.words;
        result["tiles"] = std::vector<std::int64_t>(least.tiles, least.tiles + 3);
        result["order"] = least.order;
        return result;
      },
      py::arg("m"), py::arg("n"), py::arg("k"), py::arg("words"), py::arg("sizes") = "all",
      "Least off-chip words of a product with one tile of each operand in a buffer of so many words.");
}
