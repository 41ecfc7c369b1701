// Chooses which operations run on the machine and which on its host, to minimise total time.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tilesim/base/units.hpp"

namespace tilesim {

/// An operation to be placed: values by number; picoseconds on either side, none where it cannot run there.
struct SideItem {
  std::vector<int> operands, results;
  std::optional<std::int64_t> machine, host;
};

/// A value that takes time to cross the link; what lies on both sides (weights) is none.
struct SideValue {
  std::int64_t bytes = 0;
  bool output = false;  ///< given by the whole: it ends in the machine's memory, where inputs begin
};

/// Between machine and host: bytes per second each way, picoseconds that every transfer takes beside.
struct SideLink {
  std::int64_t bytes_per_second = 1, latency = 0;
  Int128 picoseconds(std::int64_t bytes) const;  ///< of one transfer, rounded up
};

struct Crossing {
  int value = 0;
  bool to_host = false;
  friend bool operator==(const Crossing&, const Crossing&) = default;
};

struct Sides {
  std::vector<SideItem> items;    ///< in an order of their dependences
  std::vector<SideValue> values;  ///< numbers from values.size() on are of what lies on both sides
  SideLink link;

  /// By item whether it is the host's: the placement of least time, and of those one with the fewest transfers.
  std::vector<bool> cheapest() const;
  /// What crosses the link, once however often it is read there, in the order of the values.
  std::vector<Crossing> crossings(const std::vector<bool>& host) const;
  /// Turns of machine and host, as few as the dependences allow: whether it is the host's, and its items in order.
  std::vector<std::pair<bool, std::vector<int>>> turns(const std::vector<bool>& host) const;
};

}  // namespace tilesim
