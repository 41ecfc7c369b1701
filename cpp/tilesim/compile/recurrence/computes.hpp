// Vector computes of one trip of a recurrence.
#pragma once

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "tilesim/compile/recurrence/plan.hpp"
#include "tilesim/compile/vector/vector.hpp"

namespace tilesim::lower {

/// The current tile and trip, for statements.
struct RecurrenceTile {
  RecurrenceTile(const Recurrence& recurrence, const LoopPlan& loop, const RecurrencePlan& plan);

  std::vector<Expr> start, extent;         ///< per axis of the space
  Expr first_trip, count, in_chunk, trip;  ///< first trip and trips of the chunk; trip in it; trip overall
};

class RecurrenceComputes {
 public:
  struct Compute {
    program::VectorOp op;
    std::set<std::size_t> read;  ///< buffers read
  };

  /// Keeps references to all arguments.
  RecurrenceComputes(const Context& context, const LoopPlan& loop, const Recurrence& recurrence,
                     const RecurrencePlan& plan, const RecurrenceTile& tile);

  Compute compute(const RecurrenceStage& stage) const;

  /// Cycles of a stage on one full tile.
  double cycles(const RecurrenceStage& stage) const;

  /// Whether the vector unit supports all types.
  bool computes_all() const;

  /// Whether products give the results of this machine's arrays.
  bool multiplies_all() const;

  /// Level of the stage that produces a state.
  int level_of_state(std::size_t number) const;

 private:
  Expr offset_of(const RecurrenceBuffer& buffer, bool makes, std::size_t number) const;
  const Recurrence::Slice& slice_of(std::size_t number) const;
  program::View view(std::size_t number, bool makes, const RecurrenceStage& stage) const;
  std::map<ValueId, std::pair<std::size_t, bool>> held_before(const RecurrenceStage& stage) const;
  void bind_held(const RecurrenceStage& stage, Compute& compute, DagBuilder& dag) const;
  const Op* maker(ValueId value) const;
  int product(const Op& op, DagBuilder& dag, const std::set<int>& ops) const;
  void add_output(const RecurrenceStage& stage, std::size_t result, int node, std::size_t buffer,
                  Compute& compute) const;

  const Context& context_;
  Context body_;
  const Recurrence& r_;
  const RecurrencePlan& plan_;
  const RecurrenceTile& tile_;
};

}  // namespace tilesim::lower
