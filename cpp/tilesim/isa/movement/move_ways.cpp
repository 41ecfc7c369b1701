// Candidate passes that move elements: the dim along a register, and the width of pieces.
#include <algorithm>
#include <cstdlib>

#include "tilesim/base/error.hpp"
#include "tilesim/isa/movement/move_writer.hpp"

namespace tilesim::isa {

namespace {

[[noreturn]] void halves() {
  throw Unsupported({"no kernel moves single elements of 4 bits", {}, {}, "adjacent elements that fill bytes", {}});
}

/// Moves contiguous runs on both sides byte by byte.
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

/// The largest power of two, at most 8 bytes, that divides all steps and addresses.
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

/// Replaces elements by the widest possible pieces of contiguous elements.
Placed in_pieces(Placed move) {
  const std::int64_t piece = piece_of(move);
  if (piece > move.element) {
    MoveDim& run = move.dims.back();
    run = {run.extent * move.element / piece, piece, piece};
    if (run.extent == 1) move.dims.pop_back();
  } else if (piece < move.element) {
    move.dims.push_back({move.element / piece, piece, piece});
  }
  move.element = piece;
  return move;
}

/// One candidate per dim: registers hold pieces along this dim.
std::vector<Passes> by_dims(const CoreTiming& core, const Placed& move) {
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

/// Makes a register hold all points of some dims.
void lay(MovePass& pass, const std::vector<MoveDim>& over) {
  std::vector<MoveDim> points{{1, 0, 0}};
  std::int64_t low = 0;
  for (const MoveDim& dim : over) {
    std::vector<MoveDim> more;
    for (const MoveDim& at : points)
      for (std::int64_t i = 0; i < dim.extent; ++i) more.push_back({1, at.in + i * dim.in, at.out + i * dim.out});
    points = std::move(more);
    if (dim.in < 0) low += (dim.extent - 1) * dim.in;
  }
  pass.elements = std::ssize(points);
  pass.in = pass.out = static_cast<std::int64_t>(pass.width / 8);
  const auto side = [&](std::int64_t MoveDim::* member, std::int64_t& step, std::vector<std::uint32_t>& table) {
    if (points.size() < 2) return;
    step = points[1].*member;
    bool even = true;
    for (std::size_t i = 0; i < points.size(); ++i) even &= points[i].*member == static_cast<std::int64_t>(i) * step;
    for (std::size_t i = 0; !even && i < points.size(); ++i)
      table.push_back(static_cast<std::uint32_t>(points[i].*member - (member == &MoveDim::in ? low : 0)));
  };
  side(&MoveDim::in, pass.in, pass.in_table), side(&MoveDim::out, pass.out, pass.out_table);
  if (!pass.in_table.empty()) pass.from += static_cast<Address>(low);
}

/// As many inner dims as fit a register; a part of the next dim if registers have space left.
Passes by_table(const CoreTiming& core, const Placed& move, std::int64_t part) {
  const std::int64_t most = std::int64_t{core.vlen} / (8 * move.element);
  std::size_t inner = move.dims.size();
  std::int64_t count = 1;
  while (inner > 0 && count * move.dims[inner - 1].extent <= most) count *= move.dims[--inner].extent;
  MovePass pass;
  pass.width = static_cast<unsigned>(8 * move.element), pass.part = static_cast<unsigned>(8 * part);
  pass.from = move.from, pass.to = move.to;
  pass.loops.assign(move.dims.begin(), move.dims.begin() + static_cast<std::ptrdiff_t>(inner));
  std::vector<MoveDim> over(move.dims.begin() + static_cast<std::ptrdiff_t>(inner), move.dims.end());
  std::int64_t rest = 0;
  if (inner > 0 && most / count > 1) {
    MoveDim& cut = pass.loops.back();
    const std::int64_t times = (cut.extent + most / count - 1) / (most / count);
    const std::int64_t each = (cut.extent + times - 1) / times;
    over.insert(over.begin(), {each, cut.in, cut.out});
    rest = cut.extent % each;
    cut = {cut.extent / each, each * cut.in, each * cut.out};
  }
  Passes found{pass};
  lay(found[0], over);
  if (rest > 0) {
    const MoveDim cut = pass.loops.back();
    pass.loops.pop_back();
    pass.from += static_cast<Address>(cut.extent * cut.in), pass.to += static_cast<Address>(cut.extent * cut.out);
    over[0].extent = rest;
    lay(pass, over);
    found.push_back(pass);
  }
  return found;
}

/// For narrow elements that are contiguous along different dims on the two sides: squares of elements, whose rows are
/// loaded and stored as one piece each. Empty if steps are not multiples of a piece.
Passes by_squares(const CoreTiming& core, const Placed& move) {
  const auto first =
      std::find_if(move.dims.begin(), move.dims.end(), [&](const MoveDim& dim) { return dim.in == move.element; });
  if (move.dims.size() < 2 || first == move.dims.end() || move.dims.back().out != move.element) return {};
  const MoveDim a = *first, b = move.dims.back();
  if (&*first == &move.dims.back()) return {};
  for (std::int64_t piece = 8; piece > move.element; piece /= 2) {
    const std::int64_t beside = piece / move.element;
    std::uint64_t all = move.from | move.to | static_cast<std::uint64_t>(std::abs(b.in) | a.out);
    Placed squares = move;
    squares.dims.clear();
    for (const MoveDim& dim : move.dims) {
      if (&dim == &*first || &dim == &move.dims.back()) continue;
      all |= static_cast<std::uint64_t>(std::abs(dim.in) | dim.out);
      squares.dims.push_back(dim);
    }
    if (all % static_cast<std::uint64_t>(piece) != 0 || a.extent % beside != 0 || b.extent % beside != 0) continue;
    if (beside * piece * 8 > std::int64_t{core.vlen}) continue;
    squares.element = piece;
    squares.dims.push_back({a.extent / beside, piece, beside * a.out});
    squares.dims.push_back({b.extent / beside, beside * b.in, piece});
    squares.dims.push_back({beside, b.in, a.out});
    return by_table(core, squares, move.element);
  }
  return {};
}

}  // namespace

double cycles_of(const CoreTiming& core, const Passes& passes) {
  double all = 0;
  for (const MovePass& pass : passes) all += cycles_of(core, pass);
  return all;
}

std::vector<Passes> ways(const CoreTiming& core, const Placed& move, bool tables) {
  constexpr std::size_t tried = 3;
  const Placed pieces = in_pieces(move);
  std::vector<Passes> all = by_dims(core, pieces);
  all.push_back(by_rows(core, move));
  if (tables && pieces.dims.size() > 1) all.push_back(by_table(core, pieces, 0));
  if (Passes squares = tables ? by_squares(core, move) : Passes{}; !squares.empty()) all.push_back(std::move(squares));
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
