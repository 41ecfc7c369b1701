#include "tilesim/compile/passes/residency.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "tilesim/base/error.hpp"
#include "tilesim/base/index.hpp"
#include "tilesim/base/interrupt.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/compile/passes/addresses.hpp"
#include "tilesim/compile/passes/candidates.hpp"
#include "tilesim/compile/passes/numbers.hpp"
#include "tilesim/program/memory_lifetimes.hpp"
#include "tilesim/program/visit.hpp"

namespace tilesim::lower {

namespace {

constexpr std::int64_t granule = 64;  ///< alignment of addresses in bytes
constexpr std::int64_t rungs = 16;    ///< number of scratchpad sizes for which a kernel may be lowered again

/// Chooses the candidates that stay on chip, one after the other.
class ResidentChoice {
 public:
  ResidentChoice(Lowering& lowering, Candidates& candidates)
      : lowering_(lowering),
        candidates_(candidates),
        capacity_(lowering.machine.core.scratchpad.bytes / granule * granule) {
    const Share& machine = lowering.machine;
    const auto hertz = static_cast<double>(machine.core.clock.hertz);
    const double streams = streams_ = static_cast<double>(lowering.program.cores * lowering.program.contexts);
    memory_rate_ = streams * static_cast<double>(machine.memory.bytes_per_second) * machine.memory.efficiency / hertz;
    copy_rate_ = streams * static_cast<double>(machine.core.dma.bytes_per_cycle);
    for (const Candidates::Body& body : candidates.bodies()) spans_.emplace_back(body.kernels.size());
    port_rate_ = streams * static_cast<double>(machine.network.port_bytes_per_cycle) *
                 static_cast<double>(machine.network.clock.hertz) / hertz;
  }

  void run() {
    for (const Candidate* one : candidates_.in_order())
      if (one->wanted || lowering_.wish.automatic) consider(*one);
    leave_room();
    const auto states = [this](std::size_t body, std::size_t kernel) -> const KernelState& {
      return state({body, kernel});
    };
    for (const Resident& resident : lowering_.residents) {
      if (resident.passed) continue;
      const Candidate& one = *taken_.at(resident.tensor);
      candidates_.stays(one, resident.low, candidates_.split(one, states).value());
    }
    for (const auto& [place, kernel] : changed_) candidates_.replace(place, kernel);
  }

 private:
  struct Taken : Span { const Candidate* by = nullptr; };

  const KernelState& state(const KernelPlace& place) const {
    const auto found = changed_.find(place);
    return found == changed_.end() ? candidates_.bodies()[place.first].kernels[place.second] : found->second;
  }

  /// Closed-form cycles of a kernel, and bytes moved from and to memory.
  struct Price {
    double cycles = 0, bytes = 0;
    void operator+=(const Price& other) { cycles += other.cycles, bytes += other.bytes; }
  };

  /// Fractions of a value's loaded bytes that come from other cores: the part that passes the busiest port of
  /// concurrent loads, and each core's port in total.
  struct Fetched {
    double waited = 0;
    std::vector<double> ports;
  };

  /// Cores run their loads in step, two tiles at a time: concurrent loads from one core share its port.
  Fetched fetched_of(const TensorUse& use, const Candidate& value) const {
    constexpr std::size_t together = 2;
    double all = 0;
    Fetched fetched{0, std::vector<double>(use.cores.size(), 0)};
    std::vector<double> ports(use.cores.size(), 0);
    for (std::size_t first = 0; first < most_steps_seen; first += together) {
      std::fill(ports.begin(), ports.end(), 0);
      for (std::size_t core = 0; core < use.cores.size(); ++core) {
        const std::vector<CoreUse::Step>& steps = use.cores[core].steps;
        for (std::size_t i = first; i < std::min(first + together, steps.size()); ++i) {
          all += steps[i].times * volume(steps[i].region);
          for (const program::HeldPart& part : value.parts) {
            if (at(part.core) == core) continue;
            const double bytes = steps[i].times * common(steps[i].region, part);
            ports[core] += bytes;
            ports[at(part.core)] += bytes;
          }
        }
      }
      fetched.waited += *std::max_element(ports.begin(), ports.end());
      for (std::size_t core = 0; core < ports.size(); ++core) fetched.ports[core] += ports[core];
    }
    if (all <= 0) return {0, std::move(ports)};
    fetched.waited *= streams_ / all;
    for (double& bytes : fetched.ports) bytes /= all;
    return fetched;
  }

  static double common(const Region& region, const program::HeldPart& part) {
    double elements = 1;
    for (std::size_t axis = 0; axis < part.low.size(); ++axis)
      elements *= static_cast<double>(std::max<std::int64_t>(
          0, std::min(part.high[axis], region.high[axis]) - std::max(part.low[axis], region.low[axis]) + 1));
    return elements;
  }

  /// Price of a kernel if `resident` joins the values already on chip. Data from another core passes both ports.
  Price price(const KernelPlace& place, const KernelState& kernel, const Candidate* resident) const {
    const double times = candidates_.bodies()[place.first].times;
    double memory = 0, copied = 0, fetched = 0;
    if (!kernel.use) return {};
    std::vector<double> ports(at(lowering_.program.cores * lowering_.program.contexts), 0);
    std::ranges::copy(kernel.use->sent, ports.begin());
    for (const auto& [tensor, use] : *kernel.use) {
      const Candidate* found = nullptr;
      const double part = candidates_.part(tensor, [&](const std::string& owner) {
        const auto stays = taken_.find(owner);
        if (resident && owner == resident->tensor) found = resident;
        if (!found && stays != taken_.end()) found = stays->second;
        return found != nullptr && found->tensor == owner;
      });
      memory += (1 - part) * (use.loaded + use.stored);
      if (!found) continue;
      const double bytes = part * use.elements * static_cast<double>(bits(candidates_.dtype(tensor))) / 8;
      copied += bytes;
      if (found->parts.empty()) continue;
      const double loaded = bytes * use.loaded / std::max(1.0, use.loaded + use.stored);
      const Fetched passed = fetched_of(use, *found);
      fetched += loaded * passed.waited;
      for (std::size_t core = 0; core < ports.size(); ++core) ports[core] += loaded * passed.ports[core];
    }
    // Both are loaded in order, so neither hides the other.
    const double moving = memory / memory_rate_ + fetched / port_rate_;
    const double busiest = streams_ > 1 ? memory + streams_ * *std::ranges::max_element(ports) : 0;
    const double cycles = std::max({kernel.facts.compute, moving, busiest / port_rate_, copied / copy_rate_});
    return {times * cycles, times * memory};
  }

  void consider(const Candidate& one) {
    worked(1024);
    const std::int64_t bytes = round_up(std::max<std::int64_t>(1, one.core_bytes), granule);
    Resident resident{one.tensor, candidates_.bodies()[one.body].function, one.first, one.last, 0, 0};
    std::optional<Resident> tight;  // first position that requires smaller tiles
    for (const std::int64_t high : tops(one)) {
      resident.low = high - bytes;
      resident.high = high;
      if (resident.low < 0 || crowded(one, resident)) continue;
      if (fits(one, resident) && still_own(one, resident, {})) {
        if (one.wanted || lowering_.wish.fitting || saved(one) >= 0) take(one, resident, {});
        return;
      }
      if (!tight) tight = resident;
    }
    if (tight && shrink(one, *tight)) return;
    if (one.wanted) refuse(one, bytes);
  }

  /// Upper ends of free ranges during the candidate's lifetime, highest first.
  std::vector<std::int64_t> tops(const Candidate& one) const {
    std::vector<std::int64_t> ends{capacity_};
    for (const KernelPlace& place : one.places)
      for (const Taken& other : spans_[place.first][place.second]) ends.push_back(other.low);
    std::sort(ends.rbegin(), ends.rend());
    ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
    return ends;
  }

  bool crowded(const Candidate& one, const Resident& resident) const {
    for (const KernelPlace& place : one.places)
      for (const Taken& other : spans_[place.first][place.second])
        if (resident.low < other.high && other.low < resident.high && !follow(one, *other.by)) return true;
    return false;
  }

  /// Whether one value is dead before the other is stored, although separate calls pass both to the same function.
  static bool follow(const Candidate& a, const Candidate& b) {
    return a.body == b.body && (a.last < b.first || b.last < a.first);
  }

  std::int64_t gap_beside(const Resident& resident, const KernelPlace& place) const {
    const std::vector<Taken>& taken = spans_[place.first][place.second];
    std::vector<Span> spans(taken.begin(), taken.end());
    spans.push_back({resident.low, resident.high});
    const Span gap = longest_gap(std::move(spans), capacity_);
    return gap.high - gap.low;
  }

  bool fits(const Candidate& one, const Resident& resident) const {
    for (const KernelPlace& place : one.places)
      if (gap_beside(resident, place) < state(place).held) return false;
    return true;
  }

  /// Cycles by which a resident value may be slower on several cores. The bound by the busiest port is too high, since
  /// other kernels' tiles hide transfers: half a percent of cycles per percent of bytes saved.
  double tolerance(const Price& before, const Price& after) const {
    if (streams_ < 2 || before.bytes <= 0) return 0;
    return 0.5 * before.cycles * (before.bytes - after.bytes) / before.bytes;
  }

  /// Cycles saved if no kernel changes; negative if cores read from each other through a slow network.
  double saved(const Candidate& one) const {
    Price before, after;
    for (const KernelPlace& place : one.places) {
      before += price(place, state(place), nullptr);
      after += price(place, state(place), &one);
    }
    return before.cycles - after.cycles + tolerance(before, after);
  }

  void take(const Candidate& one, const Resident& resident, std::map<KernelPlace, KernelState> smaller) {
    lowering_.residents.push_back(resident);
    for (const KernelPlace& place : one.places)
      spans_[place.first][place.second].push_back({{resident.low, resident.high}, &one});
    std::set<std::size_t> called;
    for (const KernelPlace& place : one.places)
      if (place.first != one.body && called.insert(place.first).second) {
        const Candidates::Body& body = candidates_.bodies()[place.first];
        lowering_.residents.push_back(
            {one.tensor, body.function, 0, std::ssize(body.kernels) - 1, resident.low, resident.high, true});
      }
    taken_.emplace(one.tensor, &one);
    for (auto& [place, kernel] : smaller) changed_.insert_or_assign(place, std::move(kernel));
  }

  /// Takes the value with smaller tiles for kernels without enough space; false if that is not faster.
  bool shrink(const Candidate& one, const Resident& resident) {
    if (!one.wanted && saved(one) <= 0) return false;
    std::map<KernelPlace, KernelState> smaller;
    Price before, after;
    for (const KernelPlace& place : one.places) {
      const KernelState& now = state(place);
      const std::int64_t gap = gap_beside(resident, place);
      before += price(place, now, nullptr);
      if (gap >= now.held) {
        after += price(place, now, &one);
        continue;
      }
      const KernelState* other = lowered_again(place, gap);
      if (!other) return false;
      after += price(place, *other, &one);
      after.cycles += candidates_.bodies()[place.first].times *
                      std::max(0.0, other->facts.cycles - now.facts.cycles);  // includes latency of smaller tiles
      smaller.emplace(place, *other);
    }
    const bool worth = after.cycles <= before.cycles + tolerance(before, after) && after.bytes < before.bytes;
    if ((!one.wanted && !worth) || !still_own(one, resident, smaller)) return false;
    take(one, resident, std::move(smaller));
    return true;
  }

  /// Whether all affected values still fit their bytes: smaller tiles may change how kernels split them over the cores.
  bool still_own(const Candidate& added, const Resident& resident,
                 const std::map<KernelPlace, KernelState>& smaller) const {
    const auto states = [&](std::size_t body, std::size_t kernel) -> const KernelState& {
      const auto found = smaller.find({body, kernel});
      return found == smaller.end() ? state({body, kernel}) : found->second;
    };
    std::set<const Candidate*> beside{&added};  // no other value's kernels change
    for (std::int64_t kernel = added.first; kernel <= added.last; ++kernel)
      for (const Taken& other : spans_[added.body][at(kernel)])
        if (other.by->body == added.body) beside.insert(other.by);
    for (const Candidate* one : beside) {
      const std::optional<Candidates::Split> split = candidates_.split(*one, states);
      if (!split || split->core_bytes > one->core_bytes) return false;
    }
    return resident.low >= 0;
  }

  /// Lowers kernels again that take more than half of the space left by values: such a kernel cannot overlap with its
  /// neighbors, so its first load and last store are exposed. Takes half the space if neither cycles nor bytes grow by
  /// more than 1%.
  void leave_room() {
    if (lowering_.machine.core.kernel_barrier || streams_ > 1) return;
    for (std::size_t body = 0; body < candidates_.bodies().size(); ++body) {
      const std::size_t kernels = candidates_.bodies()[body].kernels.size();
      for (std::size_t kernel = 0; kernel < kernels && kernels > 1; ++kernel) {
        const KernelPlace place{body, kernel};
        const KernelState& now = state(place);
        const std::vector<Taken>& taken = spans_[body][kernel];
        const Span gap = longest_gap(std::vector<Span>(taken.begin(), taken.end()), capacity_);
        if (now.opaque || !now.use || 2 * now.held <= gap.high - gap.low) continue;
        const KernelState* half = lowered_again(place, (gap.high - gap.low) / 2);
        if (!half) continue;
        constexpr double near = 1.01;
        const Price before = price(place, now, nullptr), after = price(place, *half, nullptr);
        if (after.cycles > near * before.cycles || after.bytes > before.bytes) continue;
        if (half->facts.cycles > near * now.facts.cycles) continue;  // includes latency of more tiles
        changed_.insert_or_assign(place, *half);
      }
    }
  }

  const KernelState* lowered_again(const KernelPlace& place, std::int64_t bytes) {
    const std::int64_t step = std::max(granule, capacity_ / rungs), rung = bytes / step;
    if (rung == 0 || !lowering_.again) return nullptr;
    const auto [entry, fresh] = again_.try_emplace({place, rung});
    if (fresh) entry->second = candidates_.again(place.first, place.second, rung * step);
    return entry->second && entry->second->held <= bytes ? &*entry->second : nullptr;
  }

  [[noreturn]] void refuse(const Candidate& one, std::int64_t bytes) const {
    std::vector<std::string> others;
    for (const Resident& other : lowering_.residents)
      if (!other.passed && other.function == candidates_.bodies()[one.body].function && other.first <= one.last &&
          one.first <= other.last)
        others.push_back("'" + other.tensor + "'");
    throw UserError({"a value does not fit the scratchpad beside the tiles of concurrent kernels",
                     "residency of '" + one.tensor + "'", std::to_string(bytes) + " bytes in each core",
                     std::to_string(capacity_) + " bytes of scratchpad, which the kernels' buffers share",
                     others.empty() ? "leave it in memory" : "drop " + join(others)});
  }

  Lowering& lowering_;
  Candidates& candidates_;
  std::int64_t capacity_;
  double streams_ = 1, memory_rate_ = 1, copy_rate_ = 1, port_rate_ = 1;
  std::vector<std::vector<std::vector<Taken>>> spans_;  ///< by body and kernel
  std::map<std::string, const Candidate*> taken_;
  std::map<KernelPlace, KernelState> changed_;
  std::map<std::pair<KernelPlace, std::int64_t>, std::optional<KernelState>> again_;
};

}  // namespace

Span longest_gap(const std::vector<Resident>& residents, const std::string& function, std::int64_t kernel,
                 std::int64_t bytes) {
  std::vector<Span> taken;
  for (const Resident& one : residents)
    if (one.function == function && one.first <= kernel && kernel <= one.last) taken.push_back({one.low, one.high});
  return longest_gap(std::move(taken), bytes);
}

Span longest_gap(std::vector<Span> taken, std::int64_t bytes) {
  std::sort(taken.begin(), taken.end(), [](const Span& a, const Span& b) { return a.low < b.low; });
  taken.push_back({bytes, bytes});
  Span best;
  std::int64_t end = 0;
  for (const Span& one : taken) {
    if (one.low - end > best.high - best.low) best = {end, one.low};
    end = std::max(end, one.high);
  }
  return best;
}

Span free_beside(const std::vector<Resident>& residents, const std::string& function, std::int64_t kernel,
                 std::int64_t held, std::int64_t bytes) {
  std::vector<Span> taken;
  for (const Resident& one : residents)
    if (one.function == function && one.first <= kernel && kernel <= one.last + 1) taken.push_back({one.low, one.high});
  const Span free = longest_gap(std::move(taken), bytes);
  return free.high - free.low >= held ? free : longest_gap(residents, function, kernel, bytes);
}

void choose_residents(Lowering& lowering) {
  if (!lowering.wish.automatic && lowering.wish.levels.empty()) return;
  if (lowering.wish.levels.empty() && !program::lifetimes(lowering.program).known) return;
  Candidates candidates(lowering);
  ResidentChoice(lowering, candidates).run();
  candidates.note();
}

}  // namespace tilesim::lower
