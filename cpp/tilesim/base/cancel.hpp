// Cooperative cancellation and progress for long calls.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

namespace tilesim {

/// Long loops call `poll()` every few thousand steps. `poll` throws Cancelled once `request()` was called, and calls
/// `check` (the binding looks for a pending signal there) at most about 20 times a second.
class CancelToken {
 public:
  void request() { requested_.store(true, std::memory_order_relaxed); }
  bool requested() const { return requested_.load(std::memory_order_relaxed); }
  void poll();
  /// Called from poll(); returns true to cancel. Set by the binding before the run.
  std::function<bool()> check;
  /// Called from poll() with a fraction in [0, 1] or negative if unknown; may be empty.
  std::function<void(double)> progress;
  void set_fraction(double fraction) { fraction_ = fraction; }

  /// Called from poll() with the completed and total parts once `begin` has set a total; may be empty.
  std::function<void(std::int64_t, std::int64_t)> counted;
  /// Announces several runs with this many parts in total; 0: each run counts separately.
  void expect(double parts);
  /// Begins a run of this many parts, after those completed so far.
  void begin(double parts);
  /// Sets the completed parts of the run.
  void at(std::int64_t done) { done_ = before_ + done; }

 private:
  std::atomic<bool> requested_{false};
  std::int64_t last_check_ns_ = 0;
  double fraction_ = -1;
  std::int64_t expected_ = 0, before_ = 0, run_ = 0, done_ = 0, total_ = 0;  ///< numbers of parts
};

}  // namespace tilesim
