// The memory channel below a cache slice. Times are in the slice's cycles.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "tilesim/base/units.hpp"
#include "tilesim/engine/dram/channel.hpp"
#include "tilesim/engine/dram/mapping.hpp"

namespace tilesim::engine::cache {

inline constexpr std::uint32_t no_tag = 0xffffffff;  ///< tag of a request without a waiting reader

/// Computes x * numerator / denominator in integers; `up` rounds up, `down` rounds down.
class Scale {
 public:
  Scale() = default;
  Scale(Int128 numerator, Int128 denominator);
  std::int64_t up(std::int64_t x) const { return same_ ? x : divide(x, denominator_ - 1); }
  std::int64_t down(std::int64_t x) const { return same_ ? x : divide(x, 0); }
  Scale inverse() const { return {denominator_, numerator_}; }

 private:
  std::int64_t divide(std::int64_t x, Int128 further) const {
    return static_cast<std::int64_t>((static_cast<Int128>(x) * numerator_ + further) / denominator_);
  }
  Int128 numerator_ = 1, denominator_ = 1;
  bool same_ = true;
};

class Below {
 public:
  struct Returned {
    std::uint32_t tag = 0;
    std::int64_t cycle = 0;
  };
  virtual ~Below() = default;
  /// Offers a request; `cycle` must be later than that of the last `advance`. Returns the number of bursts or parts.
  virtual std::int64_t offer(std::int64_t cycle, std::uint64_t address, std::int64_t bytes, bool write,
                             std::uint32_t tag) = 0;
  /// Processes all events up to and including `cycle`.
  virtual void advance(std::int64_t cycle) = 0;
  /// Number of requests that were offered but that the channel has not accepted.
  virtual std::int64_t waiting() const = 0;
  /// Advances until the channel has accepted all requests and every read has returned; returns that cycle.
  virtual std::int64_t finish() = 0;
  /// Adds to `found` when the pending reads return if no further request arrives. Changes no state of the channel.
  virtual void outlook(std::vector<Returned>& found) = 0;

  std::vector<Returned> returned;  ///< completed reads; the owner of this object clears the list
  std::int64_t moved = 0;          ///< bytes offered so far
  std::int64_t padding = 0;        ///< bytes that whole bursts transfer in addition to the requested bytes
};

/// A DRAM channel. From construction on, the channel reports its completions to this object.
class BankBelow final : public Below {
 public:
  /// `to_ticks`: ticks of the channel per cycle.
  BankBelow(dram::Channel& channel, const dram::AddressMap& map, std::int64_t burst, const Scale& to_ticks);
  std::int64_t offer(std::int64_t cycle, std::uint64_t address, std::int64_t bytes, bool write,
                     std::uint32_t tag) override;
  void advance(std::int64_t cycle) override;
  std::int64_t waiting() const override { return static_cast<std::int64_t>(channel_.waiting()); }
  std::int64_t finish() override;
  void outlook(std::vector<Returned>& found) override;

 private:
  void collect(std::vector<Returned>& into);

  dram::Channel& channel_;
  const dram::AddressMap& map_;
  std::int64_t burst_;
  Scale to_ticks_, to_cycles_;
  std::unique_ptr<dram::Channel> trial_;
  std::vector<dram::Completion> completions_;
};

/// A channel with a latency and a bandwidth. Its buffer has a limited size; requests wait until the buffer has space.
class SimpleBelow final : public Below {
 public:
  struct Spec {
    Clock clock, bytes;  ///< `clock`: the slice's clock; `bytes`: a clock with one cycle per byte
    std::int64_t latency_cycles = 0, buffer_bytes = 0;
  };
  explicit SimpleBelow(const Spec& spec)
      : spec_(spec), to_bytes_(spec.bytes.hertz, spec.clock.hertz), to_cycles_(spec.clock.hertz, spec.bytes.hertz) {}
  std::int64_t offer(std::int64_t cycle, std::uint64_t address, std::int64_t bytes, bool write,
                     std::uint32_t tag) override;
  void advance(std::int64_t cycle) override {
    while (!accepted_.empty() && accepted_.front() <= cycle) accepted_.pop_front();
  }
  std::int64_t waiting() const override { return static_cast<std::int64_t>(accepted_.size()); }
  std::int64_t finish() override { return last_; }
  void outlook(std::vector<Returned>&) override {}  // `offer` already returns the answers

 private:
  Spec spec_;
  Scale to_bytes_, to_cycles_;
  std::int64_t free_ = 0, last_ = 0;   ///< end of the last transfer in byte times; last event in cycles
  std::deque<std::int64_t> accepted_;  ///< future cycles in which the channel accepts a request
};

}  // namespace tilesim::engine::cache
