// The lowering of movement kernels, shared by the files of this folder. A kernel is a sequence of steps; each has
// separate slots and runs after all steps before it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tilesim/compile/plan/plan.hpp"
#include "tilesim/compile/writer/kernel_writer.hpp"
#include "tilesim/mapping/vector/movement.hpp"

namespace tilesim::lower {

class MovementLowering {
 public:
  MovementLowering(Context& context, const Kernel& kernel);
  program::Scope lower();

 private:
  /// A tiled iteration space: loops `index(axis, suffix)`, start and extent of the tile, strides of the tile in a slot.
  struct Region {
    Shape space, tiles;
    std::vector<Expr> start, extent;
    std::vector<std::int64_t> strides;
    std::vector<mapping::MovePlan::Loop> loops;
  };

  /// The start of a box along an axis: `at`, plus the only element of tensor `through`.
  struct Start {
    Expr at = 0;
    std::string through;
  };

  // movement.cpp
  const Shape& shape(ValueId value) const { return context_.value(value).type.shape; }
  const Placement& placement(ValueId value) const { return context_.placements[static_cast<std::size_t>(value)]; }
  [[noreturn]] void unsupported(const std::string& why) const;
  /// Tiles of `space` if all buffers take this many bytes per element; `tensors`: indexed by the axes of the space.
  Region region(const Shape& space, std::int64_t bytes, int suffix, const std::vector<Placement>& tensors = {},
                const std::vector<Start>* starts = nullptr);
  static Region tiled(const Shape& space, const Shape& tiles, int suffix);
  Shape usual_tiles(const Shape& space, std::int64_t bytes, const std::vector<Placement>& tensors) const;
  mapping::VectorProblem problem(std::int64_t bytes, const std::vector<Placement>& tensors,
                                 const std::vector<Start>* starts) const;
  static std::string index(std::size_t axis, int suffix);
  Ring ring(const std::string& name, DType dtype, std::int64_t elements) const {
    return {name, dtype, elements, depth_};
  }
  /// Adds a step: loops over the tiles of `r` around `body`, whose buffers are `rings`.
  void add_step(const Region& r, const std::vector<Ring>& rings, program::Block body, int suffix);
  /// Adds the operands of a step and its lane axis to the problem; `starts` move the region in one of the two tensors.
  void lay(mapping::VectorProblem& problem, const Placement& source, const Placement& target,
           const std::vector<Start>* starts) const;
  /// Copies from `from` at `read` to `to` at `write` for every point of `space`, converting between types.
  void copy(const Shape& space, const Placement& from, const std::vector<AxisAccess>& read, const Placement& to,
            const std::vector<AxisAccess>& write, std::optional<double> fill = {});
  /// Strides of a tile in its slot as loaded and as stored: the cross-lane unit permutes it in between, if elements
  /// change lanes.
  struct Shuffle {
    mapping::MovePlan plan;
    std::vector<std::int64_t> loaded, stored;
  };
  Shuffle shuffle(const Region& r, const Placement& source, const Placement& target,
                  const std::vector<Start>* starts = nullptr) const;
  std::vector<Ring> rings(const mapping::MovePlan& plan) const;
  /// Loads a tile and permutes it if necessary.
  static void load(const Region& r, program::Transfer transfer, const Shuffle& shuffle, program::Block& body);
  static program::VectorOp convert(const Region& r, const std::vector<std::int64_t>& strides, DType from);
  static program::Statement store(const Region& r, const std::string& slot, const Placement& to);
  /// Sets y to a constant.
  void fill(double value);
  void emit();
  bool stored_in_place(ValueId part, std::size_t dim, std::int64_t offset) const;
  void concat();
  bool copy_shifted(const std::vector<std::size_t>& parts, const std::vector<std::int64_t>& offsets);
  void reshape();
  void bitcast();

  /// Declares a row-major tensor that only this kernel uses.
  Placement temporary(const std::string& stem, DType dtype, const Shape& shape);
  /// The same bytes under another shape or type; empty for a view or a function parameter, or if sizes differ.
  std::optional<Placement> same_bytes(const Placement& placement, DType dtype, const Shape& shape);
  /// A placement with the value's own axes (one axis if `flat`); a view is copied, or any value if
  /// `copies`.
  Placement dense(ValueId value, bool flat = false, bool copies = false);

  // pad.cpp
  void pad();
  void pad_constant();
  void pad_mirrored(bool reflect);
  std::optional<double> pad_value() const;

  struct Gather;  ///< defined in boxes.hpp
  // scatter.cpp
  void scatter();
  Placement flat_updates(const std::vector<std::int64_t>& window, const Shape& boxes, DType dtype);
  void combine(program::Transfer old, const std::vector<Expr>& extent, const Shape& strides, DType dtype, DType added,
               program::Block& body) const;
  void store_boxes(const Gather& g, const Placement& starts, const Placement& updates, const Shape& boxes);
  Shape held_tiles(const Gather& g, const Shape& boxes) const;
  void combine_held(const Gather& g, const Placement& starts, const Placement& updates, const Shape& tiles);

  // index.cpp
  void gather();
  void embedding();
  /// Computes the starts of the boxes in `source` on the vector unit, clamped or moved outside the source.
  Placement box_starts(const Gather& g);
  static program::VectorOp starts_of(const Gather& g, const Region& r, DType indices);
  /// `starts`: one tensor, or one for each axis along which the boxes move.
  void load_boxes(const Gather& g, const std::vector<Placement>& starts);
  program::Transfer load_of(const Gather& g, const std::vector<Placement>& starts, const Region& r,
                            std::vector<std::size_t>& loops) const;
  bool fetches_apart(const std::vector<std::int64_t>& sizes, std::size_t components) const;
  void gather_apart(Gather g);
  void dynamic_slice();
  void dynamic_update();
  void fetch_rows(mapping::VectorProblem& problem, std::int64_t bytes) const;
  void mask_rows(const Region& r, const Placement& ids, std::int64_t padding, DType dtype, program::Block& body);
  Placement clamp_scalar(const Placement& from, std::int64_t last);
  std::vector<Start> clamped_starts(std::size_t first, const Shape& whole, const Shape& part);
  void move_box(const Placement& from, const Placement& to, const Shape& box, const std::vector<Start>& starts,
                bool starts_of_source);

  Context& context_;
  const Kernel& kernel_;
  const Op& op_;
  ValueId y_;
  const Shape& shape_;
  Shape main_;  ///< iteration space of the mapped step; empty while other steps are emitted
  std::optional<mapping::VectorTiles> usual_, chosen_;  ///< tiles of `main_`, set by the first step that uses them
  std::int64_t depth_ = 2;                              ///< buffers per slot of this step
  program::Scope scope_;
  bool one_by_one_ = false;  ///< always one transfer per box
  /// Axes of the result whose positions each need a transfer; set if indices select rows. `masked_`: whether those rows
  /// pass through the vector unit to another buffer.
  std::optional<std::vector<int>> rows_apart_;
  bool masked_ = false;
  int steps_ = 0, temporaries_ = 0;
};

AxisAccess affine_axis(std::size_t dim, std::int64_t coefficient = 1, std::int64_t constant = 0);
std::vector<AxisAccess> plain_axes(std::size_t rank);
/// A placement composed with another access: maps axes of the iteration space to axes of the tensor.
Placement seen_through(const Placement& placement, const std::vector<AxisAccess>& access);

}  // namespace tilesim::lower
