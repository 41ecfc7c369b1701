// User-defined instructions as entries of the instruction table.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "tilesim/isa/table/instruction_set.hpp"
#include "tilesim/machine/machine.hpp"

namespace tilesim::isa {

/// One operand that a meaning is given, or what it writes.
struct UserOperand {
  Sort sort = Sort::v;
  Slot slot = slot_rs1;
};

struct UserEntry {
  InstructionInfo info;            ///< without its meaning
  std::vector<UserOperand> takes;  ///< in the order of the text
  std::optional<UserOperand> writes;
};
/// Throws UserError for an operand that no instruction of the user's has.
UserEntry entry_of(const UserInstruction& instruction);

/// A meaning as machines carry it.
class HeldMeaning : public InstructionMeaning {
 public:
  explicit HeldMeaning(std::shared_ptr<const Meaning> held) : meaning(std::move(held)) {}
  const std::shared_ptr<const Meaning> meaning;
};

/// The standard table with the instructions that the machine's kernels take for functions. One whose meaning the
/// machine does not have cannot be executed.
std::shared_ptr<const InstructionSet> set_of(const Machine& machine);

}  // namespace tilesim::isa
