// One dimension of a cluster's network, and the axes that it provides to collectives.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tilesim/base/json/json.hpp"

namespace tilesim::cluster {

enum class DimensionKind : std::uint8_t { ring, torus, mesh, full, switched, fat_tree, dragonfly };

/// Equal links between devices that differ in this dimension only. Rates are per direction, times in picoseconds.
struct Dimension {
  DimensionKind kind = DimensionKind::switched;
  std::vector<std::int64_t> sizes;           ///< one per axis; dragonfly: hosts per router, routers per group, groups
  std::int64_t bytes_per_second = 0;         ///< per link, or per port of a device
  std::int64_t latency = 0;                  ///< per link; switch, fat_tree: between devices
  bool both_ways = true;                     ///< ring, torus, mesh: false if links only lead to the next device
  std::int64_t rails = 0;                    ///< ports per node of the inner dimensions; 0: one per device
  std::int64_t leaf = 0;                     ///< fat_tree: devices per first-level switch
  std::int64_t pod = 0;                      ///< fat_tree of three levels: devices per second-level switch
  double oversubscription = 1;               ///< fat_tree: downward rate over upward rate, at each level
  std::int64_t trunk_latency = 0;            ///< fat_tree: added by each further level
  bool hashed = false;                       ///< fat_tree: routes chosen by hash; otherwise the first free one
  std::int64_t global_bytes_per_second = 0;  ///< dragonfly: per link between groups
  std::string name;

  std::int64_t size() const;
  bool grid() const {
    return kind == DimensionKind::ring || kind == DimensionKind::torus || kind == DimensionKind::mesh;
  }
  /// Number of links from the switch above `members` devices to the next level.
  std::int64_t trunks(std::int64_t members) const;

  /// Reads one object of `network`; throws UserError with its place.
  static Dimension read(const Json& json);
};

/// Limit on devices: products of sizes stay within int.
inline constexpr std::int64_t most_devices = 1 << 24;

/// Time of bytes x count / pieces at a rate, rounded up; products are exact.
std::int64_t picoseconds(std::int64_t bytes, std::int64_t count, std::int64_t pieces, std::int64_t bytes_per_second);
/// Limit on the bytes of a collective.
inline constexpr std::int64_t most_bytes = std::int64_t{1} << 46;

}  // namespace tilesim::cluster
