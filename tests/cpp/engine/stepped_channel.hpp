// The reference for the DRAM channel: every cycle, every request and every constraint looked at one by one. It shares
// the part's description with the channel under test, and nothing else.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "tilesim/engine/dram/part.hpp"

namespace stepped {

using namespace tilesim::engine::dram;
using Time = std::int64_t;

struct Demand {
  Time not_before = 0;
  std::uint64_t address = 0;
  int bank = 0, row = 0;
  bool write = false;
};

struct Outcome {
  Time cycles = 0, latency_sum = 0, latency_max = 0;
  std::int64_t forwarded = 0, merged = 0, hits = 0, misses = 0, conflicts = 0;
  std::vector<std::int64_t> commands = std::vector<std::int64_t>(command_count, 0);
  std::vector<Time> returns;  ///< of reads, in the order of their return
  friend bool operator==(const Outcome&, const Outcome&) = default;
};

/// Which commands are allowed when, from the constraints and what was issued.
class Rules {
 public:
  explicit Rules(const Part& part) : part_(part), history_(part.constraints.size()) {
    for (std::size_t i = 0; i < history_.size(); ++i) history_[i].resize(static_cast<std::size_t>(nodes(level(i))));
  }

  /// `bank`: any of the node, for a command that addresses the node of `depth` (a bank's: the bank level).
  void issue(Command command, int bank, int depth, Time t) {
    for (std::size_t i = 0; i < history_.size(); ++i) {
      const Constraint& c = part_.constraints[i];
      if (!has(c.after, command) || c.level > depth) continue;
      auto& times = history_[i][static_cast<std::size_t>(part_.node(c.level, bank))];
      times.push_back(t);
      if (times.size() > static_cast<std::size_t>(c.window)) times.pop_front();
    }
  }

  bool allows(Command command, int bank, int depth, Time t) const {
    for (std::size_t i = 0; i < history_.size(); ++i) {
      const Constraint& c = part_.constraints[i];
      if (!has(c.before, command) || c.level > depth) continue;
      const int own = part_.node(c.level, bank);
      for (int node = 0; node < nodes(c.level); ++node) {
        const bool limits = c.sibling ? node != own && parent(c.level, node) == parent(c.level, own) : node == own;
        const auto& times = history_[i][static_cast<std::size_t>(node)];
        if (limits && times.size() == static_cast<std::size_t>(c.window) && t < times.front() + c.cycles) return false;
      }
    }
    return true;
  }

 private:
  static bool has(const std::vector<Command>& list, Command command) {
    for (const Command one : list)
      if (one == command) return true;
    return false;
  }
  int level(std::size_t i) const { return part_.constraints[i].level; }
  int nodes(int level) const { return part_.node(level, part_.banks() - 1) + 1; }
  int parent(int level, int node) const {
    return node / static_cast<int>(part_.levels[static_cast<std::size_t>(level)].count);
  }
  const Part& part_;
  std::vector<std::vector<std::deque<Time>>> history_;  ///< per constraint and node: latest issues
};

class Channel {
 public:
  explicit Channel(const Part& part)
      : part_(part), rules_(part), banks_(static_cast<std::size_t>(part.banks())), depth_(part.bank_level()) {}

  Outcome run(const std::vector<Demand>& demands);

 private:
  enum class State { closed, activating, open };
  struct Bank {
    State state = State::closed;
    int row = 0;
    Time last_column = 0;
  };
  struct Waiting {
    Demand demand;
    Time arrival = 0, deadline = 0;
    bool counted = false;
  };
  enum class Next { column, activate, precharge, nothing };
  using List = std::vector<Waiting>;
  struct Choice {
    List* list = nullptr;
    std::size_t index = 0;
    Next next = Next::nothing;
  };

  bool offer(const Demand& demand, Time c);
  void tick(Time t);
  void tick_shared(Time t);
  void tick_two_bus(Time t);
  void tick_two_step(Time t);
  Bank& bank(int i) { return banks_[static_cast<std::size_t>(i)]; }
  Next next_of(const Waiting& w);
  bool ready(const Waiting& w, Next next, Time t) const;
  bool opened_holds(int first, int last) const;
  Choice pick(List& list, Time t, bool columns, bool activates, bool precharges);
  bool maintain(Time t, bool falling);
  bool queues_stopped() const { return !jobs_.empty() && part_.controller.refresh != RefreshMode::per_bank; }
  int refreshed_bank() const {
    return !jobs_.empty() && part_.controller.refresh == RefreshMode::per_bank ? jobs_.front() : -1;
  }
  List& selected();
  void perform(const Choice& choice, Time t);
  bool paired_refuses(int bank, bool all, Time t) const;
  void remember(Time t, int bank, bool all, bool activate);
  bool close_idle(Time t, bool falling);
  void command(Command which, int bank, int depth, Time t);
  void second_step();

  const Part& part_;
  Rules rules_;
  std::vector<Bank> banks_;
  int depth_;
  List reads_, writes_, opened_, pending_;
  std::deque<int> jobs_;
  std::deque<std::pair<Time, Time>> returning_;  ///< return tick, arrival
  bool drain_ = false;
  int next_bank_ = 0;
  Time paired_at_ = -1, clock_until_ = 0;
  int paired_bank_ = 0;
  bool paired_all_ = false, holding_ = false;
  Choice held_;
  Outcome out_;
};

}  // namespace stepped
