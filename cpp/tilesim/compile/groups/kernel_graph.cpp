// Dependences between kernels while they grow.
#include <algorithm>
#include <numeric>

#include "tilesim/compile/groups/groups.hpp"

namespace tilesim::lower {

namespace {

std::size_t position(int i) { return static_cast<std::size_t>(i); }

}  // namespace

bool is_product(Kind kind) { return kind == Kind::contract || kind == Kind::convolution; }

KernelGraph::KernelGraph(const GraphFunction& function, const Uses& uses)
    : owner(function.ops.size(), -1), function_(function), uses_(uses), spanned_(function.ops.size()) {
  std::iota(spanned_.begin(), spanned_.end(), 0);
}

int KernelGraph::add(Family family, int op) {
  Kernel kernel;
  kernel.family = family;
  kernel.ops = {op};
  if (family == Family::product) kernel.anchor = op;
  kernels.push_back(std::move(kernel));
  readers_.emplace_back();
  first_.push_back(op);
  last_.push_back(op);
  const int made = static_cast<int>(kernels.size()) - 1;
  take(op, made);
  return made;
}

void KernelGraph::own(int op, int kernel) {
  kernels[position(kernel)].ops.push_back(op);
  const int first = first_[position(kernel)] = std::min(first_[position(kernel)], op);
  const int last = last_[position(kernel)] = std::max(last_[position(kernel)], op);
  for (int i = first; i < last && spanned_[position(i)] < last; ++i) spanned_[position(i)] = last;
  take(op, kernel);
}

void KernelGraph::merge(int into, int from) {
  for (int op : kernels[position(from)].ops) own(op, into);
  kernels[position(from)].ops.clear();
  readers_[position(from)].clear();
  std::erase_if(readers_[position(into)], [&](int reader) { return owner[position(reader)] == into; });
}

void KernelGraph::release(int kernel, const std::set<int>& ops) {
  std::vector<int>& own = kernels[position(kernel)].ops;
  for (int op : ops) owner[position(op)] = -1;
  std::erase_if(own, [&](int op) { return ops.count(op) > 0; });
  readers_[position(kernel)].clear();
  for (int op : own) take(op, kernel);
}

void KernelGraph::take(int op, int kernel) {
  owner[position(op)] = kernel;
  std::set<int>& readers = readers_[position(kernel)];
  readers.erase(op);
  for (ValueId result : function_.ops[position(op)].results)
    if (result != no_value)
      for (int reader : uses_.consumers[position(result)])
        if (owner[position(reader)] != kernel) readers.insert(reader);
}

KernelGraph::Node KernelGraph::node(int op) const {
  return owner[position(op)] >= 0 ? Node{owner[position(op)], -1} : Node{-1, op};
}

int KernelGraph::last(const Node& of) const { return of.kernel >= 0 ? last_[position(of.kernel)] : of.op; }

/// The last operation that paths to operation `until` may pass: no kernel has operations on both sides of it.
int KernelGraph::horizon(int until) const {
  while (until >= 0 && spanned_[position(until)] > until) until = spanned_[position(until)];
  return until;
}

template <typename Visit>
void KernelGraph::each_reader(const Node& of, int until, Visit visit) const {
  if (of.kernel >= 0) {
    const std::set<int>& readers = readers_[position(of.kernel)];
    for (auto reader = readers.begin(); reader != readers.end() && *reader <= until; ++reader) visit(*reader);
    return;
  }
  for (ValueId result : function_.ops[position(of.op)].results)
    if (result != no_value)
      for (int reader : uses_.consumers[position(result)])
        if (reader <= until) visit(reader);
}

bool KernelGraph::leads_to(int kernel, int op) const {
  std::set<Node> targets, seen;
  int until = -1;
  for (ValueId operand : function_.ops[position(op)].operands) {
    const int producer = operand == no_value ? -1 : uses_.producer[position(operand)];
    if (producer < 0 || owner[position(producer)] == kernel) continue;
    targets.insert(node(producer));
    until = std::max(until, last(node(producer)));
  }
  if (targets.empty()) return false;
  until = horizon(until);
  std::vector<Node> pending{{kernel, -1}};
  bool found = false;
  while (!pending.empty() && !found) {
    const Node next = pending.back();
    pending.pop_back();
    each_reader(next, until, [&](int reader) {
      const Node to = node(reader);
      if (to.kernel == kernel || !seen.insert(to).second) return;
      found |= targets.count(to) > 0;
      pending.push_back(to);
    });
  }
  return found;
}

bool KernelGraph::comes_from(int kernel, int op) const {
  const int until = horizon(last_[position(kernel)]);
  std::set<Node> seen;
  std::vector<Node> pending{{-1, op}};
  bool found = false;
  while (!pending.empty() && !found) {
    const Node next = pending.back();
    pending.pop_back();
    each_reader(next, until, [&](int reader) {
      const Node to = node(reader);
      if (to.kernel == kernel) {
        found |= next.kernel >= 0 || next.op != op;
        return;
      }
      if (seen.insert(to).second) pending.push_back(to);
    });
  }
  return found;
}

bool KernelGraph::leads_around(int from, int to) const {
  const int until = horizon(last_[position(to)]);
  std::set<Node> seen;
  std::vector<Node> pending{{from, -1}};
  bool found = false;
  while (!pending.empty() && !found) {
    const Node next = pending.back();
    pending.pop_back();
    each_reader(next, until, [&](int reader) {
      const Node other = node(reader);
      if (other.kernel == from) return;
      if (other.kernel == to) {
        found |= next.kernel != from;
        return;
      }
      if (seen.insert(other).second) pending.push_back(other);
    });
  }
  return found;
}

}  // namespace tilesim::lower
