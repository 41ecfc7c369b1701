#include "tilesim/program/flat/cursor.hpp"

#include "tilesim/base/error.hpp"
#include "tilesim/program/flat/compiled.hpp"

namespace tilesim::program {

Cursor::Cursor(const CompiledProgram& program, std::int64_t core, std::int64_t context,
               const CompiledExpr::TensorReader* reader)
    : program_(&program), reader_(reader) {
  const CompiledProgram::Code& code = *program.code_;
  environment_.assign(static_cast<std::size_t>(code.environment_size), 0);
  acquired_.assign(program.slots.size(), 0);
  limits_.assign(static_cast<std::size_t>(code.loops), 0);
  bindings_.assign(static_cast<std::size_t>(code.formals), -1);
  for (const auto& [slot, value] : code.parameters) environment_[static_cast<std::size_t>(slot)] = value;
  environment_[static_cast<std::size_t>(code.core_slot)] = core;
  environment_[static_cast<std::size_t>(code.context_slot)] = context;
}

namespace {
/// Limit on consecutive loop trips, branches and calls without a statement. A larger number is an error, because it
/// would look like a hang.
constexpr std::int64_t idle_limit = std::int64_t{1} << 26;
}  // namespace

int Cursor::tensor(int id) const {
  const int known = static_cast<int>(program_->tensors.size());
  return id < known ? id : bindings_[static_cast<std::size_t>(id - known)];
}

const Instruction* Cursor::next() {
  const CompiledProgram::Code& code = *program_->code_;
  for (std::int64_t idle = 0; idle < idle_limit; ++idle) {
    if ((idle & 0xFFFF) == 0xFFFF && cancel_) cancel_->poll();
    const Step& step = code.steps[static_cast<std::size_t>(pc_)];
    switch (step.kind) {
      case StepKind::leaf: {
        ++pc_;
        const Instruction& instruction = code.instructions[static_cast<std::size_t>(step.target)];
        if (instruction.opcode == Opcode::acquire || instruction.opcode == Opcode::receive)
          ++acquired_[static_cast<std::size_t>(instruction.slot)];
        return &instruction;
      }
      case StepKind::scope_begin: {
        ++pc_;
        const Instruction& instruction = code.instructions[static_cast<std::size_t>(step.target)];
        scopes_.push_back(scope_);
        scope_ = instruction.scope;
        return &instruction;
      }
      case StepKind::scope_end:
        ++pc_;
        scope_ = scopes_.back();
        scopes_.pop_back();
        return &code.instructions[static_cast<std::size_t>(step.target)];
      case StepKind::loop_begin: {
        const std::int64_t limit = value(step.expr);
        if (limit <= 0) {
          pc_ = step.target;
          break;
        }
        limits_[static_cast<std::size_t>(step.loop)] = limit;
        environment_[static_cast<std::size_t>(step.slot)] = 0;
        ++pc_;
        break;
      }
      case StepKind::loop_end:
        if (++environment_[static_cast<std::size_t>(step.slot)] < limits_[static_cast<std::size_t>(step.loop)])
          pc_ = step.target;
        else
          ++pc_;
        break;
      case StepKind::branch:
        pc_ = value(step.expr) != 0 ? pc_ + 1 : step.target;
        break;
      case StepKind::jump:
        pc_ = step.target;
        break;
      case StepKind::call: {
        const CallSite& site = code.calls[static_cast<std::size_t>(step.call)];
        for (const auto& [formal, actual] : site.tensors) bindings_[static_cast<std::size_t>(formal)] = tensor(actual);
        for (const auto& [slot, expr] : site.parameters) environment_[static_cast<std::size_t>(slot)] = value(expr);
        returns_.push_back(pc_ + 1);
        calls_.push_back(++call_count_);
        sites_.push_back(step.call);
        pc_ = step.target;
        break;
      }
      case StepKind::leave:
        pc_ = returns_.back();
        returns_.pop_back();
        calls_.pop_back();
        sites_.pop_back();
        break;
      case StepKind::halt:
        return nullptr;
    }
  }
  throw UserError({"Loops and branches run without reaching a statement.",
                   where(),
                   std::to_string(idle_limit) + " steps",
                   "fewer in a row",
                   {}});
}

std::map<std::string, std::string> Cursor::bindings() const {
  std::map<std::string, std::string> names;
  const std::vector<std::string>& formals = program_->code_->formal_names;
  for (std::size_t i = 0; i < formals.size(); ++i)
    if (bindings_[i] >= 0) names[formals[i]] = program_->tensors[static_cast<std::size_t>(bindings_[i])].name;
  return names;
}

std::vector<std::pair<std::int64_t, std::string>> Cursor::calls() const {
  std::vector<std::pair<std::int64_t, std::string>> chain;
  for (std::size_t i = 0; i < calls_.size(); ++i)
    chain.emplace_back(calls_[i], program_->code_->calls[static_cast<std::size_t>(sites_[i])].function);
  return chain;
}

std::vector<const Call*> Cursor::call_path() const {
  std::vector<const Call*> path;
  for (const std::int32_t site : sites_) path.push_back(program_->code_->calls[static_cast<std::size_t>(site)].call);
  return path;
}

std::string Cursor::where() const {
  std::string text, function;
  const auto add = [&](int scope) {
    if (scope < 0) return;
    const CompiledScope& entry = program_->scopes[static_cast<std::size_t>(scope)];
    if (entry.function != function && !entry.function.empty()) text += (text.empty() ? "" : "/") + entry.function;
    function = entry.function;
    if (!entry.scope->kernel.empty()) text += (text.empty() ? "" : "/") + entry.scope->kernel;
  };
  for (const std::int32_t scope : scopes_) add(scope);
  add(scope_);
  return text;
}

}  // namespace tilesim::program
