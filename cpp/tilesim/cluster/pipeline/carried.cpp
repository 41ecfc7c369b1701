#include "tilesim/cluster/pipeline/carried.hpp"

#include <algorithm>
#include <limits>

#include "tilesim/base/error.hpp"

namespace tilesim::cluster {

namespace {

std::size_t index(std::int64_t number) { return static_cast<std::size_t>(number); }

std::int64_t added(std::int64_t a, std::int64_t b) {
  if (a > std::numeric_limits<std::int64_t>::max() - b)
    throw UserError({"a pipeline takes longer than 2^63 picoseconds", "stages", "", "9,200,000 seconds", ""});
  return a + b;
}

}  // namespace

/// Lists passes in a valid order. Each pass for which another one waits gets a slot, which is free again after the
/// other has read it.
class Listing {
 public:
  Listing(Carried& to, const PassOrder& order, const Places& places, int micros)
      : to_(to),
        order_(order),
        places_(places),
        micros_(micros),
        told_(2 * places.size() * index(micros), -1),
        blocked_(order.size(), -1) {}

  void run() {
    std::vector<int> active;
    for (int stage = 0; stage < to_.stages_; ++stage) active.push_back(stage);
    while (!active.empty()) {
      const int stage = active.back();
      active.pop_back();
      int& at = to_.reached_[index(stage)];
      for (; index(at) < order_[index(stage)].size(); ++at) {
        const std::int64_t key = needs(order_[index(stage)][index(at)], stage);
        if (key >= 0 && told_[index(key)] < 0) {
          blocked_[index(stage)] = key;
          break;
        }
        list(order_[index(stage)][index(at)], stage, at == 0, key, active);
      }
    }
  }

 private:
  std::int64_t place(const Pass& one, int stage) const { return std::int64_t{one.chunk} * to_.stages_ + stage; }
  std::int64_t key(bool forward, std::int64_t place, std::uint32_t micro) const {
    return ((forward ? 0 : static_cast<std::int64_t>(places_.size())) + place) * micros_ + micro;
  }

  /// Key of the pass of another stage for which a pass waits; -1: none.
  std::int64_t needs(const Pass& one, int stage) const {
    require(one.chunk < places_.chunks && one.micro < static_cast<std::uint32_t>(micros_), "a pass is out of order");
    if (one.kind == PassKind::weight_gradient) return -1;
    const bool forward = one.kind == PassKind::forward;
    const int other = (forward ? places_.before : places_.after)[index(place(one, stage))];
    return other < 0 ? -1 : key(forward, other, one.micro);
  }

  void list(const Pass& one, int stage, bool first, std::int64_t waits, std::vector<int>& active) {
    const std::int64_t own = place(one, stage);
    Carried::Item item{static_cast<std::int32_t>(
                           static_cast<std::int64_t>(one.kind) * static_cast<std::int64_t>(places_.size()) + own),
                       -1,
                       -1,
                       static_cast<std::uint16_t>(stage),
                       first,
                       false};
    if (waits >= 0) {
      item.waits = told_[index(waits)];
      free_.push_back(item.waits);
    }
    const bool forward = one.kind == PassKind::forward;
    const int reader = (forward ? places_.after : places_.before)[index(own)];
    if (one.kind != PassKind::weight_gradient && reader >= 0) {
      const int target = reader % to_.stages_;
      const std::int64_t told = key(forward, own, one.micro);
      item.tells = slot();
      item.sends = target != stage;
      told_[index(told)] = item.tells;
      if (blocked_[index(target)] == told) {
        blocked_[index(target)] = -1;
        active.push_back(target);
      }
    }
    to_.items_.push_back(item);
  }

  std::int32_t slot() {
    if (free_.empty()) return static_cast<std::int32_t>(to_.slots_++);
    const std::int32_t found = free_.back();
    free_.pop_back();
    return found;
  }

  Carried& to_;
  const PassOrder& order_;
  const Places& places_;
  std::int64_t micros_;
  std::vector<std::int32_t> told_, free_;  ///< slot by key of its pass; free slots
  std::vector<std::int64_t> blocked_;      ///< by stage: key for which it waits
};

Carried::Carried(const PassOrder& order, const Places& places, int micros)
    : stages_(places.stages), rows_(4 * places.size()), counts_(rows_, 0), reached_(order.size(), 0) {
  const std::size_t size = index(places.stages) * index(places.chunks);
  require(order.size() == index(places.stages) && places.before.size() == size && places.after.size() == size,
          "the order and its placement have different stages");
  std::size_t passes = 0;
  for (const auto& row : order) passes += row.size();
  items_.reserve(passes);
  Listing(*this, order, places, micros).run();
  for (const Item& item : items_) ++counts_[index(item.row)];
}

bool Carried::bounded(std::span<const std::int64_t> times, std::size_t steps, std::int64_t transfer) const {
  double all = static_cast<double>(passes()) * static_cast<double>(transfer);
  for (std::size_t row = 0; row < rows_ && steps > 0; ++row) {
    const auto own = times.subspan(row * steps, steps);
    all += static_cast<double>(counts_[row]) * static_cast<double>(*std::max_element(own.begin(), own.end()));
  }
  return all < 9e18;
}

template <std::size_t lanes, bool checked>
void Carried::block(std::span<const std::int64_t> times, std::size_t steps, std::size_t at, std::size_t count,
                    std::int64_t transfer, std::span<std::int64_t> begins, std::span<std::int64_t> ends) const {
  std::vector<std::int64_t> table(rows_ * lanes, 0), told(slots_ * lanes, 0), free(index(stages_) * lanes, 0);
  for (std::size_t row = 0; row < rows_; ++row)
    std::copy_n(times.data() + row * steps + at, count, table.data() + row * lanes);
  const auto sum = [](std::int64_t a, std::int64_t b) { return checked ? added(a, b) : a + b; };
  for (const Item& item : items_) {
    std::int64_t* own = free.data() + item.stage * lanes;
    const std::int64_t* spent = table.data() + index(item.row) * lanes;
    if (item.waits >= 0) {
      const std::int64_t* waits = told.data() + index(item.waits) * lanes;
      for (std::size_t lane = 0; lane < lanes; ++lane) own[lane] = std::max(own[lane], waits[lane]);
    }
    if (item.first) std::copy_n(own, count, begins.data() + item.stage * steps + at);
    for (std::size_t lane = 0; lane < lanes; ++lane) own[lane] = sum(own[lane], spent[lane]);
    if (item.tells >= 0) {
      std::int64_t* tells = told.data() + index(item.tells) * lanes;
      const std::int64_t more = item.sends ? transfer : 0;
      for (std::size_t lane = 0; lane < lanes; ++lane) tells[lane] = sum(own[lane], more);
    }
  }
  for (std::size_t stage = 0; stage < index(stages_); ++stage)
    std::copy_n(free.data() + stage * lanes, count, ends.data() + stage * steps + at);
}

void Carried::run(std::span<const std::int64_t> times, std::size_t steps, std::int64_t transfer,
                  std::span<std::int64_t> begins, std::span<std::int64_t> ends) const {
  require(times.size() == rows_ * steps && begins.size() == index(stages_) * steps && ends.size() == begins.size(),
          "times and order have different stages");
  const bool safe = bounded(times, steps, transfer);
  constexpr std::size_t wide = 16;
  for (std::size_t at = 0; at < steps; at += wide) {
    const std::size_t left = std::min(wide, steps - at);
    if (!safe)
      block<wide, true>(times, steps, at, left, transfer, begins, ends);
    else if (left > 4)
      block<wide, false>(times, steps, at, left, transfer, begins, ends);
    else
      block<4, false>(times, steps, at, left, transfer, begins, ends);
  }
}

std::vector<std::int64_t> Carried::ends(std::span<const std::int64_t> times, std::int64_t transfer) const {
  require(times.size() == rows_, "times and order have different stages");
  std::vector<std::int64_t> told(slots_, 0), free(index(stages_), 0), found(items_.size());
  std::vector<std::size_t> at(index(stages_), 0);
  for (std::size_t stage = 1; stage < at.size(); ++stage) at[stage] = at[stage - 1] + index(reached_[stage - 1]);
  for (const Item& item : items_) {
    std::int64_t& own = free[item.stage];
    if (item.waits >= 0) own = std::max(own, told[index(item.waits)]);
    own = added(own, times[index(item.row)]);
    found[at[item.stage]++] = own;
    if (item.tells >= 0) told[index(item.tells)] = added(own, item.sends ? transfer : 0);
  }
  return found;
}

}  // namespace tilesim::cluster
