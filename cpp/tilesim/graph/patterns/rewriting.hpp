// Rewrites a function operation by operation, and computes values that repeat along an axis only once. Internal to this
// module.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tilesim/graph/edit.hpp"
#include "tilesim/graph/passes.hpp"
#include "tilesim/graph/patterns/indices.hpp"

namespace tilesim::recognition {

class Rewriting : public Emitter {
 public:
  Rewriting(Graph& graph, GraphFunction& function, std::vector<Change>& changes)
      : graph_(graph), function_(function), changes_(changes), names_(function) {}
  ValueId emit(Kind kind, std::vector<ValueId> operands, Attributes attributes) override;
  const Shape& shape(ValueId value) const override { return function_.value(value).type.shape; }

 protected:
  void keep(const Op& op);
  /// Replaces the result of the current operation by a copy of `value`. `after`: text for the list of changes.
  void become(ValueId value, std::string after);
  const Op* maker(ValueId value) const;  ///< producer; null for an input

  /// The value with extent 1 along the axes on which it repeats, if such a value exists; else `value`.
  ValueId small(ValueId value) const;
  /// Records along which axes the result of a kept operation repeats.
  void narrow(const Op& op);
  /// Applies the current function to unrepeated operands and repeats its result; returns false if no operand repeats.
  bool compute_once(const Op& op);
  ValueId widened(ValueId x, const Shape& to);

  Graph& graph_;
  GraphFunction& function_;
  std::vector<Change>& changes_;
  edit::Names names_;
  const Op* now_ = nullptr;  ///< current operation

 private:
  void narrow_to(const Op& op, ValueId value);
  void narrow_concat(const Op& op);
  ValueId sliced(ValueId x, const Shape& start, const Shape& limit, const Shape& stride);

  std::map<ValueId, std::size_t> producer_;
  std::map<ValueId, ValueId> small_;
};

}  // namespace tilesim::recognition
