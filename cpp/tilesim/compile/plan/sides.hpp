// Decides which operations run on the machine and which on its host, to minimise total time.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tilesim/base/units.hpp"

namespace tilesim {

/// An operation: values by number, and picoseconds on machine and host; empty: it cannot run there.
struct SideItem {
  std::vector<int> operands, results;
  std::optional<std::int64_t> machine, host;
};

/// A value that takes time to cross the link. Values that exist on both sides (weights) are not listed.
struct SideValue {
  std::int64_t bytes = 0;
  bool output = false;  ///< output of the graph: it must end in the machine's memory, where inputs start
};

/// The link between machine and host: bytes per second per direction, and picoseconds per transfer.
struct SideLink {
  std::int64_t bytes_per_second = 1, latency = 0;
  Int128 picoseconds(std::int64_t bytes) const;  ///< time of one transfer, rounded up
};

struct Crossing {
  int value = 0;
  bool to_host = false;
  friend bool operator==(const Crossing&, const Crossing&) = default;
};

struct Sides {
  std::vector<SideItem> items;    ///< in topological order
  std::vector<SideValue> values;  ///< values with higher numbers exist on both sides
  SideLink link;

  /// Per item: whether it runs on the host in the fastest placement; ties prefer the fewest transfers.
  std::vector<bool> cheapest() const;
  /// The values that cross the link, in order; each crosses once.
  std::vector<Crossing> crossings(const std::vector<bool>& host) const;
  /// Alternating runs, as few as possible: whether the host executes the run, and its items in order.
  std::vector<std::pair<bool, std::vector<int>>> turns(const std::vector<bool>& host) const;
};

}  // namespace tilesim
