// A user-defined instruction of a machine file, which kernels use for elementwise functions.
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

/// The effect of an instruction; only the isa module uses its content.
class InstructionMeaning {
 public:
  virtual ~InstructionMeaning() = default;
};

/// A unit in addition to those that every core has.
struct UserUnit {
  std::string name;
  std::int64_t queue = 4, pipes = 1;
  friend bool operator==(const UserUnit&, const UserUnit&) = default;
};

struct UserInstruction {
  std::string text;  ///< mnemonic and operands: "my.vexp2 vd, vs2"; "+" after a destination: reads its old value
  std::uint32_t match = 0, mask = 0;
  std::string element;                        ///< "f32", ...; empty: SEW wide
  unsigned width = 0;                         ///< bits of an element; 0: any
  std::string unit;                           ///< pipe: "arithmetic", "special", ...
  std::optional<UserUnit> custom;             ///< replaces `unit`
  std::optional<double> per_register, whole;  ///< cycles for which it occupies its pipe
  std::optional<double> latency;
  std::string description;
  std::shared_ptr<const InstructionMeaning> meaning;  ///< null for a machine read from a file

  std::string name() const { return text.substr(0, text.find(' ')); }
  std::string operands() const;  ///< as in the table, without "+"
  bool reads_old() const { return text.find('+') != std::string::npos; }
  /// Cycles per register; empty: those of its unit's class.
  std::optional<double> cycles() const { return per_register ? per_register : whole; }
  /// Whether everything except the meaning is equal.
  bool declared_as(const UserInstruction& other) const;
};

/// User-defined instructions by the function that they replace in kernels.
using UserInstructions = std::map<Function, UserInstruction>;

/// Throws UserError if the instruction cannot replace the function: operands, element.
void check_stands_for(const UserInstruction& instruction, Function function);
Json to_json(const UserInstructions& instructions);
/// Reads instructions; equal declarations in `known` keep their meanings. Throws UserError with the place.
UserInstructions user_instructions(const Json& json, const UserInstructions& known);

}  // namespace tilesim
