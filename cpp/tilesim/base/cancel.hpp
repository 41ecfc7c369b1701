// Cooperative cancellation and progress for long calls.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

namespace tilesim {

/// Long loops call `poll()` every few thousand steps. After `request()`, `poll` throws Cancelled. At most 20 times a
/// second, `poll` also calls the functions below.
class CancelToken {
 public:
  void request() { requested_.store(true, std::memory_order_relaxed); }
  bool requested() const { return requested_.load(std::memory_order_relaxed); }
  void poll();
  /// Returns true to cancel the call; the binding looks for a pending signal here. May be empty.
  std::function<bool()> check;
  /// Receives the completed fraction in [0, 1]; negative: unknown. May be empty.
  std::function<void(double)> progress;
  void set_fraction(double fraction) { fraction_ = fraction; }

  /// Receives the numbers of completed and of all parts, once `begin` has set the total. May be empty.
  std::function<void(std::int64_t, std::int64_t)> counted;
  /// Announces that several runs have `parts` parts in total; 0: each run has its own total.
  void expect(double parts);
  /// Begins a run of `parts` parts; the parts of earlier runs count as completed.
  void begin(double parts);
  /// Sets the number of completed parts of the current run.
  void at(std::int64_t done) { done_ = before_ + done; }

 private:
  std::atomic<bool> requested_{false};
  std::int64_t last_check_ns_ = 0;
  double fraction_ = -1;
  std::int64_t expected_ = 0, before_ = 0, run_ = 0, done_ = 0, total_ = 0;  ///< numbers of parts
};

}  // namespace tilesim
