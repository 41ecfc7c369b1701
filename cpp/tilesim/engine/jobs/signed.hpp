// Signatures of a program's computes. A signature identifies a compute to a kernel model.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "tilesim/program/flat/cursor.hpp"
#include "tilesim/tile/tile.hpp"

namespace tilesim::engine {

struct SignedCompute final : ComputeSource {
  explicit SignedCompute(TileCompute of) : value(std::move(of)), signature(signature_of(value)) {}
  TileCompute compute() const override { return value; }

  TileCompute value;
  std::uint64_t signature;
};

/// Creates the signature of each compute once per instruction and shape of its operands.
class SignedComputes {
 public:
  explicit SignedComputes(const program::CompiledProgram& program) : program_(program) {}
  /// The signature of the cursor's current instruction; its address does not change.
  const SignedCompute& find(const program::Cursor& cursor, std::int64_t core, const program::Instruction& instruction);

 private:
  using Key = std::vector<std::int64_t>;  ///< all numbers on which the signature depends
  struct OfInstruction {
    std::map<Key, SignedCompute> cached;
    const std::pair<const Key, SignedCompute>* last = nullptr;
  };
  void describe(const program::Cursor& cursor, const program::Instruction& instruction);

  const program::CompiledProgram& program_;
  std::vector<OfInstruction> by_instruction_;  ///< per instruction, filled at its first use
  Key key_;                                    ///< key of the current lookup
};

}  // namespace tilesim::engine
