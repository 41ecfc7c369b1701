// Executes an order of forward and backward passes: when each pass begins and ends.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tilesim/cluster/pipeline/order.hpp"

namespace tilesim::cluster {

/// The stages of a model's chunks. Place: chunk x stages + stage.
struct Places {
  int stages = 1, chunks = 1;
  std::vector<int> before, after;  ///< per place: previous and next place of a micro-batch; -1: none

  std::size_t size() const { return before.size(); }
};

/// An order in which each pass follows the passes that it waits for; built once, executed for many steps.
class Carried {
 public:
  Carried(const PassOrder& order, const Places& places, int micros);

  /// Number of passes of each stage that complete: fewer than all if stages wait for each other.
  const std::vector<int>& reached() const { return reached_; }
  std::size_t passes() const { return items_.size(); }
  int stages() const { return stages_; }
  std::size_t rows() const { return rows_; }

  /// Runs `steps` steps. `times`: picoseconds by kind (forward, input gradient, weight gradient, both), place and step;
  /// a result for another stage takes `transfer` more. Sets begin of the first and end of the last pass, by stage and
  /// step. Throws UserError if a sum exceeds 63 bits.
  void run(std::span<const std::int64_t> times, std::size_t steps, std::int64_t transfer,
           std::span<std::int64_t> begins, std::span<std::int64_t> ends) const;

  /// End of each pass in one step, by stage.
  std::vector<std::int64_t> ends(std::span<const std::int64_t> times, std::int64_t transfer) const;

 private:
  /// A pass: its row in the table of times, and the slots of the result that it waits for and of its result; -1: none.
  struct Item {
    std::int32_t row, waits, tells;
    std::uint16_t stage;
    bool first, sends;  ///< first pass of its stage; result goes to another stage
  };
  friend class Listing;

  /// Runs `count` steps from `at` on; `checked`: sums may exceed 63 bits.
  template <std::size_t lanes, bool checked>
  void block(std::span<const std::int64_t> times, std::size_t steps, std::size_t at, std::size_t count,
             std::int64_t transfer, std::span<std::int64_t> begins, std::span<std::int64_t> ends) const;
  /// Whether no sum of times can exceed 63 bits, by the sum over consecutive passes.
  bool bounded(std::span<const std::int64_t> times, std::size_t steps, std::int64_t transfer) const;

  int stages_;
  std::size_t rows_;
  std::vector<std::int64_t> counts_;  ///< number of passes per row
  std::size_t slots_ = 0;             ///< most results sent but not yet received
  std::vector<Item> items_;
  std::vector<int> reached_;
};

}  // namespace tilesim::cluster
