// User-defined instructions as entries of the instruction table.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "tilesim/isa/table/instruction_set.hpp"
#include "tilesim/machine/machine.hpp"

namespace tilesim::isa {

/// An operand that a meaning reads or writes.
struct UserOperand {
  Sort sort = Sort::v;
  Slot slot = slot_rs1;
};

struct UserEntry {
  InstructionInfo info;            ///< without its meaning
  std::vector<UserOperand> takes;  ///< operands in text order
  std::optional<UserOperand> writes;
};
/// Throws UserError for an operand that user-defined instructions do not support.
UserEntry entry_of(const UserInstruction& instruction);

/// A meaning as stored in a machine.
class HeldMeaning : public InstructionMeaning {
 public:
  explicit HeldMeaning(std::shared_ptr<const Meaning> held) : meaning(std::move(held)) {}
  const std::shared_ptr<const Meaning> meaning;
};

/// The standard table with the machine's user-defined instructions. An instruction whose meaning the machine lacks
/// cannot be executed.
std::shared_ptr<const InstructionSet> set_of(const Machine& machine);

}  // namespace tilesim::isa
