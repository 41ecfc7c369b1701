// The steps of a CompiledProgram: control flow as a flat vector.
#pragma once

#include <optional>

#include "tilesim/program/flat/cursor.hpp"

namespace tilesim::program {

enum class StepKind : std::uint8_t {
  leaf,
  scope_begin,
  scope_end,
  loop_begin,
  loop_end,
  branch,
  jump,
  call,
  leave,
  halt
};

struct Step {
  StepKind kind = StepKind::halt;
  std::int32_t target = 0;  ///< target of a jump, or index of the instruction
  std::int32_t slot = -1;   ///< loop: environment index of its variable
  std::int32_t loop = -1;   ///< loop: index into the cursor's limits
  CompiledExpr expr;        ///< extent of a loop, condition of a branch
  std::int32_t call = -1;   ///< call: index into Code::calls
};

struct CallSite {
  std::string function;
  const Call* call = nullptr;
  std::vector<std::pair<std::int32_t, std::int32_t>> tensors;     ///< formal index -> tensor id (may be a formal, too)
  std::vector<std::pair<std::int32_t, CompiledExpr>> parameters;  ///< environment index -> value
};

struct CompiledProgram::Code {
  std::optional<Program> copy;  ///< set if this object owns a copy of the program
  const Program* program = nullptr;
  std::vector<Instruction> instructions;
  std::vector<Step> steps;
  std::vector<CallSite> calls;
  std::vector<std::string> loop_names;
  std::int32_t environment_size = 0;
  std::int32_t loops = 0;
  std::int32_t formals = 0;
  std::vector<std::string> formal_names;
  std::int32_t core_slot = 0, context_slot = 0;
  std::vector<std::pair<std::int32_t, std::int64_t>> parameters;  ///< environment index -> value
};

}  // namespace tilesim::program
