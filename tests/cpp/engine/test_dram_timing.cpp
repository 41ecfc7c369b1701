// Timing in pairs, generated from the part files: each constraint refuses a command at n - 1 and allows it at n.
#include <boost/test/unit_test.hpp>
#include <random>

#include "engine/part_files.hpp"
#include "engine/stepped_channel.hpp"
#include "tilesim/engine/dram/readiness.hpp"

using namespace tilesim::engine::dram;

namespace {

constexpr Tick start = 100000;

bool all_bank(Command command) { return command == Command::precharge_all || command == Command::refresh_all; }

/// The part with one constraint alone; per-bank refresh keeps the readiness of REFpb as well.
Part with_only(const Part& part, const Constraint& constraint, Command after, Command before) {
  Part one = part;
  one.controller.refresh = RefreshMode::per_bank;
  one.constraints = {constraint};
  one.constraints[0].after = {after};
  one.constraints[0].before = {before};
  return one;
}

int scope_of(const Part& part, int bank) { return part.node(part.features.all_bank_scope, bank); }

void issue(Readiness<WideMask>& readiness, const Part& part, Command command, int bank, Tick t) {
  if (all_bank(command))
    readiness.issue_all(command, scope_of(part, bank), t);
  else
    readiness.issue(command, bank, t);
}

Tick first(const Readiness<WideMask>& readiness, const Part& part, Command command, int bank) {
  if (all_bank(command)) return readiness.all_bank(command, scope_of(part, bank));
  return readiness.ready[static_cast<std::size_t>(command)].at[static_cast<std::size_t>(bank)];
}

bool limits(const Part& part, const Constraint& c, int from, int to) {
  const bool same = part.node(c.level, from) == part.node(c.level, to);
  if (!c.sibling) return same;
  return !same && part.node(c.level - 1, from) == part.node(c.level - 1, to);
}

void check_pair(const Part& part, const Constraint& c, Command after, Command before) {
  const Part one = with_only(part, c, after, before);
  const int last = part.banks() - 1;
  for (const int from : {0, last / 2, last}) {
    Readiness<WideMask> readiness(one);
    for (int i = 0; i < c.window; ++i) issue(readiness, one, after, from, start + i);
    const Tick allowed = start + static_cast<Tick>(c.cycles);
    for (int to = 0; to <= last; ++to) {
      const Tick ready = first(readiness, one, before, to);
      if (!limits(one, c, from, to)) {
        BOOST_TEST_REQUIRE(ready <= start);
      } else if (c.cycles > 0) {
        BOOST_TEST_REQUIRE(allowed - 1 < ready);  // refused at n - 1
        BOOST_TEST_REQUIRE(allowed >= ready);     // allowed at n
      }
    }
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(dram_timing)

BOOST_AUTO_TEST_CASE(each_constraint_refuses_at_one_less_and_allows_at_n) {
  int pairs = 0;
  for (const std::string& file : part_files()) {
    const Part part = Part::read_file(file);
    for (const Constraint& c : part.constraints)
      for (const Command after : c.after)
        for (const Command before : c.before) {
          BOOST_TEST_CONTEXT(part.name << ": " << name(after) << " to " << name(before) << " "
                                       << part.levels[static_cast<std::size_t>(c.level)].name)
          check_pair(part, c, after, before);
          ++pairs;
        }
  }
  BOOST_TEST(pairs > 200);
}

BOOST_AUTO_TEST_CASE(all_constraints_together_equal_the_list) {
  // Random commands at random ticks: the flattened tables against a search of the list of constraints.
  std::mt19937_64 random(3);
  for (const std::string& file : part_files()) {
    Part part = Part::read_file(file);
    if (part.refresh_bank_interval > 0) part.controller.refresh = RefreshMode::per_bank;
    const int kept = part.refresh_bank_interval > 0 ? command_count : command_count;
    Readiness<WideMask> readiness(part);
    stepped::Rules rules(part);
    Tick t = 1;
    for (int step = 0; step < 400; ++step) {
      const auto command = static_cast<Command>(random() % static_cast<std::uint64_t>(kept));
      const int bank = static_cast<int>(random() % static_cast<std::uint64_t>(part.banks()));
      if (command == Command::refresh_bank && part.refresh_bank_interval == 0) continue;
      const int depth = all_bank(command) ? part.features.all_bank_scope : part.bank_level();
      const Tick from = std::max(t, first(readiness, part, command, bank));
      BOOST_TEST_CONTEXT(part.name << " " << name(command) << " bank " << bank << " step " << step) {
        BOOST_TEST_REQUIRE(rules.allows(command, bank, depth, from));
        if (from > t) BOOST_TEST_REQUIRE(!rules.allows(command, bank, depth, from - 1));
      }
      t = from + static_cast<Tick>(random() % 3);
      issue(readiness, part, command, bank, t);
      rules.issue(command, bank, depth, t);
      ++t;
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
