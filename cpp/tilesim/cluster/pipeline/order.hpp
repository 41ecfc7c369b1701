// Pipeline schedules: which forward or backward pass each stage runs at which time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tilesim::cluster {

enum class PassKind : std::uint8_t { forward, input_gradient, weight_gradient, backward };

/// A pass of one chunk of a stage; `backward` computes both gradients at once.
struct Pass {
  PassKind kind = PassKind::forward;
  std::uint16_t chunk = 0;
  std::uint32_t micro = 0;

  bool operator==(const Pass&) const = default;
};

/// The passes of each stage.
using PassOrder = std::vector<std::vector<Pass>>;

/// The order of a named schedule. Throws InternalError for an unknown name; callers check whether the schedule supports
/// these sizes.
PassOrder pass_order(const std::string& schedule, int stages, int micros, int chunks);

/// Greedy order: each stage runs the first possible pass of a preference list (kind, chunk). Passes take one time unit,
/// and a stage holds up to `most` chunks. Chunk 1 runs from the last stage to the first.
struct Wish {
  PassKind kind;
  int chunk;
};
PassOrder greedy_order(int stages, int micros, const std::vector<Wish>& wishes, int most);

}  // namespace tilesim::cluster
