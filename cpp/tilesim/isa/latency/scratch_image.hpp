// A memory that holds the views of tile computes at their addresses in a core.
#pragma once

#include <vector>

#include "tilesim/isa/state/memory.hpp"
#include "tilesim/tile/tile.hpp"

namespace tilesim::isa {

class ScratchImage {
 public:
  /// Views without an address, and the `aside` bytes, follow all others.
  ScratchImage(const std::vector<const TileView*>& views, std::int64_t aside);

  Memory& memory() { return memory_; }
  Address address(std::size_t view) const { return first_[view]; }  ///< address of its first element
  Address aside() const { return aside_; }
  /// Copies the views' data to the memory; if bytes are shared, the first view counts.
  void fill();
  /// Copies the memory back to one view, element by element.
  void take(std::size_t view);

 private:
  struct Reach { std::int64_t low = 0, count = 0; };  ///< range of elements relative to the first one
  static Reach reach_of(const TileView& view);
  Address begin(std::size_t view) const;

  std::vector<const TileView*> views_;
  std::vector<Reach> reaches_;
  std::vector<Address> first_;
  Address aside_ = 0;
  Memory memory_;
};

}  // namespace tilesim::isa
