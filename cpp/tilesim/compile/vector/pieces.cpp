// Sub-tiles of vector kernels: a tile is loaded, computed on and stored in pieces, so that the vector unit starts on
// the first piece while others arrive, and first results leave while the last are computed.
#include <algorithm>

#include "tilesim/base/index.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/compile/vector/vector.hpp"

namespace tilesim::lower {

using program::Block;

Expr VectorLowering::piece_start(std::size_t axis) const {
  return piece_trips(axis) == 1 ? Expr(0) : Expr::symbol("s" + std::to_string(axis)) * Expr(sub_[axis]);
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

/// Emits `body` for pieces with elements only: a ragged tile has fewer pieces.
void VectorLowering::only_elements(Block body, Block& block) const {
  Expr some = 1;
  for (std::size_t axis = 0; axis < space_.size(); ++axis)
    if (piece_trips(axis) > 1) some = logical_and(some, less(Expr(0), extent(axis)));
  if (some.is_constant() && some.value() != 0)
    std::move(body.begin(), body.end(), std::back_inserter(block));
  else
    block.push_back(on("", program::If{some, std::move(body), {}}));
}

/// An expression that is positive from the second piece of a row on.
Expr VectorLowering::pieces_before() const {
  Expr before = 0;
  for (std::size_t axis = 0; axis < space_.size(); ++axis)
    if (reduced_[axis]) before = before + piece_start(axis);
  return before;
}

void VectorLowering::load_in_pieces(Block& block) {
  std::vector<int> whole;
  for (int i : plan_.phases[0].loads)
    if (!arrives_in_pieces(inputs_[at(i)])) whole.push_back(i);
  load_inputs(whole, block);
  Block pieces;
  at_piece_ = true;
  for (int i : plan_.phases[0].loads) {
    const Held& held = inputs_[at(i)];
    if (!arrives_in_pieces(held)) continue;
    only_elements({load(held)}, pieces);
  }
  at_piece_ = false;
  if (!pieces.empty()) block.push_back(piece_loops(std::move(pieces)));
}

/// Computes the outputs piece by piece, and stores each piece once it is computed.
void VectorLowering::outputs_in_pieces(const std::vector<ValueId>& values, const std::set<int>& finished,
                                       Block& block) {
  std::vector<const Held*> targets;
  for (ValueId value : values)
    for (const Held& held : outputs_)
      if (held.value == value) targets.push_back(&held);
  Block pieces;
  at_piece_ = true;
  Compute compute = begin(false, finished);
  for (const Held* held : targets) {
    program::VectorOutputSpec output;
    output.node = compute.dag.node_of(held->value, ops_);
    output.view = view(*held);
    compute.op.outputs.push_back(std::move(output));
  }
  finish(compute);
  only_elements({statement(std::move(compute.op))}, pieces);
  for (const Held* held : targets) only_elements({statement(program::Store{transfer_of(load(*held)), {}, 0})}, pieces);
  at_piece_ = false;
  block.push_back(piece_loops(std::move(pieces)));
}

/// Like `resident_body`, in pieces.
Block VectorLowering::body_in_pieces() {
  Block block;
  load_in_pieces(block);
  std::set<int> finished;
  for (int s : plan_.phases[0].stages) {
    const Source& source = sources_[at(s)];
    if (source.reduce < 0 && problem_.stages[at(s)].points) {
      Compute compute = begin(true, finished);
      emit_outputs(compute, source.values, block);
    } else if (source.reduce < 0) {
      outputs_in_pieces(source.values, finished, block);
    } else {
      reduce_in_pieces(source.reduce, finished, block);
      finished.insert(source.reduce);
    }
  }
  return block;
}

void VectorLowering::reduce_in_pieces(int reduce, const std::set<int>& finished, Block& block) {
  Block piece, sum;
  at_piece_ = true;
  const Expr before = pieces_before();
  emit_reduce(at(reduce), finished, before.is_constant() ? Expr(0) : less(Expr(0), before), sum);
  only_elements(std::move(sum), piece);
  at_piece_ = false;
  block.push_back(piece_loops(std::move(piece)));
  divide_sum(at(reduce), block);
}

}  // namespace tilesim::lower
