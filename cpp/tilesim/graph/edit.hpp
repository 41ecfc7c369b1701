// What passes share to change a function in place. Internal to this room.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tilesim/graph/graph.hpp"

namespace tilesim::edit {

/// Removes values that no input, output or operation names; the others keep their order.
void drop_unused_values(GraphFunction& function);
/// Removes operations whose results nothing reads, unless they have an effect; how many.
int sweep_dead(GraphFunction& function);
/// Index of the operation that computes each value; -1: an input or unused.
std::vector<int> producers(const GraphFunction& function);
std::vector<int> use_counts(const GraphFunction& function);  ///< operands and outputs
bool is_output(const GraphFunction& function, ValueId value);

/// `from` means the same as `to` from now on (readers change; the producer of `from` stays). An output keeps its name:
/// false, and nothing changed, where `to` is an input or has an output's name already.
bool redirect(GraphFunction& function, ValueId from, ValueId to);

/// A name that no value or operation (no weight) has yet.
std::string fresh_name(const GraphFunction& function, const std::string& stem);
std::string fresh_weight(const Graph& graph, const std::string& stem);

/// The weight that a value is, or null.
const Weight* weight_of(const Graph& graph, const GraphFunction& function, const std::vector<int>& producer,
                        ValueId value);
/// The number that a value of one element is known to be.
std::optional<double> known_number(const Graph& graph, const GraphFunction& function, const std::vector<int>& producer,
                                   ValueId value);
/// Kind and attributes as text: equal exactly when two operations (without functions) do the same to their operands.
std::string meaning(const Op& op);
/// An operation `constant` for weight `name`, with a new value.
Op constant(GraphFunction& function, const std::string& name, const TensorType& type);

}  // namespace tilesim::edit
