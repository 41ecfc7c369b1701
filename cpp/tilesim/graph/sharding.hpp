// Meshes of devices, and shardings of tensors over a mesh. Shardings annotate the values of a Graph and do not change
// results.
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

/// A grid of devices with named axes, the last one innermost. `order`: device at each position; empty: ascending.
struct Mesh {
  std::vector<MeshAxis> axes;
  std::vector<std::int64_t> order;

  std::int64_t devices() const;
  /// Index of an axis. Throws UserError with the nearest name if the axis does not exist.
  std::size_t axis(std::string_view name) const;
  /// The device at grid position `place`.
  std::int64_t device(std::int64_t place) const {
    return order.empty() ? place : order[static_cast<std::size_t>(place)];
  }
  /// Grid position of every device (the inverse of `device`).
  std::vector<std::int64_t> places() const;
  std::string text() const;  ///< x=2, y=4 or x=2, y=4, device_ids=[..]
  /// Parses such a text, or Shardy's: <["x"=2, "y"=4], device_ids=[..]>. Throws UserError for other text.
  static Mesh parse(std::string_view text);
  friend bool operator==(const Mesh&, const Mesh&) = default;
};

/// A mesh axis or a part of it. The axis has size `before` · `size` · (size after the part); text: `"x":(before)size`.
struct AxisPart {
  std::string axis;
  std::int64_t before = 1, size = 0;  ///< size 0: the full axis
  friend bool operator==(const AxisPart&, const AxisPart&) = default;
};

/// Number of devices along an axis or part.
std::int64_t extent(const Mesh& mesh, const AxisPart& part);

/// The sharding of one axis of a tensor, major part first. `open`: further sharding is allowed.
struct DividedAxis {
  std::vector<AxisPart> parts;
  bool open = false;
  std::int32_t priority = -1;  ///< -1: not given (same as 0)
  friend bool operator==(const DividedAxis&, const DividedAxis&) = default;
};

struct Sharding {
  bool given = false;                ///< false: no sharding is given
  std::vector<DividedAxis> axes;     ///< one per axis of the tensor
  std::vector<AxisPart> replicated;  ///< axes that are explicitly replicated
  std::vector<AxisPart> unreduced;   ///< axes over which values are partial results
  std::string combiner;              ///< how partial results combine; empty: add

  std::string text() const;  ///< Shardy's syntax: [{"x"}, {"z", ?}p1], replicated={"y"}, unreduced={"w"}
  /// Parses such a text, also in #sdy.sharding<@mesh, ..>, with optional combiner="maximum". UserError for other text.
  static Sharding parse(std::string_view text);
  friend bool operator==(const Sharding&, const Sharding&) = default;
};

/// Throws UserError with `place` for a wrong rank, a mesh axis that is unknown or used twice, or a part that does not
/// divide its axis.
void check_sharding(const Sharding& sharding, const Mesh& mesh, std::size_t rank, const std::string& place);

/// Merges adjacent parts of an axis; a part that covers its axis becomes the full axis.
std::vector<AxisPart> joined(const Mesh& mesh, std::vector<AxisPart> parts);

struct Division {
  Shape counts;                ///< per axis of the tensor: number of parts
  std::vector<Shape> indices;  ///< per device: index of its part on each axis
};
/// Divides an axis of d elements into parts of ceil(d / count) elements; the last parts may be shorter or empty.
Division divide(const Sharding& sharding, const Mesh& mesh);

/// A sharding in GSPMD syntax (XLA's HloSharding).
struct GspmdSharding {
  enum class Form : std::uint8_t { replicated, maximal, manual, unknown, tiled };
  enum class Rest : std::uint8_t { replicated, manual };  ///< type of a dimension after the tensor's axes
  Form form = Form::replicated;
  std::int64_t device = 0;                ///< maximal: the device
  std::vector<std::int64_t> tiles;        ///< tiled: parts per axis of the tensor, then per dimension in `rest`
  std::vector<Rest> rest;                 ///< types of the last dimensions of `tiles`
  std::vector<std::int64_t> devices;      ///< tiled: device of each tile, row-major
  std::vector<std::int64_t> unspecified;  ///< axes of the tensor that may be sharded further

  /// Parses a sharding or a tuple of shardings. Throws UserError for other text.
  static std::vector<GspmdSharding> parse(std::string_view text);
};

/// A mesh of `devices` devices with axes _axis_0, .. that can express all shardings; throws Unsupported if none can.
Mesh mesh_of(const std::vector<GspmdSharding>& shardings, std::int64_t devices);

struct FromGspmd {
  Sharding sharding;             ///< given, unless the form is unknown or manual
  std::vector<AxisPart> manual;  ///< axes over which each device already has its own values
};
/// Converts the sharding of a tensor with `rank` axes. Throws Unsupported if the mesh's axes cannot express it. A
/// tensor on one device (maximal) becomes replicated.
FromGspmd from_gspmd(const GspmdSharding& sharding, const Mesh& mesh, std::size_t rank);

}  // namespace tilesim
