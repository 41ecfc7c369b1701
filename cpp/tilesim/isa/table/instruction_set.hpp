// All instructions of a hart. The set is built and checked once, and is then read-only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tilesim/isa/table/instruction.hpp"
#include "tilesim/isa/table/operands.hpp"

namespace tilesim::isa {

/// An immutable value: `extend` returns a new set. Reading is thread-safe.
class InstructionSet {
 public:
  /// The standard table: RV64IMAFDC, Zicsr, Zifencei, Zba, Zbb, Zbs, Zfh, V and NPU instructions.
  static std::shared_ptr<const InstructionSet> standard();
  /// Throws UserError if two encodings overlap (naming both), a name occurs twice, or operands and code share bits.
  explicit InstructionSet(std::vector<InstructionInfo> entries);

  /// Throws like the constructor.
  std::shared_ptr<const InstructionSet> extend(InstructionInfo added) const;

  /// The instruction with these bits; null: none. A compressed instruction needs the low 16 bits only.
  const InstructionInfo* find(std::uint32_t bits) const;
  /// Decodes an instruction; if `find` returns null, the Op's `run` traps as illegal.
  Op decode(std::uint32_t bits, std::uint64_t pc) const;

  const InstructionInfo* named(std::string_view name) const;
  /// The user-defined instruction that kernels use for a function; null: none.
  const InstructionInfo* taken_for(Function function) const;
  const InstructionInfo& info(std::uint16_t id) const { return entries_[id]; }
  const std::vector<OperandPart>& parts(std::uint16_t id) const { return parts_[id]; }
  std::uint16_t id(const InstructionInfo& info) const { return static_cast<std::uint16_t>(&info - entries_.data()); }
  std::span<const InstructionInfo> all() const { return entries_; }

 private:
  void check(std::uint16_t id) const;
  void index(std::uint16_t id);

  std::vector<InstructionInfo> entries_;
  std::vector<std::vector<OperandPart>> parts_;
  struct NameHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view name) const { return std::hash<std::string_view>{}(name); }
  };
  std::unordered_map<std::string, std::uint16_t, NameHash, std::equal_to<>> names_;
  std::vector<std::vector<std::uint16_t>> buckets_;  ///< 32-bit instructions, by opcode, funct3 and funct6
  std::vector<std::uint16_t> compressed_;            ///< by their 16 bits; 0xFFFF: none
};

/// The tables, one for each file `table_*.cpp`.
void declare_base(Declarations& table);
void declare_multiply(Declarations& table);
void declare_atomic(Declarations& table);
void declare_float(Declarations& table);
void declare_compressed(Declarations& table);
void declare_bits(Declarations& table);
void declare_system(Declarations& table);
/// Declares all tables of vector/.
void declare_vector(Declarations& table);

/// Declares arrays, special functions and moves of an NPU core: npu/.
void declare_npu(Declarations& table);

/// Executes an undefined instruction: traps.
void run_illegal(Hart& hart, const Op& op);
/// Executes a vector instruction: checks once per vtype, then calls `by_width` (vector/check.cpp).
void run_vector(Hart& hart, const Op& op);
/// Executes a user-defined instruction.
void run_meaning(Hart& hart, const Op& op);

}  // namespace tilesim::isa
