#include "tilesim/compile/passes/numbers.hpp"

#include <algorithm>

#include "tilesim/program/visit.hpp"

namespace tilesim::lower {

using program::Block;
using program::Statement;

KernelNumbers::KernelNumbers(const program::Program& program)
    : program_(program), streams_(program.cores * program.contexts) {}

std::int64_t KernelNumbers::kernels_in(const std::string& function) const {
  if (const auto known = functions_.find(function); known != functions_.end()) return known->second;
  for (const program::Function& one : program_.functions)
    if (one.name == function) return functions_[function] = kernels_in(one.body);
  return 0;
}

std::int64_t KernelNumbers::kernels_in(const Block& body) const {
  std::int64_t count = 0;
  for (const Statement& statement : body) count += kernels_in(statement);
  return count;
}

std::int64_t KernelNumbers::kernels_in(const Statement& statement) const {
  std::int64_t count = 0;
  const std::int64_t once = 1;
  const auto visit = [&](const Statement& inner, const std::int64_t& trips) -> std::optional<std::int64_t> {
    if (const auto* loop = std::get_if<program::For>(&inner.action))
      return loop->extent.is_constant() ? std::optional(trips * loop->extent.value()) : std::nullopt;
    if (const auto* scope = std::get_if<program::Scope>(&inner.action)) {
      if (runs_functions(scope->body)) return trips;
      count += trips * (several() ? steps_in(*scope) : 1);
    }
    if (const auto* call = std::get_if<program::Call>(&inner.action)) count += trips * kernels_in(call->function);
    return std::nullopt;
  };
  if (const std::optional<std::int64_t> inside = visit(statement, once))
    program::for_each_body(statement, [&](const Block& inner) { program::for_each_knowing(inner, *inside, visit); });
  return count;
}

bool KernelNumbers::runs_functions(const Block& kernel) {
  bool found = false;
  program::for_each_knowing(kernel, 0, [&](const Statement& statement, int) {
    found |= std::holds_alternative<program::Call>(statement.action);
    return std::holds_alternative<program::For>(statement.action) && !found ? std::optional(0) : std::nullopt;
  });
  return found;
}

std::int64_t KernelNumbers::steps_in(const program::Scope& kernel) {
  const auto is_step = [](const Statement& s) { return std::holds_alternative<program::Scope>(s.action); };
  return std::max<std::int64_t>(1, std::count_if(kernel.body.begin(), kernel.body.end(), is_step));
}

}  // namespace tilesim::lower
