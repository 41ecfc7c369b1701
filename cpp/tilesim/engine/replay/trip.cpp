#include "tilesim/engine/replay/trip.hpp"

#include <algorithm>

#include "tilesim/base/interrupt.hpp"
#include "tilesim/program/expressions.hpp"
#include "tilesim/program/visit.hpp"

namespace tilesim::engine::replay {

namespace {

using program::Block;
using program::Call;
using program::For;
using program::Statement;

using Names = std::map<std::string, std::string>;
using Values = std::map<std::string, Expr>;

/// By formal name of a function: the tensor in the function's first call.
Names first_actuals(const program::Program& program) {
  Names bound;
  const auto read = [&](const Block& body) {
    program::for_each(body, [&](const Statement& statement) {
      if (const auto* call = std::get_if<Call>(&statement.action))
        bound.insert(call->tensors.begin(), call->tensors.end());
    });
  };
  read(program.body);
  for (const program::Function& function : program.functions) read(function.body);
  return bound;
}

class TripReader {
 public:
  TripReader(const program::Program& program, const TripCounts& instead, Trip& trip)
      : program_(program), instead_(instead), trip_(trip), names_(first_actuals(program)) {}

  /// `hidden`: an inner loop has an index with the same name.
  void read(const Block& block, bool hidden) {
    for (const Statement& statement : block) {
      worked(16);
      read(statement, hidden);
      const auto* loop = std::get_if<For>(&statement.action);
      const bool inside = hidden || (loop != nullptr && values_ == nullptr && loop->index == trip_.index);
      program::for_each_body(statement, [&](const Block& body) { read(body, inside); });
    }
  }

 private:
  void read(const Statement& statement, bool hidden) {
    const auto* loop = std::get_if<For>(&statement.action);
    const auto* wait = std::get_if<program::Wait>(&statement.action);
    program::for_each_expression(statement, [&](const Expr& expr) {
      if (expr.is_constant()) return;
      IndexedExpression place{resolved(expr), false, loop != nullptr, wait != nullptr && &expr == &wait->pieces};
      place.moves = !hidden && mentions(place.expr);
      trip_.places.push_back(std::move(place));
    });
    if (loop != nullptr) declare(*loop);
    if (const auto* load = std::get_if<program::Load>(&statement.action)) move(load->transfer, hidden);
    if (const auto* store = std::get_if<program::Store>(&statement.action)) move(store->transfer, hidden);
    if (const auto* call = std::get_if<Call>(&statement.action)) follow(*call, hidden);
  }

  void declare(const For& loop) {
    auto& last = trip_.last[loop.index];
    const auto other = instead_.find(&loop);
    if (other != instead_.end())
      last.insert(other->second - 1);
    else if (loop.extent.is_constant())
      last.insert(loop.extent.value() - 1);
    if (values_ == nullptr) return;
    for (const auto& [name, value] : *values_)
      if (value.symbols().contains(loop.index)) trip_.unclear = true;
  }

  void move(const program::Transfer& transfer, bool hidden) {
    const auto actual = names_.find(transfer.tensor);
    const program::Tensor* tensor = program_.find_tensor(transfer.tensor);
    if (tensor == nullptr && actual != names_.end()) tensor = program_.find_tensor(actual->second);
    if (tensor == nullptr || hidden) return;
    Moved moved{tensor, {}};
    for (const Expr& at : transfer.at) moved.at.push_back(resolved(at));
    trip_.moved.push_back(std::move(moved));
  }

  void follow(const Call& call, bool hidden) {
    trip_.calls = true;
    Values values;
    bool decides = false;
    for (const auto& [name, value] : call.parameters) {
      values[name] = resolved(value);
      decides |= !hidden && mentions(values[name]);
    }
    const auto callee = std::find_if(program_.functions.begin(), program_.functions.end(),
                                     [&](const auto& function) { return function.name == call.function; });
    if (!decides || callee == program_.functions.end()) return;
    const Names names = names_;
    for (const auto& [formal, tensor] : call.tensors) {
      const auto actual = names.find(tensor);
      names_[formal] = program_.find_tensor(tensor) == nullptr && actual != names.end() ? actual->second : tensor;
    }
    const Values* outer = std::exchange(values_, &values);
    read(callee->body, false);
    values_ = outer;
    names_ = names;
  }

  Expr resolved(const Expr& expr) const { return values_ == nullptr ? expr : expr.substitute(*values_); }
  bool mentions(const Expr& expr) const { return expr.symbols().contains(trip_.index); }

  const program::Program& program_;
  const TripCounts& instead_;
  Trip& trip_;
  Names names_;
  const Values* values_ = nullptr;  ///< parameters of the current function; null: main body
};

}  // namespace

Trip trip_of(const program::Program& program, const For& loop, const TripCounts& instead) {
  Trip trip;
  trip.index = loop.index;
  trip.trips = loop.extent.value();
  trip.last[loop.index].insert(trip.trips - 1);
  TripReader(program, instead, trip).read(loop.body, false);
  return trip;
}

}  // namespace tilesim::engine::replay
