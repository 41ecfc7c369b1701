// A hart and a memory that are reused for many kernels: code is decoded once and pages exist already.
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

  /// Scratchpad of at least so many bytes from `scratchpad_base` on; kernels before have left theirs in it.
  Memory& scratchpad(std::int64_t bytes);
  bool has_room(const Kernel& kernel) const;
  /// Where the code stands from now on; there must be room.
  Address place(const Kernel& kernel);
  /// Takes all code away.
  void clear();
  /// Runs what `place` has placed. False: it met `ebreak`, which says that an operand has no meaning; InternalError
  /// where it does not return otherwise.
  bool run(Address code);

 private:
  Memory memory_;
  Hart hart_;
  NpuSpec spec_;
  Address scratchpad_end_ = scratchpad_base, next_;
};

}  // namespace tilesim::isa
