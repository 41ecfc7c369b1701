// Flattens a program's control flow into a vector of steps. Each function is emitted once, after its callers.
#include "tilesim/program/flat/flatten.hpp"

#include <functional>

#include "tilesim/base/error.hpp"
#include "tilesim/base/interrupt.hpp"

namespace tilesim::program {

Flattener::Flattener(CompiledProgram& compiled, CompiledProgram::Code& code)
    : compiled_(compiled), code_(code), program_(*code.program) {
  for (std::size_t i = 0; i < program_.functions.size(); ++i) function_ids_.emplace(program_.functions[i].name, i);
}

void Flattener::run() {
  check_sizes();
  for (const auto& [name, value] : program_.parameters) code_.parameters.emplace_back(declare(name), value);
  code_.core_slot = declare("core");
  code_.context_slot = declare("context");
  for (const Counter& counter : program_.counters) {
    counter_ids_.emplace(counter.name, static_cast<int>(compiled_.counters.size()));
    compiled_.counters.emplace_back(counter.name, counter.size);
  }
  declare_tensors();
  for (const Slot& slot : program_.slots) add_slot(slot, -1);
  emit(program_.body);
  step(StepKind::halt);
  flatten_functions();
  code_.environment_size = static_cast<std::int32_t>(next_symbol_);
}

/// Throws UserError for sizes that would make users of a program allocate too much memory.
void Flattener::check_sizes() const {
  constexpr std::int64_t most_counters = 1 << 26, most_streams = 1 << 16, most_buffers = 1 << 22;
  const auto limit = [](const char* what, std::int64_t value, std::int64_t most) {
    if (value > most) throw UserError({what, {}, std::to_string(value), "at most " + std::to_string(most), {}});
  };
  const std::int64_t streams = program_.cores * program_.contexts;
  limit("The program has too many cores and contexts.", streams, most_streams);
  std::int64_t counters = 0, buffers = 0;
  for (const Counter& counter : program_.counters) {
    counters += counter.size * program_.cores;
    limit("The counters are too many, over all cores.", counters, most_counters);
  }
  const auto add = [&](const Slot& slot) {
    buffers += slot.depth * streams;
    limit("The slots have too many buffers, over all cores.", buffers, most_buffers);
  };
  const std::function<void(const Block&)> visit = [&](const Block& block) {
    for (const Statement& s : block) {
      if (const auto* scope = std::get_if<Scope>(&s.action)) {
        for (const Slot& slot : scope->slots) add(slot);
        visit(scope->body);
      } else if (const auto* loop = std::get_if<For>(&s.action)) {
        visit(loop->body);
      } else if (const auto* branch = std::get_if<If>(&s.action)) {
        visit(branch->then);
        visit(branch->otherwise);
      }
    }
  };
  for (const Slot& slot : program_.slots) add(slot);
  visit(program_.body);
  for (const Function& function : program_.functions) visit(function.body);
}

std::int32_t Flattener::step(StepKind kind, std::int32_t target) {
  code_.steps.push_back({});
  code_.steps.back().kind = kind;
  code_.steps.back().target = target;
  return here() - 1;
}

void Flattener::emit(const Block& block) {
  for (const Statement& s : block) {
    worked(256);
    place_ = s.label.empty() ? "statement " + std::to_string(code_.instructions.size()) : s.label;
    if (!function_.empty()) place_ += " of function " + function_;
    std::visit([&](const auto& action) { emit(s, action); }, s.action);
  }
}

void Flattener::emit(const Statement&, const For& a) {
  CompiledExpr extent = compile(a.extent);
  const std::int32_t begin = step(StepKind::loop_begin);
  const std::int32_t index = declare(a.index), loop = code_.loops++;
  code_.loop_names.push_back(a.index);
  emit(a.body);
  forget(a.index);
  const std::int32_t end = step(StepKind::loop_end, begin + 1);
  at(begin).target = end + 1;
  at(begin).expr = std::move(extent);
  for (const std::int32_t both : {begin, end}) {
    at(both).slot = index;
    at(both).loop = loop;
  }
}

void Flattener::emit(const Statement&, const If& a) {
  const std::int32_t branch = step(StepKind::branch);
  at(branch).expr = compile(a.condition);
  emit(a.then);
  if (a.otherwise.empty()) {
    at(branch).target = here();
    return;
  }
  const std::int32_t skip = step(StepKind::jump);
  at(branch).target = here();
  emit(a.otherwise);
  at(skip).target = here();
}

void Flattener::emit(const Statement&, const Call& a) {
  const auto found = function_ids_.find(a.function);
  if (found == function_ids_.end()) {
    std::vector<std::string> known;
    for (const Function& f : program_.functions) known.push_back(f.name);
    throw UserError({"Unknown function.", place_, "'" + a.function + "'", join(known), nearest(a.function, known)});
  }
  for (const std::string& formal : program_.functions[found->second].tensors) {
    if (!a.tensors.count(formal)) {
      throw UserError(
          {"A call leaves a tensor unbound.", place_ + ", function " + a.function, "'" + formal + "'", {}, {}});
    }
  }
  PendingCall pending{step(StepKind::call), found->second, static_cast<std::int32_t>(code_.calls.size()), {}, {}};
  at(pending.at).call = pending.site;
  code_.calls.emplace_back().call = &a;
  for (const auto& [formal, actual] : a.tensors) pending.tensors.emplace_back(formal, tensor(actual));
  for (const auto& [formal, value] : a.parameters) pending.parameters.emplace_back(formal, compile(value));
  pending_.push_back(std::move(pending));
}

void Flattener::emit(const Statement& s, const Scope& a) {
  const int outer = scope_;
  scope_ = static_cast<int>(compiled_.scopes.size());
  compiled_.scopes.push_back({&a, function_});
  instruction(Opcode::scope_begin, s, StepKind::scope_begin);
  for (const Slot& declared : a.slots) add_slot(declared, scope_);
  emit(a.body);
  instruction(Opcode::scope_end, s, StepKind::scope_end);
  for (const Slot& declared : a.slots) slots_[declared.name].pop_back();
  scope_ = outer;
}

void Flattener::flatten_functions() {
  flat_.resize(program_.functions.size());
  for (std::size_t next = 0; next < pending_.size(); ++next) {
    const std::size_t f = pending_[next].function;
    if (!flat_[f].done) flatten(f);
    patch(pending_[next]);
  }
  check_recursion();
}

void Flattener::flatten(std::size_t f) {
  const Function& function = program_.functions[f];
  Flat& flat = flat_[f];
  flat.done = true;
  flat.entry = here();
  function_ = function.name;
  scope_ = -1;
  const auto base = static_cast<std::int32_t>(compiled_.tensors.size());
  for (const std::string& formal : function.tensors) {
    flat.formals[formal] = base + code_.formals++;
    code_.formal_names.push_back(formal);
    formal_ids_[formal] = flat.formals[formal];
  }
  for (const std::string& parameter : function.parameters) flat.parameters[parameter] = declare(parameter);
  const std::size_t first = pending_.size();
  emit(function.body);
  for (std::size_t i = first; i < pending_.size(); ++i) callees_[f].push_back(pending_[i].function);
  for (const std::string& parameter : function.parameters) forget(parameter);
  step(StepKind::leave);
  formal_ids_.clear();
}

void Flattener::patch(const PendingCall& call) {
  const Flat& flat = flat_[call.function];
  const std::string& name = program_.functions[call.function].name;
  at(call.at).target = flat.entry;
  CallSite& site = code_.calls[static_cast<std::size_t>(call.site)];
  site.function = name;
  const auto base = static_cast<std::int32_t>(compiled_.tensors.size());
  for (const auto& [formal, actual] : call.tensors) {
    const auto found = flat.formals.find(formal);
    if (found == flat.formals.end()) {
      throw UserError({"A call binds an unknown tensor.", name, "'" + formal + "'", {}, {}});
    }
    site.tensors.emplace_back(found->second - base, actual);
  }
  for (const auto& [formal, value] : call.parameters) {
    const auto found = flat.parameters.find(formal);
    if (found == flat.parameters.end()) {
      throw UserError({"A call binds an unknown parameter.", name, "'" + formal + "'", {}, {}});
    }
    site.parameters.emplace_back(found->second, value);
  }
  if (call.parameters.size() != flat.parameters.size()) {
    throw UserError({"A call leaves a parameter unbound.", name, {}, {}, {}});
  }
}

void Flattener::check_recursion() const {
  constexpr int depth_limit = 1000;
  std::vector<int> state(program_.functions.size(), 0);
  const std::function<void(std::size_t, int)> walk = [&](std::size_t f, int depth) {
    const std::string& name = program_.functions[f].name;
    if (state[f] == 2) return;
    if (state[f] == 1) throw UserError({"A function calls itself.", name, {}, {}, {}});
    if (depth > depth_limit)
      throw UserError({"Calls are nested too deeply.", name, {}, "at most " + std::to_string(depth_limit), {}});
    state[f] = 1;
    if (const auto found = callees_.find(f); found != callees_.end()) {
      for (const std::size_t callee : found->second) walk(callee, depth + 1);
    }
    state[f] = 2;
  };
  for (std::size_t f = 0; f < state.size(); ++f) walk(f, 0);
}

}  // namespace tilesim::program
