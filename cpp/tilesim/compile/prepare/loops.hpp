// Loops of the graph (kind while): their trip counts, and how state is carried from trip to trip.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tilesim/compile/plan/plan.hpp"

namespace tilesim::lower {

/// How one value of a loop's state gets from trip to trip.
enum class Carried : std::uint8_t {
  counter,    ///< start + trip * step: known in every trip, no bytes
  unchanged,  ///< all trips read the same tensor
  in_place,   ///< only a part is written: one tensor for all trips
  renewed     ///< written as a whole from the one before: two tensors take turns
};

/// A whole number of the state that every trip adds a known one to.
struct Induction {
  std::size_t state = 0;
  ValueId value = no_value;  ///< of the body
  std::int64_t start = 0, step = 0;
};

struct LoopPlan {
  std::int64_t trips = 0;
  std::vector<Carried> states;
  std::int64_t start = 0, step = 0;  ///< of the counter
  int counter = -1;                  ///< its place in the state
  GraphFunction body;          ///< without the counter and what it leaves unchanged; outputs: what it writes, in order
  std::vector<int> written;    ///< place in the state of each output of `body`
  ValueId counter_value = -1;  ///< of `body`
  std::vector<Induction> inductions;  ///< beside the counter; of `states` they are renewed
};

/// Throws Unsupported naming the operation where the number of trips is not known.
LoopPlan plan_loop(const Graph& graph, const GraphFunction& function, const Op& op, const std::string& body_name);

inline const char* const counter_name = "loop_counter";  ///< parameter of a loop's body

/// What of tensors a loop's call binds: formal names of the body's inputs and outputs.
std::string formal_input(const LoopPlan& plan, std::size_t state);
std::string formal_output(const LoopPlan& plan, std::size_t output);

/// The loop as one kernel that calls its body.
program::Scope lower_loop(Context& context, const Op& op, const LoopPlan& plan);

/// Stores a number that is known.
program::Scope number_step(const Op& op, std::int64_t number, const Placement& to);
/// to = from, both with tensors of the same shape and type.
program::Scope copy_step(const Context& context, const std::string& operation, const std::string& name,
                         const Placement& from, const Placement& to);
/// Of the copy of a loop's state, by which mappings know it.
std::string copy_name(const Op& op, std::size_t state);

}  // namespace tilesim::lower
