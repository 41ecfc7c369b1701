// Off-chip memory during execution: one array per tensor that owns its bytes.
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
  /// Inputs, weights and state come from `inputs` (UserError if missing, unknown or of another type); the others start
  /// poisoned. `planned`: temporaries and outputs lie in one memory, where the memory plan has them.
  Tensors(const CompiledProgram& program, const std::map<std::string, Array>& inputs, bool poison,
          bool planned = false);

  std::int64_t read(int tensor, const std::int64_t* index, int rank) const override;
  /// Element of an integer tensor by its row-major position.
  std::int64_t read_flat(int tensor, std::int64_t position) const;

  std::byte* bytes(int tensor) { return arrays_[storage(tensor)].bytes(); }
  /// The same, for writing: what the caller gave is copied first.
  std::byte* writable(int tensor);
  /// Fills what is free from this kernel on with poison, where tensors are planned. `calls`: those under way.
  void begin_kernel(const std::vector<const Call*>& calls, const Scope* scope);
  /// A view that shares the bytes.
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
  std::map<std::string, std::int64_t> places_;  ///< byte of `memory_` that a planned tensor starts at
  bool planned_ = false;                        ///< tensors share bytes by kernel
  MemoryPlan plan_;
  std::multimap<std::int64_t, int> last_;  ///< planned tensors by a kernel behind which their bytes are free
  std::int64_t kernel_ = -1;               ///< under way
  std::shared_ptr<std::vector<std::byte>> memory_;
};

/// Fills with NaN, an extreme integer, or true.
void poison(std::byte* data, DType dtype, std::int64_t count);

}  // namespace tilesim::program
