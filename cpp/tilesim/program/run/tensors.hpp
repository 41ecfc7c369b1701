// Off-chip memory during execution: one array per tensor that is not an alias.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tilesim/base/array.hpp"
#include "tilesim/program/flat/cursor.hpp"
#include "tilesim/program/memory_plan.hpp"

namespace tilesim::program {

class Tensors final : public CompiledExpr::TensorReader {
 public:
  /// Inputs, weights and state come from `inputs`; other tensors start poisoned. Throws UserError if an input is
  /// missing, unknown or of another type. `planned`: temporaries and outputs share memory as in the memory plan.
  Tensors(const CompiledProgram& program, const std::map<std::string, Array>& inputs, bool poison,
          bool planned = false);

  std::int64_t read(int tensor, const std::int64_t* index, int rank) const override;
  /// Element of an integer tensor at a row-major position.
  std::int64_t read_flat(int tensor, std::int64_t position) const;

  std::byte* bytes(int tensor) { return arrays_[storage(tensor)].bytes(); }
  /// Like `bytes`, for writing: copies an array of the caller first.
  std::byte* writable(int tensor);
  /// Poisons planned tensors whose bytes are free from this kernel on. `calls`: the active calls.
  void begin_kernel(const std::vector<const Call*>& calls, const Scope* scope);
  /// An Array on the bytes of a tensor.
  Array view(int tensor) const;
  /// Outputs and final state by name.
  std::map<std::string, Array> results() const;

 private:
  std::size_t storage(int tensor) const {
    return static_cast<std::size_t>(program_.tensors[static_cast<std::size_t>(tensor)].storage);
  }
  void bind(std::size_t tensor, const std::map<std::string, Array>& inputs, bool poison);
  void plan();

  const CompiledProgram& program_;
  std::vector<Array> arrays_;  ///< by tensor id; empty for aliases
  std::vector<bool> owned_;
  std::map<std::string, std::int64_t> places_;  ///< by planned tensor: its first byte in `memory_`
  bool planned_ = false;                        ///< whether tensors share bytes over time
  MemoryPlan plan_;
  std::multimap<std::int64_t, int> last_;  ///< planned tensors by the last kernel that uses them
  std::int64_t kernel_ = -1;               ///< number of the current kernel
  std::shared_ptr<std::vector<std::byte>> memory_;
};

/// Fills data with NaN, an extreme integer, or true.
void poison(std::byte* data, DType dtype, std::int64_t count);

}  // namespace tilesim::program
