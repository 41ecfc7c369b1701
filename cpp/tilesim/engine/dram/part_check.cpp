// Rejects a part if a pair of commands that needs a constraint has none, or has two different ones.
#include <algorithm>
#include <map>
#include <tuple>

#include "tilesim/engine/dram/part.hpp"

namespace tilesim::engine::dram {

namespace {

using Pair = std::pair<Command, Command>;

bool is_all_bank(Command command) { return command == Command::precharge_all || command == Command::refresh_all; }

/// The longest constraint on `pair` within one node; -1: none.
std::int64_t limit_of(const Part& part, Pair pair) {
  std::int64_t longest = -1;
  for (const Constraint& c : part.constraints) {
    if (c.window > 1 || c.sibling) continue;
    const bool after = std::find(c.after.begin(), c.after.end(), pair.first) != c.after.end();
    const bool before = std::find(c.before.begin(), c.before.end(), pair.second) != c.before.end();
    if (after && before) longest = std::max(longest, c.cycles);
  }
  return longest;
}

std::string text_of(Pair pair) { return std::string(name(pair.first)) + " to " + name(pair.second); }

void check_present(const Part& part, const Json& json) {
  using enum Command;
  std::vector<Pair> needed{{activate, read},
                           {activate, write},
                           {activate, precharge},
                           {activate, activate},
                           {precharge, activate},
                           {read, precharge},
                           {write, precharge},
                           {read, read},
                           {write, write},
                           {read, write},
                           {write, read},
                           {activate, precharge_all},
                           {read, precharge_all},
                           {write, precharge_all},
                           {precharge_all, activate},
                           {activate, refresh_all},
                           {precharge_all, refresh_all},
                           {refresh_all, activate}};
  if (part.controller.refresh == RefreshMode::per_bank)
    needed.insert(needed.end(), {{activate, refresh_bank}, {precharge, refresh_bank}, {refresh_bank, activate}});
  for (const Pair& pair : needed)
    if (limit_of(part, pair) < 0) json.fail("the part is missing a constraint: " + text_of(pair));
}

void check_consistent(const Part& part, const Json& json) {
  using Key = std::tuple<int, std::vector<Command>, std::vector<Command>, int, bool>;
  std::map<Key, std::int64_t> seen;
  for (const Constraint& c : part.constraints) {
    const std::string level = part.levels[static_cast<std::size_t>(c.level)].name;
    const auto [entry, is_new] = seen.emplace(Key(c.level, c.after, c.before, c.window, c.sibling), c.cycles);
    if (!is_new && entry->second != c.cycles)
      json.fail("two constraints contradict each other: " + text_of({c.after[0], c.before[0]}) + " of a " + level +
                " is " + std::to_string(entry->second) + " and " + std::to_string(c.cycles));
    for (const Command after : c.after)
      for (const Command before : c.before) {
        if ((is_all_bank(after) || is_all_bank(before)) && c.level > part.features.all_bank_scope)
          json.fail("a constraint on " + text_of({after, before}) +
                    " stands below the level that they address: " + level);
        if (is_all_bank(before) && (c.window > 1 || (c.sibling && c.level != part.features.all_bank_scope)))
          json.fail("a window or sibling constraint on " + text_of({after, before}) + " is not supported");
      }
  }
  using enum Command;
  const auto longer = [&](Pair a, Pair b) {
    if (limit_of(part, a) > limit_of(part, b))
      json.fail("two constraints contradict each other: " + text_of(a) + " takes " + std::to_string(limit_of(part, a)) +
                ", longer than " + text_of(b) + " with " + std::to_string(limit_of(part, b)));
  };
  longer({activate, read}, {activate, precharge});
  longer({activate, write}, {activate, precharge});
  longer({activate, precharge}, {activate, activate});
}

}  // namespace

void check_part(const Part& part, const Json& json) {
  check_present(part, json);
  check_consistent(part, json);
  const std::int64_t refresh = limit_of(part, {Command::refresh_all, Command::activate});
  if (part.controller.refresh == RefreshMode::all_bank && part.refresh_interval <= refresh)
    json.fail("two constraints contradict each other: refresh every " + std::to_string(part.refresh_interval) +
              " ticks, each taking " + std::to_string(refresh));
  if (part.controller.refresh == RefreshMode::per_bank && part.refresh_bank_interval < 1)
    json.fail("the part has no refresh of single banks", "all_bank");
  if (part.controller.page == PagePolicy::timeout && part.controller.page_timeout < 1)
    json.fail("a page policy of timeout needs page_timeout", "1 or more ticks");
}

}  // namespace tilesim::engine::dram
