#include "tilesim/base/cancel.hpp"

#include <algorithm>
#include <chrono>

#include "tilesim/base/error.hpp"

namespace tilesim {

void CancelToken::poll() {
  if (requested()) throw Cancelled();
  constexpr std::int64_t interval_ns = 50'000'000;
  const std::int64_t now =
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
  if (now - last_check_ns_ < interval_ns) return;
  last_check_ns_ = now;
  if (progress) progress(fraction_);
  if (counted && total_ > 0) counted(done_, total_);
  if (check && check()) {
    request();
    throw Cancelled();
  }
}

namespace {

std::int64_t whole(double parts) { return static_cast<std::int64_t>(std::min(parts, 1e15)); }

}  // namespace

void CancelToken::expect(double parts) {
  expected_ = whole(parts);
  before_ = run_ = done_ = total_ = 0;
}

void CancelToken::begin(double parts) {
  before_ = expected_ > 0 ? before_ + run_ : 0;
  run_ = whole(parts);
  done_ = before_;
  total_ = expected_ > 0 ? expected_ : run_;
  if (expected_ == 0) last_check_ns_ = 0;  // so that the first poll of a short separate run also reports
}

}  // namespace tilesim
