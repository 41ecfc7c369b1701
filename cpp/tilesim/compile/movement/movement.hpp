// The lowering of movement kernels, shared by the files of this folder. A kernel is a sequence of steps; each has
// separate slots and runs after all steps before it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tilesim/compile/plan/plan.hpp"
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

  /// Where a box starts along an axis: `at`, plus the only element of the tensor `through`.
  struct Start {
    Expr at = 0;
    std::string through;
  };

  // movement.cpp
  const Shape& shape(ValueId value) const { return context_.value(value).type.shape; }
  const Placement& placement(ValueId value) const { return context_.placements[static_cast<std::size_t>(value)]; }
  [[noreturn]] void unsupported(const std::string& why) const;
  /// Tiles of `space` for buffers of so many bytes per element in all; `tensors`: by the axes of the space.
  Region region(const Shape& space, std::int64_t bytes, int suffix, const std::vector<Placement>& tensors = {},
                const std::vector<Start>* starts = nullptr);
  static Region tiled(const Shape& space, const Shape& tiles, int suffix);
  Shape usual_tiles(const Shape& space, std::int64_t bytes, const std::vector<Placement>& tensors) const;
  mapping::VectorProblem problem(std::int64_t bytes, const std::vector<Placement>& tensors,
                                 const std::vector<Start>* starts) const;
  static std::string index(std::size_t axis, int suffix);
  void add_slot(program::Scope& scope, const std::string& name, DType dtype, std::int64_t elements,
                const std::vector<std::string>& consumers) const;
  void add_step(const Region& r, program::Scope step, program::Block body, int suffix);
  /// The operands of a step, and the axis over the lanes; `starts` move the region in one of the two tensors.
  void lay(mapping::VectorProblem& problem, const Placement& source, const Placement& target,
           const std::vector<Start>* starts) const;
  /// to at `write` = from at `read` for every point of `space`, converting where the types differ.
  void copy(const Shape& space, const Placement& from, const std::vector<AxisAccess>& read, const Placement& to,
            const std::vector<AxisAccess>& write, std::optional<double> fill = {});
  /// Strides of a tile in its slot as it is loaded and as it is stored: the cross-lane unit permutes it between, where
  /// elements change lanes.
  struct Shuffle {
    mapping::MovePlan plan;
    std::vector<std::int64_t> loaded, stored;
  };
  Shuffle shuffle(const Region& r, const Placement& source, const Placement& target,
                  const std::vector<Start>* starts = nullptr) const;
  /// A slot for each buffer of the plan: one is used by the next, the last one is stored.
  void add_slots(program::Scope& scope, const mapping::MovePlan& plan) const;
  /// Loads a tile and, if need be, permutes it.
  static void load(const Region& r, program::Transfer transfer, const Shuffle& shuffle, program::Block& body);
  static void emit_convert(const Region& r, const std::vector<std::int64_t>& strides, DType from, std::int64_t pieces,
                           program::Block& body);
  static void store(const Region& r, const std::string& slot, const Placement& to, program::Block& body);
  static void store(const std::string& slot, program::Transfer transfer, std::int64_t pieces, program::Block& body);
  /// y = a constant, everywhere.
  void fill(double value);
  void emit();
  bool stored_in_place(ValueId part, std::size_t dim, std::int64_t offset) const;
  void concat();
  bool copy_shifted(const std::vector<std::size_t>& parts, const std::vector<std::int64_t>& offsets);
  void reshape();
  void bitcast();

  /// A tensor of this kernel alone, row-major.
  Placement temporary(const std::string& stem, DType dtype, const Shape& shape);
  /// The same bytes under another shape or type; none where the tensor is a parameter of the function.
  std::optional<Placement> same_bytes(const Placement& placement, DType dtype, const Shape& shape);
  /// A placement with the value's own axes (of one dimension where `flat`), copied if it is a view.
  Placement dense(ValueId value, bool flat = false);

  // pad.cpp
  void pad();
  void pad_constant();
  void pad_mirrored(bool reflect);
  std::optional<double> pad_value() const;

  struct Gather;  ///< boxes.hpp
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
  /// Starts of the boxes in `source`, clamped or moved outside of it, computed on the vector unit.
  Placement box_starts(const Gather& g);
  static program::VectorOp starts_of(const Gather& g, const Region& r, DType indices);
  /// One tensor of starts, or one for each axis that the boxes move along.
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
  Shape main_;  ///< space of the steps that the kernel's mapping is for; empty while others are emitted
  std::optional<mapping::VectorTiles> usual_, chosen_;  ///< of `main_`, once a step has asked
  std::int64_t depth_ = 2;                              ///< buffers of the slots of this step
  program::Scope scope_;
  bool one_by_one_ = false;  ///< boxes come in a transfer each, which tiles do not change
  /// Rows that indices say: axes of the result of which each position comes in a separate transfer; set where rows
  /// are fetched so. Whether they pass the vector unit, to another buffer.
  std::optional<std::vector<int>> rows_apart_;
  bool masked_ = false;
  int steps_ = 0, temporaries_ = 0;
};

AxisAccess affine_axis(std::size_t dim, std::int64_t coefficient = 1, std::int64_t constant = 0);
std::vector<AxisAccess> plain_axes(std::size_t rank);
/// A placement seen through another access: axes of the tensor by the axes of the iteration space.
Placement seen_through(const Placement& placement, const std::vector<AxisAccess>& access);

}  // namespace tilesim::lower
