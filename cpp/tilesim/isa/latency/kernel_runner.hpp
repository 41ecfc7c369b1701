// A hart and a memory that many kernels share, so that code is decoded once and pages exist already.
#pragma once

#include <memory>
#include <vector>

#include "tilesim/isa/pipeline/timing.hpp"
#include "tilesim/isa/schedule/code.hpp"
#include "tilesim/isa/state/hart.hpp"
#include "tilesim/isa/state/npu.hpp"

namespace tilesim::isa {

class KernelRunner {
 public:
  KernelRunner(std::shared_ptr<const InstructionSet> set, std::uint32_t vlen, NpuSpec spec);

  /// The scratchpad, with at least this many bytes from `scratchpad_base` on; it keeps data of earlier kernels.
  Memory& scratchpad(std::int64_t bytes);
  bool has_room(const Kernel& kernel) const;
  /// Places code and returns its address; there must be space.
  Address place(const Kernel& kernel);
  /// Removes all code.
  void clear();
  /// Runs code from `place`. Returns false if it reached `ebreak`, because an operand is invalid; throws InternalError
  /// if it does not return otherwise.
  bool run(Address code);

 private:
  Memory memory_;
  Hart hart_;
  NpuSpec spec_;
  Address scratchpad_end_ = scratchpad_base, next_;
};

}  // namespace tilesim::isa
