// Execution of a schedule on sets of contributions.
#include <algorithm>
#include <numeric>

#include "tilesim/base/error.hpp"
#include "tilesim/base/index.hpp"
#include "tilesim/cluster/collective/schedule.hpp"

namespace tilesim::cluster {

namespace {

/// Contents of the slots: a value each, and the set of its contributors. A set is a bit per device or, if that needs
/// too much memory, the sum of a random number per device: a repeated contribution then changes the sum.
class Contents {
 public:
  explicit Contents(const Schedule& schedule) : schedule_(schedule) {
    const std::size_t places = schedule.initial.size();
    const std::size_t words = (at(schedule.devices) + 63) / 64;
    exact_ = places * words <= (std::size_t{1} << 24);
    words_ = exact_ ? words : 1;
    value_ = schedule.initial;
    sets_.assign(places * words_, 0);
    for (std::size_t place = 0; place < places; ++place)
      if (value_[place] >= 0) sets_[place * words_ + word(device_of(place))] += bit(device_of(place));
  }

  struct Taken {
    int value;
    std::vector<std::uint64_t> set;
  };
  Taken take(const Transfer& transfer) const {
    const std::size_t place = place_of(transfer.source, transfer.from);
    if (value_[place] < 0) fail("a chunk is sent that the device does not have", transfer);
    return {value_[place],
            {sets_.begin() + static_cast<std::ptrdiff_t>(place * words_),
             sets_.begin() + static_cast<std::ptrdiff_t>((place + 1) * words_)}};
  }
  void put(const Transfer& transfer, const Taken& taken) {
    const std::size_t place = place_of(transfer.target, transfer.into);
    std::uint64_t* set = &sets_[place * words_];
    if (transfer.combine && value_[place] >= 0) {
      if (value_[place] != taken.value) fail("different chunks are combined", transfer);
      for (std::size_t w = 0; w < words_; ++w) {
        if (exact_ && (set[w] & taken.set[w]) != 0) fail("a contribution is counted twice", transfer);
        set[w] += taken.set[w];
      }
      return;
    }
    value_[place] = taken.value;
    std::copy(taken.set.begin(), taken.set.end(), set);
  }
  void check_end() const {
    std::vector<std::uint64_t> all(words_, 0);
    for (int d = 0; d < schedule_.devices; ++d) all[word(d)] += bit(d);
    std::vector<int> source(schedule_.summed() ? 0 : schedule_.initial.size(), -1);
    for (std::size_t place = 0; place < source.size(); ++place)
      if (schedule_.initial[place] >= 0) source[at(schedule_.initial[place])] = device_of(place);
    for (std::size_t place = 0; place < value_.size(); ++place) {
      const int wanted = schedule_.wanted[place];
      if (wanted < 0) continue;
      std::vector<std::uint64_t> whole(words_, 0);
      if (schedule_.summed())
        whole = all;
      else
        whole[word(source[at(wanted)])] = bit(source[at(wanted)]);
      const bool same = value_[place] == wanted && std::equal(whole.begin(), whole.end(), &sets_[place * words_]);
      if (same) continue;
      const auto slot = static_cast<int>(place % at(schedule_.slots));
      throw UserError(
          {exact_ || value_[place] != wanted ? "a part never arrives" : "a part never arrives, or is counted twice",
           "algorithm '" + schedule_.algorithm + "'",
           "device " + std::to_string(device_of(place)) + ", chunk " + std::to_string(slot),
           "what " + name_of(schedule_.operation) + " means on every device",
           {}});
    }
  }

 private:
  std::size_t place_of(int device, int slot) const { return at(device) * at(schedule_.slots) + at(slot); }
  int device_of(std::size_t place) const { return static_cast<int>(place / at(schedule_.slots)); }
  std::size_t word(int device) const { return exact_ ? at(device) / 64 : 0; }
  std::uint64_t bit(int device) const {
    if (exact_) return std::uint64_t{1} << (device % 64);
    std::uint64_t x = static_cast<std::uint64_t>(device) + 1;  // SplitMix64
    x *= 0x9e3779b97f4a7c15ULL;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
  }
  [[noreturn]] void fail(const char* what, const Transfer& transfer) const {
    throw UserError({what,
                     "algorithm '" + schedule_.algorithm + "', step " + std::to_string(transfer.step),
                     "device " + std::to_string(transfer.source) + " to " + std::to_string(transfer.target) +
                         ", chunk " + std::to_string(transfer.from),
                     "every contribution once",
                     {}});
  }

  const Schedule& schedule_;
  bool exact_ = true;
  std::size_t words_ = 1;
  std::vector<int> value_;
  std::vector<std::uint64_t> sets_;
};

}  // namespace

void check_on_sets(const Schedule& schedule) {
  std::vector<int> order(schedule.transfers.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return schedule.transfers[at(a)].step < schedule.transfers[at(b)].step; });
  Contents contents(schedule);
  std::vector<Contents::Taken> taken;
  for (std::size_t begin = 0; begin < order.size();) {
    std::size_t end = begin;
    const int step = schedule.transfers[at(order[begin])].step;
    taken.clear();
    for (; end < order.size() && schedule.transfers[at(order[end])].step == step; ++end)
      taken.push_back(contents.take(schedule.transfers[at(order[end])]));
    for (std::size_t i = begin; i < end; ++i) contents.put(schedule.transfers[at(order[i])], taken[i - begin]);
    begin = end;
  }
  contents.check_end();
}

}  // namespace tilesim::cluster
