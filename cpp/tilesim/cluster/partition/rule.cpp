#include "tilesim/cluster/partition/rule.hpp"

#include <algorithm>

#include "tilesim/base/index.hpp"
#include "tilesim/cluster/partition/halo.hpp"

namespace tilesim::partitioning {

namespace {

/// Dims of an axis that is read element by element, major first; false for windows, shifts and strides.
bool plain_dims(const Domain& domain, const AxisAccess& access, std::int64_t extent, std::vector<int>& dims) {
  std::vector<AxisAccess::Term> terms;
  for (const AxisAccess::Term& term : access.terms)
    if (domain.extents[at(term.dim)] != 1) terms.push_back(term);
  std::ranges::stable_sort(terms, [](const auto& a, const auto& b) { return a.coefficient > b.coefficient; });
  std::int64_t reach = 1;
  for (std::size_t i = terms.size(); i-- > 0;) {
    if (terms[i].coefficient != reach) return false;
    reach *= domain.extents[at(terms[i].dim)];
  }
  for (const AxisAccess::Term& term : terms) dims.push_back(term.dim);
  return access.constant == 0 && access.divisor == 1 && access.window == 1 && !access.may_leave && reach == extent;
}

void make_whole(Factor& factor, const std::string& why) {
  factor.sort = Factor::Sort::whole;
  if (factor.why.empty()) factor.why = why;
}

/// The dim along which an axis read at shifted positions may be sharded: the longest one; -1: none. Pooling: dims of
/// results only; convolutions: also dims of the window, since devices can sum parts of it.
int sliding(const Op& op, const Domain& domain, const AxisAccess& access, DType dtype) {
  const bool slides = op.kind == Kind::convolution || op.kind == Kind::window_reduce || op.kind == Kind::slice ||
                      (op.kind == Kind::pad && op.attributes.text("mode", "constant") == "constant");
  if (!slides || access.window != 1) return -1;
  if (op.kind == Kind::window_reduce && !has_neutral(op.attributes.text("combiner"), dtype)) return -1;
  int best = -1;
  for (const AxisAccess::Term& term : access.terms) {
    const std::int64_t extent = domain.extents[at(term.dim)];
    if (term.coefficient < 1) return -1;
    if (extent == 1 || (domain.reduction[at(term.dim)] && op.kind != Kind::convolution)) continue;
    if (best < 0 || extent > domain.extents[at(best)]) best = term.dim;
  }
  return best;
}

Halo halo_of(const Domain& domain, const AxisAccess& access, int factor, std::int64_t extent) {
  Halo halo{.factor = factor,
            .constant = access.constant,
            .divisor = access.divisor,
            .extent = extent,
            .sums = domain.reduction[at(factor)]};
  for (const AxisAccess::Term& term : access.terms)
    if (term.dim == factor)
      halo.step = term.coefficient;
    else
      halo.reach += term.coefficient * (domain.extents[at(term.dim)] - 1);
  return halo;
}

void read_access(Rule& rule, const Domain& domain, const Access& access, const TensorType* type, AxisFactors& axes,
                 const Op& op, std::size_t operand) {
  if (!type) return;
  axes.resize(type->shape.size());
  for (std::size_t axis = 0; axis < access.axes.size(); ++axis) {
    std::vector<int> dims;
    if (plain_dims(domain, access.axes[axis], type->shape[axis], dims)) {
      axes[axis] = dims;
      if (dims.size() > 1)
        for (const int dim : dims) rule.factors[at(dim)].uneven = false;
      continue;
    }
    const int along = sliding(op, domain, access.axes[axis], type->dtype);
    if (along >= 0) {
      axes[axis] = {along};
      rule.halos.push_back(halo_of(domain, access.axes[axis], along, type->shape[axis]));
      rule.halos.back().operand = operand;
      rule.halos.back().axis = axis;
    }
    for (const AxisAccess::Term& term : access.axes[axis].terms)
      if (term.dim != along)
        make_whole(rule.factors[at(term.dim)], along >= 0 ? "all of it combines with each element of the other one"
                                                          : "it is read at shifted or distant positions");
  }
}

/// Ends factor lists before the first factor that must be unsharded.
void cut_lists(Rule& rule, std::vector<AxisFactors>& tensors) {
  for (AxisFactors& axes : tensors)
    for (std::vector<int>& list : axes) {
      const auto stop =
          std::ranges::find_if(list, [&](int factor) { return rule.factors[at(factor)].sort == Factor::Sort::whole; });
      list.erase(stop, list.end());
    }
}

bool sums(Kind kind) { return kind == Kind::contract || kind == Kind::convolution; }

std::string combiner_of(const Op& op, const TensorType& type) {
  if (sums(op.kind)) return "add";
  if (op.kind != Kind::reduce) return {};
  const std::string combiner = op.attributes.text("combiner");
  if (is_place(combiner)) return type.dtype == DType::boolean ? "" : "minimum";  // of the indices of extremes
  if (combiner == "mean") return is_float(type.dtype) ? "add" : "";
  return combiner;
}

void sort_reductions(Rule& rule, const Domain& domain, const Op& op, const TensorType& x) {
  const std::string combiner = combiner_of(op, x);
  for (std::size_t dim = 0; dim < rule.factors.size(); ++dim) {
    Factor& factor = rule.factors[dim];
    if (!domain.reduction[dim]) continue;
    if (combiner.empty()) {
      make_whole(factor, "the kind combines along it, and parts cannot");
      continue;
    }
    const bool place = op.kind == Kind::reduce && is_place(op.attributes.text("combiner"));
    if (place && op.attributes.integers("dims").size() > 1) {
      make_whole(factor, "positions are counted along several axes together");
      continue;
    }
    factor.sort = factor.sort == Factor::Sort::whole ? Factor::Sort::whole : Factor::Sort::reduced;
    factor.combiner = combiner;
    factor.uneven = factor.uneven && has_neutral(place ? "maximum" : combiner, x.dtype);
  }
}

/// Marks axes along which an operation combines rows: operand and result use different dims for them.
void whole_rows(Rule& rule) {
  for (std::size_t axis = 0; axis < rule.operands[0].size() && axis < rule.results[0].size(); ++axis) {
    if (rule.operands[0][axis] == rule.results[0][axis]) continue;
    for (const auto* list : {&rule.operands[0][axis], &rule.results[0][axis]})
      for (const int factor : *list) make_whole(rule.factors[at(factor)], "every element needs all of its row");
  }
}

bool sparse(const Op& op, const std::vector<const TensorType*>& types) {
  if (op.kind != Kind::contract) return false;
  if (op.operands.size() > 3 || op.attributes.find("sparse")) return true;
  for (const char* name : {"a_format", "b_format"})
    if (op.attributes.text(name, "dense") != "dense") return true;
  return is_two_of_four(types[1]->dtype);
}

bool all_whole(const GraphFunction& function, const Op& op, const std::vector<const TensorType*>& types,
               std::string& why) {
  for (const ValueId id : op.results)
    for (const std::int64_t extent : function.value(id).type.shape)
      if (extent == 0) why = "a tensor without elements";
  for (const TensorType* type : types)
    if (type && std::ranges::count(type->shape, 0) > 0) why = "a tensor without elements";
  if (sparse(op, types)) why = "its zeros are stored by a plan for all of it";
  if (op.kind == Kind::attention && op.operands.size() > 5 && op.operands[5] != no_value)
    why = "a page table names positions in all keys";
  if (op.kind == Kind::device_index) why = "it is another number on each device";
  if (op.kind == Kind::opaque) why = "its semantics are user-defined";
  if (op.kind == Kind::while_loop || op.kind == Kind::branch) why = "its functions are sharded separately";
  return !why.empty();
}

void nothing(const GraphFunction& function, const Op& op, Rule& rule) {
  for (const ValueId id : op.operands)
    rule.operands.emplace_back(id == no_value ? 0 : function.value(id).type.shape.size());
  for (const ValueId id : op.results) rule.results.emplace_back(function.value(id).type.shape.size());
}

void short_slices(const Op& op, const TensorType& x, const TensorType& result, Rule& rule) {
  const auto strides = op.attributes.integers("stride", std::vector<std::int64_t>(x.shape.size(), 1));
  for (std::size_t axis = 0; axis < x.shape.size(); ++axis)
    if (result.shape[axis] < x.shape[axis] && (strides[axis] == 1 || result.shape[axis] == 1))
      rule.operands[0][axis].push_back(rules_of_kinds::pieces(rule, axis, x.shape[axis], x.dtype));
}

void generic(const GraphFunction& function, const Op& op, const std::vector<const TensorType*>& types, Rule& rule) {
  const Domain nest = domain(function, op);
  for (std::size_t i = 0; i < nest.extents.size(); ++i)
    rule.factors.push_back({.name = nest.names[i], .extent = nest.extents[i], .combiner = {}, .why = {}});
  rule.operands.resize(op.operands.size());
  rule.results.resize(op.results.size());
  for (std::size_t i = 0; i < op.operands.size(); ++i)
    read_access(rule, nest, nest.operands[i], types[i], rule.operands[i], op, i);
  for (std::size_t i = 0; i < op.results.size(); ++i)
    read_access(rule, nest, nest.results[i], &function.value(op.results[i]).type, rule.results[i], op, i);
  if (!types.empty()) sort_reductions(rule, nest, op, *types[0]);
  if (op.kind == Kind::slice) short_slices(op, *types[0], function.value(op.results[0]).type, rule);
  if (op.kind == Kind::softmax || op.kind == Kind::log_softmax || op.kind == Kind::normalize) whole_rows(rule);
  if (op.kind == Kind::attention) rules_of_kinds::divides_keys(op, types, rule);
}

}  // namespace

bool is_place(const std::string& combiner) { return combiner == "argmax" || combiner == "argmin"; }

bool has_neutral(const std::string& combiner, DType dtype) {
  if (combiner != "maximum" && combiner != "minimum") return true;
  if (is_float(dtype)) return dtype == DType::f64 || dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16;
  return is_integer(dtype) && bits(dtype) < 64;
}

Rule rule_of(const GraphFunction& function, const Op& op) {
  Rule rule;
  const std::vector<const TensorType*> types = operand_types(function, op);
  rule.product = op.kind == Kind::contract || op.kind == Kind::convolution || op.kind == Kind::attention ||
                 op.kind == Kind::ragged_contract;
  if (all_whole(function, op, types, rule.why)) {
    nothing(function, op, rule);
    return rule;
  }
  if (!rules_of_kinds::special(function, op, rule)) generic(function, op, types, rule);
  cut_lists(rule, rule.operands);
  cut_lists(rule, rule.results);
  return rule;
}

void read_division(const Grid& grid, const Rule& rule, const AxisFactors& axes, const Layout& layout,
                   Division& division) {
  for (std::size_t axis = 0; axis < axes.size(); ++axis) {
    std::size_t next = 0;
    const std::vector<int>& list = axes[axis];
    const bool alone = std::ranges::count_if(list, [&](int index) { return !rule.factors[at(index)].instead; }) <= 1;
    for (const int atom : layout.axes[axis]) {
      if (contains(rule.own, atom)) break;
      if (next > 0 && next < list.size() && rule.factors[at(list[next])].instead) break;
      bool placed = false;
      for (; next < list.size() && !placed; next += placed ? 0 : 1) {
        const Factor& factor = rule.factors[at(list[next])];
        Atoms& atoms = division[at(list[next])];
        const std::int64_t parts = grid.parts(atoms) * grid.size(atom);
        const bool fits = factor.extent % parts == 0 || (factor.uneven && alone && parts <= factor.extent);
        if (fits) {
          atoms.push_back(atom);
          placed = true;
        } else if (grid.parts(atoms) != factor.extent) {
          next = list.size();
          break;
        }
      }
      if (!placed) break;
    }
    // Halos depend on the number of parts: keeps the longest prefix that fits.
    for (const int factor : list)
      while (!halos_fit(rule, factor, grid.parts(division[at(factor)]))) division[at(factor)].pop_back();
  }
}

void make_possible(const Grid& grid, const Rule& rule, Division& division) {
  bool changed = true;
  const auto settle = [&](const AxisFactors& axes) {
    for (const std::vector<int>& list : axes) {
      bool open = true;
      std::int64_t parts = 1;
      for (const int factor : list) {
        const bool taken = rule.factors[at(factor)].instead && parts > 1;
        if ((taken || !(open || (rule.factors[at(factor)].instead && parts == 1))) && !division[at(factor)].empty()) {
          division[at(factor)].clear();
          changed = true;
        }
        parts *= grid.parts(division[at(factor)]);
        open = open && grid.parts(division[at(factor)]) == rule.factors[at(factor)].extent;
      }
    }
  };
  for (const Halo& halo : rule.halos)
    if (!halos_fit(rule, halo.factor, grid.parts(division[at(halo.factor)]))) division[at(halo.factor)].clear();
  while (changed) {
    changed = false;
    for (const AxisFactors& axes : rule.operands) settle(axes);
    for (const AxisFactors& axes : rule.results) settle(axes);
  }
}

Layout layout_of(const Grid& grid, const Rule& rule, const AxisFactors& axes, const Division& division) {
  Layout layout = whole(axes.size());
  for (std::size_t axis = 0; axis < axes.size(); ++axis) {
    bool open = true;
    for (const int factor : axes[axis]) {
      const Atoms& atoms = division[at(factor)];
      const bool instead = rule.factors[at(factor)].instead;
      if (!(open || (instead && layout.axes[axis].empty()))) continue;
      layout.axes[axis].insert(layout.axes[axis].end(), atoms.begin(), atoms.end());
      open = open && grid.parts(atoms) == rule.factors[at(factor)].extent;
    }
  }
  return layout;
}

}  // namespace tilesim::partitioning
