// Mapping problems of vector kernels: legality, estimates and search.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <set>

#include "base/cancel.hpp"
#include "base/messages.hpp"
#include "mapping/mapping.hpp"
#include "tilesim/base/error.hpp"
#include "tilesim/mapping/vector/movement.hpp"
#include "tilesim/mapping/vector/plan.hpp"

namespace py = pybind11;

namespace tilesim::bindings {

mapping::VectorTiles tiles_from_python(const py::dict& tiles, const std::string& operation) {
  static const std::set<std::string> known{"tiles", "lane", "depth", "sub", "contexts"};
  for (const auto& [key, value] : tiles)
    if (const auto text = py::isinstance<py::str>(key) ? key.cast<std::string>() : shown(key); !known.count(text))
      throw UserError(
          {"unknown key of vector tiles", operation, "'" + text + "'", "tiles, lane, depth, sub, contexts", {}});
  if (!tiles.contains("tiles")) throw UserError({"vector tiles need 'tiles'", operation, {}, {}, {}});
  mapping::VectorTiles result;
  try {
    result.tiles = tiles["tiles"].cast<std::vector<std::int64_t>>();
    result.lane = tiles.contains("lane") ? tiles["lane"].cast<int>() : static_cast<int>(result.tiles.size()) - 1;
    if (tiles.contains("sub")) result.sub = tiles["sub"].cast<std::vector<std::int64_t>>();
    if (tiles.contains("contexts")) result.contexts = tiles["contexts"].cast<std::int64_t>();
    if (tiles.contains("depth")) result.depth = tiles["depth"].cast<std::int64_t>();
  } catch (const std::runtime_error&) {
    throw UserError(
        {"tiles and sub are lists of integers, lane and depth are integers", operation, shown(tiles), {}, {}});
  }
  return result;
}

py::dict tiles_to_python(const mapping::VectorTiles& tiles) {
  py::dict result;
  result["tiles"] = tiles.tiles;
  result["lane"] = tiles.lane;
  result["depth"] = tiles.depth;
  if (!tiles.sub.empty()) result["sub"] = tiles.sub;
  if (tiles.contexts != 1) result["contexts"] = tiles.contexts;
  return result;
}

namespace {

py::dict cost_to_python(const mapping::VectorCost& cost) {
  py::dict result;
  result["read_bytes"] = cost.read_bytes;
  result["written_bytes"] = cost.written_bytes;
  result["transfers"] = cost.transfers;
  result["vector_cycles"] = cost.vector;
  result["compute_cycles"] = cost.compute;
  result["memory_cycles"] = cost.memory;
  result["cycles"] = cost.cycles;
  result["bound_cycles"] = cost.bound;
  result["limit"] = cost.limit;
  return result;
}

py::dict describe(const VectorProblem& own) {
  const mapping::VectorProblem& problem = own.problem;
  py::dict result;
  result["operation"] = problem.operation;
  result["kernel"] = problem.kernel;
  result["space"] = problem.space;
  result["reduced"] = problem.reduced;
  result["whole"] = problem.whole;
  result["lanes"] = problem.lanes;
  result["passes"] = problem.passes;
  if (problem.contexts > 1) result["contexts"] = problem.contexts;
  result["whole_tiles"] = problem.whole_tiles;
  result["walks"] = problem.walks;
  result["functions"] = problem.functions;
  py::list operands;
  for (const mapping::VectorOperand& operand : problem.operands) {
    static const char* const uses[] = {"load", "store", "scratch"};
    py::dict row;
    row["use"] = uses[static_cast<std::size_t>(operand.use)];
    row["dtype"] = std::string(name(operand.dtype));
    row["step"] = operand.step;
    row["reach"] = operand.reach;
    row["axes"] = operand.axes;
    row["extents"] = operand.extents;
    row["layout"] = operand.layout;
    operands.append(row);
  }
  result["operands"] = operands;
  return result;
}

py::object plan_to_python(const mapping::VectorProblem& problem, const mapping::VectorTiles& tiles) {
  if (!problem.walks || problem.operands.size() != 2 || !problem.operands[0].apart.empty()) return py::none();
  const mapping::MovePlan plan = mapping::plan_move(problem, tiles);
  py::list loops, buffers;
  for (const auto& loop : plan.loops) loops.append(py::make_tuple(loop.axis, loop.trips));
  for (const auto& buffer : plan.buffers)
    buffers.append(py::make_tuple(buffer.name, name(buffer.dtype), buffer.elements, buffer.depth));
  py::dict result;
  result["loops"] = loops;
  result["buffers"] = buffers;
  result["permuted"] = plan.permuted;
  result["pieces"] = plan.pieces();
  return result;
}

mapping::VectorTiles checked(const VectorProblem& own, const py::dict& tiles) {
  mapping::VectorTiles result = tiles_from_python(tiles, own.problem.operation);
  if (const auto verdict = legal_here(own, result); !verdict.legal)
    throw UserError({"this mapping is not legal: " + verdict.reason, own.problem.operation, {}, {}, {}});
  return result;
}

py::dict plan_to_python(const mapping::VectorPlan& plan) {
  py::list loops, buffers;
  const auto add = [&](const std::vector<mapping::VectorPlan::Loop>& from, const char* stem) {
    for (const mapping::VectorPlan::Loop& loop : from)
      loops.append(py::make_tuple(stem + std::to_string(loop.axis), loop.trips));
  };
  add(plan.rows, "i");
  add(plan.columns, "i");
  add(plan.parts, "w");
  for (const mapping::VectorPlan::OperandRing& buffer : plan.buffers) {
    py::dict row;
    row["there"] = buffer.there;
    row["elements"] = buffer.elements;
    row["depth"] = buffer.depth;
    row["in_pieces"] = buffer.in_pieces;
    row["turned"] = buffer.turned;
    buffers.append(row);
  }
  py::dict result;
  result["loops"] = loops;
  result["pieces"] = plan.pieces;
  result["buffers"] = buffers;
  return result;
}

}  // namespace

void init_mapping_vector(py::module_& module) {
  py::class_<VectorProblem>(module, "VectorProblem", "What one vector kernel asks of its tiles, on one machine.")
      .def_property_readonly("info", &describe, "Space, reduced axes, lanes, operands and functions per point.")
      .def(
          "legal",
          [](const VectorProblem& own, const py::dict& tiles) {
            const auto verdict = legal_here(own, tiles_from_python(tiles, own.problem.operation));
            return py::make_tuple(verdict.legal, verdict.reason);
          },
          py::arg("tiles"), "(whether it is legal, which rule is broken and by how much)")
      .def(
          "cost",
          [](const VectorProblem& own, const py::dict& tiles) {
            return cost_to_python(mapping::price(own.problem, checked(own, tiles), own.machine));
          },
          py::arg("tiles"), "Bytes and transfers, cycles of the vector unit, and an estimate of all cycles.")
      .def(
          "vector_plan",
          [](const VectorProblem& own, const py::dict& tiles) {
            return plan_to_python(mapping::plan(own.problem, checked(own, tiles), own.machine));
          },
          py::arg("tiles"),
          "Loops outer to inner (name, trips), pieces per axis and buffers per operand, of a kernel that computes.")
      .def(
          "scratchpad_bytes",
          [](const VectorProblem& own, const py::dict& tiles) {
            return mapping::vector_scratchpad_bytes(own.problem, checked(own, tiles));
          },
          py::arg("tiles"), "Bytes of scratchpad that the tiles take.")
      .def(
          "plan",
          [](const VectorProblem& own, const py::dict& tiles) {
            return plan_to_python(own.problem, checked(own, tiles));
          },
          py::arg("tiles"),
          "Loops (axis, trips), buffers (name, dtype, elements, depth), whether tiles are permuted and the pieces "
          "until "
          "one may be used, of a kernel that moves data from known places; None of others.")
      .def(
          "walk",
          [](const VectorProblem& own, const py::dict& tiles) {
            return mapping::walked_cycles(own.problem, checked(own, tiles), own.machine);
          },
          py::arg("tiles"), "Cycles by walking the tiles of a kernel that moves data.")
      .def(
          "search",
          [](const VectorProblem& own, std::size_t keep) {
            const auto found = cancellable(
                [&](CancelToken& token) { return mapping::search(own.problem, own.machine, keep, &token); });
            py::list rows;
            for (const auto& ranked : found)
              rows.append(py::make_tuple(tiles_to_python(ranked.tiles), cost_to_python(ranked.cost)));
            return rows;
          },
          py::arg("keep") = 1, "The tiles with the least estimates, best first, with their cost.");
}

}  // namespace tilesim::bindings
