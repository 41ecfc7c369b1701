#include "tilesim/program/flat/compiled.hpp"

#include "tilesim/program/flat/flatten.hpp"

namespace tilesim::program {

CompiledProgram::CompiledProgram(Program program) : code_(std::make_unique<Code>()) {
  code_->program = &code_->copy.emplace(std::move(program));
  Flattener(*this, *code_).run();
}
CompiledProgram::CompiledProgram(const Program* program) : code_(std::make_unique<Code>()) {
  code_->program = program;
  Flattener(*this, *code_).run();
}
CompiledProgram::~CompiledProgram() = default;
CompiledProgram::CompiledProgram(CompiledProgram&&) noexcept = default;
const Program& CompiledProgram::program() const { return *code_->program; }
const std::vector<Instruction>& CompiledProgram::instructions() const { return code_->instructions; }

}  // namespace tilesim::program
