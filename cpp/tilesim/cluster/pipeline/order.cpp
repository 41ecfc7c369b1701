#include "tilesim/cluster/pipeline/order.hpp"

#include <algorithm>
#include <deque>

#include "tilesim/base/error.hpp"

namespace tilesim::cluster {

namespace {

using Row = std::vector<Pass>;

Pass pass(PassKind kind, int chunk, int micro) {
  return {kind, static_cast<std::uint16_t>(chunk), static_cast<std::uint32_t>(micro)};
}

Row all(PassKind kind, int micros) {
  Row row;
  for (int micro = 0; micro < micros; ++micro) row.push_back(pass(kind, 0, micro));
  return row;
}

/// Some forward passes, then forward and backward passes alternately, then the remaining ones.
Row in_turns(const Row& forward, const Row& backward, std::size_t warm) {
  Row row(forward.begin(), forward.begin() + static_cast<std::ptrdiff_t>(warm));
  for (std::size_t one = 0; one < backward.size(); ++one) {
    if (warm + one < forward.size()) row.push_back(forward[warm + one]);
    row.push_back(backward[one]);
  }
  return row;
}

PassOrder gpipe(int stages, int micros) {
  Row row = all(PassKind::forward, micros);
  const Row back = all(PassKind::backward, micros);
  row.insert(row.end(), back.begin(), back.end());
  return PassOrder(static_cast<std::size_t>(stages), row);
}

PassOrder one_and_one(int stages, int micros) {
  const Row forward = all(PassKind::forward, micros), backward = all(PassKind::backward, micros);
  PassOrder order;
  for (int stage = 0; stage < stages; ++stage)
    order.push_back(in_turns(forward, backward, static_cast<std::size_t>(std::min(micros, stages - 1 - stage))));
  return order;
}

/// Groups of `stages` micro-batches pass one chunk after the other (Narayanan et al., Efficient large-scale language
/// model training on GPU clusters using Megatron-LM, 2021, 2.2).
PassOrder interleaved(int stages, int micros, int chunks) {
  Row forward, backward;
  for (int group = 0; group < micros; group += stages)
    for (int chunk = 0; chunk < chunks; ++chunk)
      for (int micro = group; micro < std::min(group + stages, micros); ++micro) {
        forward.push_back(pass(PassKind::forward, chunk, micro));
        backward.push_back(pass(PassKind::backward, chunks - 1 - chunk, micro));
      }
  PassOrder order;
  for (int stage = 0; stage < stages; ++stage) {
    const std::size_t warm = 2 * static_cast<std::size_t>(stages - 1 - stage) +
                             static_cast<std::size_t>(chunks - 1) * static_cast<std::size_t>(stages);
    order.push_back(in_turns(forward, backward, std::min(warm, forward.size())));
  }
  return order;
}

/// 1f1b with weight gradients delayed by as many micro-batches as there are earlier stages (Qi et al., Zero bubble
/// pipeline parallelism, 2023, schedule ZB-H1).
PassOrder zb_h1(int stages, int micros) {
  PassOrder order;
  for (int stage = 0; stage < stages; ++stage) {
    const int warm = std::min(stages - 1 - stage, micros);
    Row row = all(PassKind::forward, warm);
    for (int one = 0; one < micros; ++one) {
      if (warm + one < micros) row.push_back(pass(PassKind::forward, 0, warm + one));
      row.push_back(pass(PassKind::input_gradient, 0, one));
      if (one >= stage) row.push_back(pass(PassKind::weight_gradient, 0, one - stage));
    }
    for (int one = std::max(micros - stage, 0); one < micros; ++one)
      row.push_back(pass(PassKind::weight_gradient, 0, one));
    order.push_back(std::move(row));
  }
  return order;
}

/// One stage of DualPipe. Direction 0 is the one that begins closer to the stage.
class BothWays {
 public:
  BothWays(int near, int micros) : near_(near), forward_{0, micros / 2}, back_{0, micros / 2} {}

  void forward(int way) {
    const int chunk = chunk_of(way);
    row_.push_back(pass(PassKind::forward, chunk, forward_[chunk]++));
  }
  /// `whole`: with the weight gradient; otherwise that is delayed.
  void back(int way, bool whole = true) {
    const int chunk = chunk_of(way), micro = back_[chunk]++;
    row_.push_back(pass(whole ? PassKind::backward : PassKind::input_gradient, chunk, micro));
    if (!whole) waiting_.push_back(pass(PassKind::weight_gradient, chunk, micro));
  }
  void weight() {
    row_.push_back(waiting_.front());
    waiting_.pop_front();
  }
  Row finished() {
    while (!waiting_.empty()) weight();
    return std::move(row_);
  }

 private:
  int chunk_of(int way) const { return way == 0 ? near_ : 1 - near_; }

  Row row_;
  std::deque<Pass> waiting_;  // delayed weight gradients
  int near_;
  int forward_[2], back_[2];  // next micro-batch of each chunk
};

Row dualpipe_stage(int stage, int stages, int micros) {
  const int out = std::min(stage, stages - 1 - stage), inside = stages / 2 - 1 - out;
  BothWays one(stage >= stages / 2 ? 1 : 0, micros);
  for (int turn = 0; turn < 2 * inside; ++turn) one.forward(0);
  for (int turn = 0; turn <= out; ++turn) one.forward(0), one.forward(1);
  for (int turn = 0; turn < inside; ++turn) one.back(1, false), one.weight(), one.forward(1);
  for (int turn = 0; turn < micros / 2 - stages + out + 1; ++turn)
    one.forward(0), one.back(1), one.forward(1), one.back(0);
  for (int turn = 0; turn < inside; ++turn) one.back(1), one.forward(1), one.back(0);
  const int late = (out + 1) / 2;  // later turns delay weight gradients
  for (int turn = 0; turn <= out; ++turn) {
    one.back(1, !(turn > late || (turn == late && out % 2 == 1)));
    one.back(0, turn < late);
  }
  for (int turn = 0; turn < inside; ++turn) one.weight(), one.back(0, false);
  return one.finished();
}

/// DeepSeek-AI, DeepSeek-V3 technical report (2024), 3.2.1, with the eight phases of its published code. Forward and
/// backward passes that overlap there follow each other here.
PassOrder dualpipe(int stages, int micros) {
  PassOrder order;
  for (int stage = 0; stage < stages; ++stage) order.push_back(dualpipe_stage(stage, stages, micros));
  return order;
}

}  // namespace

PassOrder pass_order(const std::string& schedule, int stages, int micros, int chunks) {
  using enum PassKind;
  if (schedule == "gpipe") return gpipe(stages, micros);
  if (schedule == "1f1b") return one_and_one(stages, micros);
  if (schedule == "interleaved") return interleaved(stages, micros, chunks);
  if (schedule == "zb-h1") return zb_h1(stages, micros);
  // Qi et al. (2023), ZB-H2: space for 2 stages - 1 micro-batches, and no bubble in the steady state.
  if (schedule == "zb-h2")
    return greedy_order(stages, micros, {{input_gradient, 0}, {forward, 0}, {weight_gradient, 0}}, 2 * stages - 1);
  // Two chunks in a V with the memory of 1f1b, after Qi et al., Pipeline parallelism with controllable memory (2024).
  // The preferences are the best permutation for 2 to 8 stages with equal passes.
  if (schedule == "zb-v")
    return greedy_order(stages, micros,
                        {{input_gradient, 0},
                         {forward, 1},
                         {forward, 0},
                         {input_gradient, 1},
                         {weight_gradient, 0},
                         {weight_gradient, 1}},
                        2 * stages);
  require(schedule == "dualpipe", "an order without a schedule");
  return dualpipe(stages, micros);
}

}  // namespace tilesim::cluster
