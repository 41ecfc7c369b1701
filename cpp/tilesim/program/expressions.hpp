// Visits all expressions of a statement. Only this file lists the fields that contain expressions.
#pragma once

#include <type_traits>
#include <variant>
#include <vector>

#include "tilesim/program/program.hpp"

namespace tilesim::program {

/// Calls `visit(Expr&)` (or `const Expr&`) with every expression of a statement. Excluded are nested statements, and
/// parameters of a call, whose names belong to another function.
template <class Visit>
class Expressions {
 public:
  explicit Expressions(Visit& visit) : visit_(visit) {}

  template <class Action>
  void visit_action(Action& action) {
    std::visit([this](auto& one) { parts(one); }, action);
  }

 private:
  template <class... Fields>
  void all(Fields&... part) {
    (one(part), ...);
  }
  template <class T>
  void one(T& part) {
    if constexpr (std::is_same_v<std::remove_const_t<T>, Expr>)
      visit_(part);
    else
      parts(part);
  }
  template <class T>
  void parts(T& part) {
    using Type = std::remove_const_t<T>;
    if constexpr (requires { part.begin(), part.end(); }) {
      for (auto& item : part) one(item);
    } else if constexpr (std::is_same_v<Type, Dim>) {
      all(part.extent, part.stride);
    } else if constexpr (std::is_same_v<Type, View>) {
      all(part.offset, part.dims);
    } else if constexpr (std::is_same_v<Type, TransferDim>) {
      all(part.extent, part.step, part.stride, part.through_at);
    } else if constexpr (std::is_same_v<Type, Transfer>) {
      all(part.at, part.dims, part.offset);
    } else if constexpr (std::is_same_v<Type, VectorNodeSpec>) {
      all(part.scalar);
    } else if constexpr (std::is_same_v<Type, VectorOutputSpec>) {
      all(part.view, part.accumulate);
    } else {
      action(part);
    }
  }
  template <class T>
  void action(T& part) {
    using Type = std::remove_const_t<T>;
    if constexpr (std::is_same_v<Type, For>) all(part.extent);
    if constexpr (std::is_same_v<Type, If>) all(part.condition);
    if constexpr (std::is_same_v<Type, Wait>) all(part.index, part.pieces);
    if constexpr (std::is_same_v<Type, Signal>) all(part.core, part.index, part.count);
    if constexpr (std::is_same_v<Type, Load>) all(part.transfer);
    if constexpr (std::is_same_v<Type, Store>) all(part.transfer, part.signal_index);
    if constexpr (std::is_same_v<Type, MmaOp>) all(part.a, part.b, part.c, part.accumulate);
    if constexpr (std::is_same_v<Type, VectorOp>) all(part.extents, part.inputs, part.nodes, part.outputs);
    if constexpr (std::is_same_v<Type, PermuteOp>) all(part.in, part.out);
    if constexpr (std::is_same_v<Type, IndexedOp>) all(part.in, part.index, part.out);
    if constexpr (std::is_same_v<Type, SortOp>) all(part.in, part.keys, part.positions);
    if constexpr (std::is_same_v<Type, OpaqueOp>) {
      all(part.cycles, part.reads, part.writes);
      if (part.product) all(part.product->k, part.product->accumulate, part.product->products);
    }
    if constexpr (std::is_same_v<Type, Send>) all(part.from, part.offset, part.dims, part.cores);
  }

  Visit& visit_;
};

template <class Statements, class Visit>
void for_each_expression(Statements& statement, Visit visit) {
  Expressions<Visit>(visit).visit_action(statement.action);
}

}  // namespace tilesim::program
