// Ways to move elements: which dim lies over a register, in pieces of which width.
#include <algorithm>
#include <cstdlib>

#include "tilesim/base/error.hpp"
#include "tilesim/isa/kernel/move_writer.hpp"

namespace tilesim::isa {

namespace {

[[noreturn]] void halves() {
  throw Unsupported({"no kernel moves single elements of 4 bits", {}, {}, "neighbours that fill bytes", {}});
}

/// Neighbours on both sides by bytes.
Passes by_rows(const CoreTiming& core, const Placed& move) {
  MovePass pass;
  pass.from = move.from, pass.to = move.to, pass.loops = move.dims;
  pass.elements = move.element;
  if (!pass.loops.empty() && pass.loops.back().in == move.element && pass.loops.back().out == move.element) {
    pass.elements *= pass.loops.back().extent;
    pass.loops.pop_back();
  }
  return split(pass, most_elements(core, pass.width));
}

/// The widest power of two of bytes, at most 8, in which all steps and addresses are whole.
std::int64_t piece_of(const Placed& move) {
  std::uint64_t all = 8 | move.from | move.to;
  std::int64_t inner = move.element;
  for (const MoveDim& dim : move.dims) {
    if (dim.in == move.element && dim.out == move.element) {
      inner *= dim.extent;
      continue;
    }
    all |= static_cast<std::uint64_t>(std::abs(dim.in)) | static_cast<std::uint64_t>(std::abs(dim.out));
  }
  all |= static_cast<std::uint64_t>(inner);
  return static_cast<std::int64_t>(all & (~all + 1));
}

/// Elements, or the widest pieces of neighbours, of one dim in a register.
std::vector<Passes> by_pieces(const CoreTiming& core, Placed move) {
  const std::int64_t piece = piece_of(move);
  if (piece > move.element) {
    MoveDim& run = move.dims.back();
    run = {run.extent * move.element / piece, piece, piece};
    if (run.extent == 1) move.dims.pop_back();
  } else if (piece < move.element) {
    move.dims.push_back({move.element / piece, piece, piece});
  }
  move.element = piece;
  std::vector<Passes> found;
  for (std::size_t i = 0; i < move.dims.size(); ++i) {
    MovePass pass;
    pass.width = static_cast<unsigned>(8 * move.element);
    pass.elements = move.dims[i].extent, pass.in = move.dims[i].in, pass.out = move.dims[i].out;
    pass.from = move.from, pass.to = move.to, pass.loops = move.dims;
    pass.loops.erase(pass.loops.begin() + static_cast<std::ptrdiff_t>(i));
    found.push_back(split(pass, most_elements(core, pass.width)));
  }
  return found;
}

}  // namespace

double cycles_of(const CoreTiming& core, const Passes& passes) {
  double all = 0;
  for (const MovePass& pass : passes) all += cycles_of(core, pass);
  return all;
}

std::vector<Passes> ways(const CoreTiming& core, const Placed& move) {
  constexpr std::size_t tried = 3;
  std::vector<Passes> all = by_pieces(core, move);
  all.push_back(by_rows(core, move));
  std::stable_sort(all.begin(), all.end(),
                   [&](const Passes& a, const Passes& b) { return cycles_of(core, a) < cycles_of(core, b); });
  const double limit = 2 * cycles_of(core, all[0]) + 16;
  while (all.size() > 1 && (all.size() > tried || cycles_of(core, all.back()) > limit)) all.pop_back();
  return all;
}

Move in_bytes(const Move& move, DType dtype) {
  if (is_two_of_four(dtype))
    throw Unsupported({"no kernel moves elements of a pattern", {}, std::string(name(dtype)), {}, {}});
  Move moved = move;
  if (bits(dtype) % 8 == 0) {
    const std::int64_t bytes = bits(dtype) / 8;
    for (MoveDim& dim : moved.dims) dim.in *= bytes, dim.out *= bytes;
    moved.in_first *= bytes, moved.out_first *= bytes;
    return moved;
  }
  if (moved.nothing) return moved;
  if (move.run() % 2 != 0 || move.in_first % 2 != 0 || move.out_first % 2 != 0) halves();
  for (MoveDim& dim : moved.dims) {
    if (&dim == &moved.dims.back()) {
      dim.extent /= 2;
      continue;
    }
    if (dim.in % 2 != 0 || dim.out % 2 != 0) halves();
    dim.in /= 2, dim.out /= 2;
  }
  moved.in_first /= 2, moved.out_first /= 2;
  if (moved.dims.back().extent == 1) moved.dims.pop_back();
  return moved;
}

}  // namespace tilesim::isa
