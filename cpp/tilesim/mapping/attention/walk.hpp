// Estimates the time of an attention kernel by walking the queues of its busiest core.
#pragma once

#include "tilesim/mapping/attention/plan.hpp"

namespace tilesim::mapping {

/// Cycles of arrays or the vector unit that every order of statements needs: a lower bound of the walk.
double least_attention_cycles(const AttentionProblem& problem, const AttentionPlan& plan, const Share& machine);

/// Cycles from walking loads, products and vector computes in order through queues with finite rings. Repeating
/// sections are walked until they reach a steady state.
double walked_attention_cycles(const AttentionProblem& problem, const AttentionPlan& plan, const Share& machine);

}  // namespace tilesim::mapping
