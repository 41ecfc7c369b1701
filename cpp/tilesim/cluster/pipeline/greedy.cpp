// Greedy orders by a list of preferred passes. Weight gradients come last: they fill bubbles, or free space for a
// micro-batch.
#include <algorithm>
#include <optional>

#include "tilesim/base/error.hpp"
#include "tilesim/cluster/pipeline/order.hpp"

namespace tilesim::cluster {

namespace {

class Greedy {
 public:
  Greedy(int stages, int micros, const std::vector<Wish>& wishes, int most)
      : stages_(stages), micros_(micros), most_(most), wishes_(wishes), held_(static_cast<std::size_t>(stages)) {
    for (const Wish& wish : wishes) chunks_ = std::max(chunks_, wish.chunk + 1);
    for (auto& done : done_) done.assign(static_cast<std::size_t>(stages * chunks_), 0);
  }

  PassOrder run() {
    PassOrder order(static_cast<std::size_t>(stages_));
    std::vector<std::pair<int, Wish>> now;
    for (std::int64_t left = std::int64_t{3} * micros_ * chunks_ * stages_; left > 0;) {
      now.clear();
      for (int stage = 0; stage < stages_; ++stage)
        if (const auto wish = choose(stage)) now.emplace_back(stage, *wish);
      require(!now.empty(), "an order without bubbles deadlocks");
      for (const auto& [stage, wish] : now) take(order, stage, wish);
      left -= static_cast<std::int64_t>(now.size());
    }
    return order;
  }

 private:
  int part(int stage, int chunk) const { return chunk == 0 ? stage : 2 * stages_ - 1 - stage; }
  /// Number of completed passes of a part.
  int& done(PassKind kind, int part) { return done_[static_cast<int>(kind)][static_cast<std::size_t>(part)]; }

  bool ready(PassKind kind, int part) {
    const int number = done(kind, part), last = stages_ * chunks_ - 1;
    if (number == micros_) return false;
    if (kind == PassKind::forward) return part == 0 || done(kind, part - 1) > number;
    if (kind == PassKind::weight_gradient) return done(PassKind::input_gradient, part) > number;
    return (part == last ? done(PassKind::forward, part) : done(kind, part + 1)) > number;
  }

  std::optional<Wish> choose(int stage) {
    for (const Wish& wish : wishes_) {
      // reserve one slot for each later chunk
      const bool full = held_[static_cast<std::size_t>(stage)] >= most_ - (chunks_ - 1 - wish.chunk);
      if (!(wish.kind == PassKind::forward && full) && ready(wish.kind, part(stage, wish.chunk))) return wish;
    }
    return std::nullopt;
  }

  void take(PassOrder& order, int stage, const Wish& wish) {
    int& number = done(wish.kind, part(stage, wish.chunk));
    order[static_cast<std::size_t>(stage)].push_back(
        {wish.kind, static_cast<std::uint16_t>(wish.chunk), static_cast<std::uint32_t>(number)});
    ++number;
    held_[static_cast<std::size_t>(stage)] +=
        wish.kind == PassKind::forward ? 1 : (wish.kind == PassKind::weight_gradient ? -1 : 0);
  }

  int stages_, micros_, most_, chunks_ = 1;
  const std::vector<Wish>& wishes_;
  std::vector<int> done_[3];
  std::vector<int> held_;
};

}  // namespace

PassOrder greedy_order(int stages, int micros, const std::vector<Wish>& wishes, int most) {
  return Greedy(stages, micros, wishes, most).run();
}

}  // namespace tilesim::cluster
