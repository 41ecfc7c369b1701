#include "tilesim/compile/prepare/checks.hpp"

#include <algorithm>
#include <set>

#include "tilesim/base/error.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/compile/plan/cannot_run.hpp"

namespace tilesim::lower {

namespace {

void check_values(const GraphFunction& function, const Op& op, const std::vector<ValueId>& values) {
  for (ValueId value : values)
    if (value != no_value && element_count(function.value(value).type.shape) == 0)
      throw CannotRun(op, Lack::elements,
                      {"an operation on an empty tensor has no lowering",
                       op.name,
                       to_string(function.value(value).type),
                       "at least one element",
                       {}});
}

}  // namespace

void check_elements(const Graph& graph) {
  for (const GraphFunction& function : graph.functions)
    for (const Op& op : function.ops) {
      check_values(function, op, op.results);
      if (!info(op.kind).movement) check_values(function, op, op.operands);
    }
}

void check_mappings(const Graph& graph, const CompileOptions& options) {
  std::vector<std::string> products;
  for (const GraphFunction& function : graph.functions)
    for (const Op& op : function.ops)
      if (op.kind == Kind::contract || op.kind == Kind::convolution) products.push_back(op.name);
  for (const auto& [name, nest] : options.mappings)
    if (std::find(products.begin(), products.end(), name) == products.end())
      throw UserError({"a mapping is given for an operation that is not a product of the graph", graph.name,
                       "'" + name + "'", join(products), nearest(name, products)});
}

}  // namespace tilesim::lower
