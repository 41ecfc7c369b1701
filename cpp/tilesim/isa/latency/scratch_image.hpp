// A memory that holds the views of tile computes at their addresses in a core.
#pragma once

#include <vector>

#include "tilesim/isa/state/memory.hpp"
#include "tilesim/tile/tile.hpp"

namespace tilesim::isa {

class ScratchImage {
 public:
  /// Views without an address, and the `aside` bytes, are placed after all others.
  ScratchImage(const std::vector<const TileView*>& views, std::int64_t aside);

  Memory& memory() { return memory_; }
  Address address(std::size_t view) const { return first_[view]; }  ///< of its first element
  Address aside() const { return aside_; }
  /// Copies the views' data; the first view counts for shared bytes.
  void fill();
  /// Copies to the data of one view, element by element.
  void take(std::size_t view);

 private:
  struct Reach { std::int64_t low = 0, count = 0; };  ///< elements from the first in memory on
  static Reach reach_of(const TileView& view);
  Address begin(std::size_t view) const;

  std::vector<const TileView*> views_;
  std::vector<Reach> reaches_;
  std::vector<Address> first_;
  Address aside_ = 0;
  Memory memory_;
};

}  // namespace tilesim::isa
