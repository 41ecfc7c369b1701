// Writes operations: chooses the division of each, requests operands in that division, adds the results.
#include <algorithm>
#include <array>
#include <limits>
#include <set>
#include <string_view>

#include "tilesim/base/error.hpp"
#include "tilesim/base/functions/functions.hpp"
#include "tilesim/base/index.hpp"
#include "tilesim/base/interrupt.hpp"
#include "tilesim/cluster/partition/body.hpp"
#include "tilesim/graph/attention.hpp"

namespace tilesim::partitioning {

Body::Body(Module& module, std::size_t function, const std::string& name)
    : module_(module),
      function_(function),
      builder_(module.out, name),
      versions_(source().values.size()),
      uses_(source().values.size(), 0) {
  for (const Op& op : source().ops)
    for (const ValueId value : op.operands)
      if (value != no_value) ++uses_[at(value)];
  for (const ValueId value : source().outputs) ++uses_[at(value)];
}

std::int32_t Body::write(const std::vector<Layout>& inputs, const std::vector<Layout>& outputs) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const ValueId value = source().inputs[i];
    add_version(value, inputs[i], builder_.input(stem(value), local_type(module_.grid, type(value), inputs[i])));
  }
  for (std::size_t i = 0; i < source().ops.size(); ++i) {
    worked(5000);
    operation(source().ops[i], module_.spread.rules[function_][i]);
  }
  std::vector<ValueId> results;
  for (std::size_t i = 0; i < outputs.size(); ++i)
    results.push_back(request(source().outputs[i], outputs[i], {"", "an output has this sharding"}));
  const std::int32_t index = builder_.function_index();
  std::vector<std::string> names;
  for (const ValueId value : source().outputs) names.push_back(stem(value));
  const std::set<ValueId> kept(source().inputs.begin(), source().inputs.end());
  GraphFunction& local = module_.out.functions[at(index)];
  // Outputs get their names back from intermediate values.
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (kept.contains(source().outputs[i]) || local.value(results[i]).name == names[i]) continue;
    for (Value& value : local.values)
      if (value.name == names[i]) std::swap(value.name, local.values[at(results[i])].name);
  }
  for (std::size_t i = 0; i < results.size(); ++i) builder_.output(results[i]);
  for (const Alias& alias : source().aliases)
    if (inputs[at(alias.input)] == outputs[at(alias.output)]) builder_.alias(alias.output, alias.input);
  return index;
}

Layout Body::produced(const Rule& rule, std::size_t result, const Division& division) const {
  Layout layout = layout_of(module_.grid, rule, rule.results[result], division);
  for (std::size_t k = 0; k < division.size(); ++k) {
    if (rule.factors[k].sort != Factor::Sort::reduced || division[k].empty()) continue;
    if (static_cast<int>(k) == rule.keys && result > 0) continue;  // every device has the full log-sum-exp
    layout.partial.insert(layout.partial.end(), division[k].begin(), division[k].end());
    layout.combiner = rule.factors[k].combiner;
  }
  std::ranges::sort(layout.partial);
  return layout;
}

std::vector<Division> Body::candidates(const Op& op, const Rule& rule) const {
  std::vector<Division> sources;
  const auto add = [&](const AxisFactors& axes, const Layout& layout) {
    Division division(rule.factors.size());
    read_division(module_.grid, rule, axes, layout, division);
    if (std::ranges::all_of(division, [](const Atoms& atoms) { return atoms.empty(); })) return;
    if (std::ranges::find(sources, division) == sources.end()) sources.push_back(std::move(division));
  };
  for (std::size_t i = 0; i < op.results.size(); ++i) add(rule.results[i], home(op.results[i]));
  for (std::size_t i = 0; i < op.operands.size(); ++i) {
    if (op.operands[i] == no_value) continue;
    add(rule.operands[i], home(op.operands[i]));
    for (const Version& version : versions_[at(op.operands[i])]) add(rule.operands[i], version.layout);
  }
  if (sources.size() > 5) sources.resize(5);
  std::vector<Division> found{Division(rule.factors.size())};
  std::vector<std::size_t> order(sources.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  do {
    Division merged(rule.factors.size());
    std::set<int> used;
    for (const std::size_t source : order) {
      for (std::size_t k = 0; k < merged.size(); ++k) {
        if (!is_prefix(merged[k], sources[source][k])) continue;
        for (std::size_t i = merged[k].size(); i < sources[source][k].size(); ++i) {
          if (!used.insert(sources[source][k][i]).second) break;
          merged[k].push_back(sources[source][k][i]);
        }
      }
      Division possible = merged;
      make_possible(module_.grid, rule, possible);
      if (std::ranges::find(found, possible) == found.end()) found.push_back(std::move(possible));
    }
  } while (std::ranges::next_permutation(order).found);
  if (!rule.product) add_moved(op, rule, found);
  if (rule.keys >= 0) add_queries(rule, found);
  return found;
}

/// Adds candidates for few keys per query: devices split the queries, and take all keys.
void Body::add_queries(const Rule& rule, std::vector<Division>& found) const {
  const auto queries = at(std::ranges::find(rule.factors, "s", &Factor::name) - rule.factors.begin());
  for (std::size_t i = 0, count = found.size(); i < count; ++i) {
    Division moved = found[i];
    Atoms& keys = moved[at(rule.keys)];
    moved[queries].insert(moved[queries].end(), keys.begin(), keys.end());
    keys.clear();
    if (rule.factors[queries].extent % module_.grid.parts(moved[queries]) != 0) continue;
    make_possible(module_.grid, rule, moved);
    if (std::ranges::find(found, moved) == found.end()) found.push_back(std::move(moved));
  }
}

/// Adds candidates in which mesh axes on an axis that must be unsharded shard another loop instead: an all-to-all sends
/// less than a gather.
void Body::add_moved(const Op& op, const Rule& rule, std::vector<Division>& found) const {
  std::set<int> lost;
  const auto look = [&](ValueId value, const AxisFactors& axes) {
    if (value == no_value) return;
    Division division(rule.factors.size());
    read_division(module_.grid, rule, axes, home(value), division);
    for (const Atoms& atoms : home(value).axes)
      for (const int atom : atoms)
        if (!contains(rule.own, atom) &&
            std::ranges::none_of(division, [&](const Atoms& kept) { return contains(kept, atom); }))
          lost.insert(atom);
  };
  for (std::size_t i = 0; i < op.operands.size(); ++i) look(op.operands[i], rule.operands[i]);
  for (std::size_t i = 0; i < op.results.size(); ++i) look(op.results[i], rule.results[i]);
  if (lost.empty()) return;
  for (std::size_t i = 0, count = found.size(); i < count; ++i)
    for (std::size_t k = 0; k < rule.factors.size(); ++k) {
      if (rule.factors[k].sort != Factor::Sort::parallel) continue;
      Division moved = found[i];
      for (const int atom : lost) {
        const bool used = std::ranges::any_of(moved, [&](const Atoms& atoms) { return contains(atoms, atom); });
        const std::int64_t parts = module_.grid.parts(moved[k]) * module_.grid.size(atom);
        if (!used && rule.factors[k].extent % parts == 0) moved[k].push_back(atom);
      }
      make_possible(module_.grid, rule, moved);
      if (std::ranges::find(found, moved) == found.end()) found.push_back(std::move(moved));
    }
}

double Body::cost(const Op& op, const Rule& rule, const Division& division) const {
  double bytes = border_bytes(op, rule, division) + mirror_bytes(op, rule, division) + inner_bytes(op, rule, division);
  for (std::size_t i = 0; i < op.operands.size(); ++i)
    if (op.operands[i] != no_value)
      bytes += price(op.operands[i], layout_of(module_.grid, rule, rule.operands[i], division));
  for (std::size_t i = 0; i < op.results.size(); ++i)
    bytes += wire_bytes(moves(module_.grid, type(op.results[i]), produced(rule, i, division), home(op.results[i])));
  return bytes;
}

Division Body::choose(const Op& op, const Rule& rule) const {
  const std::vector<Division> all = candidates(op, rule);
  const auto devices = [&](const Division& division) {
    std::int64_t parts = 1;
    for (const Atoms& atoms : division) parts *= module_.grid.parts(atoms);
    return parts;
  };
  // Products use as many devices as possible: fewer bytes do not compensate for repeated computation.
  std::size_t best = 0;
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const double bytes = all.size() == 1 ? 0 : cost(op, rule, all[i]);
    const std::int64_t more = devices(all[i]) - devices(all[best]);
    const bool better = rule.product && more != 0 ? more > 0 : bytes < least || (bytes == least && more > 0);
    if (i > 0 && !better) continue;
    best = i;
    least = bytes;
  }
  return all[best];
}

double neutral_of(const std::string& combiner, DType dtype) {
  constexpr std::array<std::string_view, 4> known{"multiply", "logical_and", "maximum", "minimum"};
  return std::ranges::count(known, combiner) > 0 ? identity_element(parse_combiner(combiner), dtype) : 0;
}

namespace {

std::string why_of(const Rule& rule, const AxisFactors& axes) {
  if (!rule.why.empty()) return rule.why;
  for (const std::vector<int>& list : axes)
    for (const int factor : list)
      if (!rule.factors[at(factor)].why.empty()) return rule.factors[at(factor)].why;
  for (const Factor& factor : rule.factors)
    if (!factor.why.empty()) return "axis " + factor.name + ": " + factor.why;
  return {};
}

}  // namespace

void Body::mask_reduced(const Op& op, const Rule& rule, const Division& division, std::vector<ValueId>& operands) {
  if (op.kind == Kind::embedding || op.kind == Kind::gather || op.kind == Kind::slice || op.kind == Kind::dynamic_slice)
    return;  // positions beyond an axis are never read
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (operands[i] == no_value || (rule.keys >= 0 && i != attention_v)) continue;  // padded keys are masked already
    for (std::size_t axis = 0; axis < rule.operands[i].size(); ++axis)
      for (const int index : rule.operands[i][axis]) {
        const Factor& factor = rule.factors[at(index)];
        const Atoms& atoms = division[at(index)];
        if (find_halo(rule, i, axis)) continue;  // its padding is masked with its borders
        if (factor.sort != Factor::Sort::reduced || factor.extent % module_.grid.parts(atoms) == 0) continue;
        const std::string& combiner = op.kind == Kind::reduce ? op.attributes.text("combiner") : factor.combiner;
        const std::string extreme = combiner == "argmax"   ? "maximum"
                                    : combiner == "argmin" ? "minimum"
                                                           : factor.combiner;
        operands[i] =
            masked(operands[i], axis, atoms, factor.extent, neutral_of(extreme, builder_.type(operands[i]).dtype));
      }
  }
}

/// Integers are also divided in the padding, whose divisor must not be 0.
void Body::mask_divisor(const Op& op, const Rule& rule, const Division& division, std::vector<ValueId>& operands) {
  if (op.kind != Kind::elementwise || operands.size() != 2) return;
  const std::string& function = op.attributes.text("function");
  if ((function != "divide" && function != "remainder" && function != "floor_divide") ||
      is_float(builder_.type(operands[1]).dtype))
    return;
  for (std::size_t axis = 0; axis < rule.operands[1].size(); ++axis)
    for (const int index : rule.operands[1][axis])
      if (rule.factors[at(index)].extent % module_.grid.parts(division[at(index)]) != 0)
        operands[1] = masked(operands[1], axis, division[at(index)], rule.factors[at(index)].extent, 1);
}

namespace {

/// Whether the operation may precede the sum over devices.
bool linear(const Op& op, DType from, DType to) {
  if (op.kind == Kind::transpose || op.kind == Kind::reshape || op.kind == Kind::copy) return true;
  if (op.kind == Kind::convert) return is_float(from) && is_float(to) && bits(to) >= bits(from);
  if (op.kind != Kind::elementwise) return false;
  const std::string& function = op.attributes.text("function");
  return function == "add" || function == "subtract" || function == "negate";
}

}  // namespace

/// Passes partial sums without other readers through linear operations, so that a sum of several needs one collective.
bool Body::keeps_partial(const Op& op, const Rule& rule) {
  if (op.operands.empty() || !linear(op, type(op.operands[0]).dtype, type(op.results[0]).dtype)) return false;
  const Layout* first = nullptr;
  Division division(rule.factors.size());
  for (std::size_t i = 0; i < op.operands.size(); ++i) {
    const std::vector<Version>& versions = versions_[at(op.operands[i])];
    if (uses_[at(op.operands[i])] != 1 || versions.size() != 1 || versions[0].layout.combiner != "add") return false;
    if (!first) {
      first = &versions[0].layout;
      read_division(module_.grid, rule, rule.operands[i], *first, division);
      make_possible(module_.grid, rule, division);
    }
    Layout layout = layout_of(module_.grid, rule, rule.operands[i], division);
    layout.partial = first->partial;
    layout.combiner = "add";
    if (layout != versions[0].layout) return false;
  }
  Layout layout = layout_of(module_.grid, rule, rule.results[0], division);
  layout.partial = first->partial;
  layout.combiner = "add";
  std::vector<ValueId> operands;
  for (const ValueId value : op.operands) operands.push_back(versions_[at(value)][0].id);
  const TensorType local = local_type(module_.grid, type(op.results[0]), layout);
  add_version(op.results[0], layout, emit(op, rule, division, std::move(operands), {local}, {})[0]);
  return true;
}

void Body::operation(const Op& op, const Rule& rule) {
  if (op.kind == Kind::while_loop) return loop(op);
  if (op.kind == Kind::branch) return branch(op);
  if (const auto crossing = crossing_of(module_.grid, module_.source, op)) return cross(op, *crossing);
  if (op.kind == Kind::slice && uses_[at(op.results[0])] == 0) return;  // concats read slices directly
  if (keeps_partial(op, rule)) return;
  if (made_of_numbers(op, rule)) {
    numbers_[op.results[0]] = static_cast<std::size_t>(&op - source().ops.data());
    return;
  }
  compute(op, rule, choose(op, rule));
}

/// Whether every device can compute its part of the result separately, in any layout.
bool Body::made_of_numbers(const Op& op, const Rule& rule) const {
  const bool number = op.kind == Kind::broadcast && type(op.operands[0]).shape.empty() && rule.why.empty();
  return rule.own.empty() && (op.kind == Kind::iota || number);
}

void Body::compute(const Op& op, const Rule& rule, const Division& division) {
  std::vector<ValueId> operands;
  for (std::size_t i = 0; i < op.operands.size(); ++i) {
    if (op.operands[i] == no_value) {
      operands.push_back(no_value);
      continue;
    }
    const std::string why = why_of(rule, rule.operands[i]);
    const std::string name = i < info(op.kind).operand_names.size() ? info(op.kind).operand_names[i] : "operand";
    operands.push_back(request(op.operands[i], layout_of(module_.grid, rule, rule.operands[i], division),
                               {op.name, op.name + " takes " + name + " this way" + (why.empty() ? "" : ": " + why)}));
  }
  take_borders(op, rule, division, operands);
  mask_reduced(op, rule, division, operands);
  mask_divisor(op, rule, division, operands);
  std::vector<TensorType> types;
  std::vector<Layout> layouts;
  for (std::size_t i = 0; i < op.results.size(); ++i) {
    layouts.push_back(produced(rule, i, division));
    types.push_back(local_type(module_.grid, type(op.results[i]), layouts.back()));
  }
  const Atoms partial = layouts.empty() ? Atoms{} : layouts[0].partial;
  const std::vector<ValueId> results = emit(op, rule, division, std::move(operands), types, partial);
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (builder_.type(results[i]) != types[i])
      throw InternalError("operation \"" + op.name + "\" is " + to_string(builder_.type(results[i])) +
                          " on a device, not " + to_string(types[i]));
    add_version(op.results[i], layouts[i], results[i]);
  }
}

}  // namespace tilesim::partitioning
