// Replaces symbols in every expression of a block.
#include <map>
#include <string>
#include <variant>

#include "tilesim/compile/plan/divide.hpp"
#include "tilesim/program/expressions.hpp"
#include "tilesim/program/visit.hpp"

namespace tilesim::lower {

void substitute(program::Block& block, const std::map<std::string, Expr>& values) {
  program::for_each(block, [&](program::Statement& statement) {
    program::for_each_expression(statement, [&](Expr& expr) { expr = expr.substitute(values); });
    if (auto* call = std::get_if<program::Call>(&statement.action))
      for (auto& [name, value] : call->parameters) value = value.substitute(values);
  });
}

}  // namespace tilesim::lower
