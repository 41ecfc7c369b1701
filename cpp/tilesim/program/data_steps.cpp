#include "tilesim/program/data_steps.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "tilesim/program/expressions.hpp"
#include "tilesim/program/visit.hpp"

namespace tilesim::program {

namespace {

using Names = std::set<std::string>;

void add_data_reads(const Expr& expr, Names& names) {
  if (expr.kind() == Expr::Kind::read) names.insert(expr.name());
  for (const Expr& argument : expr.arguments()) add_data_reads(argument, names);
}

const Transfer* transfer_of(const Statement& statement) {
  if (const auto* load = std::get_if<Load>(&statement.action)) return &load->transfer;
  if (const auto* store = std::get_if<Store>(&statement.action)) return &store->transfer;
  return nullptr;
}

void add_row_reads(const Statement& statement, Names& names) {
  if (const Transfer* transfer = transfer_of(statement))
    for (const TransferDim& dim : transfer->dims)
      if (!dim.through.empty()) names.insert(dim.through);
}

/// Operations of the innermost scope that names operations.
using ServedOperations = std::vector<std::string>;

template <class Visit>
void for_each_in_scope(const Program& program, const Visit& visit) {
  for_each_function(program, [&](const Block& body, const std::string& function) {
    for_each_knowing(body, ServedOperations(), [&](const Statement& statement, const ServedOperations& around) {
      visit(statement, function, around);
      const auto* scope = std::get_if<Scope>(&statement.action);
      if (scope && !scope->operation.empty()) return std::optional(scope->operation);
      return inside(statement, around);
    });
  });
}

/// Finds scopes, loops and branches around the innermost scope that stores the tensor, outermost first.
bool find_step(const Block& block, const std::string& tensor, std::vector<const Statement*>& path) {
  for (const Statement& statement : block) {
    path.push_back(&statement);
    bool found = false;
    for_each_body(statement, [&](const Block& body) { found = found || find_step(body, tensor, path); });
    const auto* store = std::get_if<Store>(&statement.action);
    if (found || (store && store->transfer.tensor == tensor)) return true;
    path.pop_back();
  }
  return false;
}

/// Removes waits for counters, signals and barriers, because a single step has no other kernels or cores.
void leave_out_order(Block& block) {
  std::erase_if(block, [](const Statement& statement) {
    const auto* wait = std::get_if<Wait>(&statement.action);
    return (wait && !wait->counter.empty()) || std::holds_alternative<Signal>(statement.action);
  });
  for (Statement& statement : block) {
    if (auto* store = std::get_if<Store>(&statement.action)) store->signal.clear();
    if (auto* scope = std::get_if<Scope>(&statement.action)) scope->barrier = false;
    for_each_body(statement, [](Block& body) { leave_out_order(body); });
  }
}

Block& body_of(Statement& statement) {
  if (auto* loop = std::get_if<For>(&statement.action)) return loop->body;
  if (auto* branch = std::get_if<If>(&statement.action)) return branch->then;
  return std::get<Scope>(statement.action).body;
}

/// Adds the tensors that the step loads (inputs) or stores (outputs), and the owners of their bytes.
void add_tensors(const Program& whole, DataStep& step) {
  Names loaded, stored;
  for_each(step.program.body, [&](const Statement& statement) {
    for_each_expression(statement, [&](const Expr& expr) { add_data_reads(expr, loaded); });
    add_row_reads(statement, loaded);
    if (const Transfer* transfer = transfer_of(statement))
      (std::holds_alternative<Load>(statement.action) ? loaded : stored).insert(transfer->tensor);
  });
  const auto with_owners = [&](Names names) {
    Names all;
    for (std::string name : names)
      for (const Tensor* found = whole.find_tensor(name); found; found = whole.find_tensor(name)) {
        all.insert(found->name);
        if (found->alias_of.empty()) break;
        name = found->alias_of;
      }
    return all;
  };
  stored = with_owners(std::move(stored));
  loaded = with_owners(std::move(loaded));
  for (const Tensor& tensor : whole.tensors) {
    if (!loaded.contains(tensor.name) && !stored.contains(tensor.name)) continue;
    Tensor own = tensor;
    own.weight.clear();
    own.level = Level::memory;
    own.parts.clear();
    own.role = !own.alias_of.empty() ? Role::temporary : stored.contains(own.name) ? Role::output : Role::input;
    step.program.tensors.push_back(std::move(own));
  }
}

void rename_tensors(Block& block, const std::map<std::string, std::string>& names) {
  for (Statement& statement : block) {
    for_each_body(statement, [&](Block& body) { rename_tensors(body, names); });
    auto* load = std::get_if<Load>(&statement.action);
    auto* store = std::get_if<Store>(&statement.action);
    if (!load && !store) continue;
    Transfer& transfer = load ? load->transfer : store->transfer;
    if (const auto found = names.find(transfer.tensor); found != names.end()) transfer.tensor = found->second;
    for (TransferDim& dim : transfer.dims)
      if (const auto found = names.find(dim.through); found != names.end()) dim.through = found->second;
  }
}

/// Replaces formal tensors of the step's function by actual ones. Returns false if calls pass different tensors, or if
/// an expression reads a formal tensor.
bool name_actuals(const Program& whole, DataStep& step) {
  std::map<std::string, std::string> names;
  bool alike = true;
  for_each_function(whole, [&](const Block& body, const std::string&) {
    for_each(body, [&](const Statement& statement) {
      const auto* call = std::get_if<Call>(&statement.action);
      if (!call || call->function != step.function) return;
      for (const auto& [formal, actual] : call->tensors) {
        const auto [known, fresh] = names.try_emplace(formal, actual);
        if (!fresh && known->second != actual) known->second.clear();
      }
    });
  });
  rename_tensors(step.program.body, names);
  for_each(step.program.body, [&](const Statement& statement) {
    Names used;
    for_each_expression(statement, [&](const Expr& expr) { add_data_reads(expr, used); });
    add_row_reads(statement, used);
    if (const Transfer* transfer = transfer_of(statement)) used.insert(transfer->tensor);
    for (const std::string& name : used) alike = alike && whole.find_tensor(name);
  });
  return alike;
}

/// Whether the step uses parameters of its function.
bool depends_on_parameters(const Program& whole, const DataStep& step) {
  bool found = false;
  for (const Function& function : whole.functions) {
    if (function.name != step.function) continue;
    const auto is_parameter = [&](const std::string& symbol) {
      return std::find(function.parameters.begin(), function.parameters.end(), symbol) != function.parameters.end();
    };
    for_each(step.program.body, [&](const Statement& statement) {
      for_each_expression(statement, [&](const Expr& expr) {
        const auto symbols = expr.symbols();
        found = found || std::any_of(symbols.begin(), symbols.end(), is_parameter);
      });
    });
  }
  return found;
}

}  // namespace

std::vector<DataRead> data_reads(const Program& program) {
  std::vector<DataRead> reads;
  const auto add = [&](const std::string& tensor, bool rows, const std::string& function,
                       const ServedOperations& operation) {
    const auto known =
        std::find_if(reads.begin(), reads.end(), [&](const DataRead& read) { return read.tensor == tensor; });
    if (known == reads.end())
      reads.push_back({tensor, rows, function, operation});
    else
      known->rows = known->rows && rows;
  };
  for_each_in_scope(program,
                    [&](const Statement& statement, const std::string& function, const ServedOperations& around) {
                      Names values, rows;
                      for_each_expression(statement, [&](const Expr& expr) { add_data_reads(expr, values); });
                      if (const auto* call = std::get_if<Call>(&statement.action))
                        for (const auto& [name, value] : call->parameters) add_data_reads(value, values);
                      add_row_reads(statement, rows);
                      const auto* scope = std::get_if<Scope>(&statement.action);
                      for (const std::string& name : values)
                        add(name, false, function, scope ? scope->operation : around);
                      for (const std::string& name : rows) add(name, true, function, around);
                    });
  const std::vector<DataRead> named = reads;
  for_each_in_scope(program, [&](const Statement& statement, const std::string&, const ServedOperations&) {
    if (const auto* call = std::get_if<Call>(&statement.action))
      for (const auto& [formal, actual] : call->tensors)
        for (const DataRead& read : named)
          if (read.tensor == formal) add(actual, read.rows, read.function, read.operation);
  });
  return reads;
}

std::optional<DataStep> step_that_stores(const Program& program, const std::string& tensor) {
  std::vector<const Statement*> path;
  DataStep step;
  for_each_function(program, [&](const Block& body, const std::string& function) {
    if (!path.empty() || !find_step(body, tensor, path)) return;
    step.function = function;
  });
  while (!path.empty() && !std::holds_alternative<Scope>(path.back()->action)) path.pop_back();
  if (path.empty()) return std::nullopt;
  step.program.name = program.name;
  step.program.parameters = program.parameters;
  step.program.cores = program.cores;
  step.program.contexts = program.contexts;
  step.program.counters = program.counters;
  step.program.slots = program.slots;
  Block* body = &step.program.body;
  for (const Statement* statement : path) {
    body->push_back(*statement);
    if (const auto* scope = std::get_if<Scope>(&statement->action); scope && !scope->operation.empty())
      step.operation = scope->operation;
    if (statement == path.back()) break;
    body = &body_of(body->back());
    body->clear();
  }
  leave_out_order(step.program.body);
  if (depends_on_parameters(program, step) || !name_actuals(program, step)) return std::nullopt;
  add_tensors(program, step);
  return step;
}

}  // namespace tilesim::program
