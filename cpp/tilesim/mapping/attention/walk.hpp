// Estimates the time of an attention kernel by walking the queues of its busiest core.
#pragma once

#include "tilesim/mapping/attention/plan.hpp"

namespace tilesim::mapping {

/// Cycles of arrays, or of the vector unit, that no order of the statements saves: less than the walk gives.
double least_attention_cycles(const AttentionProblem& problem, const AttentionPlan& plan, const Share& machine);

/// Cycles by walking loads, products and vector computes in their order through queues with finite rings. Stretches
/// that repeat are walked until they do.
double walked_attention_cycles(const AttentionProblem& problem, const AttentionPlan& plan, const Share& machine);

}  // namespace tilesim::mapping
