// Executes an order of forward and backward passes: when each pass begins and ends.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tilesim/cluster/pipeline/order.hpp"

namespace tilesim::cluster {

/// Where the chunks of a model lie. Place: chunk x stages + stage.
struct Places {
  int stages = 1, chunks = 1;
  std::vector<int> before, after;  ///< per place the one that a micro-batch comes from, goes to; -1: none

  std::size_t size() const { return before.size(); }
};

/// An order whose passes are listed behind those that they wait for; made once, it is carried out for many steps.
class Carried {
 public:
  Carried(const PassOrder& order, const Places& places, int micros);

  /// Passes of each stage that come to be done: fewer than it has where stages wait for each other.
  const std::vector<int>& reached() const { return reached_; }
  std::size_t passes() const { return items_.size(); }
  int stages() const { return stages_; }
  std::size_t rows() const { return rows_; }

  /// For `steps` steps: `times` has, per kind (forward, input gradient, weight gradient, both) and place, the
  /// picoseconds of each step. What passes to another stage takes `transfer` more. When each stage begins its first
  /// pass and ends its last: per stage a number of each step. UserError where a sum is beyond 63 bits.
  void run(std::span<const std::int64_t> times, std::size_t steps, std::int64_t transfer,
           std::span<std::int64_t> begins, std::span<std::int64_t> ends) const;

  /// Of one step, when each pass ends, one stage behind the other.
  std::vector<std::int64_t> ends(std::span<const std::int64_t> times, std::int64_t transfer) const;

 private:
  /// A pass: its row of the table of times, and where what it waits for and what it tells the next lie; -1: nothing.
  struct Item {
    std::int32_t row, waits, tells;
    std::uint16_t stage;
    bool first, sends;  ///< of its stage; to another stage
  };
  friend class Listing;

  /// Steps from `at` on, `count` of them; `checked`: sums may leave 63 bits.
  template <std::size_t lanes, bool checked>
  void block(std::span<const std::int64_t> times, std::size_t steps, std::size_t at, std::size_t count,
             std::int64_t transfer, std::span<std::int64_t> begins, std::span<std::int64_t> ends) const;
  /// Whether no sum of times can leave 63 bits: passes one behind the other do not.
  bool bounded(std::span<const std::int64_t> times, std::size_t steps, std::int64_t transfer) const;

  int stages_;
  std::size_t rows_;
  std::vector<std::int64_t> counts_;  ///< passes of each row
  std::size_t slots_ = 0;             ///< what is told and not yet waited for, at most
  std::vector<Item> items_;
  std::vector<int> reached_;
};

}  // namespace tilesim::cluster
