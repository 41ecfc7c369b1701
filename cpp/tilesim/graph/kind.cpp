// The table of kinds, and properties derived from one operation's rules.
#include "tilesim/graph/kind.hpp"

#include <algorithm>

#include "tilesim/base/error.hpp"
#include "tilesim/base/interrupt.hpp"
#include "tilesim/graph/kinds/rules.hpp"

namespace tilesim {

namespace {

std::vector<KindInfo> make_table() {
  std::vector<KindInfo> table;
  rules::add_products(table);
  rules::add_ragged(table);
  rules::add_vector(table);
  rules::add_windows(table);
  rules::add_indexing(table);
  rules::add_movement(table);
  rules::add_composite(table);
  rules::add_attention(table);
  rules::add_functions(table);
  rules::add_scatters(table);
  rules::add_orders(table);
  rules::add_control(table);
  rules::add_solvers(table);
  rules::add_collectives(table);
  rules::add_rotary(table);
  rules::add_opaque(table);
  std::ranges::sort(table, {}, &KindInfo::kind);
  require(table.size() == static_cast<std::size_t>(kind_count), "a kind is declared twice or not at all");
  for (std::size_t i = 0; i < table.size(); ++i)
    require(static_cast<std::size_t>(table[i].kind) == i, "a kind is declared twice or not at all");
  return table;
}

const std::vector<KindInfo>& table() {
  static const std::vector<KindInfo> kinds = make_table();
  return kinds;
}

}  // namespace

Flops& Flops::operator+=(const Flops& other) {
  matrix += other.matrix;
  simple += other.simple;
  multiply += other.multiply;
  divide += other.divide;
  transcendental += other.transcendental;
  return *this;
}

const KindInfo& info(Kind kind) { return table()[static_cast<std::size_t>(kind)]; }

std::vector<std::string> kind_names() {
  std::vector<std::string> names;
  for (const KindInfo& entry : table()) names.emplace_back(entry.name);
  return names;
}

Kind parse_kind(std::string_view name) {
  for (const KindInfo& entry : table())
    if (entry.name == name) return entry.kind;
  const std::vector<std::string> names = kind_names();
  throw UserError({"unknown kind of operation", {}, "'" + std::string(name) + "'", join(names), nearest(name, names)});
}

std::vector<const TensorType*> operand_types(const GraphFunction& function, const Op& op) {
  std::vector<const TensorType*> types;
  for (const ValueId id : op.operands) types.push_back(id == no_value ? nullptr : &function.value(id).type);
  return types;
}

std::vector<TensorType> infer_results(const Graph& graph, const GraphFunction& function, const Op& op) {
  worked(256);
  const std::vector<const TensorType*> operands = operand_types(function, op);
  try {
    return info(op.kind).infer(op, operands, graph);
  } catch (const UserError& error) {
    UserError::Parts parts = error.parts();
    parts.place = rules::place_of(function, op);
    throw UserError(std::move(parts));
  }
}

namespace {

std::vector<TensorType> result_types(const GraphFunction& function, const Op& op) {
  std::vector<TensorType> types;
  for (const ValueId id : op.results) types.push_back(function.value(id).type);
  return types;
}

}  // namespace

namespace {

Flops body_flops(const Graph& graph, std::int32_t callee) {
  const GraphFunction& body = graph.functions[static_cast<std::size_t>(callee)];
  Flops total;
  for (const Op& inner : body.ops) total += flops(graph, body, inner);
  return total;
}

Flops scaled(Flops flops, double factor) {
  for (double* part : {&flops.matrix, &flops.simple, &flops.multiply, &flops.divide, &flops.transcendental})
    *part *= factor;
  return flops;
}

}  // namespace

Flops flops(const Graph& graph, const GraphFunction& function, const Op& op) {
  const auto empty = [&](ValueId id) { return element_count(function.value(id).type.shape) == 0; };
  if (!op.results.empty() && info(op.kind).effect == Effect::pure && std::ranges::all_of(op.results, empty)) return {};
  Flops total = info(op.kind).flops(op, operand_types(function, op), result_types(function, op));
  if (op.kind == Kind::sort) return total;  // the rule counts comparisons
  if (op.kind == Kind::while_loop) {
    const auto trips = static_cast<double>(std::max<std::int64_t>(1, op.attributes.integer("trips", 0)));
    total += scaled(body_flops(graph, op.functions[0]), trips);
    total += scaled(body_flops(graph, op.functions[1]), trips);
    return total;
  }
  Flops dearest;
  for (const std::int32_t callee : op.functions) {
    const Flops body = body_flops(graph, callee);
    if (op.kind != Kind::branch)
      total += body;
    else if (body.total() > dearest.total())
      dearest = body;
  }
  total += dearest;
  return total;
}

Flops flops(const Graph& graph) {
  Flops total;
  for (const Op& op : graph.entry().ops) total += flops(graph, graph.entry(), op);
  return total;
}

Domain domain(const GraphFunction& function, const Op& op) {
  return info(op.kind).domain(op, operand_types(function, op), result_types(function, op));
}

}  // namespace tilesim
