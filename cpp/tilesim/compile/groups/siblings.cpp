// Joins products that read the same first operand into one kernel.
#include <algorithm>

#include "tilesim/compile/groups/groups.hpp"
#include "tilesim/graph/passes/zero_tiles.hpp"

namespace tilesim::lower {

namespace {

constexpr std::size_t most_siblings = 8;  // the scratchpad holds tiles of all of them at once

}  // namespace

/// The reason why a product cannot be a sibling of the kernel's first product; empty: their tiles are alike.
std::string Grouping::why_unlike(int kernel, int product) const {
  const Op &one = op(graph_.kernels[index(kernel)].anchor), &other = op(product);
  const auto type = [&](ValueId value) { return context_.value(value).type; };
  if (one.kind != other.kind || one.attributes != other.attributes) return "they contract other axes";
  if (type(one.operands[1]) != type(other.operands[1])) return "their second operands differ in shape or type";
  if (type(one.results[0]) != type(other.results[0])) return "their results differ in shape or type";
  for (const Op* product_of : {&one, &other})
    if (finds_zero_tiles(*product_of) || zero_tiles_of(context_.graph, function_, *product_of).operand >= 0)
      return "tiles of zeros are skipped";
  const auto given = context_.options.mappings.find(one.name);
  const std::size_t dims = tilesim::domain(function_, one).extents.size();
  if (context_.options.mappings.count(other.name) ||
      (given != context_.options.mappings.end() && given->second.tiles.size() == dims))
    return "its mapping is given";
  return {};
}

/// The reason why a product does not join the kernel of another product that reads the same operand; empty: it may.
std::optional<Apart> Grouping::why_no_sibling(int kernel, int product) const {
  if (const auto found = kept_apart_.products.find(op(product).name); found != kept_apart_.products.end())
    return found->second;
  if (auto why = cut(Rule::sibling_products, product)) return why;
  const int own = graph_.owner[index(product)];
  const Kernel &into = graph_.kernels[index(kernel)], &from = graph_.kernels[index(own)];
  const auto no = [](std::string reason) { return Apart{false, std::move(reason)}; };
  if (std::string why = why_unlike(kernel, product); !why.empty()) return no(std::move(why));
  if (into.parts.size() == most_siblings) return no("a kernel has at most eight products");
  const auto reduces = [&](int i) { return op(i).kind == Kind::reduce; };
  if (std::ranges::any_of(into.ops, reduces) || std::ranges::any_of(from.ops, reduces))
    return no("a reduction stands at the end of one");
  for (int i : {into.anchor, product}) {
    const int producer = uses_.producer[index(op(i).operands[1])];
    if (std::ranges::any_of(tails_, [&](const Tail& tail) { return tail.root == producer; }))
      return no("a second operand is computed");
  }
  for (ValueId operand : op(product).operands) {
    const int producer = operand == no_value ? -1 : uses_.producer[index(operand)];
    if (producer >= 0 && graph_.owner[index(producer)] == kernel) return no("one reads the result of the other");
  }
  if (graph_.leads_around(kernel, own) || graph_.leads_around(own, kernel))
    return no("a path leads from one to the other through a third kernel");
  return std::nullopt;
}

/// Each product with its epilogue joins the first earlier kernel whose product reads the same first operand.
void Grouping::join_siblings() {
  if (!rules_.has(Rule::sibling_products) || rules_.native) return;
  for (int i = 0; i < count(); ++i) {
    if (!is_product(op(i).kind)) continue;
    std::set<int> tried;
    for (int first : uses_.consumers[index(op(i).operands[0])]) {
      if (first >= i) break;
      if (!is_product(op(first).kind) || op(first).operands[0] != op(i).operands[0]) continue;
      const int into = graph_.owner[index(first)], from = graph_.owner[index(i)];
      if (!tried.insert(into).second) continue;
      if (const auto why = why_no_sibling(into, i)) {
        refused(Rule::sibling_products, into, i, *why);
        continue;
      }
      std::vector<Kernel::SiblingProduct>& parts = graph_.kernels[index(into)].parts;
      if (parts.empty()) parts.push_back({first, graph_.kernels[index(into)].ops});
      parts.push_back({i, graph_.kernels[index(from)].ops});
      graph_.merge(into, from);
      for (Looked& looked : looked_)
        if (looked.kernel == from) looked.kernel = into;
      taken(Rule::sibling_products, into, i);
      break;
    }
  }
}

}  // namespace tilesim::lower
