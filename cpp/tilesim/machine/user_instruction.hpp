// User-defined instructions of a machine file; kernels use them for elementwise functions.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tilesim/base/functions/functions.hpp"
#include "tilesim/base/json/json.hpp"

namespace tilesim {

/// The effect of an instruction; only the isa module reads it.
class InstructionMeaning {
 public:
  virtual ~InstructionMeaning() = default;
};

/// A unit that a core has in addition to the standard units.
struct UserUnit {
  std::string name;
  std::int64_t queue = 4, pipes = 1;
  friend bool operator==(const UserUnit&, const UserUnit&) = default;
};

struct UserInstruction {
  std::string text;  ///< mnemonic and operands: "my.vexp2 vd, vs2"; "vd+": reads the old vd, too
  std::uint32_t match = 0, mask = 0;
  std::string element;                        ///< "f32", ...; empty: SEW wide
  unsigned width = 0;                         ///< bits of an element; 0: any
  std::string unit;                           ///< kind of pipe: "arithmetic", "special", ...
  std::optional<UserUnit> custom;             ///< replaces `unit`
  std::optional<double> per_register, whole;  ///< cycles that it occupies its pipe
  std::optional<double> latency;
  std::string description;
  std::shared_ptr<const InstructionMeaning> meaning;  ///< null for a machine that was read from a file

  std::string name() const { return text.substr(0, text.find(' ')); }
  std::string operands() const;  ///< operands without "+"
  bool reads_old() const { return text.find('+') != std::string::npos; }
  /// Cycles per register or in total; empty: those of the unit's class.
  std::optional<double> cycles() const { return per_register ? per_register : whole; }
  /// Whether both declarations are equal, except for `meaning`.
  bool declared_as(const UserInstruction& other) const;
};

/// User-defined instructions by the function that they implement in kernels.
using UserInstructions = std::map<Function, UserInstruction>;

/// Throws UserError if operands or element type do not allow the instruction to implement the function.
void check_stands_for(const UserInstruction& instruction, Function function);
Json to_json(const UserInstructions& instructions);
/// Reads instructions. A declaration equal to one in `known` gets its `meaning`. Throws UserError with the place.
UserInstructions user_instructions(const Json& json, const UserInstructions& known);

}  // namespace tilesim
