// Instructions that combine two registers by the combiner of a scatter.
#pragma once

#include "tilesim/isa/schedule/code.hpp"
#include "tilesim/tile/tile.hpp"

namespace tilesim::isa {

/// The `elements` of one type in groups of registers, four by four.
class CombineWriter {
 public:
  /// Unsupported where no instruction combines so.
  CombineWriter(DType dtype, Combiner combiner);

  /// Registers of a group that values of one type take beside each other: a new one, an old one, and room.
  int most_group() const { return wide_ ? 1 : 2; }
  int slots(int group) const { return (wide_ ? 4 : 16) >> group; }
  unsigned fresh(int slot, int group) const { return static_cast<unsigned>(slot * (wide_ ? 8 : 2) << group); }
  unsigned old(int slot, int group) const { return fresh(slot, group) + (1U << group); }
  /// old = old (combiner) fresh
  void combine(Code& code, std::int64_t elements, int group, int slot) const;

 private:
  DType dtype_;
  const char* name_ = nullptr;
  bool wide_ = false;  ///< floats of 16 bits are computed with in 32
};

}  // namespace tilesim::isa
