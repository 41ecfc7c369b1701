#include "tilesim/isa/movement/indexed_kernel.hpp"

#include <algorithm>
#include <cstdlib>

#include "tilesim/base/error.hpp"
#include "tilesim/isa/movement/indexed_form.hpp"
#include "tilesim/isa/movement/row_writer.hpp"

namespace tilesim::isa {

namespace {

/// Name of the load of one index into a 64-bit register.
const char* index_load(DType dtype) {
  const bool has_sign = dtype_class(dtype) == DTypeClass::signed_integer;
  switch (bits(dtype)) {
    case 8:
      return has_sign ? "lb" : "lbu";
    case 16:
      return has_sign ? "lh" : "lhu";
    case 32:
      return has_sign ? "lw" : "lwu";
    default:
      return "ld";
  }
}

std::vector<MoveDim> distances(const IndexedForm& form) {
  std::vector<MoveDim> all{{1, 0, 0}};
  for (const MoveDim& dim : form.row) {
    std::vector<MoveDim> more;
    for (const MoveDim& at : all)
      for (std::int64_t i = 0; i < dim.extent; ++i) more.push_back({1, at.in + i * dim.in, at.out + i * dim.out});
    all = std::move(more);
  }
  return all;
}

/// For many rows of few pieces: loads a register of indices, then moves each piece of all these rows at once.
class PieceWriter {
 public:
  PieceWriter(const InstructionSet& set, const CoreTiming& core, const IndexedForm& form)
      : code_(set), form_(form), pieces_(distances(form)), most_((std::int64_t{core.vlen} << group) / 32) {}

  Kernel write() {
    begin_checked(code_);
    code_.load_constant(limit, form_.limit - 1);
    code_.load_constant(step, form_.picked_step);
    code_.load_constant(picked, static_cast<std::int64_t>(form_.picked));
    code_.load_constant(other, static_cast<std::int64_t>(form_.other));
    code_.load_constant(indices, static_cast<std::int64_t>(form_.index));
    code_.load_constant(index_step, form_.index_step);
    code_.load_constant(row_step, form_.other_step);
    const std::int64_t whole = form_.count / most_, rest = form_.count % most_;
    set(std::min(most_, form_.count), width());
    code_.op("vmv.v.i", {largest, 0});
    blocks(whole);
    if (whole > 0) {
      set(most_, width());
      code_.op("vmv.s.x", {total, zero});
      code_.op("vredmaxu.vs", {total, largest, total});
    } else {
      code_.op("vmv.s.x", {total, zero});
    }
    if (rest > 0) load_indices(0, rest), move_rows(0, rest);
    code_.op("addi", {t0, zero, 0});
    set(1, width());
    code_.op("vmv.x.s", {t0, total});
    code_.op("addi", {limit, limit, 1});
    check(code_, t0, limit);
    return code_.finish();
  }

 private:
  static constexpr int group = 1;  // registers of 32-bit indices, log2
  static constexpr std::int64_t copies = 4, ahead = 3;
  enum : std::uint8_t { largest = 0, wide = 4, total = 28 };
  enum : std::uint8_t {
    limit = 8,
    step = 9,
    picked = a2,
    other = a3,
    indices = a4,
    index_step = a5,
    row_step = a6,
    counter = a7
  };
  static std::int64_t index_of(std::int64_t copy) { return 8 + 2 * (copy % copies); }
  static std::int64_t data_of(std::int64_t copy) { return 16 + 4 * (copy % 3); }

  int width() const { return bits(form_.index_type) == 64 ? 64 : 32; }
  int group_of(int width) const { return group + (width == 64 ? 1 : width == 16 ? -1 : width == 8 ? -2 : 0); }
  void set(std::int64_t elements, int width) { code_.set_vl(elements, static_cast<unsigned>(width), group_of(width)); }

  /// Indices are loaded `ahead` registers before the rows that they select.
  void blocks(std::int64_t whole) {
    for (std::int64_t c = 0; c < std::min(ahead, whole); ++c) load_indices(c, most_);
    const std::int64_t rounds = whole > ahead ? (whole - ahead) / copies : 0, left = whole - rounds * copies;
    if (rounds > 1) code_.begin_loop(counter, rounds);
    for (std::int64_t c = 0; rounds > 0 && c < copies; ++c) load_indices(c + ahead, most_), move_rows(c, most_);
    if (rounds > 1) code_.end_loop();
    for (std::int64_t c = 0; c < left; ++c) {
      if (c + ahead < left) load_indices(c + ahead, most_);
      move_rows(c, most_);
    }
  }

  /// Loads indices as 32 bits, keeps the largest, and limits those out of range.
  void load_indices(std::int64_t copy, std::int64_t elements) {
    const int stored = bits(form_.index_type);
    const auto to = stored == 32 ? index_of(copy) : std::int64_t{wide};
    set(elements, stored);
    const std::string name = std::to_string(stored) + ".v";
    if (form_.index_step == stored / 8)
      code_.op("vle" + name, {to, indices});
    else
      code_.op("vlse" + name, {to, indices, index_step});
    code_.advance(indices, form_.index_step * elements);
    set(elements, width());
    const bool has_sign = dtype_class(form_.index_type) == DTypeClass::signed_integer;
    const std::string factor = stored == 8 ? ".vf4" : ".vf2";
    if (stored < 32) code_.op((has_sign ? "vsext" : "vzext") + factor, {index_of(copy), to});
    const auto value = stored < 32 ? index_of(copy) : to;
    // a shorter last register has positions without values
    if (elements < most_)
      code_.op("vredmaxu.vs", {total, value, total});
    else
      code_.op("vmaxu.vv", {largest, largest, value});
    code_.op("vminu.vx", {value, value, limit});
    set(elements, 32);
    if (stored == 64) code_.op("vnsrl.wi", {index_of(copy), value, 0});
    if (form_.picked_step != 1) code_.op("vmul.vx", {index_of(copy), index_of(copy), step});
  }

  void move_rows(std::int64_t copy, std::int64_t elements) {
    const auto width = static_cast<int>(8 * form_.element);
    set(elements, width);
    for (const MoveDim& at : pieces_) move(copy, at, width);
    code_.advance(other, form_.other_step * elements);
  }

  void move(std::int64_t copy, const MoveDim& at, int width) {
    const std::int64_t data = data_of(turn_++);
    const std::int64_t near = form_.scatter ? at.in : at.out, far = form_.scatter ? at.out : at.in;
    const std::string name = std::to_string(width) + ".v";
    const bool unit = form_.other_step == form_.element;
    offset(a0, picked, far), offset(a1, other, near);
    const auto reach = [&](const char* plain, const char* apart) {
      if (unit)
        code_.op(plain + name, {data, a1});
      else
        code_.op(apart + name, {data, a1, row_step});
    };
    if (form_.scatter) {
      reach("vle", "vlse");
      code_.op("vsoxei32.v", {data, a0, index_of(copy)});
    } else {
      code_.op("vluxei32.v", {data, a0, index_of(copy)});
      reach("vse", "vsse");
    }
  }

  void offset(unsigned to, unsigned from, std::int64_t by) {
    if (by >= -2048 && by < 2048) return code_.op("addi", {to, from, by});
    code_.load_constant(t1, by);
    code_.op("add", {to, from, t1});
  }

  Code code_;
  const IndexedForm& form_;
  std::vector<MoveDim> pieces_;
  std::int64_t most_, turn_ = 0;
};

}  // namespace

/// Writes the kernel row by row: indices are loaded ahead, and several rows are in registers at once.
Kernel IndexedRowWriter::write() {
  begin_checked(code_);
  code_.load_constant(limit, form_.limit);
  code_.load_constant(step, form_.picked_step);
  code_.load_constant(picked, static_cast<std::int64_t>(form_.picked));
  code_.load_constant(other, static_cast<std::int64_t>(form_.other));
  code_.load_constant(indices, static_cast<std::int64_t>(form_.index));
  // positions before the first loads are in range
  for (const unsigned reg : read_) code_.op("addi", {reg, zero, 0});
  const std::int64_t whole = form_.count / beside_;
  if (whole > 1) code_.begin_loop(counter, whole);
  if (whole > 0) block(beside_);
  if (whole > 1) code_.end_loop();
  if (form_.count % beside_ > 0) begin_checked(code_), block(form_.count % beside_);
  return code_.finish();
}

void IndexedRowWriter::block(std::int64_t rows) {
  const char* const load = index_load(form_.index_type);
  for (std::int64_t k = 0; k < rows; ++k) {
    code_.op(load, {read_[static_cast<std::size_t>(k)], 0, indices});
    add(indices, form_.index_step);
  }
  for (std::int64_t k = 0; k < rows; ++k) check(code_, read_[static_cast<std::size_t>(k)], limit);
  for (std::int64_t k = 0; k < rows; ++k)
    code_.op("mul", {place_[static_cast<std::size_t>(k)], read_[static_cast<std::size_t>(k)], step});
  for (std::int64_t k = 0; k < rows; ++k)
    code_.op("add", {place_[static_cast<std::size_t>(k)], place_[static_cast<std::size_t>(k)], picked});
  std::int64_t near = 0, far = 0;
  for (const MovePass& pass : row_) {
    std::vector<MoveDim> points{{1, static_cast<std::int64_t>(pass.from), static_cast<std::int64_t>(pass.to)}};
    for (const MoveDim& dim : pass.loops) {
      std::vector<MoveDim> more;
      for (const MoveDim& at : points)
        for (std::int64_t i = 0; i < dim.extent; ++i) more.push_back({1, at.in + i * dim.in, at.out + i * dim.out});
      points = std::move(more);
    }
    for (const MoveDim& at : points) {
      const std::int64_t here = form_.scatter ? at.in : at.out, there = form_.scatter ? at.out : at.in;
      add(other, here - near);
      for (std::int64_t k = 0; k < rows; ++k) add(place_[static_cast<std::size_t>(k)], there - far);
      near = here, far = there;
      access(pass, rows);
      near += rows * form_.other_step;
    }
  }
  add(other, rows * form_.other_step - near);
}

/// Writes one part of each row; the pointer of the other side advances by the rows.
void IndexedRowWriter::access(const MovePass& pass, std::int64_t rows) {
  const int group = pass.group(core_);
  const std::int64_t slots = combiner_ ? combiner_->slots(group) : 32 >> group;
  const auto slot = [&](std::int64_t k) { return static_cast<int>((turn_ + k) % slots); };
  const auto reg = [&](std::int64_t k) -> std::int64_t {
    return combiner_ ? combiner_->fresh(slot(k), group) : slot(k) << group;
  };
  const auto place = [&](std::int64_t k) { return std::int64_t{place_[static_cast<std::size_t>(k)]}; };
  const auto pass_by = [&](bool stores, std::int64_t to, std::int64_t pointer) {
    const bool unit = stores ? pass.unit_out() : pass.unit_in();
    const std::string name = (stores ? unit ? "vse" : "vsse"
                              : unit ? "vle"
                                     : "vlse") +
                             std::to_string(pass.width) + ".v";
    if (unit) return code_.op(name, {to, pointer});
    code_.op(name, {to, pointer, stores ? out_step : in_step});
  };
  if (!pass.unit_in()) code_.load_constant(in_step, pass.in);
  if (!pass.unit_out()) code_.load_constant(out_step, pass.out);
  code_.set_vl(pass.elements, pass.width, group);
  for (std::int64_t k = 0; k < rows; ++k) {
    pass_by(false, reg(k), form_.scatter ? std::int64_t{other} : place(k));
    if (form_.scatter) add(other, form_.other_step);
  }
  for (std::int64_t k = 0; k < rows; ++k) {
    std::int64_t from = reg(k);
    if (combiner_) {
      from = combiner_->old(slot(k), group);
      code_.set_vl(pass.elements, pass.width, group);
      load_old(pass, from, place(k));
      combiner_->combine(code_, pass.elements, group, slot(k));
    }
    pass_by(true, from, form_.scatter ? place(k) : std::int64_t{other});
    if (!form_.scatter) add(other, form_.other_step);
  }
  turn_ += rows;
}

void IndexedRowWriter::load_old(const MovePass& pass, std::int64_t to, std::int64_t pointer) {
  const std::string name = std::to_string(pass.width) + ".v";
  if (pass.unit_out()) return code_.op("vle" + name, {to, pointer});
  code_.op("vlse" + name, {to, pointer, out_step});
}

std::vector<Kernel> indexed_kernels(const InstructionSet& set, const CoreTiming& core, const Indexed& indexed,
                                    const IndexedAddresses& at) {
  const IndexedForm form = indexed_form(indexed, at);
  std::vector<Kernel> found;
  if (form.count == 0) return {Code(set).finish()};
  constexpr std::int64_t most_pieces = 24;
  std::int64_t pieces = 1;
  for (const MoveDim& dim : form.row) pieces *= dim.extent;
  const bool apart = form.scatter || std::abs(form.other_step) >= form.element;
  if (!form.combiner && apart && form.limit > 0 && !form.nothing && pieces <= most_pieces &&
      form.limit * std::abs(form.picked_step) < std::int64_t{1} << 31 && form.picked_step >= 0)
    found.push_back(PieceWriter(set, core, form).write());
  try {
    found.push_back(IndexedRowWriter(set, core, form).write());
  } catch (const Unsupported&) {
    if (found.empty()) throw;
  }
  return found;
}

}  // namespace tilesim::isa
