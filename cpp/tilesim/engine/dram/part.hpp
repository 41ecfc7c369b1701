// A DRAM part: organisation, timing, command constraints and controller, read from configs/dram/<name>.json.
//
// Constraints are data: after a command of `after` at tick t, no command of `before` may issue to the same node of
// `level` before t + cycles. Differences between standards (buses, two-step activation, clock synchronisation, refresh
// scope) are declared features. Times are ticks of `clock_ps` picoseconds. Timing values and constraints may be
// expressions: "nCWL + nBL + nWTRS", "14 ns", "max(4, 5 ns)"; nanoseconds are rounded up to full ticks.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tilesim/base/json/json.hpp"

namespace tilesim::engine::dram {

/// Commands of the controller. The first five address a bank; values are array indices.
enum class Command : std::uint8_t { read, write, activate, precharge, refresh_bank, precharge_all, refresh_all };
inline constexpr int command_count = 7;
inline constexpr int bank_command_count = 5;  ///< commands that address one bank
/// The name of a command as in the JEDEC standards: "RD", "WR", "ACT", "PREpb", "REFpb", "PREab", "REFab".
const char* name(Command command);

struct Level {
  std::string name;  ///< channel, pseudo_channel, rank, stack, bank_group, bank, row, column, in this order
  std::int64_t count = 1;
};

struct Constraint {
  int level = 0;  ///< index into Part::levels
  std::vector<Command> after, before;
  std::int64_t cycles = 0;
  /// n > 1: counted from the n-th most recent `after` command of the node (four-activate window).
  int window = 1;
  /// Limits the other nodes of the level under the same parent, not the node itself.
  bool sibling = false;
};

enum class PagePolicy : std::uint8_t { open, closed, timeout };
enum class RefreshMode : std::uint8_t { all_bank, per_bank, none };

struct Controller {
  std::int64_t read_queue = 32, write_queue = 32;                ///< number of entries
  double write_high_watermark = 0.8, write_low_watermark = 0.2;  ///< fractions of the write queue at drain start, end
  PagePolicy page = PagePolicy::open;
  std::int64_t page_timeout = 0;  ///< ticks without a column command after which an idle row is closed
  RefreshMode refresh = RefreshMode::all_bank;
};

struct Features {
  bool row_and_column_bus = false;  ///< a row and a column command may issue in one tick; otherwise one command
  bool both_edges = false;          ///< a tick is half a clock cycle: even ticks allow precharges only
  bool two_step_activate = false;   ///< ACT consists of ACT-1 and ACT-2, at most `activate_window` ticks apart
  std::int64_t activate_window = 0;
  bool clock_sync = false;  ///< a CAS command restarts the data clock unless a burst keeps it running
  std::int64_t sync_read = 0, sync_write = 0;  ///< ticks from RD or WR until the data clock stops
  int all_bank_scope = 0;                      ///< level of the nodes that PREab and REFab address
};

/// Energies in femtojoules; negative: unknown.
struct CommandEnergy {
  std::int64_t activate = -1;          ///< per ACT, including its precharge
  std::int64_t read = -1, write = -1;  ///< per burst, between row buffer and the other end of the data bus
  std::int64_t refresh_all = -1, refresh_bank = -1;
  std::int64_t background_microwatts = -1;
  bool known() const { return activate >= 0; }
};

struct Part {
  std::string name, standard, description;
  std::int64_t clock_ps = 0;
  std::int64_t burst_bytes = 0;
  std::int64_t prefetch = 1;  ///< columns per burst
  std::vector<Level> levels;
  std::string mapping;  ///< fields from the most to the least significant bit, see mapping.hpp
  Features features;
  std::map<std::string, std::int64_t> timing;  ///< ticks
  std::vector<Constraint> constraints;
  std::int64_t burst_cycles = 1;           ///< ticks that a burst holds the data bus
  std::int64_t read_latency = 0;           ///< ticks from RD to the end of the burst
  std::int64_t refresh_interval = 0;       ///< ticks between refreshes of each scope
  std::int64_t refresh_bank_interval = 0;  ///< ticks between refreshes of single banks; 0: the part has none
  Controller controller;
  CommandEnergy energy;
  std::map<std::string, std::string> sources;

  /// Throws UserError with the place for unknown keys, missing or contradictory constraints, and empty queues.
  static Part from_json(const Json& json);
  static Part read_file(const std::string& path);
  /// The part with these `controller` settings in the format of a file; checked again.
  Part with_controller(const Json& settings) const;
  Json to_json() const;  ///< with all expressions evaluated; reading it gives an equal part

  int level(const std::string& name) const;           ///< index of a level; -1 if missing
  std::int64_t count(const std::string& name) const;  ///< number of nodes per parent; 1 if missing
  int bank_level() const { return static_cast<int>(levels.size()) - 3; }
  int banks() const;  ///< number in the channel
  /// Node of `level` that contains the bank; nodes of a level are numbered through the channel.
  int node(int level, int bank) const;
  std::int64_t capacity_bytes() const;
  double bytes_per_second() const;  ///< peak rate of the data bus
};

inline constexpr int bank_limit = 128;  ///< per channel
inline constexpr std::int64_t queue_limit = 1024;

/// Reads the controller's settings from JSON into `controller`.
void read_controller(Controller& controller, const Json& json);
/// Value of an expression over `names`, in ticks of `clock_ps`.
std::int64_t evaluate_timing(const Json& value, const std::map<std::string, std::int64_t>& names,
                             std::int64_t clock_ps);
/// Checks a part's constraints: each pair of commands that needs a limit has one, and no pair has two.
void check_part(const Part& part, const Json& json);

}  // namespace tilesim::engine::dram
