// Logs the first instructions of a run, and the busy intervals of its units.
#pragma once

#include <cstdint>
#include <vector>

#include "tilesim/isa/pipeline/recorder.hpp"

namespace tilesim::isa {

/// Records the first `limit` instructions.
class Log final : public Recorder {
 public:
  struct LoggedInstruction {
    std::uint64_t address = 0;
    std::uint32_t bits = 0;
    std::uint8_t kind = none, pipe = 0;                ///< its pipe; `none`: the front end executes it
    State front = State::busy, at_pipe = State::busy;  ///< states of its longest waits; busy: no wait
    Ticks issue = 0, dispatch = 0, start = 0, end = 0, done = 0;
    Ticks front_wait = 0, pipe_wait = 0;  ///< durations of these waits
  };
  static constexpr std::uint8_t none = 255;

  explicit Log(std::size_t limit) : limit_(limit) {}
  void issued(const Issue& what) override;
  bool wants_waits() const override { return true; }

  const std::vector<LoggedInstruction>& entries() const { return entries_; }
  std::uint64_t seen() const { return seen_; }  ///< including instructions beyond the limit

 private:
  std::size_t limit_;
  std::vector<LoggedInstruction> entries_;
  std::uint64_t seen_ = 0;
};

/// Busy intervals by unit: unit 0 is the front end; intervals of a pipe have the id of their instruction. After the
/// first `limit` intervals, instructions are only counted.
class Intervals final : public Recorder {
 public:
  struct Interval {
    std::uint8_t kind = Log::none, pipe = 0;  ///< `none`: the front end
    std::uint16_t id = 0;                     ///< id of the instruction; unused for the front end
    Ticks start = 0, end = 0;
  };
  /// The time from a function's first instruction until an instruction outside the function issues.
  struct Visit {
    std::size_t function = 0;  ///< index of its start; 0: before the first function
    Ticks start = 0, end = 0;
  };

  /// `functions`: start addresses, ascending.
  Intervals(std::size_t limit, std::vector<std::uint64_t> functions);
  void issued(const Issue& what) override;

  const std::vector<Interval>& intervals() const { return intervals_; }
  const std::vector<Visit>& visits() const { return visits_; }
  std::uint64_t left_out() const { return left_out_; }  ///< number of instructions beyond the limit

 private:
  void visit(std::uint64_t address, Ticks at);

  std::size_t limit_;
  std::vector<std::uint64_t> functions_;
  std::vector<Interval> intervals_;
  std::vector<Visit> visits_;
  std::size_t front_ = 0;             ///< index of the front end's last interval + 1
  std::uint64_t low_ = 1, high_ = 0;  ///< address range of the current function
  std::uint64_t left_out_ = 0;
};

}  // namespace tilesim::isa
