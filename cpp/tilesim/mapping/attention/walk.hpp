// Estimates the time of an attention kernel by a walk through the queues of the busiest core.
#pragma once

#include "tilesim/mapping/attention/plan.hpp"

namespace tilesim::mapping {

/// Lower bound of the walk: cycles that arrays or the vector unit need in every order of statements.
double least_attention_cycles(const AttentionProblem& problem, const AttentionPlan& plan, const Share& machine);

/// Walks loads, products and vector computes in order through queues with finite rings. A repeated section is walked
/// until its duration is steady.
double walked_attention_cycles(const AttentionProblem& problem, const AttentionPlan& plan, const Share& machine);

}  // namespace tilesim::mapping
