// Instructions that combine two registers with the combiner of a scatter.
#pragma once

#include "tilesim/isa/schedule/code.hpp"
#include "tilesim/tile/tile.hpp"

namespace tilesim::isa {

/// Combines elements of one type in groups of registers, up to four groups at a time.
class CombineWriter {
 public:
  /// Throws Unsupported if no instruction combines them.
  CombineWriter(DType dtype, Combiner combiner);

  /// log2 of registers per group, if a slot needs a new value, an old value, and scratch space.
  int most_group() const { return wide_ ? 1 : 2; }
  int slots(int group) const { return (wide_ ? 4 : 16) >> group; }
  unsigned fresh(int slot, int group) const { return static_cast<unsigned>(slot * (wide_ ? 8 : 2) << group); }
  unsigned old(int slot, int group) const { return fresh(slot, group) + (1U << group); }
  /// old = old (combiner) fresh
  void combine(Code& code, std::int64_t elements, int group, int slot) const;

 private:
  DType dtype_;
  const char* name_ = nullptr;
  bool wide_ = false;  ///< 16-bit floats are combined in 32 bits
};

}  // namespace tilesim::isa
