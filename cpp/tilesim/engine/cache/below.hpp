// The memory channel below a slice of a cache, in the slice's cycles.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "tilesim/base/units.hpp"
#include "tilesim/engine/dram/channel.hpp"
#include "tilesim/engine/dram/mapping.hpp"

namespace tilesim::engine::cache {

inline constexpr std::uint32_t no_tag = 0xffffffff;  ///< no request waits for the answer

/// x * numerator / denominator, exactly.
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
  /// Offers the next request, with `cycle` later than the last `advance`. Returns the number of answers to a read.
  virtual std::int64_t offer(std::int64_t cycle, std::uint64_t address, std::int64_t bytes, bool write,
                             std::uint32_t tag) = 0;
  /// Processes all events up to and including `cycle`.
  virtual void advance(std::int64_t cycle) = 0;
  /// Number of requests offered but not accepted.
  virtual std::int64_t waiting() const = 0;
  /// Runs until every read has returned and every request is accepted; returns the cycle.
  virtual std::int64_t finish() = 0;
  /// Finds when reads in flight return if no further request arrives. Changes nothing.
  virtual void outlook(std::vector<Returned>& found) = 0;

  std::vector<Returned> returned;  ///< the owner clears it
  std::int64_t moved = 0;          ///< bytes offered so far
  std::int64_t padding = 0;        ///< bytes of whole bursts beyond the requested ones
};

/// A DRAM channel, which reports its completions to this object from construction on.
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

/// A channel with latency and bandwidth. Its buffer holds a limited number of bytes; further requests wait before it.
class SimpleBelow final : public Below {
 public:
  struct Spec {
    Clock clock, bytes;  ///< `clock`: of the slice; `bytes`: one byte per cycle
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
  void outlook(std::vector<Returned>&) override {}  // answers are known when a request is offered

 private:
  Spec spec_;
  Scale to_bytes_, to_cycles_;
  std::int64_t free_ = 0, last_ = 0;   ///< in byte times; in cycles
  std::deque<std::int64_t> accepted_;  ///< acceptance times in the future
};

}  // namespace tilesim::engine::cache
