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

 private:
  std::atomic<bool> requested_{false};
  std::int64_t last_check_ns_ = 0;
  double fraction_ = -1;
};

}  // namespace tilesim
