// Memory ordering between accesses in flight, for runs that know addresses.
#pragma once

#include <algorithm>
#include <vector>

#include "tilesim/isa/pipeline/plan.hpp"

namespace tilesim::isa {

/// A range of memory that an instruction accesses sequentially, from `start` for `held` ticks.
struct Touched {
  std::uint64_t from = 0, to = 0;
  Ticks start = 0, held = 0;

  bool any() const { return from != to; }
  /// Time from the start until the access reaches a byte; strides may be of any size.
  Ticks until(std::uint64_t byte) const {
    const std::uint64_t done = byte - from, all = to - from;
    constexpr std::uint64_t exact = std::uint64_t{1} << 31;
    if (all < exact && held < static_cast<Ticks>(exact))
      return static_cast<Ticks>(static_cast<std::uint64_t>(held) * done / all);
    return static_cast<Ticks>(static_cast<double>(held) * (static_cast<double>(done) / static_cast<double>(all)));
  }
};

/// The range of memory that an instruction at `base` accesses; empty if a vector of indices determines it. Strided
/// accesses cover all bytes in between.
inline Touched touched_by(Accesses how, std::uint64_t base, std::uint64_t stride, std::uint64_t elements,
                          const InstructionPlan& plan) {
  if (how == Accesses::none || plan.bytes == 0) return {};
  if (how == Accesses::row || elements < 2) return {base, base + plan.bytes, 0, plan.held};
  const std::uint64_t last = base + stride * (elements - 1), each = plan.bytes / elements;
  return {std::min(base, last), std::max(base, last) + each, 0, plan.held};
}

/// The latest accesses of one kind, up to `most`.
class UnderWay {
 public:
  explicit UnderWay(std::size_t most = 1) : all_(most) {}

  void add(const Touched& one) {
    all_[next_] = one;
    if (++next_ == all_.size()) next_ = 0;
    over_ = std::max(over_, one.start + one.held);
  }
  bool over(Ticks now) const { return over_ <= now; }
  /// Earliest start of an access, at `now` or later, that touches no byte before these accesses have passed it.
  Ticks before(const Touched& younger, Ticks now) const {
    Ticks found = 0;
    if (over(now)) return found;
    for (const Touched& older : all_) {
      if (older.start + older.held <= now || older.to <= younger.from || younger.to <= older.from) continue;
      for (const std::uint64_t byte : {std::max(older.from, younger.from), std::min(older.to, younger.to) - 1})
        found = std::max(found, older.start + older.until(byte + 1) - younger.until(byte));
    }
    return found;
  }

 private:
  std::vector<Touched> all_;
  std::size_t next_ = 0;
  Ticks over_ = 0;
};

/// Orders accesses: a read follows older writes of its bytes, a write follows older reads and writes. Scalar accesses
/// are in program order anyway.
class MemoryOrder {
 public:
  explicit MemoryOrder(std::size_t vectors = 1) : loads_(vectors), stores_(vectors) {}

  bool quiet(Ticks now) const { return loads_.over(now) && stores_.over(now); }  ///< no vector access is in flight
  /// Earliest start of an access by a vector or scalar instruction.
  Ticks before(const Touched& access, bool reads, bool is_vector, Ticks now) const {
    Ticks found = stores_.before(access, now);
    if (!reads) found = std::max(found, loads_.before(access, now));
    return is_vector ? std::max(found, scalar_stores_.before(access, now)) : found;
  }
  void add(const Touched& access, bool reads) { (reads ? loads_ : stores_).add(access); }
  void add_scalar_store(const Touched& access) { scalar_stores_.add(access); }

 private:
  static constexpr std::size_t scalars = 16;
  UnderWay loads_, stores_, scalar_stores_{scalars};
};

}  // namespace tilesim::isa
