// Values of integer tensors that a program's loop bounds and addresses read during the simulation.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "tilesim/base/array.hpp"
#include "tilesim/engine/memory/traffic.hpp"
#include "tilesim/program/flat/cursor.hpp"

namespace tilesim::engine {

/// Supplies tensor values to expressions: from the job's arrays, or else the typical values in the program. Row indices
/// of transfers come from arrays only.
class ArrayReader final : public CompiledExpr::TensorReader, public NamedRows {
 public:
  /// Throws UserError if an array's shape differs from its tensor's.
  ArrayReader(const program::CompiledProgram& program, const std::map<std::string, Array>& tensors);
  std::int64_t read(int tensor, const std::int64_t* index, int rank) const override;
  std::span<const std::int64_t> values(int tensor) const override;
  bool used() const { return used_; }
  bool asked() const { return used_ || named_; }
  /// Per tensor that was read: "given", "weights: ..." or "default: ..." with its typical values.
  std::map<std::string, std::string> sources() const;
  /// A text that lists tensors whose typical values were assumed; empty if there are none.
  std::string assumed() const;

 private:
  const program::CompiledProgram& program_;
  std::vector<Array> arrays_;
  mutable bool used_ = false, named_ = false;
  mutable std::vector<bool> assumed_, given_, neighbours_, weights_;  ///< per tensor: how it was read
};

}  // namespace tilesim::engine
