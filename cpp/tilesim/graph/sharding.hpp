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

/// Devices in a grid of named axes, the last one innermost. `order`: device at each place of the grid; empty: counting.
struct Mesh {
  std::vector<MeshAxis> axes;
  std::vector<std::int64_t> order;

  std::int64_t devices() const;
  /// Index of an axis; UserError with the nearest name.
  std::size_t axis(std::string_view name) const;
  /// Device at place `place` of the grid.
  std::int64_t device(std::int64_t place) const {
    return order.empty() ? place : order[static_cast<std::size_t>(place)];
  }
  /// Place of every device: the inverse of `device`.
  std::vector<std::int64_t> places() const;
  std::string text() const;  ///< x=2, y=4 or x=2, y=4, device_ids=[..]
  /// That text, or Shardy's: <["x"=2, "y"=4], device_ids=[..]>. UserError on anything else.
  static Mesh parse(std::string_view text);
  friend bool operator==(const Mesh&, const Mesh&) = default;
};

/// An axis of a mesh or a part of one: of an axis of size s, `before` · `size` · after = s; `"x":(before)size`.
struct AxisPart {
  std::string axis;
  std::int64_t before = 1, size = 0;  ///< size 0: all of the axis
  friend bool operator==(const AxisPart&, const AxisPart&) = default;
};

/// Devices along a part of an axis.
std::int64_t extent(const Mesh& mesh, const AxisPart& part);

/// How one axis of a tensor is divided, major part first. Open: may be divided further.
struct DividedAxis {
  std::vector<AxisPart> parts;
  bool open = false;
  std::int32_t priority = -1;  ///< -1: none stated (0)
  friend bool operator==(const DividedAxis&, const DividedAxis&) = default;
};

struct Sharding {
  bool given = false;                ///< false: nothing is said
  std::vector<DividedAxis> axes;     ///< one per axis of the tensor
  std::vector<AxisPart> replicated;  ///< explicitly
  std::vector<AxisPart> unreduced;   ///< partial results (sums unless `combiner` says otherwise)
  std::string combiner;              ///< of the partial results; empty: add

  std::string text() const;  ///< as Shardy writes it: [{"x"}, {"z", ?}p1], replicated={"y"}, unreduced={"w"}
  /// That text, also inside #sdy.sharding<@mesh, ..>; combiner="maximum" may follow. UserError on anything else.
  static Sharding parse(std::string_view text);
  friend bool operator==(const Sharding&, const Sharding&) = default;
};

/// UserError at `place` for another rank, an axis that the mesh lacks, one that is used twice, a part that does not
/// divide its axis.
void check_sharding(const Sharding& sharding, const Mesh& mesh, std::size_t rank, const std::string& place);

/// Parts that adjoin become one; a part that is all of its axis loses its numbers.
std::vector<AxisPart> joined(const Mesh& mesh, std::vector<AxisPart> parts);

struct Division {
  Shape counts;                ///< parts of each axis of the tensor
  std::vector<Shape> indices;  ///< per device: which part of each axis it has
};
/// Parts of an axis of d elements are ceil(d / count) long, the last ones shorter or empty.
Division divide(const Sharding& sharding, const Mesh& mesh);

/// A sharding as GSPMD writes it (XLA's HloSharding).
struct GspmdSharding {
  enum class Form : std::uint8_t { replicated, maximal, manual, unknown, tiled };
  enum class Rest : std::uint8_t { replicated, manual };  ///< what a dimension behind the tensor's means
  Form form = Form::replicated;
  std::int64_t device = 0;                ///< maximal
  std::vector<std::int64_t> tiles;        ///< tiled: parts of each axis of the tensor, then the dimensions in `rest`
  std::vector<Rest> rest;                 ///< the last dimensions of `tiles`
  std::vector<std::int64_t> devices;      ///< tiled: of each tile, row major
  std::vector<std::int64_t> unspecified;  ///< axes of the tensor that may be divided further

  /// One, or the parts of a tuple. UserError on other text.
  static std::vector<GspmdSharding> parse(std::string_view text);
};

/// A mesh with axes _axis_0, .. over `devices` devices that can express all shardings. Unsupported if none exists.
Mesh mesh_of(const std::vector<GspmdSharding>& shardings, std::int64_t devices);

struct FromGspmd {
  Sharding sharding;             ///< given unless the form is unknown or manual
  std::vector<AxisPart> manual;  ///< axes over which the tensor is a device's own already
};
/// For a tensor of `rank` axes. Unsupported where the mesh's axes cannot express it. A tensor on one device (maximal)
/// counts as replicated.
FromGspmd from_gspmd(const GspmdSharding& sharding, const Mesh& mesh, std::size_t rank);

}  // namespace tilesim
