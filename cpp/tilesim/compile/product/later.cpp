// Delays epilogues by a tile: the vector unit computes the next tile's operand before it finishes the current tile.
#include <algorithm>

#include "tilesim/compile/plan/divide.hpp"
#include "tilesim/compile/product/product.hpp"
#include "tilesim/program/visit.hpp"

namespace tilesim::lower {

/// Whether to delay epilogues: the vector unit computes an operand between two epilogues of its in-order queue, so that
/// array and epilogue would wait for each other. Requires two accumulators and constant trip counts of outer loops.
bool ProductLowering::finishes_later() const {
  if (direct_ || ragged() || skips() || columns_of_zeros_ || plan_.whole != 0 || problem_.on_vector) return false;
  if (results_in_pieces() || context_.contexts > 1 || context_.program.contexts > 1) return false;
  if (plan_.buffers[2].depth < 2 || context_.machine.whole.lowering.fusion) return false;
  const std::size_t depth = plan_.depth_in_order(2);
  bool between = false;
  for (int i = 0; i < 2; ++i)
    between |= operands_[i].prologue && plan_.depth_in_order(static_cast<std::size_t>(i)) >= depth;
  std::int64_t tiles = 1;
  for (std::size_t i = 0; i < depth; ++i) {
    if (!loops(nest_.order[i])) continue;
    const Expr trips = trips_here(nest_.order[i]);
    if (!trips.is_constant()) return false;
    tiles *= trips.value();
  }
  return between && tiles > 1;
}

/// The epilogue of the tile at trips `trip` of the outer loops, `back` tiles before the latest.
program::Block ProductLowering::finish_of(const std::vector<Expr>& trip, std::int64_t back) {
  program::Block finish;
  finish.push_back(counted("c", window_pieces()));
  emit_results(finish);
  finish.push_back(released("c"));
  std::map<std::string, Expr> values;
  std::size_t at = 0;
  for (std::size_t i = 0; i < plan_.depth_in_order(2); ++i)
    if (loops(nest_.order[i])) values["i_" + domain_.names[static_cast<std::size_t>(nest_.order[i])]] = trip[at++];
  substitute(finish, values);
  program::for_each(finish, [&](program::Statement& statement) {
    if (auto* wait = std::get_if<program::Wait>(&statement.action); wait && wait->slot == "c") wait->back = back;
    if (auto* release = std::get_if<program::Release>(&statement.action); release && release->slot == "c")
      release->back = back;
    if (auto* vector = std::get_if<program::VectorOp>(&statement.action))
      for (program::View& view : vector->inputs)
        if (view.slot == "c") view.back = back;
  });
  return finish;
}

void ProductLowering::finish_before(program::Block& block) {
  block.push_back(complete("c"));
  std::vector<std::int64_t> trips;
  Expr number = 0;
  for (std::size_t i = 0; i < plan_.depth_in_order(2); ++i) {
    const int dim = nest_.order[i];
    if (!loops(dim)) continue;
    trips.push_back(trips_here(dim).value());
    number = number * Expr(trips.back()) + Expr::symbol("i_" + domain_.names[static_cast<std::size_t>(dim)]);
  }
  std::vector<Expr> before(trips.size());
  Expr rest = number - Expr(1);
  for (std::size_t i = trips.size(); i-- > 0;) {
    before[i] = i == 0 ? rest : modulo(rest, trips[i]);
    rest = floor_div(rest, trips[i]);
  }
  program::If later{less(Expr(0), number), finish_of(before, 1), {}};
  block.push_back(on("", std::move(later)));
}

void ProductLowering::finish_last(program::Block& block) {
  std::vector<Expr> last;
  for (std::size_t i = 0; i < plan_.depth_in_order(2); ++i)
    if (loops(nest_.order[i])) last.push_back(trips_here(nest_.order[i]) - Expr(1));
  program::Block finish = finish_of(last, 0);
  std::move(finish.begin(), finish.end(), std::back_inserter(block));
}

}  // namespace tilesim::lower
