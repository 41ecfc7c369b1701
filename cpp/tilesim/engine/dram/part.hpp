// A DRAM part: organisation, timing, command constraints and controller, read from configs/dram/<name>.json.
//
// Constraints are data: after a command of `after` at tick t, no command of `before` may issue to the same node of
// `level` before t + cycles. Features declare the differences between standards: buses, two-step activation, clock
// synchronisation, refresh scope. A tick lasts `clock_ps` picoseconds. Timing values and constraints may be expressions
// such as "nCWL + nBL + nWTRS", "14 ns" or "max(4, 5 ns)"; nanoseconds are rounded up to ticks.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tilesim/base/json/json.hpp"

namespace tilesim::engine::dram {

/// Commands of the controller; values are array indices. The first five commands address one bank.
enum class Command : std::uint8_t { read, write, activate, precharge, refresh_bank, precharge_all, refresh_all };
inline constexpr int command_count = 7;
inline constexpr int bank_command_count = 5;  ///< commands that address one bank
/// The command's name in the JEDEC standards: "RD", "WR", "ACT", "PREpb", "REFpb", "PREab", "REFab".
const char* name(Command command);

struct Level {
  std::string name;  ///< one of channel, pseudo_channel, rank, stack, bank_group, bank, row, column, in this order
  std::int64_t count = 1;
};

struct Constraint {
  int level = 0;  ///< index into Part::levels
  std::vector<Command> after, before;
  std::int64_t cycles = 0;
  /// n > 1: `cycles` count from the n-th most recent `after` command to the node (as in the four-activate window).
  int window = 1;
  /// true: the constraint applies to the node's siblings (nodes with the same parent), not to the node.
  bool sibling = false;
};

enum class PagePolicy : std::uint8_t { open, closed, timeout };
enum class RefreshMode : std::uint8_t { all_bank, per_bank, none };

struct Controller {
  std::int64_t read_queue = 32, write_queue = 32;                ///< numbers of entries
  double write_high_watermark = 0.8, write_low_watermark = 0.2;  ///< fill at which draining starts, stops
  PagePolicy page = PagePolicy::open;
  std::int64_t page_timeout = 0;  ///< an idle row is closed after this many ticks without a column command
  RefreshMode refresh = RefreshMode::all_bank;
};

struct Features {
  bool row_and_column_bus = false;  ///< a row and a column command may issue in one tick; false: one command per tick
  bool both_edges = false;          ///< a tick is half a clock cycle; even ticks allow precharges only
  bool two_step_activate = false;   ///< ACT consists of ACT-1 and ACT-2, at most `activate_window` ticks apart
  std::int64_t activate_window = 0;
  bool clock_sync = false;                     ///< the data clock stops after a burst; a CAS command restarts it
  std::int64_t sync_read = 0, sync_write = 0;  ///< ticks from RD or WR until the data clock stops
  int all_bank_scope = 0;                      ///< index of the level whose nodes PREab and REFab address
};

/// Energies in femtojoules; negative: not given.
struct CommandEnergy {
  std::int64_t activate = -1;          ///< per ACT with its precharge
  std::int64_t read = -1, write = -1;  ///< per burst, from the row buffer to the far end of the data bus or back
  std::int64_t refresh_all = -1, refresh_bank = -1;
  std::int64_t background_microwatts = -1;
  bool known() const { return activate >= 0; }
};

struct Part {
  std::string name, standard, description;
  std::int64_t clock_ps = 0;
  std::int64_t burst_bytes = 0;
  std::int64_t prefetch = 1;  ///< number of columns per burst
  std::vector<Level> levels;
  std::string mapping;  ///< fields from the most to the least significant bit, see mapping.hpp
  Features features;
  std::map<std::string, std::int64_t> timing;  ///< by name, in ticks
  std::vector<Constraint> constraints;
  std::int64_t burst_cycles = 1;           ///< ticks for which a burst occupies the data bus
  std::int64_t read_latency = 0;           ///< ticks from RD to the end of the burst
  std::int64_t refresh_interval = 0;       ///< ticks between refreshes of a scope
  std::int64_t refresh_bank_interval = 0;  ///< ticks between per-bank refreshes; 0: not supported
  Controller controller;
  CommandEnergy energy;
  std::map<std::string, std::string> sources;

  /// Throws UserError with the place for unknown keys, missing or contradictory constraints, and empty queues.
  static Part from_json(const Json& json);
  static Part read_file(const std::string& path);
  /// A copy with the settings of a file's `controller` section, checked like a file.
  Part with_controller(const Json& settings) const;
  Json to_json() const;  ///< all expressions are evaluated; reading the JSON gives an equal part

  int level(const std::string& name) const;           ///< index of a level; -1 if missing
  std::int64_t count(const std::string& name) const;  ///< number of nodes of the level per parent; 1 if missing
  int bank_level() const { return static_cast<int>(levels.size()) - 3; }
  int banks() const;  ///< number of banks in the channel
  /// The node of `level` that contains the bank. A level's nodes are numbered consecutively in the channel.
  int node(int level, int bank) const;
  std::int64_t capacity_bytes() const;
  double bytes_per_second() const;  ///< peak rate of the data bus
};

inline constexpr int bank_limit = 128;  ///< per channel
inline constexpr std::int64_t queue_limit = 1024;

/// Reads the controller's settings from JSON.
void read_controller(Controller& controller, const Json& json);
/// Evaluates an expression over `names`, in ticks of `clock_ps` picoseconds.
std::int64_t evaluate_timing(const Json& value, const std::map<std::string, std::int64_t>& names,
                             std::int64_t clock_ps);
/// Throws UserError unless each pair of commands that needs a constraint has exactly one.
void check_part(const Part& part, const Json& json);

}  // namespace tilesim::engine::dram
