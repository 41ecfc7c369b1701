#include "tilesim/isa/pipeline/profile.hpp"

#include <algorithm>

namespace tilesim::isa {

Profile::Counter& Profile::counter(std::uint64_t address) {
  if (address >> page_bits != number_) [[unlikely]] {
    number_ = address >> page_bits;
    std::unique_ptr<Page>& page = pages_[number_];
    if (!page) page = std::make_unique<Page>();
    page_ = page.get();
  }
  return (*page_)[(address & ((1U << page_bits) - 1)) >> 1];
}

void Profile::issued(const Issue& what) {
  Counter& of = counter(what.op.pc);
  ++of.instructions;
  const Ticks over = (what.over + cycle - 1) & ~(cycle - 1);
  of.cycles += (over - over_) / cycle, before_ = over_, over_ = over;
  const StaticTiming& fixed = what.fixed;
  if (what.plan != nullptr) {
    work_.operations[(what.v.type.sew - 3U) & 3] += what.plan->operations;
    (fixed.stores ? work_.stored : work_.loaded) += what.plan->bytes;
    return;
  }
  work_.operations[fixed.width & 3] += fixed.operations;
  if (fixed.loads) work_.loaded += std::uint64_t{1} << fixed.width;
  if (fixed.stores) work_.stored += std::uint64_t{1} << fixed.width;
}

void Profile::count(Counters& to, bool last) const {
  to.cycles = (last ? over_ : before_) / cycle;
  to.operations = 0;
  for (const std::uint64_t of_width : work_.operations) to.operations += of_width;
  to.bytes_loaded = work_.loaded, to.bytes_stored = work_.stored;
}

void Profile::trapped(const Op& op) { --counter(op.pc).instructions; }

std::vector<Profile::Row> Profile::rows() const {
  std::vector<Row> all;
  for (const auto& [number, page] : pages_)
    for (std::size_t i = 0; i < page->size(); ++i)
      if (const Counter& of = (*page)[i]; of.instructions != 0 || of.cycles != 0)
        all.push_back({(number << page_bits) + 2 * i, of.instructions, of.cycles});
  std::sort(all.begin(), all.end(), [](const Row& a, const Row& b) { return a.address < b.address; });
  return all;
}

namespace {

/// Highest rate of each pipe of a kind, over all operations that can use it.
class Best {
 public:
  void add(unsigned pipes, double rate) {
    for (unsigned i = 0; i < std::min<std::size_t>(pipes, rates_.size()); ++i) rates_[i] = std::max(rates_[i], rate);
  }
  double sum(unsigned pipes) const {
    double all = 0;
    for (unsigned i = 0; i < std::min<std::size_t>(pipes, rates_.size()); ++i) all += rates_[i];
    return all;
  }

 private:
  std::array<double, 8> rates_{};
};

}  // namespace

Peaks peaks(const InstructionSet& set, const CoreTiming& core) {
  const std::vector<StaticTiming> timings = static_timings(set, core);
  std::vector<unsigned> pipes(core.pipes.begin(), core.pipes.end());
  for (const CustomUnit& unit : core.units) pipes.push_back(unit.pipes);
  std::array<std::vector<Best>, 4> operations;
  for (auto& of_width : operations) of_width.resize(pipes.size());
  std::vector<Best> bytes(pipes.size());
  VectorState v(core.vlen);
  Op op;
  op.rm = 1;
  for (unsigned sew = 0; sew < 4; ++sew)
    for (unsigned lmul = 0; lmul < 4; ++lmul) {
      set_vtype(v, lmul | sew << 3, ~std::uint64_t{0});
      for (const InstructionInfo& info : set.all()) {
        const StaticTiming& fixed = timings[set.id(info)];
        const bool own =
            info.custom && info.is(is_vector) && (info.custom->width == 0 || info.custom->width == 8U << sew);
        if (fixed.kind != StaticTiming::vector || (info.by_width[sew] == nullptr && !own)) continue;
        const InstructionPlan plan = make_plan(core, info, fixed, op, v);
        const double held = static_cast<double>(plan.held) / static_cast<double>(cycle);
        const std::size_t kind = fixed.pipe;
        if (fixed.loads || fixed.stores)
          bytes[kind].add(plan.pipes, plan.bytes / held);
        else
          operations[sew][kind].add(plan.pipes, plan.operations / held);
      }
    }
  Peaks found;
  for (std::size_t kind = 0; kind < pipes.size(); ++kind) {
    for (unsigned sew = 0; sew < 4; ++sew) found.operations[sew] += operations[sew][kind].sum(pipes[kind]);
    found.bytes += bytes[kind].sum(pipes[kind]);
  }
  return found;
}

}  // namespace tilesim::isa
