// Positions that the trips of a loop read and write, as functions of the loop counter.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "tilesim/compile/prepare/loops.hpp"

namespace tilesim::lower {

/// Kinds whose result is the operand with other axes.
bool is_recurrence_view(Kind kind);

/// Evaluates scalars of a trip as integers.
class Positions {
 public:
  Positions(const LoopPlan& plan, const std::map<ValueId, double>& scalars)
      : plan_(plan), body_(plan.body), scalars_(scalars) {}

  /// Empty if the value does not follow from the counter and known scalars.
  std::optional<std::int64_t> in_trip(ValueId value, std::int64_t trip) const;

 private:
  const LoopPlan& plan_;
  const GraphFunction& body_;
  const std::map<ValueId, double>& scalars_;
};

}  // namespace tilesim::lower
