// Vector stores under way, for loads of the same bytes.
#pragma once

#include <algorithm>
#include <vector>

#include "tilesim/isa/pipeline/plan.hpp"

namespace tilesim::isa {

/// Bytes of memory that an instruction reads or writes, one after the other, from `start` for `held`.
struct Touched {
  std::uint64_t from = 0, to = 0;
  Ticks start = 0, held = 0;

  bool any() const { return from != to; }
  /// From its start until it comes to a byte.
  Ticks until(std::uint64_t byte) const {
    return held * static_cast<Ticks>(byte - from) / static_cast<Ticks>(to - from);
  }
};

/// Where the elements of an instruction lie that begins at `base`; nothing where that depends on a register of indices.
/// Strided ones take all that lies between.
inline Touched touched_by(Accesses how, std::uint64_t base, std::uint64_t stride, std::uint64_t elements,
                          const Plan& plan) {
  if (how == Accesses::none || plan.bytes == 0) return {};
  if (how == Accesses::row || elements < 2) return {base, base + plan.bytes, 0, plan.held};
  const std::uint64_t last = base + stride * (elements - 1), each = plan.bytes / elements;
  return {std::min(base, last), std::max(base, last) + each, 0, plan.held};
}

/// The last stores of a run that knows addresses.
class Stores {
 public:
  explicit Stores(std::size_t most = 1) : all_(most) {}

  void add(const Touched& store) {
    all_[next_] = store;
    if (++next_ == all_.size()) next_ = 0;
    over_ = std::max(over_, store.start + store.held);
  }
  /// Before this a load that starts at `now` or later cannot: each of its bytes has been written when it is read.
  Ticks before(const Touched& load, Ticks now) const {
    Ticks found = 0;
    if (over_ <= now) return found;
    for (const Touched& store : all_) {
      if (store.start + store.held <= now || store.to <= load.from || load.to <= store.from) continue;
      for (const std::uint64_t byte : {std::max(store.from, load.from), std::min(store.to, load.to) - 1})
        found = std::max(found, store.start + store.until(byte + 1) - load.until(byte));
    }
    return found;
  }

 private:
  std::vector<Touched> all_;
  std::size_t next_ = 0;
  Ticks over_ = 0;
};

}  // namespace tilesim::isa
