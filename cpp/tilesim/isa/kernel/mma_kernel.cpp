#include "tilesim/isa/kernel/mma_kernel.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>

#include "tilesim/base/error.hpp"
#include "tilesim/base/shape.hpp"

namespace tilesim::isa {

namespace {

/// log2 of the number of registers for this many bits, at least one register.
int group_of(std::int64_t bits, std::int64_t vlen) {
  return static_cast<int>(
      std::bit_width(static_cast<std::uint64_t>(std::max<std::int64_t>(ceil_div(bits, vlen), 1) - 1)));
}

void refuse(const char* what, std::string value, const char* allowed) {
  throw Unsupported({what, {}, std::move(value), allowed, {}});
}

class MmaWriter {
 public:
  MmaWriter(const InstructionSet& set, const CoreTiming& core, const MmaForm& form, const MmaAddresses& at,
            unsigned array)
      : core_(core), form_(form), at_(at), array_(array), code_(set) {
    check();
    choose_chunk();
    for (std::int64_t row = 0; row < form.moving;) {
      const std::int64_t in_run = std::min(form.run - row % form.run, form.moving - row);
      chunks_.push_back(std::min(chunk_, in_run));
      row += chunks_.back();
    }
    tiles_ = form.taps * ceil_div(form.depth, core.array.rows);
    blocks_ = ceil_div(form.across, core.array.columns);
  }

  Kernel write();

 private:
  void check() const;
  void choose_chunk();
  void choose_registers();
  void choose_lag();
  void step(std::int64_t g);
  void load_moving(std::int64_t g);
  void load_weights(std::int64_t count);
  void load_sums(std::int64_t p);
  void take(std::int64_t p);
  bool adds(std::int64_t p) const { return form_.accumulate || tile_of(p) % tiles_ != 0; }
  void write_steps();
  std::vector<bool> form_of_stretch(std::int64_t from, std::int64_t to) const;
  std::int64_t weights_each() const { return core_.array.rows / weight_rows_; }  ///< groups of rows per weight set

  std::int64_t per_tile() const { return static_cast<std::int64_t>(chunks_.size()); }
  std::int64_t tile_of(std::int64_t g) const { return g / per_tile(); }
  std::int64_t rows_of(std::int64_t g) const { return chunks_[static_cast<std::size_t>(g % per_tile())]; }
  std::int64_t total() const { return form_.batch * blocks_ * tiles_ * per_tile(); }
  int width(DType dtype) const { return bits(dtype); }

  const CoreTiming& core_;
  const MmaForm& form_;
  const MmaAddresses& at_;
  unsigned array_;
  Code code_;
  std::int64_t chunk_ = 1, weight_rows_ = 1, tiles_ = 1, blocks_ = 1, lag_ = 1, weights_loaded_ = 0;
  std::vector<std::int64_t> chunks_;  ///< number of rows in each step of a tile
  int moving_group_ = 0, sums_group_ = 0, weights_group_ = 0;
  unsigned turns_ = 2;  ///< registers of each kind used in turn
  unsigned moving_at_ = 0, weights_at_ = 0, sums_at_ = 0, results_at_ = 0;
};

void MmaWriter::check() const {
  for (const DType dtype : {form_.moving_type, form_.kept_type})
    if (is_two_of_four(dtype) || bits(dtype) < 8 || bits(dtype) > 32 || dtype == DType::boolean)
      refuse("no kernel multiplies this type", std::string(name(dtype)), "types of 8, 16 and 32 bits");
  if (core_.array.row[static_cast<std::size_t>(form_.moving_type)] == 0)
    refuse("the core's arrays do not multiply this type", std::string(name(form_.moving_type)), "");
  if (core_.pipes[static_cast<std::size_t>(PipeKind::matrix)] == 0)
    refuse("the core has no weight-stationary arrays", core_.name, "core.array.dataflow weight_stationary");
  if (core_.array.columns * 32 > 4 * std::int64_t{core_.vlen} || core_.array.rows * 32 > 4 * std::int64_t{core_.vlen})
    refuse("a row of the array does not fit four vector registers", std::to_string(core_.vlen) + " bits", "");
}

/// Chooses the rows per step: as many as one register of operands holds, if their sums fit four registers.
void MmaWriter::choose_chunk() {
  const std::int64_t vlen = core_.vlen;
  const std::int64_t operand_rows = vlen / (core_.array.rows * width(form_.moving_type)),
                     sum_rows = 4 * vlen / (core_.array.columns * 32);
  chunk_ = std::max<std::int64_t>(1, std::min(operand_rows, sum_rows));
  // the array's queues hold the rows of two consecutive steps
  const Ticks row = core_.array.row[static_cast<std::size_t>(form_.moving_type)];
  const std::int64_t held = std::min({core_.array.input_rows, core_.array.result_rows, core_.array.under_way(row) / 2});
  chunk_ = std::max<std::int64_t>(1, std::min(chunk_, held));
  // small chunks fill and empty the array sooner; a chunk does not exceed a contiguous run
  chunk_ = std::min(chunk_, std::max<std::int64_t>(1, std::min(form_.run, form_.moving)));
  moving_group_ = group_of(chunk_ * core_.array.rows * width(form_.moving_type), vlen);
  sums_group_ = group_of(chunk_ * core_.array.columns * 32, vlen);
  weight_rows_ = std::clamp<std::int64_t>(vlen / (core_.array.columns * width(form_.kept_type)), 1, core_.array.rows);
  while (core_.array.rows % weight_rows_ != 0) --weight_rows_;
  weights_group_ = group_of(weight_rows_ * core_.array.columns * width(form_.kept_type), vlen);
}

/// Allocates register groups from v31 down, aligned to their size.
void MmaWriter::choose_registers() {
  unsigned top = 32;
  const auto take_groups = [&](int group) {
    top = (top >> group << group) - (turns_ << group);
    return top;
  };
  sums_at_ = take_groups(sums_group_), results_at_ = take_groups(sums_group_);
  moving_at_ = take_groups(moving_group_), weights_at_ = take_groups(weights_group_);
}

/// Number of steps between a push and taking its results, so that the last row has passed the array.
void MmaWriter::choose_lag() {
  const Ticks row = core_.array.row[static_cast<std::size_t>(form_.moving_type)];
  const std::int64_t wait = core_.array.rows + core_.array.columns - 2 + 2 * (core_.load_latency / cycle) + 8;
  const std::int64_t rows = ceil_div(wait * cycle, row);
  std::int64_t least = *std::min_element(chunks_.begin(), chunks_.end());
  const std::int64_t mean = std::max<std::int64_t>(1, form_.moving / per_tile());
  if (per_tile() > 2) least = mean;
  lag_ = std::max<std::int64_t>(1, ceil_div(rows, std::max<std::int64_t>(least, 1)) + 1);
  // limited by the capacity of the array and its result queue
  const std::int64_t most = std::max<std::int64_t>(1, core_.array.under_way(row) / chunk_ - 1);
  lag_ = std::min({lag_, most, total()});
}

void MmaWriter::load_moving(std::int64_t g) {
  if (g >= total()) return;
  code_.set_vl(rows_of(g) * core_.array.rows, static_cast<unsigned>(width(form_.moving_type)), moving_group_);
  const unsigned reg = moving_at_ + (static_cast<unsigned>(g % turns_) << moving_group_);
  static constexpr const char* loads[] = {"vle8.v", "vle16.v", "vle32.v"};
  code_.op(loads[std::bit_width(static_cast<unsigned>(width(form_.moving_type))) - 4], {reg, a0});
  std::int64_t by = rows_of(g) * core_.array.rows * width(form_.moving_type) / 8;
  // the next block of columns reads the same rows again
  const std::int64_t done = g + 1, block = tiles_ * per_tile();
  if (done % block == 0 && done / block % blocks_ != 0)
    by -= tiles_ * form_.moving * core_.array.rows * width(form_.moving_type) / 8;
  code_.advance(a0, by);
}

/// Loads the next `count` groups of weight rows.
void MmaWriter::load_weights(std::int64_t count) {
  const std::int64_t each = weights_each(), sets = form_.batch * blocks_ * tiles_;
  static constexpr const char* loads[] = {"vle8.v", "vle16.v", "vle32.v"};
  for (; count > 0 && weights_loaded_ < sets * each; --count, ++weights_loaded_) {
    code_.set_vl(weight_rows_ * core_.array.columns, static_cast<unsigned>(width(form_.kept_type)), weights_group_);
    const unsigned reg = weights_at_ + (static_cast<unsigned>(weights_loaded_ % each % turns_) << weights_group_);
    code_.op(loads[std::bit_width(static_cast<unsigned>(width(form_.kept_type))) - 4], {reg, a1});
    code_.op("mx.weights", {reg, array_, static_cast<int>(form_.kept_type)});
    code_.advance(a1, weight_rows_ * core_.array.columns * width(form_.kept_type) / 8);
  }
}

void MmaWriter::load_sums(std::int64_t p) {
  if (p < 0 || p >= total()) return;
  const std::int64_t bytes = rows_of(p) * core_.array.columns * 4;
  if (adds(p)) {
    code_.set_vl(bytes / 4, 32, sums_group_);
    code_.op("vle32.v", {sums_at_ + (static_cast<unsigned>(p % turns_) << sums_group_), a2});
  }
  const bool last = (p + 1) % per_tile() == 0, stays = (tile_of(p) + 1) % tiles_ != 0;
  code_.advance(a2, bytes - (last && stays ? form_.moving * core_.array.columns * 4 : 0));
}

void MmaWriter::take(std::int64_t p) {
  if (p < 0) return;
  const std::int64_t bytes = rows_of(p) * core_.array.columns * 4;
  const unsigned turn = static_cast<unsigned>(p % turns_) << sums_group_, result = results_at_ + turn;
  code_.set_vl(bytes / 4, 32, sums_group_);
  code_.op("mx.pop", {result, array_});
  if (adds(p)) code_.op(is_float(form_.moving_type) ? "vfadd.vv" : "vadd.vv", {result, result, sums_at_ + turn});
  code_.op("vse32.v", {result, a3});
  const bool last = (p + 1) % per_tile() == 0, stays = (tile_of(p) + 1) % tiles_ != 0;
  code_.advance(a3, bytes - (last && stays ? form_.moving * core_.array.columns * 4 : 0));
}

/// Writes one step; loads run a step ahead, so that no push waits for its rows.
void MmaWriter::step(std::int64_t g) {
  const bool in_array = core_.array.accumulates;
  if (g < total()) {
    if (in_array && g % per_tile() == 0) {
      code_.op(adds(g) ? "mx.add" : "mx.put", {array_, a2});
      const bool stays = (tile_of(g) + 1) % tiles_ != 0;
      code_.advance(a2, stays ? 0 : form_.moving * core_.array.columns * 4);
    }
    const unsigned reg = moving_at_ + (static_cast<unsigned>(g % turns_) << moving_group_);
    code_.set_vl(rows_of(g) * core_.array.rows, static_cast<unsigned>(width(form_.moving_type)), moving_group_);
    code_.op("mx.push", {reg, array_, static_cast<int>(form_.moving_type)});
    load_moving(g + turns_ - 1);
    // Loads of the next weight set are spread over the steps of this tile; its last rows follow the last push, which
    // would otherwise use it.
    const std::int64_t each = weights_each(), in_tile = g % per_tile();
    const bool last = in_tile + 1 == per_tile();
    const std::int64_t due =
        (tile_of(g) + 1) * each + (last ? each : std::min(each - 1, ceil_div(each * (in_tile + 1), per_tile())));
    if (!form_.resident) load_weights(due - weights_loaded_);
  }
  if (in_array) return;
  // a tile of one step reads the sums that the previous step wrote
  if (per_tile() > 1) load_sums(g - lag_ + 1);
  if (per_tile() == 1) load_sums(g - lag_);
  take(g - lag_);
}

/// Properties that determine the instructions of a stretch of steps: per tile, whether sums are added, where rows and
/// sums continue, and whether work remains. Stretches with equal properties have equal instructions.
std::vector<bool> MmaWriter::form_of_stretch(std::int64_t from, std::int64_t to) const {
  std::vector<bool> form;
  const std::int64_t first = std::max<std::int64_t>(from - lag_, -1), last = to + turns_;
  form.push_back(from >= lag_), form.push_back(last < total()), form.push_back(to <= total());
  form.push_back(from == 0);
  const std::int64_t tiles = total() / per_tile();
  for (std::int64_t t = std::max<std::int64_t>(first, 0) / per_tile(); t <= last / per_tile(); ++t) {
    form.push_back(t % tiles_ == 0), form.push_back((t + 1) % tiles_ == 0);
    form.push_back((t + 1) % (tiles_ * blocks_) == 0), form.push_back(t + 1 < tiles);
  }
  return form;
}

/// Writes stretches of whole tiles after which registers repeat; equal stretches become loops.
void MmaWriter::write_steps() {
  const std::int64_t stretch = per_tile() * (turns_ / std::gcd<std::int64_t>(turns_, per_tile()));
  std::map<std::vector<bool>, std::size_t> known;
  std::vector<std::size_t> order;
  for (std::int64_t from = 0; from < total() + lag_; from += stretch) {
    const std::int64_t to = std::min(from + stretch, total() + lag_);
    // the last stretch may be shorter
    std::vector<bool> form = form_of_stretch(from, to);
    form.push_back(to - from == stretch);
    const auto [found, fresh] = known.try_emplace(std::move(form), code_.pieces());
    if (fresh) {
      code_.begin_piece();
      weights_loaded_ = std::min(from / per_tile() + 1, total() / per_tile()) * weights_each();
      for (std::int64_t g = from; g < to; ++g) step(g);
      code_.end_piece();
    }
    order.push_back(found->second);
  }
  code_.join(order);
}

Kernel MmaWriter::write() {
  if (total() == 0 || form_.depth <= 0) throw Unsupported({"no kernel multiplies nothing", {}, "0 elements", {}, {}});
  choose_lag();
  for (turns_ = 4; turns_ > 2; --turns_) {
    const unsigned need = turns_ * ((2U << sums_group_) + (1U << moving_group_) + (1U << weights_group_));
    if (need <= 28) break;
  }
  choose_registers();
  // weights take the longest time to load
  code_.load_constant(a1, static_cast<std::int64_t>(at_.kept));
  if (!form_.resident) load_weights(weights_each());
  code_.load_constant(a0, static_cast<std::int64_t>(at_.moving));
  code_.load_constant(a2, static_cast<std::int64_t>(at_.sums));
  code_.load_constant(a3, static_cast<std::int64_t>(at_.sums));
  for (std::int64_t g = 0; g + 1 < turns_; ++g) load_moving(g);
  write_steps();
  return code_.finish();
}

}  // namespace

MmaBytes bytes_of(const CoreTiming& core, const MmaForm& form) {
  const std::int64_t tiles = form.taps * ceil_div(form.depth, core.array.rows), rows = core.array.rows;
  const std::int64_t blocks = ceil_div(form.across, core.array.columns), columns = core.array.columns;
  return {form.batch * tiles * form.moving * rows * bits(form.moving_type) / 8,
          form.batch * blocks * tiles * rows * columns * bits(form.kept_type) / 8,
          form.batch * blocks * form.moving * columns * 4};
}

Kernel mma_kernel(const InstructionSet& set, const CoreTiming& core, const MmaForm& form, const MmaAddresses& at,
                  unsigned array) {
  return MmaWriter(set, core, form, at, array).write();
}

}  // namespace tilesim::isa
