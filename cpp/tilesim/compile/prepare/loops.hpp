// Loops of the graph (kind while): trip counts, and how state passes from trip to trip.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tilesim/compile/plan/plan.hpp"

namespace tilesim::lower {

/// How a value of a loop's state passes from trip to trip.
enum class Carried : std::uint8_t {
  counter,    ///< start + trip * step, computed in each trip and not stored
  unchanged,  ///< all trips read the same tensor
  in_place,   ///< a trip writes only a part: one tensor for all trips
  renewed     ///< each trip rewrites it completely: two tensors alternate
};

/// An integer state to which every trip adds the same constant.
struct Induction {
  std::size_t state = 0;
  ValueId value = no_value;  ///< the value in the body
  std::int64_t start = 0, step = 0;
};

struct LoopPlan {
  std::int64_t trips = 0;
  std::vector<Carried> states;
  std::int64_t start = 0, step = 0;   ///< of the counter: value in trip 0, increment per trip
  int counter = -1;                   ///< index of the counter's state
  GraphFunction body;                 ///< without counter and unchanged states; its outputs are the written states
  std::vector<int> written;           ///< per output of `body`: index of its state
  ValueId counter_value = -1;         ///< the counter in `body`
  std::vector<Induction> inductions;  ///< other induction variables, which are `renewed` in `states`
};

/// Throws Unsupported that names the operation if the trip count is not known.
LoopPlan plan_loop(const Graph& graph, const GraphFunction& function, const Op& op, const std::string& body_name);

inline const char* const counter_name = "loop_counter";  ///< parameter of a loop body

/// Formal name of the body's input or output for a state, to which the loop's call binds a tensor.
std::string formal_input(const LoopPlan& plan, std::size_t state);
std::string formal_output(const LoopPlan& plan, std::size_t output);

/// Lowers the loop as one kernel that calls its body.
program::Scope lower_loop(Context& context, const Op& op, const LoopPlan& plan);

/// A kernel that stores a constant scalar.
program::Scope number_step(const Op& op, std::int64_t number, const Placement& to);
/// A kernel that copies `from` to `to`; both must have the same shape and type.
program::Scope copy_step(const Context& context, const std::string& operation, const std::string& name,
                         const Placement& from, const Placement& to);
/// Name of the copy of a loop's state, for mappings.
std::string copy_name(const Op& op, std::size_t state);

}  // namespace tilesim::lower
