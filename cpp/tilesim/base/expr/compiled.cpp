// Expressions resolved against a symbol table: affine ones become dot products, others postfix programs.
#include <algorithm>
#include <optional>

#include "tilesim/base/error.hpp"
#include "tilesim/base/expr/expr.hpp"
#include "tilesim/base/shape.hpp"

namespace tilesim {

enum class CompiledExpr::Code : std::uint8_t {
  affine,  ///< pushes value + the dot product of `count` terms from `first`
  add,
  multiply,   ///< by `value`
  floor_div,  ///< by `value`
  modulo,     ///< by `value`
  min,
  max,
  equal,
  less,
  less_equal,
  logical_not,
  truth,         ///< 1 if not 0
  skip_if_zero,  ///< if 0: leaves a 0 on the stack and jumps to step `first`; else drops the value
  skip_if_true,  ///< if not 0: leaves a 1 on the stack and jumps to step `first`; else drops the value
  read,          ///< reads tensor `first`, with `count` indices
};

namespace {

constexpr int stack_limit = 64;

using K = Expr::Kind;

struct AffineTerm {
  std::string symbol;
  std::int64_t coefficient;
};

/// The affine part of a sum, and the terms that are not affine.
struct Split {
  std::int64_t constant = 0;
  std::vector<AffineTerm> terms;
  std::vector<Expr> others;

  explicit Split(const Expr& e) {
    if (e.kind() == K::add)
      for (const Expr& part : e.arguments()) take(part);
    else
      take(e);
  }

  void take(const Expr& part) {
    if (part.is_constant()) {
      constant += part.value();
    } else if (part.kind() == K::symbol) {
      terms.push_back({part.name(), 1});
    } else if (part.kind() == K::multiply && part.arguments()[0].kind() == K::symbol) {
      terms.push_back({part.arguments()[0].name(), part.operand()});
    } else {
      others.push_back(part);
    }
  }
};

/// Removes a min or max with a constant, and sets `bound` to it; returns the other argument.
std::optional<Expr> peel(const Expr& e, K kind, std::int64_t& bound) {
  if (e.kind() != kind) return std::nullopt;
  for (std::size_t i = 0; i < 2; ++i)
    if (e.arguments()[i].is_constant()) {
      bound = e.arguments()[i].value();
      return e.arguments()[1 - i];
    }
  return std::nullopt;
}

}  // namespace

/// Emits the postfix program, and tracks the stack depth.
class CompiledExpr::Emitter {
 public:
  Emitter(CompiledExpr& target, const std::function<int(const std::string&)>& slot_of,
          const std::function<int(const std::string&)>& tensor_of)
      : target_(target), slot_of_(slot_of), tensor_of_(tensor_of) {}

  void terms(const std::vector<AffineTerm>& terms) {
    for (const auto& [symbol, coefficient] : terms) target_.terms_.push_back({slot_of_(symbol), coefficient});
  }

  void expression(const Expr& e) {
    switch (e.kind()) {
      case K::constant:
      case K::symbol:
      case K::add:
        return sum(Split(e));
      case K::multiply:
        if (e.arguments()[0].kind() == K::symbol) return sum(Split(e));
        return scalar(Code::multiply, e);
      case K::floor_div:
        return scalar(Code::floor_div, e);
      case K::modulo:
        return scalar(Code::modulo, e);
      case K::min:
        return binary(Code::min, e);
      case K::max:
        return binary(Code::max, e);
      case K::equal:
        return binary(Code::equal, e);
      case K::less:
        return binary(Code::less, e);
      case K::less_equal:
        return binary(Code::less_equal, e);
      case K::logical_and:
        return shortcut(Code::skip_if_zero, e);
      case K::logical_or:
        return shortcut(Code::skip_if_true, e);
      case K::logical_not:
        expression(e.arguments()[0]);
        return step(Code::logical_not, 0, 0, 0, 0);
      case K::read:
        return read(e);
    }
  }

 private:
  void step(Code code, std::size_t first, std::size_t count, std::int64_t value, int growth) {
    depth_ += growth;
    if (depth_ > stack_limit)
      throw UserError({"an expression needs too many intermediate values", {}, {}, std::to_string(stack_limit), {}});
    target_.program_.push_back({code, static_cast<std::int32_t>(first), static_cast<std::int32_t>(count), value});
  }

  void sum(const Split& parts) {
    const bool affine = !parts.terms.empty() || parts.constant != 0 || parts.others.empty();
    if (affine) {
      const std::size_t first = target_.terms_.size();
      terms(parts.terms);
      step(Code::affine, first, parts.terms.size(), parts.constant, 1);
    }
    for (std::size_t i = 0; i < parts.others.size(); ++i) {
      expression(parts.others[i]);
      if (affine || i > 0) step(Code::add, 0, 0, 0, -1);
    }
  }

  void scalar(Code code, const Expr& e) {
    expression(e.arguments()[0]);
    step(code, 0, 0, e.operand(), 0);
  }

  void binary(Code code, const Expr& e) {
    expression(e.arguments()[0]);
    expression(e.arguments()[1]);
    step(code, 0, 0, 0, -1);
  }

  void shortcut(Code code, const Expr& e) {
    expression(e.arguments()[0]);
    const std::size_t skip = target_.program_.size();
    step(code, 0, 0, 0, -1);
    expression(e.arguments()[1]);
    step(Code::truth, 0, 0, 0, 0);
    target_.program_[skip].first = static_cast<std::int32_t>(target_.program_.size());
  }

  void read(const Expr& e) {
    if (!tensor_of_)
      throw UserError({"the expression reads a tensor, which cannot be read here", {}, "'" + e.name() + "'", {}, {}});
    for (const Expr& index : e.arguments()) expression(index);
    const std::size_t rank = e.arguments().size();
    step(Code::read, static_cast<std::size_t>(tensor_of_(e.name())), rank, 0, 1 - static_cast<int>(rank));
  }

  CompiledExpr& target_;
  const std::function<int(const std::string&)>& slot_of_;
  const std::function<int(const std::string&)>& tensor_of_;
  int depth_ = 0;
};

CompiledExpr::CompiledExpr(const Expr& expr, const std::function<int(const std::string&)>& slot_of,
                           const std::function<int(const std::string&)>& tensor_of) {
  Emitter emit(*this, slot_of, tensor_of);
  // min(max(affine, low), high), where each part is optional; if low <= high, also max(min(affine, high), low)
  std::int64_t low = low_, high = high_, inner_high = high_;
  Expr core = expr;
  if (const auto inside = peel(core, K::min, high)) core = *inside;
  if (const auto inside = peel(core, K::max, low)) core = *inside;
  if (const auto inside = peel(core, K::min, inner_high); inside && inner_high >= low) {
    core = *inside;
    high = std::min(high, inner_high);
  }
  const Split parts(core);
  if (!parts.others.empty()) {
    emit.expression(expr);
    return;
  }
  constant_ = parts.constant;
  emit.terms(parts.terms);
  low_ = low;
  high_ = high;
}

/// Computes on the stack, whose last value is top[-1]; returns the new top.
inline std::int64_t* CompiledExpr::calculate(Code code, std::int64_t constant, std::int64_t* top) {
  std::int64_t& last = top[-1];
  const auto binary = [&](auto operation) {
    top[-2] = operation(top[-2], last);
    return top - 1;
  };
  switch (code) {
    case Code::multiply:
      last *= constant;
      return top;
    case Code::floor_div:
      last = floor_div(last, constant);
      return top;
    case Code::modulo:
      last = floor_mod(last, constant);
      return top;
    case Code::logical_not:
      last = last == 0;
      return top;
    case Code::truth:
      last = last != 0;
      return top;
    case Code::add:
      return binary([](std::int64_t a, std::int64_t b) { return a + b; });
    case Code::min:
      return binary([](std::int64_t a, std::int64_t b) { return std::min(a, b); });
    case Code::max:
      return binary([](std::int64_t a, std::int64_t b) { return std::max(a, b); });
    case Code::equal:
      return binary([](std::int64_t a, std::int64_t b) { return std::int64_t{a == b}; });
    case Code::less:
      return binary([](std::int64_t a, std::int64_t b) { return std::int64_t{a < b}; });
    case Code::less_equal:
      return binary([](std::int64_t a, std::int64_t b) { return std::int64_t{a <= b}; });
    default:
      return top;
  }
}

std::int64_t CompiledExpr::run(const std::int64_t* environment, const TensorReader* reader) const {
  std::int64_t stack[stack_limit + 1];
  std::int64_t* top = stack;  // one past the last value
  const auto size = static_cast<std::int32_t>(program_.size());
  for (std::int32_t at = 0; at < size; ++at) {
    const Step& step = program_[static_cast<std::size_t>(at)];
    switch (step.code) {
      case Code::affine: {
        std::int64_t value = step.value;
        const Term* term = terms_.data() + step.first;
        for (std::int32_t i = 0; i < step.count; ++i) value += term[i].coefficient * environment[term[i].slot];
        *top++ = value;
        break;
      }
      case Code::skip_if_zero:
      case Code::skip_if_true: {
        const bool decided = (top[-1] != 0) == (step.code == Code::skip_if_true);
        if (decided) {
          top[-1] = step.code == Code::skip_if_true;
          at = step.first - 1;
        } else {
          --top;
        }
        break;
      }
      case Code::read:
        if (reader == nullptr) throw UserError("an expression reads a tensor whose values are not known here");
        top -= step.count;
        *top = reader->read(step.first, top, step.count);
        ++top;
        break;
      default:
        top = calculate(step.code, step.value, top);
        break;
    }
  }
  return top[-1];
}

}  // namespace tilesim
