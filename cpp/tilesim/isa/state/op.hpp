// A decoded instruction with the function that executes it.
#pragma once

#include <cstdint>
#include <string>

namespace tilesim::isa {

struct Hart;
struct Op;

/// Executes a decoded instruction. `hart.pc` is already the address after the block: only jumps and taken branches
/// write it. Throws Trap without any change of state.
using Execute = void (*)(Hart& hart, const Op& op);

/// Destination register for writes to x0, so that instructions need no check.
inline constexpr std::uint8_t no_register = 32;

struct Op {
  Execute run = nullptr;
  /// Vector instructions: function for the vtype in `key`, after the check of group rules.
  mutable Execute resolved = nullptr;
  std::int64_t imm = 0;
  std::uint64_t pc = 0;
  std::uint8_t rd = 0;  ///< x registers: `no_register` for x0; f and v registers by number
  std::uint8_t rs1 = 0, rs2 = 0, rs3 = 0;
  std::uint8_t rm = 0;  ///< rounding mode, 7: the mode in frm; of vector instructions `vm`, 1: unmasked
  std::uint8_t length = 4;
  std::uint16_t id = 0;           ///< id of its InstructionInfo in the InstructionSet
  std::uint32_t bits = 0;         ///< bits in memory; the upper half of a compressed instruction is 0
  mutable std::uint32_t key = 0;  ///< see `resolved`; 0: none
};

/// Causes as in mcause (privileged architecture 1.12, table 3.6), and three additional ones.
enum class Cause : std::uint8_t {
  fetch_misaligned = 0,
  fetch_fault = 1,
  illegal = 2,
  breakpoint = 3,
  load_misaligned = 4,
  load_fault = 5,
  store_misaligned = 6,
  store_fault = 7,
  call_from_user = 8,
  call_from_machine = 11,
  unknown_call = 64,  ///< an unsupported Linux call; value: its number
  aborted = 65,       ///< a signal that the program sent to itself; value: its number
  no_memory = 66,     ///< a page beyond the memory limit; value: the address
};

/// Thrown by an instruction that cannot complete.
struct Trap {
  Cause cause = Cause::illegal;
  std::uint64_t value = 0;  ///< the invalid address, or the instruction's bits
  std::string text;         ///< details beyond the cause; may be empty
};

/// Thrown by an environment, or by a store to `tohost`, when the program ends.
struct Exit { std::int64_t status = 0; };

/// "illegal instruction", "load from a bad address"...
const char* cause_text(Cause cause);

[[noreturn]] void illegal(const Op& op, const char* why);

}  // namespace tilesim::isa
