// Compiles a program to steps and instructions: indices replace names, and control flow becomes a flat vector.
#pragma once

#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tilesim/program/flat/compiled.hpp"

namespace tilesim::program {

class Flattener {
 public:
  Flattener(CompiledProgram& compiled, CompiledProgram::Code& code);
  void run();

 private:
  // Defined in flatten_names.cpp: look up names in the current scope.
  int declare(const std::string& name);
  void forget(const std::string& name) { symbols_[name].pop_back(); }
  int symbol(const std::string& name) const;
  int tensor(const std::string& name) const;
  int queue(const std::string& name);
  int slot(const std::string& name) const;
  int counter(const std::string& name, bool semaphore) const;
  int any_counter(const std::string& name) const;
  void declare_tensors();
  void declare_tensor(const Tensor& tensor);
  void add_slot(const Slot& slot, int scope);
  CompiledExpr compile(const Expr& expr) const;
  std::vector<CompiledExpr> compile(const std::vector<Expr>& list) const;
  CompiledView view(const View& view) const;
  CompiledTransfer transfer(const Transfer& transfer) const;

  // Defined in flatten.cpp: control flow.
  std::int32_t step(StepKind kind, std::int32_t target = 0);
  std::int32_t here() const { return static_cast<std::int32_t>(code_.steps.size()); }
  Step& at(std::int32_t step) { return code_.steps[static_cast<std::size_t>(step)]; }
  void emit(const Block& block);
  void emit(const Statement& statement, const For& loop);
  void emit(const Statement& statement, const If& branch);
  void emit(const Statement& statement, const Call& call);
  void emit(const Statement& statement, const Scope& scope);
  struct PendingCall {
    std::int32_t at;
    std::size_t function;
    std::int32_t site;
    std::vector<std::pair<std::string, int>> tensors;
    std::vector<std::pair<std::string, CompiledExpr>> parameters;
  };
  struct Flat {
    bool done = false;
    std::int32_t entry = -1;
    std::map<std::string, std::int32_t> formals;     ///< by name: tensor id
    std::map<std::string, std::int32_t> parameters;  ///< by name: environment index
  };
  void flatten_functions();
  void flatten(std::size_t function);
  void patch(const PendingCall& call);
  void check_sizes() const;
  void check_recursion() const;

  // Defined in flatten_leaves.cpp: statements that become one instruction.
  Instruction& instruction(Opcode opcode, const Statement& statement, StepKind kind = StepKind::leaf);
  void emit(const Statement& statement, const Acquire& action);
  void emit(const Statement& statement, const Receive& action);
  void emit(const Statement& statement, const Commit& action);
  void emit(const Statement& statement, const Release& action);
  void emit(const Statement& statement, const Wait& action);
  void emit(const Statement& statement, const Signal& action);
  void emit(const Statement& statement, const Load& action);
  void emit(const Statement& statement, const Store& action);
  void emit(const Statement& statement, const MmaOp& action);
  void emit(const Statement& statement, const VectorOp& action);
  void emit(const Statement& statement, const PermuteOp& action);
  void emit(const Statement& statement, const IndexedOp& action);
  void emit(const Statement& statement, const SortOp& action);
  void emit(const Statement& statement, const OpaqueOp& action);
  void emit(const Statement& statement, const Send& action);

  CompiledProgram& compiled_;
  CompiledProgram::Code& code_;
  const Program& program_;
  std::map<std::string, std::vector<int>> symbols_, slots_;  ///< innermost declaration last
  std::map<std::string, int> tensor_ids_, formal_ids_;
  std::unordered_map<std::string, std::size_t> function_ids_;
  std::unordered_map<std::string, int> counter_ids_;  ///< of counters with equal names, the first
  std::map<std::size_t, std::vector<std::size_t>> callees_;
  std::vector<PendingCall> pending_;
  std::vector<Flat> flat_;
  std::string place_, function_;
  int next_symbol_ = 0;
  int scope_ = -1;
};

}  // namespace tilesim::program
