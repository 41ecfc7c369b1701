// Finds the uses of a program's tensors by kernels, calls and loops.
#include <algorithm>
#include <functional>
#include <optional>

#include "tilesim/base/error.hpp"
#include "tilesim/base/index.hpp"
#include "tilesim/compile/passes/addresses.hpp"
#include "tilesim/compile/passes/candidates.hpp"
#include "tilesim/compile/passes/numbers.hpp"
#include "tilesim/compile/passes/residency.hpp"
#include "tilesim/program/expressions.hpp"
#include "tilesim/program/visit.hpp"

namespace tilesim::lower {

namespace {

const program::Transfer* moved_by(const program::Statement& statement) {
  if (const auto* load = std::get_if<program::Load>(&statement.action)) return &load->transfer;
  if (const auto* store = std::get_if<program::Store>(&statement.action)) return &store->transfer;
  return nullptr;
}

/// Least scratchpad bytes of the slots: a granule per buffer, twice, since smaller tiles may need separate slots.
std::int64_t least_of(const program::Scope& scope) {
  constexpr std::int64_t granule = 64;
  std::int64_t bytes = 0;
  const auto add = [&](const program::Scope& of) {
    for (const program::Slot& slot : of.slots) bytes += 2 * granule * std::max<std::int64_t>(2, slot.depth);
  };
  add(scope);
  program::for_each(scope.body, [&](const program::Statement& statement) {
    if (const auto* inner = std::get_if<program::Scope>(&statement.action)) add(*inner);
  });
  return bytes;
}

template <class Visit>
void for_each_read(const Expr& expr, const Visit& visit) {
  if (expr.kind() == Expr::Kind::read) visit(expr.name());
  for (const Expr& argument : expr.arguments()) for_each_read(argument, visit);
}

}  // namespace

const std::string& Candidates::owner(const std::string& tensor) const {
  const auto found = owners_.find(tensor);
  return found == owners_.end() ? tensor : found->second;
}

DType Candidates::dtype(const std::string& tensor) const {
  const auto own = tensors_.find(tensor);
  return own != tensors_.end() ? own->second->dtype : dtype(bindings_.at(tensor).front().actual);
}

void Candidates::find_owners() {
  for (program::Tensor& tensor : lowering_.program.tensors) {  // owners precede aliases
    tensors_[tensor.name] = &tensor;
    owners_[tensor.name] = tensor.alias_of.empty() ? tensor.name : owner(tensor.alias_of);
    if (tensor.role != program::Role::temporary)
      refuse(tensor.name, tensor.alias_of.empty()
                              ? "'" + tensor.name + "' is given or returned in memory"
                              : "'" + tensor.name + "', given or returned in memory, shares the bytes of '" +
                                    owner(tensor.alias_of) + "': one place holds both");
  }
}

void Candidates::find_bodies() {
  program::for_each_function(lowering_.program, [&](program::Block& block, const std::string& function) {
    body_of_[function] = bodies_.size();
    bodies_.push_back({function, &block, {}, function.empty() ? 1.0 : 0.0});
  });
  for (const program::Function& function : lowering_.program.functions)
    for (const std::string& formal : function.tensors) home_[formal] = body_of_.at(function.name);
}

void Candidates::bind(std::size_t body, const program::Statement& statement, double trips) {
  if (const auto* call = std::get_if<program::Call>(&statement.action)) {
    called_[body].push_back(body_of_.at(call->function));
    for (const auto& [formal, actual] : call->tensors) bindings_[formal].push_back({actual, body, trips});
    return;
  }
  if (const auto* loop = std::get_if<program::For>(&statement.action); loop && loop->extent.is_constant())
    trips *= static_cast<double>(loop->extent.value());
  program::for_each_body(statement, [&](const program::Block& block) {
    for (const program::Statement& inner : block) bind(body, inner, trips);
  });
}

/// Finds the calls between bodies with the tensors that they bind, and how often each function runs.
void Candidates::find_calls() {
  called_.resize(bodies_.size());
  for (std::size_t body = 0; body < bodies_.size(); ++body)
    for (const program::Statement& statement : *bodies_[body].block) bind(body, statement, 1);
  std::vector<int> known(bodies_.size(), 0);
  const std::function<double(std::size_t)> times = [&](std::size_t body) -> double {
    if (bodies_[body].function.empty() || known[body]++) return bodies_[body].times;
    for (std::size_t caller = 0; caller < bodies_.size(); ++caller) {
      const std::function<void(const program::Statement&, double)> count = [&](const program::Statement& statement,
                                                                               double trips) {
        if (const auto* call = std::get_if<program::Call>(&statement.action))
          if (body_of_.at(call->function) == body) bodies_[body].times += trips * times(caller);
        if (const auto* loop = std::get_if<program::For>(&statement.action); loop && loop->extent.is_constant())
          trips *= static_cast<double>(loop->extent.value());
        program::for_each_body(statement, [&](const program::Block& block) {
          for (const program::Statement& inner : block) count(inner, trips);
        });
      };
      if (std::find(called_[caller].begin(), called_[caller].end(), body) == called_[caller].end()) continue;
      for (const program::Statement& statement : *bodies_[caller].block) count(statement, 1);
    }
    return bodies_[body].times;
  };
  for (std::size_t body = 0; body < bodies_.size(); ++body) times(body);
}

double Candidates::part(const std::string& name, const std::function<bool(const std::string&)>& stays) const {
  const auto bound = bindings_.find(name);
  if (bound == bindings_.end()) return stays(owner(name)) ? 1 : 0;
  double all = 0, some = 0;
  for (const Binding& one : bound->second) {
    const double runs = one.trips * bodies_[one.body].times;
    all += runs;
    some += runs * part(one.actual, stays);
  }
  return all > 0 ? some / all : 0;
}

/// Keeps all tensors that the statement uses in memory.
void Candidates::refuse_all(const program::Statement& statement, const char* reason) {
  const auto one = [&](const program::Statement& inner) {
    if (const program::Transfer* transfer = moved_by(inner)) refuse(transfer->tensor, reason);
    if (const auto* call = std::get_if<program::Call>(&inner.action))
      for (const auto& [formal, actual] : call->tensors) refuse(actual, reason);
  };
  one(statement);
  program::for_each_body(statement, [&](const program::Block& inner) { program::for_each(inner, one); });
}

bool Candidates::stores_first(const std::string& function, const std::string& formal) const {
  std::optional<bool> found;
  program::for_each(*bodies_[body_of_.at(function)].block, [&](const program::Statement& statement) {
    if (found) return;
    if (const program::Transfer* transfer = moved_by(statement); transfer && transfer->tensor == formal)
      found = std::holds_alternative<program::Store>(statement.action);
    if (const auto* call = std::get_if<program::Call>(&statement.action))
      for (const auto& [inner, actual] : call->tensors)
        if (actual == formal && !found) found = stores_first(call->function, inner);
  });
  return found.value_or(false);
}

/// Records the uses by a call or a loop of the graph: tensors passed to functions, and the loop's own copies.
void Candidates::see_call(std::size_t body, const program::Statement& statement, std::int64_t kernel) {
  const auto one = [&](const program::Statement& inner) {
    see_expressions(inner);
    if (const auto* call = std::get_if<program::Call>(&inner.action))
      for (const auto& [formal, actual] : call->tensors)
        touch(body, actual, kernel, stores_first(call->function, formal));
    if (const program::Transfer* transfer = moved_by(inner))
      touch(body, transfer->tensor, kernel, std::holds_alternative<program::Store>(inner.action));
  };
  one(statement);
  program::for_each_body(statement, [&](const program::Block& inner) { program::for_each(inner, one); });
}

double Candidates::moved(const std::string& formal) const {
  const Body& body = bodies_[home_.at(formal)];
  double bytes = 0;
  for (const KernelState& kernel : body.kernels)
    if (kernel.use)
      if (const auto use = kernel.use->find(formal); use != kernel.use->end())
        bytes += use->second.loaded + use->second.stored;
  for (const auto& [inner, bound] : bindings_)
    for (const Binding& one : bound)
      if (one.actual == formal) bytes += one.trips * moved(inner);
  return bytes;
}

void Candidates::read(std::size_t body, const program::Block& block) {
  const Traffic& moved_by = traffic();
  Body& own = bodies_[body];
  const std::vector<KernelFacts>& facts = lowering_.kernels[own.function];
  std::size_t scopes = 0;
  for_each_kernel_of(block, [&](const program::Statement& statement, std::int64_t number) {
    worked(4096);
    KernelState& kernel = own.kernels.emplace_back();
    kernel.statement = at(&statement - block.data());
    const auto* scope = std::get_if<program::Scope>(&statement.action);
    kernel.opaque = !scope || KernelNumbers::runs_functions(scope->body);
    if (scope) {
      kernel.number = scopes++;
      kernel.facts = facts[kernel.number];
      kernel.held = held(*scope).scratchpad;
      kernel.least = least_of(*scope);
    }
    if (kernel.opaque && several_) return refuse_all(statement, "it is passed to a function or to a loop");
    if (kernel.opaque) {
      find_runs(body, statement, kernel);
      return see_call(body, statement, number);
    }
    kernel.use = moved_by.use_of(*scope, several_);
    if (!kernel.use) refuse_all(statement, "its address in a kernel depends on data");
    see_order(body, *scope, number);
    if (!kernel.use) return;
    for (const auto& [tensor, use] : *kernel.use) {
      if (const auto found = seen_.find(owner(tensor)); found != seen_.end()) {
        found->second.saved += use.loaded + use.stored;
        found->second.names.insert(tensor);
      }
      if (several_ && !use.regions) refuse(tensor, "a core stores non-contiguous elements");
    }
  });
}

/// Finds the bodies that run during a call or loop.
void Candidates::find_runs(std::size_t body, const program::Statement& statement, KernelState& kernel) const {
  std::set<std::size_t> runs;
  const std::function<void(std::size_t)> enter = [&](std::size_t inner) {
    if (!runs.insert(inner).second) return;
    for (const std::size_t next : called_[inner]) enter(next);
  };
  const auto one = [&](const program::Statement& inner) {
    if (const auto* call = std::get_if<program::Call>(&inner.action)) enter(body_of_.at(call->function));
  };
  one(statement);
  program::for_each_body(statement, [&](const program::Block& inner) { program::for_each(inner, one); });
  require(runs.count(body) == 0, "a function calls itself");
  kernel.runs.assign(runs.begin(), runs.end());
}

/// Keeps tensors in memory that expressions read or that select rows: the core that dispatches statements reads them.
void Candidates::see_expressions(const program::Statement& statement) {
  program::for_each_expression(statement, [&](const Expr& expr) {
    for_each_read(expr, [&](const std::string& name) { refuse_bound(name, "expressions read it"); });
  });
  if (const auto* call = std::get_if<program::Call>(&statement.action))
    for (const auto& [name, value] : call->parameters)
      for_each_read(value, [&](const std::string& tensor) { refuse_bound(tensor, "expressions read it"); });
  const program::Transfer* transfer = moved_by(statement);
  if (!transfer) return;
  for (const program::TransferDim& dim : transfer->dims)
    if (!dim.through.empty()) {
      refuse_bound(dim.through, "rows are found through it");
      refuse_bound(transfer->tensor, "rows of it are found through another tensor");
    }
}

/// Keeps a tensor in memory; for a formal name, all tensors that calls bind to it.
void Candidates::refuse_bound(const std::string& name, const char* reason) {
  refuse(name, reason);
  if (const auto bound = bindings_.find(name); bound != bindings_.end())
    for (const Binding& one : bound->second) refuse_bound(one.actual, reason);
}

void Candidates::touch(std::size_t body, const std::string& tensor, std::int64_t kernel, bool store) {
  if (!tensors_.count(tensor)) return;
  const auto [entry, fresh] = seen_.try_emplace(owner(tensor), Seen{body, kernel, kernel, store, 0, {}});
  Seen& seen = entry->second;
  if (seen.body != body) return refuse(tensor, "kernels of several functions use it");
  seen.last = kernel;
}

/// Records the first and last use of each tensor.
void Candidates::see_order(std::size_t body, const program::Scope& scope, std::int64_t kernel) {
  program::for_each(scope.body, [&](const program::Statement& statement) {
    see_expressions(statement);
    if (const program::Transfer* transfer = moved_by(statement))
      touch(body, transfer->tensor, kernel, std::holds_alternative<program::Store>(statement.action));
  });
}

}  // namespace tilesim::lower
