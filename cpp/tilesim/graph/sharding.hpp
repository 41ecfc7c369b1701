// Meshes of devices and shardings of tensors over them. They annotate the values of a Graph and never change its
// meaning.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tilesim/base/shape.hpp"

namespace tilesim {

struct MeshAxis {
  std::string name;
  std::int64_t size = 1;
  friend bool operator==(const MeshAxis&, const MeshAxis&) = default;
};

/// Devices in a grid of named axes, the last one innermost. `order`: device at each grid position; empty: ascending.
struct Mesh {
  std::vector<MeshAxis> axes;
  std::vector<std::int64_t> order;

  std::int64_t devices() const;
  /// Index of an axis; UserError with the nearest name.
  std::size_t axis(std::string_view name) const;
  /// Device at grid position `place`.
  std::int64_t device(std::int64_t place) const {
    return order.empty() ? place : order[static_cast<std::size_t>(place)];
  }
  /// Grid position of every device: the inverse of `device`.
  std::vector<std::int64_t> places() const;
  std::string text() const;  ///< x=2, y=4 or x=2, y=4, device_ids=[..]
  /// Parses that text, or Shardy's: <["x"=2, "y"=4], device_ids=[..]>. UserError for other text.
  static Mesh parse(std::string_view text);
  friend bool operator==(const Mesh&, const Mesh&) = default;
};

/// An axis of a mesh or a part of one: for an axis of size s, `before` · `size` · after = s; `"x":(before)size`.
struct AxisPart {
  std::string axis;
  std::int64_t before = 1, size = 0;  ///< size 0: the full axis
  friend bool operator==(const AxisPart&, const AxisPart&) = default;
};

/// Number of devices along a part of an axis.
std::int64_t extent(const Mesh& mesh, const AxisPart& part);

/// The sharding of one axis of a tensor, major part first. Open: may be sharded further.
struct DividedAxis {
  std::vector<AxisPart> parts;
  bool open = false;
  std::int32_t priority = -1;  ///< -1: not stated (0)
  friend bool operator==(const DividedAxis&, const DividedAxis&) = default;
};

struct Sharding {
  bool given = false;                ///< false: no sharding is stated
  std::vector<DividedAxis> axes;     ///< one per axis of the tensor
  std::vector<AxisPart> replicated;  ///< explicitly replicated axes
  std::vector<AxisPart> unreduced;   ///< partial results (sums unless `combiner` says otherwise)
  std::string combiner;              ///< combiner of partial results; empty: add

  std::string text() const;  ///< in Shardy's syntax: [{"x"}, {"z", ?}p1], replicated={"y"}, unreduced={"w"}
  /// Parses that text, also inside #sdy.sharding<@mesh, ..>; combiner="maximum" may follow. UserError for other text.
  static Sharding parse(std::string_view text);
  friend bool operator==(const Sharding&, const Sharding&) = default;
};

/// UserError at `place` for a wrong rank, an axis that is not in the mesh or used twice, or a part that does not divide
/// its axis.
void check_sharding(const Sharding& sharding, const Mesh& mesh, std::size_t rank, const std::string& place);

/// Merges adjacent parts; a part that covers its axis becomes the full axis.
std::vector<AxisPart> joined(const Mesh& mesh, std::vector<AxisPart> parts);

struct Division {
  Shape counts;                ///< number of parts of each axis of the tensor
  std::vector<Shape> indices;  ///< per device: its part of each axis
};
/// Parts of an axis with d elements have ceil(d / count) elements; the last ones may be shorter or empty.
Division divide(const Sharding& sharding, const Mesh& mesh);

/// A sharding in GSPMD syntax (XLA's HloSharding).
struct GspmdSharding {
  enum class Form : std::uint8_t { replicated, maximal, manual, unknown, tiled };
  enum class Rest : std::uint8_t { replicated, manual };  ///< meaning of a dimension after the tensor's axes
  Form form = Form::replicated;
  std::int64_t device = 0;                ///< device of a maximal sharding
  std::vector<std::int64_t> tiles;        ///< tiled: parts of each axis of the tensor, then the dimensions in `rest`
  std::vector<Rest> rest;                 ///< the last dimensions of `tiles`
  std::vector<std::int64_t> devices;      ///< tiled: device of each tile, row-major
  std::vector<std::int64_t> unspecified;  ///< axes of the tensor that may be sharded further

  /// Parses one sharding, or those of a tuple. UserError for other text.
  static std::vector<GspmdSharding> parse(std::string_view text);
};

/// A mesh with axes _axis_0, .. over `devices` devices that can express all shardings. Unsupported if none can.
Mesh mesh_of(const std::vector<GspmdSharding>& shardings, std::int64_t devices);

struct FromGspmd {
  Sharding sharding;             ///< given unless the form is unknown or manual
  std::vector<AxisPart> manual;  ///< axes over which the tensor is per-device already
};
/// Converts the sharding of a tensor with `rank` axes. Unsupported if the mesh's axes cannot express it. A tensor on
/// one device (maximal) counts as replicated.
FromGspmd from_gspmd(const GspmdSharding& sharding, const Mesh& mesh, std::size_t rank);

}  // namespace tilesim
