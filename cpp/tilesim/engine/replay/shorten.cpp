#include "tilesim/engine/replay/shorten.hpp"

#include "tilesim/base/interrupt.hpp"
#include "tilesim/program/expressions.hpp"
#include "tilesim/program/visit.hpp"

namespace tilesim::engine::replay {

namespace {

using program::Block;
using program::For;
using program::Statement;

class Shortener {
 public:
  explicit Shortener(const TripCounts& kept) : kept_(kept) {}

  /// Shortens the loops in `short_one`, a copy of `block`.
  void shorten(const Block& block, Block& short_one) {
    for (std::size_t i = 0; i < block.size(); ++i) {
      worked(16);
      shorten(block[i], short_one[i]);
    }
  }

 private:
  void shorten(const Statement& whole, Statement& statement) {
    if (!seen_.empty()) {
      program::for_each_expression(statement, [&](Expr& expr) { replace(expr); });
      if (auto* call = std::get_if<program::Call>(&statement.action))
        for (auto& [name, value] : call->parameters) replace(value);
    }
    if (const auto* loop = std::get_if<For>(&whole.action)) {
      shorten(*loop, std::get<For>(statement.action));
    } else if (const auto* scope = std::get_if<program::Scope>(&whole.action)) {
      shorten(scope->body, std::get<program::Scope>(statement.action).body);
    } else if (const auto* branch = std::get_if<program::If>(&whole.action)) {
      auto& other = std::get<program::If>(statement.action);
      shorten(branch->then, other.then);
      shorten(branch->otherwise, other.otherwise);
    }
  }

  void shorten(const For& whole, For& loop) {
    const std::map<std::string, Expr> outer = seen_;
    seen_.erase(whole.index);
    if (const auto kept = kept_.find(&whole); kept != kept_.end()) {
      const Expr index = Expr::symbol(whole.index);
      loop.extent = Expr(kept->second);
      seen_[whole.index] =
          index + Expr(whole.extent.value() - kept->second) * less_equal(Expr(kept->second / 2), index);
    }
    shorten(whole.body, loop.body);
    seen_ = outer;
  }

  void replace(Expr& expr) const {
    if (!expr.is_constant()) expr = expr.substitute(seen_);
  }

  const TripCounts& kept_;
  std::map<std::string, Expr> seen_;  ///< index -> expression of the shortened loop's index
};

}  // namespace

program::Program without_trips(const program::Program& program, const TripCounts& kept) {
  program::Program result = program;
  Shortener shortener(kept);
  shortener.shorten(program.body, result.body);
  for (std::size_t i = 0; i < program.functions.size(); ++i)
    shortener.shorten(program.functions[i].body, result.functions[i].body);
  return result;
}

program::Program with_calls(const program::Program& program, std::size_t first, std::size_t last, std::size_t count) {
  program::Program result = program;
  result.body.erase(result.body.begin() + static_cast<std::ptrdiff_t>(first + count),
                    result.body.begin() + static_cast<std::ptrdiff_t>(last));
  return result;
}

}  // namespace tilesim::engine::replay
