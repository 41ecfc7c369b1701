#include "tilesim/isa/order/sort_kernel.hpp"

#include <algorithm>
#include <functional>

#include "tilesim/base/error.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/isa/order/sort_words.hpp"

namespace tilesim::isa {

namespace {

using Words = WordWriter::Words;
using Pair = WordWriter::Pair;

constexpr std::int64_t most_together = 4;  ///< pairs or words processed together, to overlap latencies

class SortWriter {
 public:
  SortWriter(const InstructionSet& set, const tilesim::Sort& sort, const SortPlan& plan, const SortAddresses& at)
      : plan_(plan),
        at_(at),
        code_(set),
        words_(code_, plan, sort.in.dtype, sort.positions.dtype, sort.descending),
        together_(plan.wide ? most_together / 2 : most_together),
        side_(plan.wide ? 1 : 2) {}

  Kernel write();

 private:
  static constexpr unsigned load_low = a3, load_high = a6, store_low = a7, store_high = 30;
  static constexpr unsigned row_counter = 8, outer_counter = 9, inner_counter = a4;

  /// Pairs of words in memory: `count` of them from registers `low` and `high` on, in `blocks` at distance `stride`.
  struct Sweep {
    std::int64_t blocks = 1, stride = 0, low = 0, high = 0, high_step = 1, count = 0;
    std::int64_t to = -1, to_stride = 0;  ///< destination of the lower words only; −1: both in place
  };
  using OnPairs = std::function<void(std::vector<Pair>&)>;
  using OnWords = std::function<void(const std::vector<Words*>&)>;

  void point(unsigned pointer, std::int64_t reg) {
    code_.load_constant(pointer, static_cast<std::int64_t>(at_.work) + reg * words_.word_bytes());
  }
  void repeat(unsigned counter, std::int64_t trips, const std::function<void()>& body);
  void pairs(const Sweep& sweep, const OnPairs& act, bool turns = true);
  Words some_pairs(const Sweep& sweep, std::int64_t count, const OnPairs& act);
  /// Processes words of memory in blocks of `size`, `side` blocks at once.
  void blocks(std::int64_t all, std::int64_t size, std::int64_t side, const OnWords& act);

  void in_registers();
  void streamed();
  void in_memory();
  void fill_memory();
  void merge_runs(std::int64_t limit);
  void clean_memory(std::int64_t all, std::int64_t widest);
  void choose_runs();
  void merge_parts(Words* all);
  void decode_memory();

  const SortPlan& plan_;
  SortAddresses at_;
  Code code_;
  WordWriter words_;
  std::int64_t together_, side_;  ///< pairs or words, and blocks, that fit the registers
};

void SortWriter::repeat(unsigned counter, std::int64_t trips, const std::function<void()>& body) {
  if (trips <= 2) {
    for (std::int64_t i = 0; i < trips; ++i) body();
    return;
  }
  code_.begin_loop(counter, trips);
  body();
  code_.end_loop();
}

Words SortWriter::some_pairs(const Sweep& sweep, std::int64_t count, const OnPairs& act) {
  Words low = words_.take(count), high = words_.take(count);
  words_.load({{low, load_low, 1}, {high, load_high, sweep.high_step}});
  std::vector<Pair> all;
  for (std::size_t i = 0; i < low.size(); ++i) all.push_back({&low[i], &high[i]});
  act(all);
  if (sweep.to < 0)
    words_.store({{low, store_low, 1}, {high, store_high, sweep.high_step}});
  else
    words_.store({{low, store_low, 1}});
  low.insert(low.end(), high.begin(), high.end());
  return low;
}

/// Trips alternate between two sets of registers, if there are enough: one set loads while the other is stored.
void SortWriter::pairs(const Sweep& sweep, const OnPairs& act, bool turns) {
  if (sweep.count == 0 || sweep.blocks == 0) return;
  const bool apart = sweep.to >= 0;
  point(load_low, sweep.low), point(load_high, sweep.high);
  point(store_low, apart ? sweep.to : sweep.low);
  if (!apart) point(store_high, sweep.high);
  const std::int64_t sets = turns ? 2 : 1, trips = sweep.count / (sets * together_);
  repeat(outer_counter, sweep.blocks, [&] {
    const auto some = [&](std::int64_t all) {
      Words held;
      for (std::int64_t done = 0; done < all; done += together_) {
        const Words used = some_pairs(sweep, std::min(together_, all - done), act);
        held.insert(held.end(), used.begin(), used.end());
      }
      words_.give(held);
    };
    repeat(inner_counter, trips, [&] { some(sets * together_); });
    some(sweep.count % (sets * together_));
    if (sweep.blocks == 1) return;
    const std::int64_t bytes = words_.word_bytes(), up = (sweep.stride - sweep.count) * bytes;
    const std::int64_t back = (sweep.stride - sweep.count * sweep.high_step) * bytes;
    code_.advance(load_low, up), code_.advance(load_high, back);
    code_.advance(store_low, apart ? (sweep.to_stride - sweep.count) * bytes : up);
    if (!apart) code_.advance(store_high, back);
  });
}

void SortWriter::blocks(std::int64_t all, std::int64_t size, std::int64_t side, const OnWords& act) {
  point(load_low, 0), point(store_low, 0);
  const auto some = [&](std::int64_t count) {
    std::vector<Words> held;
    std::vector<Words*> told;
    for (std::int64_t i = 0; i < count; ++i) {
      held.push_back(words_.take(size));
      words_.load({{held.back(), load_low, 1}});
    }
    for (Words& one : held) told.push_back(&one);
    act(told);
    for (const Words& one : held) words_.store({{one, store_low, 1}}), words_.give(one);
  };
  const std::int64_t count = all / size;
  repeat(inner_counter, count / side, [&] { some(side); });
  if (count % side != 0) some(count % side);
}

void SortWriter::in_registers() {
  Words all = words_.encode(plan_.filled);
  words_.sort({&all});
  // only the first registers are kept
  words_.give(Words(all.begin() + static_cast<std::ptrdiff_t>(plan_.sorted), all.end()));
  all.resize(static_cast<std::size_t>(plan_.sorted));
  merge_parts(&all);
  words_.decode(Words(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(plan_.stored())));
  words_.give(all);
}

/// Sorts one run after the other; the best words so far stay in registers.
void SortWriter::streamed() {
  const std::int64_t runs = plan_.filled / plan_.run, rest = plan_.filled % plan_.run;
  Words best = words_.encode(std::min(plan_.run, plan_.filled));
  words_.sort({&best});
  const Words home = best;
  const auto next = [&](std::int64_t filled) {
    Words run = words_.encode(filled);
    words_.sort({&run});
    std::vector<Pair> pairs;
    for (std::size_t i = 0; i < run.size(); ++i) pairs.push_back({&best[best.size() - 1 - i], &run[i]});
    words_.keep(pairs);
    words_.give(run);
    words_.clean({&best}, plan_.run / 2);
  };
  repeat(outer_counter, runs - 1, [&] {
    next(plan_.run);
    words_.settle(best, home);
  });
  if (rest != 0) next(rest);
  merge_parts(&best);
  words_.decode(Words(best.begin(), best.begin() + static_cast<std::ptrdiff_t>(plan_.stored())));
  words_.give(best);
}

/// Writes the words of a row block to memory in sorted blocks, as many at a time as fit the registers.
void SortWriter::fill_memory() {
  constexpr std::int64_t size = SortPlan::block;
  point(store_low, 0);
  const auto put = [&](std::int64_t filled, std::int64_t count) {
    std::vector<Words> held;
    std::vector<Words*> told;
    for (std::int64_t i = 0; i < count; ++i) {
      held.push_back(words_.encode(std::min(size, filled - i * size)));
      const Words behind = words_.placeholders(size - std::ssize(held.back()));
      held.back().insert(held.back().end(), behind.begin(), behind.end());
    }
    for (Words& one : held) told.push_back(&one);
    words_.sort(told);
    for (const Words& one : held) words_.store({{one, store_low, 1}}), words_.give(one);
  };
  const std::int64_t trips = plan_.filled / (side_ * size), rest = plan_.filled % (side_ * size);
  repeat(inner_counter, trips, [&] { put(side_ * size, side_); });
  if (rest != 0) put(rest, ceil_div(rest, size));
  const std::int64_t behind = plan_.registers / size - ceil_div(plan_.filled, size);
  repeat(outer_counter, behind, [&] {
    const Words none = words_.placeholders(size);
    words_.store({{none, store_low, 1}});
    words_.give(none);
  });
}

void SortWriter::clean_memory(std::int64_t all, std::int64_t widest) {
  const auto act = [&](std::vector<Pair>& some) { words_.exchange(some); };
  for (std::int64_t d = widest; d >= SortPlan::block; d /= 2) {
    Sweep sweep;
    sweep.blocks = all / (2 * d), sweep.stride = 2 * d, sweep.high = d, sweep.count = d;
    pairs(sweep, act);
    const std::int64_t rest = all % (2 * d);
    if (rest <= d) continue;
    sweep.low = all - rest, sweep.high = sweep.low + d, sweep.blocks = 1, sweep.count = rest - d;
    pairs(sweep, act);
  }
  blocks(all, SortPlan::block, side_,
         [&](const std::vector<Words*>& some) { words_.clean(some, std::min(widest, SortPlan::block / 2)); });
}

/// Merges sorted blocks to sorted runs of `limit` words.
void SortWriter::merge_runs(std::int64_t limit) {
  const std::int64_t all = plan_.registers;
  const auto act = [&](std::vector<Pair>& some) { words_.exchange(some); };
  for (std::int64_t size = 2 * SortPlan::block; size <= limit && size / 2 < all; size *= 2) {
    Sweep sweep;
    sweep.blocks = all / size, sweep.stride = size, sweep.high = size - 1, sweep.high_step = -1, sweep.count = size / 2;
    pairs(sweep, act);
    const std::int64_t rest = all % size, base = all - rest;
    if (rest > size / 2) {
      sweep.blocks = 1, sweep.count = rest - size / 2;
      sweep.low = base + size - rest, sweep.high = all - 1;
      pairs(sweep, act);
    }
    clean_memory(all, size / 4);
  }
}

/// Merges pairs of runs, keeping the lower half, until one run is left.
void SortWriter::choose_runs() {
  for (std::int64_t runs = plan_.registers / plan_.run; runs > 1; runs = (runs + 1) / 2) {
    Sweep sweep;
    sweep.blocks = runs / 2, sweep.stride = 2 * plan_.run, sweep.count = plan_.run;
    sweep.high = 2 * plan_.run - 1, sweep.high_step = -1, sweep.to = 0, sweep.to_stride = plan_.run;
    pairs(sweep, [&](std::vector<Pair>& some) { words_.keep(some); });
    if (runs % 2 != 0) {
      sweep.blocks = 1, sweep.low = (runs - 1) * plan_.run, sweep.high = sweep.low, sweep.high_step = 1;
      sweep.to = runs / 2 * plan_.run;
      pairs(sweep, [](std::vector<Pair>&) {});
    }
    clean_memory((runs + 1) / 2 * plan_.run, plan_.run / 2);
  }
}

/// Merges sorted parts of rows, adjacent parts first; `all`: the words, if they are in registers.
void SortWriter::merge_parts(Words* all) {
  const std::int64_t count = plan_.sorted;
  std::int64_t wide = 0;  // log2 of the number of parts per run
  for (int level = 1; std::int64_t{1} << level <= plan_.columns; ++level) {
    const bool whole = count << wide < plan_.run;
    const std::int64_t parts =
        whole ? (std::int64_t{1} << level) - 1 : (std::int64_t{1} << (level - 1)) | ((std::int64_t{1} << wide) - 1);
    const int bit = whole ? level - 1 : -1;
    const auto flips = [&](std::vector<Pair>& some) { words_.cross(some, parts, bit); };
    if (all != nullptr) {
      std::vector<Pair> some;
      for (std::size_t i = 0; i <= (all->size() - 1) / 2; ++i)
        some.push_back({&(*all)[i], &(*all)[all->size() - 1 - i]});
      flips(some);
    } else {
      Sweep sweep;
      sweep.high = count - 1, sweep.high_step = -1, sweep.count = count / 2;
      pairs(sweep, flips, false);
    }
    if (whole) wide = level;
    const int first = static_cast<int>(whole ? wide - 2 : wide - 1);
    const auto rest = [&](const std::vector<Words*>& some) {
      for (int s = first; s >= 0; --s) {
        std::vector<Pair> own;
        for (Words* of : some)
          for (unsigned& word : *of) own.push_back({&word, &word});
        words_.cross(own, std::int64_t{1} << s, s);
      }
    };
    if (all != nullptr) {
      rest({all});
      words_.clean({all}, count / 2);
      continue;
    }
    if (first >= 0) blocks(count, SortPlan::block, 1, rest);
    clean_memory(count, count / 2);
  }
}

void SortWriter::decode_memory() {
  const std::int64_t count = plan_.stored();
  point(load_low, 0);
  const auto some = [&](std::int64_t of) {
    const Words all = words_.take(of);
    words_.load({{all, load_low, 1}});
    words_.decode(all);
    words_.give(all);
  };
  repeat(inner_counter, count / together_, [&] { some(together_); });
  if (count % together_ != 0) some(count % together_);
}

void SortWriter::in_memory() {
  fill_memory();
  merge_runs(plan_.chooses() ? plan_.run : 2 * plan_.registers);
  if (plan_.chooses()) choose_runs();
  merge_parts(nullptr);
  decode_memory();
}

Kernel SortWriter::write() {
  code_.load_constant(WordWriter::in, static_cast<std::int64_t>(at_.in));
  code_.load_constant(WordWriter::keys, static_cast<std::int64_t>(at_.keys));
  code_.load_constant(WordWriter::positions, static_cast<std::int64_t>(at_.positions));
  words_.begin();
  repeat(row_counter, plan_.row_blocks, [&] {
    words_.first_register();
    if (plan_.resident())
      in_registers();
    else if (plan_.streams())
      streamed();
    else
      in_memory();
  });
  return code_.finish();
}

}  // namespace

std::vector<SortPlan> plans_of(const CoreTiming& core, const tilesim::Sort& sort) {
  const DType key = sort.in.dtype, position = sort.positions.dtype;
  if (is_two_of_four(key) || dtype_class(key) == DTypeClass::complex || value_bits(key) < 8)
    throw Unsupported(
        {"no kernel sorts this type", {}, std::string(name(key)), "real types of 8 to 64 bits", "convert the keys"});
  std::int64_t rows = 1;
  for (std::size_t i = 0; i + 1 < sort.in.dims.size(); ++i) rows *= sort.in.dims[i].extent;
  std::vector<SortPlan> plans =
      sort_plans(key, rows, sort.in.dims.back().extent, sort.keys.dims.back().extent, core.vlen / 32);
  if (!is_integer(position) || bits(position) < plans[0].word_bits / 2)
    throw Unsupported({"no kernel of a sort stores such positions", {}, std::string(name(position)), "i32, i64", {}});
  if (sort.keys.dtype != key)
    throw Unsupported({"no kernel of a sort converts keys", {}, std::string(name(sort.keys.dtype)), {}, {}});
  return plans;
}

SortKernel sort_kernel(const InstructionSet& set, const tilesim::Sort& sort, const SortPlan& plan,
                       const SortAddresses& at) {
  return {SortWriter(set, sort, plan, at).write(), plan};
}

std::vector<SortKernel> sort_kernels(const InstructionSet& set, const CoreTiming& core, const tilesim::Sort& sort,
                                     const SortAddresses& at) {
  std::vector<SortKernel> all;
  for (const SortPlan& plan : plans_of(core, sort)) all.push_back(sort_kernel(set, sort, plan, at));
  return all;
}

}  // namespace tilesim::isa
