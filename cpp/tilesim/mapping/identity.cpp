#include "tilesim/mapping/identity.hpp"

namespace tilesim::mapping {

namespace {

class KeyWriter {
 public:
  void add(std::int64_t number) { text += std::to_string(number) + ","; }
  void add(const std::string& word) { text += word + ";"; }
  template <typename List>
  void add_all(const List& list) {
    for (const auto& item : list) add(static_cast<std::int64_t>(item));
    text += "|";
  }
  void add(const Access& access) {
    for (const AxisAccess& axis : access.axes) {
      for (const AxisAccess::Term& term : axis.terms) {
        add(term.dim);
        add(term.coefficient);
      }
      text += "@";
      add(axis.constant);
      add(axis.may_leave);
      add(axis.divisor);
      add(axis.window);
    }
    text += "|";
  }
  std::string text;
};

}  // namespace

std::string identity(const Problem& problem) {
  KeyWriter out;
  out.add(problem.kernel);
  out.add_all(problem.domain.extents);
  out.add_all(problem.domain.reduction);
  for (const Access& operand : problem.domain.operands) out.add(operand);
  for (const Access& result : problem.domain.results) out.add(result);
  out.add_all(problem.dtypes);
  out.add_all(problem.memory_dtypes);
  for (const Shape& shape : problem.shapes) out.add_all(shape);
  for (const std::vector<int>& order : problem.minor_to_major) out.add_all(order);
  for (const auto* dims : {&problem.m_dims, &problem.n_dims, &problem.k_dims, &problem.batch_dims}) out.add_all(*dims);
  for (const Problem::Leaf& leaf : problem.leaves) {
    out.add(static_cast<std::int64_t>(leaf.of));
    out.add(leaf.access);
    out.add_all(leaf.shape);
    out.add(static_cast<std::int64_t>(leaf.dtype));
    out.add_all(leaf.minor_to_major);
  }
  for (const Problem::Output& output : problem.outputs) {
    out.add(static_cast<std::int64_t>(output.dtype));
    out.add_all(output.reduced);
    out.add(output.access);
    out.add_all(output.shape);
    out.add_all(output.minor_to_major);
  }
  out.add_all(problem.prologue_functions);
  out.add_all(problem.burst_bytes);
  out.add_all(problem.parts);
  out.add_all(problem.first);
  out.add_all(problem.least);
  out.add_all(problem.outside_contraction);
  for (std::int64_t number :
       {std::int64_t{problem.computed[0]}, std::int64_t{problem.computed[1]}, std::int64_t{problem.on_vector},
        problem.contexts, problem.cores, std::int64_t{problem.multicast}, problem.epilogue_functions,
        std::int64_t{problem.siblings}})
    out.add(number);
  return std::move(out.text);
}

std::string identity(const VectorProblem& problem) {
  KeyWriter out;
  out.add(problem.kernel);
  out.add_all(problem.space);
  for (const auto* axes : {&problem.reduced, &problem.carried, &problem.whole}) out.add_all(*axes);
  out.add_all(problem.lanes);
  for (const VectorOperand& operand : problem.operands) {
    out.add_all(operand.step);
    out.add_all(operand.reach);
    out.add_all(operand.axes);
    out.add_all(operand.extents);
    out.add_all(operand.layout);
    out.add_all(operand.apart);
    for (const AxisAccess& axis : operand.access) out.add(Access{{axis}});
    for (const auto* list : {&operand.dilation, &operand.before, &operand.most}) out.add_all(*list);
    for (std::int64_t number :
         {static_cast<std::int64_t>(operand.use), static_cast<std::int64_t>(operand.dtype), operand.depth,
          std::int64_t{operand.held}, std::int64_t{operand.certain}, operand.minor_step, operand.minor_offset,
          std::int64_t{operand.minor_mixed}, operand.row, std::int64_t{operand.between}})
      out.add(number);
  }
  out.add_all(problem.functions);
  for (const VectorStage& stage : problem.stages) {
    out.add_all(stage.functions);
    if (stage.first) out.add_all(*stage.first);
    for (std::int64_t number :
         {static_cast<std::int64_t>(stage.kind), static_cast<std::int64_t>(stage.dtype.value_or(problem.dtype)),
          std::int64_t{stage.reductions}, std::int64_t{stage.scans}, std::int64_t{stage.points},
          std::int64_t{stage.taps}, static_cast<std::int64_t>(stage.rows), std::int64_t{stage.line},
          std::int64_t{stage.joins}, std::int64_t{stage.apart}, std::int64_t{stage.sorted}, stage.kept, stage.pass})
      out.add(number);
    out.add_all(stage.loads);
    out.add_all(stage.stores);
  }
  out.add(problem.whole_tiles);
  out.add_all(problem.taps);
  out.add_all(problem.tap_tiles);
  for (std::int64_t number :
       {problem.passes, problem.points, problem.bytes_per_point, problem.contexts, std::int64_t{problem.ranks},
        std::int64_t{problem.walks}, std::int64_t{problem.scanned}, std::int64_t{problem.turns},
        std::int64_t{problem.backward}, static_cast<std::int64_t>(problem.dtype)})
    out.add(number);
  return std::move(out.text);
}

std::string identity(const Share& machine) {
  KeyWriter out;
  for (std::int64_t number : {machine.core.count, machine.core.array.count, machine.core.scratchpad.bytes,
                              machine.core.scratchpad.accumulator_bytes, machine.memory.bytes_per_second,
                              machine.network.region_bytes_per_cycle})
    out.add(number);
  return std::move(out.text);
}

std::vector<std::int64_t> key_of(const Nest& nest) {
  std::vector<std::int64_t> key = nest.tiles;
  key.insert(key.end(), nest.depths.begin(), nest.depths.end());
  key.insert(key.end(), nest.order.begin(), nest.order.end());
  key.insert(key.end(), nest.sub.begin(), nest.sub.end());
  if (nest.pack >= 0) key.push_back(nest.pack);
  if (nest.unfold > 0) key.push_back(-nest.unfold);
  return key;
}

}  // namespace tilesim::mapping
