// The fusion rules and their names.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tilesim/compile/plan/options.hpp"

namespace tilesim::lower {

enum class Rule : std::uint8_t {
  epilogue,
  row_extremes,
  prologue,
  elementwise,
  branches,
  siblings,
  sibling_products,
  rows,
  recompute,
  views,
  attention,
  recurrence,
  chain,
};

struct RuleInfo {
  Rule rule;
  std::string_view name;
  std::string_view matches;   ///< operations that the rule matches
  std::string_view legal;     ///< condition for fusing them
  std::string_view saves;     ///< bytes and cycles that the group saves compared with its parts
  std::string_view rounding;  ///< effect on the rounding of results
};

/// All rules in the order in which they are tried.
const std::vector<RuleInfo>& fusion_rules();
const RuleInfo& info(Rule rule);

class RuleSet {
 public:
  /// Parses "all", "none" or comma-separated names. Throws UserError with the nearest name for an unknown name.
  static RuleSet parse(const std::string& text);
  bool has(Rule rule) const { return on_ >> static_cast<unsigned>(rule) & 1; }

 private:
  std::uint32_t on_ = 0;
};

/// Grouping options of the machine's compiler, or generic ones, and the enabled rules.
struct FusionRules : LoweringProfile::Fusion {
  RuleSet on;
  bool native = false;  ///< whether the machine file describes its compiler
  bool has(Rule rule) const { return on.has(rule); }
  static FusionRules of(const Share& machine, const CompileOptions& options);
};

}  // namespace tilesim::lower
