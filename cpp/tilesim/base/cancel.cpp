#include "tilesim/base/cancel.hpp"

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
  if (check && check()) {
    request();
    throw Cancelled();
  }
}

}  // namespace tilesim
