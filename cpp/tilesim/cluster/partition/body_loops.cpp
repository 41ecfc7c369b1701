// Operations with functions, and borders of regions: layouts of inputs and outputs.
#include <set>

#include "tilesim/base/index.hpp"
#include "tilesim/cluster/partition/body.hpp"

namespace tilesim::partitioning {

/// At the border of a region a sharded tensor outside corresponds to each device's separate tensor inside.
void Body::cross(const Op& op, const Crossing& crossing) {
  const ValueId in = crossing.enters ? op.results[0] : op.operands[0];
  const Layout inside = inside_of(module_.grid, crossing, type(in).shape, outside_of(crossing, home(in)));
  const Layout outside = outside_of(crossing, inside);
  const Reason reason{
      op.name, crossing.enters ? "a region takes each device's part of it" : "a region gives each device's part of it"};
  const ValueId part = request(op.operands[0], crossing.enters ? outside : inside, reason);
  add_version(op.results[0], crossing.enters ? inside : outside, part);
}

/// Whether a function reads rows of a value along a sharded axis, so that each device reads its own rows.
bool Body::reads_rows(std::size_t function, ValueId value) const {
  const GraphFunction& body = module_.source.functions[function];
  std::set<ValueId> same{value};
  for (std::size_t i = 0; i < body.ops.size(); ++i) {
    const Op& op = body.ops[i];
    if (op.operands.empty() || !same.contains(op.operands[0])) continue;
    if (op.kind == Kind::reshape || op.kind == Kind::convert || op.kind == Kind::copy) same.insert(op.results[0]);
    if (op.kind != Kind::gather && op.kind != Kind::embedding && op.kind != Kind::dynamic_slice) continue;
    const Rule& rule = module_.spread.rules[function][i];
    const Layout& layout = module_.spread.layouts[function][at(op.operands[0])];
    for (std::size_t axis = 0; axis < layout.axes.size(); ++axis)
      for (const int factor : rule.operands[0][axis])
        if (!layout.axes[axis].empty() && rule.factors[at(factor)].sort == Factor::Sort::reduced) return true;
  }
  return false;
}

/// Layout of a loop's state, as propagated. A state in which the loop only looks up rows stays unsharded if every
/// device holds it: otherwise every trip would sum rows of all parts.
Layout Body::carried(const Op& op, std::size_t state) const {
  const Layout& own = home(op.results[state]);
  const Layout all = whole(own.axes.size());
  const auto body = at(op.functions[1]);
  const GraphFunction& function = module_.source.functions[body];
  if (own == all || function.outputs[state] != function.inputs[state] || price(op.operands[state], all) > 0) return own;
  return reads_rows(body, function.inputs[state]) ? all : own;
}

void Body::loop(const Op& op) {
  std::vector<Layout> layouts;
  std::vector<ValueId> operands;
  for (std::size_t i = 0; i < op.results.size(); ++i) {
    layouts.push_back(carried(op, i));
    operands.push_back(request(op.operands[i], layouts[i], {op.name, op.name + " carries its state this way"}));
  }
  std::vector<std::int32_t> functions;
  for (std::size_t c = 0; c < op.functions.size(); ++c) {
    const std::string name =
        module_.source.functions[at(op.functions[c])].name + ".part" + std::to_string(module_.made++);
    Body body(module_, at(op.functions[c]), name);
    functions.push_back(body.write(layouts, c == 0 ? std::vector<Layout>{whole(0)} : layouts));
  }
  const std::vector<ValueId> results = builder_.op(op.kind, std::move(operands), op.attributes, op.name,
                                                   static_cast<int>(op.results.size()), std::move(functions));
  for (std::size_t i = 0; i < results.size(); ++i) add_version(op.results[i], layouts[i], results[i]);
}

void Body::branch(const Op& op) {
  std::vector<Layout> inputs, outputs;
  std::vector<ValueId> operands{request(op.operands[0], whole(0), {op.name, "all devices take the same branch"})};
  for (std::size_t i = 1; i < op.operands.size(); ++i) {
    inputs.push_back(home(op.operands[i]));
    operands.push_back(request(op.operands[i], inputs.back(), {op.name, op.name + " takes it this way"}));
  }
  for (const ValueId value : op.results) outputs.push_back(home(value));
  std::vector<std::int32_t> functions;
  for (const std::int32_t callee : op.functions) {
    const std::string name = module_.source.functions[at(callee)].name + ".part" + std::to_string(module_.made++);
    Body body(module_, at(callee), name);
    functions.push_back(body.write(inputs, outputs));
  }
  const std::vector<ValueId> results = builder_.op(op.kind, std::move(operands), op.attributes, op.name,
                                                   static_cast<int>(op.results.size()), std::move(functions));
  for (std::size_t i = 0; i < results.size(); ++i) add_version(op.results[i], outputs[i], results[i]);
}

}  // namespace tilesim::partitioning
