// Instructions that combine two registers by the combiner of a scatter.
#pragma once

#include "tilesim/isa/schedule/code.hpp"
#include "tilesim/tile/tile.hpp"

namespace tilesim::isa {

/// Combines `elements` of one type in groups of registers, four at a time.
class CombineWriter {
 public:
  /// Unsupported if no instruction combines them.
  CombineWriter(DType dtype, Combiner combiner);

  /// Registers per group when values of one type need a new one, an old one, and space.
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
