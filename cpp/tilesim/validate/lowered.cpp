#include "tilesim/validate/lowered.hpp"

#include "tilesim/program/visit.hpp"

namespace tilesim::validate {

Array PlainWeights::unpacked(const std::string& weight, const Array& given) const {
  const auto found = patterns_.find(weight);
  return found == patterns_.end() ? given : expanded_two_of_four(given, found->second.axis, found->second.depth);
}

namespace {

bool multiplies(const program::Block& block) {
  bool found = false;
  program::for_each(block, [&](const program::Statement& statement) {
    const auto* opaque = std::get_if<program::OpaqueOp>(&statement.action);
    found |= std::holds_alternative<program::MmaOp>(statement.action) || (opaque && opaque->product);
  });
  return found;
}

/// Visits the scopes of kernels: the outermost that have operations.
template <class Visit>
void each_kernel(const program::Block& block, const Visit& visit) {
  for (const program::Statement& statement : block) {
    if (const auto* loop = std::get_if<program::For>(&statement.action)) each_kernel(loop->body, visit);
    const auto* scope = std::get_if<program::Scope>(&statement.action);
    if (scope == nullptr) continue;
    if (scope->operation.empty())
      each_kernel(scope->body, visit);
    else
      visit(*scope);
  }
}

template <class Visit>
void each_kernel(const program::Program& program, const Visit& visit) {
  each_kernel(program.body, [&](const program::Scope& kernel) { visit("", kernel); });
  for (const program::Function& function : program.functions)
    each_kernel(function.body, [&](const program::Scope& kernel) { visit(function.name, kernel); });
}

}  // namespace

std::set<std::string> off_array(const program::Program& program) {
  std::set<std::string> names;
  each_kernel(program, [&](const std::string&, const program::Scope& kernel) {
    if (!multiplies(kernel.body)) names.insert(kernel.operation.begin(), kernel.operation.end());
  });
  return names;
}

Storing storing_kernels(const program::Program& program) {
  Storing kernels;
  each_kernel(program, [&](const std::string& function, const program::Scope& kernel) {
    std::set<std::string> stored;
    program::for_each(kernel.body, [&](const program::Statement& statement) {
      if (const auto* store = std::get_if<program::Store>(&statement.action)) stored.insert(store->transfer.tensor);
    });
    for (const std::string& tensor : stored) ++kernels[{function, tensor}];
  });
  return kernels;
}

}  // namespace tilesim::validate
