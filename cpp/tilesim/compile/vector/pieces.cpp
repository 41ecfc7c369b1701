// Sub-tiles of vector kernels: a tile is loaded, computed on and stored in pieces, so that the vector unit starts on
// the first piece while the rest is on its way, and the first results leave while the last ones are computed.
#include <algorithm>

#include "tilesim/base/shape.hpp"
#include "tilesim/compile/vector/vector.hpp"

namespace tilesim::lower {

using program::Block;

std::int64_t VectorLowering::piece_trips(std::size_t axis) const {
  return sub_.empty() ? 1 : ceil_div(std::min(tiles_[axis], space_[axis]), sub_[axis]);
}

bool VectorLowering::in_pieces() const {
  for (std::size_t axis = 0; axis < sub_.size(); ++axis)
    if (piece_trips(axis) > 1) return true;
  return false;
}

Expr VectorLowering::piece_start(std::size_t axis) const {
  return piece_trips(axis) == 1 ? Expr(0) : Expr::symbol("s" + std::to_string(axis)) * Expr(sub_[axis]);
}

Expr VectorLowering::piece_number() const {
  Expr number = 0;
  for (std::size_t axis = 0; axis < space_.size(); ++axis)
    if (piece_trips(axis) > 1) number = number * Expr(piece_trips(axis)) + Expr::symbol("s" + std::to_string(axis));
  return number;
}

/// Inputs that broadcast along an axis in pieces come whole.
bool VectorLowering::arrives_in_pieces(const Held& held) const {
  for (std::size_t axis = 0; axis < space_.size(); ++axis)
    if (piece_trips(axis) > 1 && !held.spans[axis]) return false;
  return true;
}

program::Statement VectorLowering::piece_loops(Block body) const {
  for (std::size_t axis = space_.size(); axis-- > 0;) {
    if (piece_trips(axis) == 1) continue;
    Block inner = std::move(body);
    body.clear();
    body.push_back(loop("s" + std::to_string(axis), Expr(piece_trips(axis)), std::move(inner)));
  }
  return std::move(body.front());
}

/// A ragged tile has fewer pieces.
void VectorLowering::only_elements(Block body, Block& block) const {
  Expr some = 1;
  for (std::size_t axis = 0; axis < space_.size(); ++axis)
    if (piece_trips(axis) > 1) some = logical_and(some, less(Expr(0), extent(axis)));
  if (some.is_constant() && some.value() != 0)
    std::move(body.begin(), body.end(), std::back_inserter(block));
  else
    block.push_back(on("", program::If{some, std::move(body), {}}));
}

/// Positive from the second piece of a row on.
Expr VectorLowering::pieces_before() const {
  Expr before = 0;
  for (std::size_t axis = 0; axis < space_.size(); ++axis)
    if (reduced_[axis]) before = before + piece_start(axis);
  return before;
}

void VectorLowering::load_in_pieces(Block& block) {
  std::vector<ValueId> whole;
  for (const Held& held : inputs_)
    if (!arrives_in_pieces(held)) whole.push_back(held.value);
  load_inputs(whole, block);
  Block pieces;
  at_piece_ = true;
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    if (!arrives_in_pieces(inputs_[i])) continue;
    block.push_back(on("", program::Acquire{inputs_[i].slot, {load_queue(i)}}));
    Block load;
    load.push_back(on(load_queue(i), program::Load{transfer(inputs_[i])}));
    only_elements(std::move(load), pieces);
    pieces.push_back(on(load_queue(i), program::Commit{inputs_[i].slot, 0, 1}));
  }
  at_piece_ = false;
  if (!pieces.empty()) block.push_back(piece_loops(std::move(pieces)));
}

void VectorLowering::await_pieces(Block& block) const {
  for (const Held& held : inputs_)
    if (arrives_in_pieces(held))
      block.push_back(on("vector", program::Wait{held.slot, 0, {}, 0, piece_number() + Expr(1)}));
}

/// Each piece of the results is stored once it is computed.
void VectorLowering::outputs_in_pieces(const std::vector<ValueId>& values, const std::set<int>& finished,
                                       Block& block) {
  std::vector<const Held*> targets;
  for (ValueId value : values)
    for (const Held& held : outputs_)
      if (held.value == value) targets.push_back(&held);
  Block pieces, computed;
  for (const Held* held : targets) block.push_back(on("", program::Acquire{held->slot, {"vector"}}));
  await_pieces(pieces);
  at_piece_ = true;
  Compute compute = begin(false, finished);
  for (const Held* held : targets) {
    program::VectorOutputSpec output;
    output.node = compute.dag.node_of(held->value, ops_);
    output.view = view(*held);
    compute.op.outputs.push_back(std::move(output));
  }
  finish(compute);
  computed.push_back(on("vector", std::move(compute.op)));
  only_elements(std::move(computed), pieces);
  for (const Held* held : targets) {
    pieces.push_back(on("vector", program::Commit{held->slot, 0, 1}));
    // Also for a piece without elements: its commit must have shown before the tile is free.
    pieces.push_back(on("store0", program::Wait{held->slot, 0, {}, 0, piece_number() + Expr(1)}));
    Block stored;
    stored.push_back(on("store0", program::Store{transfer(*held), {}, 0}));
    only_elements(std::move(stored), pieces);
  }
  at_piece_ = false;
  block.push_back(piece_loops(std::move(pieces)));
  for (const Held* held : targets) block.push_back(on("store0", program::Release{held->slot, 0}));
}

/// As `resident_body`, piece by piece.
Block VectorLowering::body_in_pieces() {
  Block block;
  load_in_pieces(block);
  std::set<int> finished;
  for (std::size_t i = 0; i < reduces_.size(); ++i) {
    block.push_back(on("", program::Acquire{sums_[i].slot, {"vector"}}));
    Block piece, reduce;
    await_pieces(piece);
    at_piece_ = true;
    const Expr before = pieces_before();
    emit_reduce(i, finished, before.is_constant() ? Expr(0) : less(Expr(0), before), reduce);
    only_elements(std::move(reduce), piece);
    at_piece_ = false;
    block.push_back(piece_loops(std::move(piece)));
    block.push_back(on("vector", program::Commit{sums_[i].slot, 0, 1}));
    block.push_back(on("vector", program::Wait{sums_[i].slot, 0, {}, 0, 1}));
    finished.insert(static_cast<int>(i));
  }
  std::vector<ValueId> points, full, all;
  for (const Held& held : outputs_) (spans_rows(held.spans) || reduces_.empty() ? full : points).push_back(held.value);
  for (const Held& held : inputs_) all.push_back(held.value);
  if (!points.empty()) {
    Compute compute = begin(true, finished);
    emit_outputs(compute, points, block);
  }
  if (!full.empty()) outputs_in_pieces(full, finished, block);
  release_inputs(all, block);
  for (const Held& held : sums_) block.push_back(on("vector", program::Release{held.slot, 0}));
  return block;
}

}  // namespace tilesim::lower
