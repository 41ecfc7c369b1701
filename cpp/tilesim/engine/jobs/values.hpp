// Values of integer tensors that loops and addresses of a program read while it is timed.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tilesim/base/array.hpp"
#include "tilesim/program/flat/cursor.hpp"

namespace tilesim::engine {

/// Serves read() of expressions from arrays given with the job, else from what the program says is typical.
class ArrayReader final : public CompiledExpr::TensorReader {
 public:
  /// Throws UserError for an array of another shape than its tensor.
  ArrayReader(const program::CompiledProgram& program, const std::map<std::string, Array>& tensors);
  std::int64_t read(int tensor, const std::int64_t* index, int rank) const override;
  bool used() const { return used_; }
  /// Per tensor that was read: "given", or "default: " and what is typical of it.
  std::map<std::string, std::string> sources() const;
  /// One line for all tensors whose values were assumed; none: empty.
  std::string assumed() const;

 private:
  const program::CompiledProgram& program_;
  std::vector<Array> arrays_;
  mutable bool used_ = false;
  mutable std::vector<bool> assumed_, given_;  ///< tensors that were read
};

}  // namespace tilesim::engine
