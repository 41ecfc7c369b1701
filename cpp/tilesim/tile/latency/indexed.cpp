// Closed forms of gathers and scatters: schedules a few trips of their kernels (isa/movement/indexed_kernel.cpp).
#include <algorithm>
#include <bit>
#include <vector>

#include "tilesim/tile/latency.hpp"
#include "tilesim/tile/latency/short_schedule.hpp"

namespace tilesim {

namespace {

using Unit = ShortSchedule::Unit;

constexpr double scalar_load = 3, scalar_multiply = 3;  // cycles (isa/pipeline/timing.cpp)
constexpr std::int64_t address = 3;                     // further instructions that compute an address

/// Properties of the rows that both kernel forms use.
struct RowsMoved {
  explicit RowsMoved(const Descriptor& d) : count(std::max<std::int64_t>(1, d.m)), index_bits(bits(d.second)) {
    const std::int64_t elements = d.elements / count, neighbours = std::max<std::int64_t>(1, d.k);
    row_bytes = std::max<std::int64_t>(1, packed_bytes(d.dtype, elements));
    run_bytes = std::max<std::int64_t>(1, packed_bytes(d.dtype, neighbours));
    runs = std::max<std::int64_t>(1, elements / neighbours);
    constexpr std::int64_t widest = 8;
    piece = (run_bytes | widest) & -(run_bytes | widest);
    combines = d.functions[0] + d.functions[1] > 0, multiplies = d.functions[1] > 0;
    wide = combines && is_float(d.dtype) && bits(d.dtype) == 16;
    element = std::max(1, bits(d.dtype) / 8);
  }
  std::int64_t count, row_bytes = 1, run_bytes = 1, runs = 1, piece = 1, element = 4;
  int index_bits;
  bool combines = false, multiplies = false, wide = false;  ///< wide: floats of 16 bits are computed with in 32
};

/// Kernel form by pieces: a register of indices, then each piece of all their rows at once.
class PieceForm {
 public:
  PieceForm(ShortSchedule& s, const RowsMoved& form)
      : s_(s), form_(form), most_(2 * s.register_bytes / 4), pieces_(form.row_bytes / form.piece) {}

  void kernel() {
    s_.issue(2), s_.chain(3 * address), s_.issue(2);
    largest_ = total_ = s_.take(Unit::arithmetic, s_.beats(bytes(std::min(most_, form_.count)), s_.simple()), 0, 1);
    const std::int64_t whole = form_.count / most_, rest = form_.count % most_;
    std::vector<double> there;
    constexpr std::int64_t ahead = 3;
    for (std::int64_t i = 0; i < std::min(ahead, whole); ++i) there.push_back(indices(most_, true));
    repeat(s_, whole, [&](std::int64_t i) {
      if (i + ahead < whole) there.push_back(indices(most_, true));
      rows(most_, there[std::min(static_cast<std::size_t>(i), there.size() - 1)]);
    });
    total_ = s_.take(Unit::cross_lane, 1, 0, s_.latency()) + s_.latency();
    if (whole > 0) reduce(most_, largest_ + s_.latency());
    if (rest > 0) rows(rest, indices(rest, false));
    s_.issue(2);
    s_.wait(s_.take(Unit::cross_lane, 1, total_, s_.latency() + 1) + 1 + s_.latency());
    s_.issue(2);
  }

 private:
  std::int64_t bytes(std::int64_t elements) const { return elements * (form_.index_bits == 64 ? 8 : 4); }

  void reduce(std::int64_t elements, double ready) {
    const double held = s_.crossing(bytes(elements));
    total_ = s_.take(Unit::cross_lane, held, std::max(ready, total_), held + s_.reduced()) + held + s_.reduced();
  }

  /// Time at which the positions are known.
  double indices(std::int64_t elements, bool whole) {
    elements < 32 ? s_.issue(2) : s_.chain(1);
    const double loads = s_.neighbours(elements * form_.index_bits / 8), beats = s_.beats(bytes(elements), s_.simple());
    double ready = ShortSchedule::behind(s_.take(Unit::load, loads, 0, s_.loaded()), s_.loaded(), loads, beats);
    const auto then = [&](double held) { return s_.take(Unit::arithmetic, held, ready, s_.latency()); };
    if (form_.index_bits < 32) ready = then(beats) + s_.latency();
    if (whole)
      largest_ = s_.take(Unit::arithmetic, beats, std::max(ready, largest_ + s_.latency()), s_.latency());
    else
      reduce(elements, ready);
    ready = then(beats) + s_.latency();
    if (form_.index_bits == 64) ready = then(beats) + s_.latency();
    if (form_.row_bytes > 1) ready = then(s_.beats(4 * elements, s_.multiply())) + s_.latency();
    return ready;
  }

  void rows(std::int64_t elements, double places) {
    const double far = s_.apart(elements), near = pieces_ > 1 ? far : s_.neighbours(elements * form_.piece);
    for (std::int64_t i = 0; i < pieces_; ++i) {
      s_.issue(2);
      const double start = s_.take(Unit::load, far, places, s_.loaded());
      s_.take(Unit::store, near, ShortSchedule::behind(start, s_.loaded(), far, near), 1);
    }
    s_.issue(2);
  }

  ShortSchedule& s_;
  const RowsMoved& form_;
  std::int64_t most_, pieces_;
  double largest_ = 0, total_ = 0;
};

/// Kernel form by rows: indices are prefetched, and several rows are in registers at a time.
class RowForm {
 public:
  RowForm(ShortSchedule& s, const RowsMoved& form) : s_(s), form_(form) {
    const std::int64_t groups = form.combines ? form.wide ? 1 : 2 : 3, most = s.register_bytes << groups;
    parts_ = form.runs * ceil_div(form.run_bytes, most), bytes_ = std::min(form.run_bytes, most);
    // the last part of a run is shorter
    const std::int64_t in_run = ceil_div(form.run_bytes, most), rest = form.run_bytes - (in_run - 1) * most;
    held_ = (static_cast<double>(in_run - 1) * s.neighbours(bytes_) + s.neighbours(rest)) / static_cast<double>(in_run);
    constexpr std::int64_t in_instruction = 2048;
    step_ = form.row_bytes < in_instruction ? 1 : form.row_bytes % (2 * in_instruction) == 0 ? 2 : 3;
    // strided elements in one register, if that takes fewer accesses
    const std::int64_t lines = form.run_bytes / (form.combines ? form.element : form.piece);
    if (form.runs > 1 && lines * ceil_div(form.runs, 2) < parts_ && lines * s.apart(form.runs) < held_ * double(parts_))
      parts_ = lines, held_ = s.apart(form.runs), bytes_ = form.runs * (form.combines ? form.element : form.piece);
    const std::int64_t registers = ceil_div(bytes_, s.register_bytes);
    const auto group = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(registers)));
    slots_ = std::max<std::int64_t>(1, (form.combines ? form.wide ? 4 : 16 : 32) / group);
    constexpr std::int64_t most_beside = 8, most_in_block = 64;
    beside_ = std::clamp<std::int64_t>(most_in_block / parts_, 1, std::min(most_beside, slots_));
    read_.assign(static_cast<std::size_t>(slots_), 0), stored_ = read_;
  }

  void kernel() {
    turn_ = 0;
    s_.issue(2), s_.chain(3 * address), s_.issue(2);
    repeat(s_, form_.count / beside_, [&](std::int64_t) { block(beside_); });
    if (form_.count % beside_ > 0) block(form_.count % beside_);
    s_.issue(2);
  }

 private:
  void block(std::int64_t rows) {
    s_.chain(rows - 1);
    s_.wait(std::floor(s_.front()) + scalar_load + scalar_multiply + 1);
    for (std::int64_t part = 0; part < parts_; ++part) {
      s_.issue(1 + (part > 0 ? rows : 0));
      if (part > 0) s_.chain(1);
      this->part(rows);
    }
    s_.issue(3);
  }

  void part(std::int64_t rows) {
    std::vector<double> there;
    const double operation = s_.beats(form_.wide ? 2 * bytes_ : bytes_, form_.multiplies ? s_.multiply() : s_.simple());
    for (std::int64_t k = 0; k < rows; ++k)
      there.push_back(ShortSchedule::behind(s_.take(Unit::load, held_, at(read_, k) - s_.loaded(), s_.loaded()),
                                            s_.loaded(), held_, form_.combines ? operation : held_));
    for (std::int64_t k = 0; k < rows; ++k) {
      double ready = there[static_cast<std::size_t>(k)];
      if (form_.combines) ready = combined(k, ready, operation);
      const double stored = s_.take(Unit::store, held_, ready, 1);
      at(form_.combines ? stored_ : read_, k) = stored;
      s_.chain(step_);
    }
    turn_ += rows;
  }

  double combined(std::int64_t k, double fresh, double operation) {
    const double free = at(stored_, k) - s_.loaded();
    const double old =
        ShortSchedule::behind(s_.take(Unit::load, held_, free, s_.loaded()), s_.loaded(), held_, operation);
    const auto then = [&](double ready) {
      return s_.take(Unit::arithmetic, operation, ready, s_.latency()) + s_.latency();
    };
    if (!form_.wide) {
      const double ready = then(std::max(fresh, old));
      return at(read_, k) = ready - s_.latency(), ready;
    }
    s_.issue(4);
    const double a = then(fresh), b = then(old);
    at(read_, k) = a - s_.latency();
    return then(then(std::max(a, b)));
  }

  double& at(std::vector<double>& of, std::int64_t k) { return of[static_cast<std::size_t>((turn_ + k) % slots_)]; }

  ShortSchedule& s_;
  const RowsMoved& form_;
  std::int64_t parts_ = 1, bytes_ = 1, slots_ = 1, beside_ = 1, turn_ = 0, step_ = 1;
  double held_ = 1;
  std::vector<double> read_, stored_;  ///< time of the last read per register: of the rows, and of the old values
};

}  // namespace

TileLatency indexed_latency(const Share& machine, const Descriptor& d) {
  TileLatency best;
  best.busy = best.done = best.consumed = best.weights_consumed = best.first = 1, best.limit = "lanes";
  if (d.elements <= 0) return best;
  const RowsMoved form(d);
  bool found = false;
  const auto tried = [&](auto kernel, const char* limit) {
    ShortSchedule schedule(machine);
    auto one = kernel(schedule);
    one.kernel();
    const double done = schedule.over();
    one.kernel();
    TileLatency latency;
    latency.done = std::max<std::int64_t>(1, std::llround(std::ceil(done)));
    latency.busy = std::clamp<std::int64_t>(std::llround(schedule.over() - done), 1, latency.done);
    if (found && latency.busy + latency.done >= best.busy + best.done) return;
    latency.consumed = latency.weights_consumed = latency.busy;
    latency.first = std::min(latency.done, std::int64_t{2} * (machine.whole.core.isa.load_latency + 1) + 1);
    latency.limit = limit, best = latency, found = true;
  };
  constexpr std::int64_t most_pieces = 24, most_parts = 256;
  if (!form.combines && form.row_bytes / form.piece <= most_pieces)
    tried([&](ShortSchedule& s) { return PieceForm(s, form); }, "lanes");
  if (!found || form.row_bytes / form.piece <= most_parts * 64)
    tried([&](ShortSchedule& s) { return RowForm(s, form); }, "rows");
  return best;
}

}  // namespace tilesim
