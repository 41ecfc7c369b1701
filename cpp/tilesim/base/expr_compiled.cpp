// Expressions resolved against a symbol table: dot products where affine, postfix programs elsewhere.
#include <algorithm>

#include "tilesim/base/error.hpp"
#include "tilesim/base/expr.hpp"
#include "tilesim/base/shape.hpp"

namespace tilesim {

namespace {

constexpr std::size_t stack_limit = 64;

bool is_term(const Expr& e) {
  return e.kind() == Expr::Kind::symbol || (e.kind() == Expr::Kind::multiply && e.arguments()[0].kind() == Expr::Kind::symbol);
}

bool is_affine(const Expr& e) {
  if (e.is_constant() || is_term(e)) return true;
  return e.kind() == Expr::Kind::add &&
         std::all_of(e.arguments().begin(), e.arguments().end(), [](const Expr& part) { return part.is_constant() || is_term(part); });
}

std::int64_t factor_of(const Expr& e) { return e.operand(); }

}  // namespace

CompiledExpr::CompiledExpr(const Expr& expr, const std::function<int(const std::string&)>& slot_of,
                           const std::function<int(const std::string&)>& tensor_of) {
  const auto add_part = [&](const Expr& part) {
    if (part.is_constant()) constant_ += part.value();
    else if (part.kind() == Expr::Kind::symbol) terms_.push_back({slot_of(part.name()), 1});
    else terms_.push_back({slot_of(part.arguments()[0].name()), factor_of(part)});
  };
  if (is_affine(expr)) {
    if (expr.kind() == Expr::Kind::add) std::for_each(expr.arguments().begin(), expr.arguments().end(), add_part);
    else add_part(expr);
    return;
  }
  std::size_t depth = 0;
  const std::function<void(const Expr&)> emit = [&](const Expr& e) {
    using K = Expr::Kind;
    if (e.is_constant() || e.kind() == K::symbol) {
      if (++depth > stack_limit) throw UserError("an expression is nested too deeply");
      program_.push_back(e.is_constant() ? Step{K::constant, 0, e.value()} : Step{K::symbol, slot_of(e.name()), 0});
      return;
    }
    const auto& arguments = e.arguments();
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      emit(arguments[i]);
      if (e.kind() == K::add && i > 0) program_.push_back({K::add, 0, 0}), --depth;
    }
    if (e.kind() == K::add) return;
    if (e.kind() == K::read) {
      program_.push_back({K::read, tensor_of ? tensor_of(e.name()) : -1, static_cast<std::int64_t>(arguments.size())});
      depth = depth + 1 - arguments.size();
      if (depth > stack_limit) throw UserError("an expression is nested too deeply");
      return;
    }
    const bool scalar = e.kind() == K::multiply || e.kind() == K::floor_div || e.kind() == K::modulo;
    program_.push_back({e.kind(), 0, scalar ? e.operand() : 0});
    depth -= arguments.size() - 1;
  };
  emit(expr);
}

std::int64_t CompiledExpr::operator()(const std::int64_t* environment, const TensorReader* reader) const {
  if (program_.empty()) {
    std::int64_t value = constant_;
    for (const Term& term : terms_) value += term.coefficient * environment[term.slot];
    return value;
  }
  using K = Expr::Kind;
  std::int64_t stack[stack_limit + 1];
  std::int64_t* top = stack;  // one past the last value
  const auto binary = [&](auto operation) {
    --top;
    top[-1] = operation(top[-1], top[0]);
  };
  for (const Step& step : program_) {
    switch (step.kind) {
      case K::constant: *top++ = step.value; break;
      case K::symbol: *top++ = environment[step.argument]; break;
      case K::multiply: top[-1] *= step.value; break;
      case K::floor_div: top[-1] = floor_div(top[-1], step.value); break;
      case K::modulo: top[-1] = floor_mod(top[-1], step.value); break;
      case K::add: binary([](std::int64_t a, std::int64_t b) { return a + b; }); break;
      case K::min: binary([](std::int64_t a, std::int64_t b) { return std::min(a, b); }); break;
      case K::max: binary([](std::int64_t a, std::int64_t b) { return std::max(a, b); }); break;
      case K::equal: binary([](std::int64_t a, std::int64_t b) { return std::int64_t{a == b}; }); break;
      case K::less: binary([](std::int64_t a, std::int64_t b) { return std::int64_t{a < b}; }); break;
      case K::less_equal: binary([](std::int64_t a, std::int64_t b) { return std::int64_t{a <= b}; }); break;
      case K::logical_and: binary([](std::int64_t a, std::int64_t b) { return std::int64_t{a != 0 && b != 0}; }); break;
      case K::logical_or: binary([](std::int64_t a, std::int64_t b) { return std::int64_t{a != 0 || b != 0}; }); break;
      case K::logical_not: top[-1] = top[-1] == 0; break;
      case K::read: {
        if (!reader || step.argument < 0) throw UserError("an expression reads a tensor whose values are not known here");
        top -= step.value;
        *top = reader->read(step.argument, top, static_cast<int>(step.value));
        ++top;
        break;
      }
    }
  }
  return top[-1];
}

}  // namespace tilesim
