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

/// What an instruction does; only the room of instructions looks into it.
class InstructionMeaning {
 public:
  virtual ~InstructionMeaning() = default;
};

/// A unit beside those that every core has.
struct UserUnit {
  std::string name;
  std::int64_t queue = 4, pipes = 1;
  friend bool operator==(const UserUnit&, const UserUnit&) = default;
};

struct UserInstruction {
  std::string text;  ///< mnemonic and operands: "my.vexp2 vd, vs2"; a "+" behind a destination: its old value is read
  std::uint32_t match = 0, mask = 0;
  std::string element;                        ///< "f32", ...; empty: as wide as SEW
  unsigned width = 0;                         ///< bits of an element; 0: any
  std::string unit;                           ///< pipe: "arithmetic", "special", ...
  std::optional<UserUnit> custom;             ///< instead of it
  std::optional<double> per_register, whole;  ///< cycles for which it holds its pipe
  std::optional<double> latency;
  std::string description;
  std::shared_ptr<const InstructionMeaning> meaning;  ///< null: of a machine that was read from a file

  std::string name() const { return text.substr(0, text.find(' ')); }
  std::string operands() const;  ///< as the table has them, without "+"
  bool reads_old() const { return text.find('+') != std::string::npos; }
  /// Cycles for each register that it is given; none: as its unit's class.
  std::optional<double> cycles() const { return per_register ? per_register : whole; }
  /// Whether all but the meaning is the same.
  bool declared_as(const UserInstruction& other) const;
};

/// Instructions by the function that kernels take them for.
using UserInstructions = std::map<Function, UserInstruction>;

/// Throws UserError where the instruction cannot stand for the function: operands, element.
void check_stands_for(const UserInstruction& instruction, Function function);
Json to_json(const UserInstructions& instructions);
/// Meanings of `known` stay with declarations that are the same. Throws UserError with the place.
UserInstructions user_instructions(const Json& json, const UserInstructions& known);

}  // namespace tilesim
