#include "tilesim/isa/movement/indexed_form.hpp"

#include <algorithm>
#include <cstdlib>

#include "tilesim/base/error.hpp"
#include "tilesim/isa/movement/row_writer.hpp"

namespace tilesim::isa {

namespace {

[[noreturn]] void no_indexed_kernel(const char* what) { throw Unsupported({what, {}, {}, {}, {}}); }

/// Bytes from the first to the end of the last element of a row, on one side.
std::int64_t reach_of(const IndexedForm& form, bool in) {
  std::int64_t reach = form.element;
  for (const MoveDim& dim : form.row) reach += (dim.extent - 1) * std::abs(in ? dim.in : dim.out);
  return reach;
}

/// Uses the widest pieces that all steps and addresses allow.
void widen(IndexedForm& form) {
  std::uint64_t all = 8 | form.picked | form.other;
  all |= static_cast<std::uint64_t>(std::abs(form.picked_step)) | static_cast<std::uint64_t>(std::abs(form.other_step));
  std::int64_t run = form.element;
  for (const MoveDim& dim : form.row) {
    if (dim.in == form.element && dim.out == form.element)
      run *= dim.extent;
    else
      all |= static_cast<std::uint64_t>(std::abs(dim.in)) | static_cast<std::uint64_t>(std::abs(dim.out));
  }
  all |= static_cast<std::uint64_t>(run);
  const auto piece = static_cast<std::int64_t>(all & (~all + 1));
  if (piece > form.element) {
    MoveDim& last = form.row.back();
    last = {last.extent * form.element / piece, piece, piece};
    if (last.extent == 1) form.row.pop_back();
  } else if (piece < form.element) {
    form.row.push_back({form.element / piece, piece, piece});
  }
  form.element = piece;
}

/// Passes over a row that keep the width of elements, in groups of at most `most_group` registers (log2).
Passes of_elements(const CoreTiming& core, const IndexedForm& form, int most_group) {
  Passes found;
  double least = 0;
  const std::int64_t most = (std::int64_t{core.vlen} << most_group) / (8 * form.element);
  for (std::size_t i = 0; i <= form.row.size(); ++i) {
    if (i == form.row.size() && !form.row.empty()) break;
    MovePass pass;
    pass.width = static_cast<unsigned>(8 * form.element), pass.in = pass.out = form.element;
    pass.loops = form.row;
    if (!form.row.empty()) {
      pass.elements = form.row[i].extent, pass.in = form.row[i].in, pass.out = form.row[i].out;
      pass.loops.erase(pass.loops.begin() + static_cast<std::ptrdiff_t>(i));
    }
    const Passes parts = split(pass, most);
    if (const double cycles = cycles_of(core, parts); found.empty() || cycles < least) found = parts, least = cycles;
  }
  return found;
}

}  // namespace

void begin_checked(Code& code) {
  code.op("jal", {zero, 8});
  code.op("ebreak", {});
  code.mark();
}

void check(Code& code, unsigned index, unsigned limit) { code.op("bgeu", {index, limit, code.from_mark() - 4}); }

IndexedForm indexed_form(const Indexed& indexed, const IndexedAddresses& at) {
  if (indexed.in.dtype != indexed.out.dtype) no_indexed_kernel("no kernel moves elements to those of another type");
  if (share_bytes(indexed.in, indexed.out) || share_bytes(indexed.index, indexed.out))
    no_indexed_kernel("no kernel gathers or scatters in place");
  IndexedForm form;
  form.dtype = indexed.in.dtype, form.index_type = indexed.index.dtype;
  if (!is_integer(form.index_type) || bits(form.index_type) < 8) no_indexed_kernel("no kernel reads such indices");
  const TileView &picked = indexed.scatter ? indexed.out : indexed.in,
                 &other = indexed.scatter ? indexed.in : indexed.out;
  form.scatter = indexed.scatter;
  if (indexed.scatter) form.combiner = indexed.combiner;
  form.count = std::max<std::int64_t>(0, indexed.index.dims.at(0).extent);
  form.limit = std::max<std::int64_t>(0, picked.dims.at(0).extent);
  const std::span<const ViewDim> in(indexed.in.dims), out(indexed.out.dims);
  Move row = move_of(in.subspan(1), out.subspan(1));
  // the steps of rows are a dim too, so that 4-bit rows are checked
  const std::int64_t half = bits(form.dtype) < 8 ? 2 : 1;
  if (half == 2 && (picked.dims[0].stride % 2 != 0 || other.dims[0].stride % 2 != 0))
    no_indexed_kernel("no kernel moves single elements of 4 bits");
  if (row.overlaps) no_indexed_kernel("no kernel moves elements in overlapping memory");
  row = in_bytes(row, form.dtype);
  form.nothing = row.nothing;
  form.row = row.dims;
  form.element = std::max(1, bits(form.dtype) / 8);
  form.picked_step = picked.dims[0].stride * form.element / half;
  form.other_step = other.dims[0].stride * form.element / half;
  form.index_step = indexed.index.dims[0].stride * bits(form.index_type) / 8;
  const Address from = at.in + static_cast<Address>(row.in_first), to = at.out + static_cast<Address>(row.out_first);
  form.picked = form.scatter ? to : from, form.other = form.scatter ? from : to, form.index = at.index;
  const std::int64_t written = form.scatter ? form.picked_step : form.other_step;
  if (!form.nothing && !form.row.empty() && form.count > 1 && std::abs(written) < reach_of(form, false))
    no_indexed_kernel("no kernel writes overlapping rows");
  if (form.combiner) CombineWriter(form.dtype, *form.combiner);  // throws
  if (!form.combiner && !form.nothing) widen(form);
  return form;
}

IndexedRowWriter::IndexedRowWriter(const InstructionSet& set, const CoreTiming& core, const IndexedForm& form)
    : code_(set), core_(core), form_(form), beside_(most_beside) {
  constexpr std::int64_t most_parts = 256, most_in_block = 64;
  if (form.combiner) combiner_.emplace(form.dtype, *form.combiner);
  if (form.nothing) return;
  if (combiner_) {
    row_ = of_elements(core, form, combiner_->most_group());
  } else {
    // addresses that allow no wider pieces
    const auto at = static_cast<Address>(form.element);
    row_ = ways(core, {form.row, form.element, at, at}, false)[0];
    for (MovePass& pass : row_) pass.from -= at, pass.to -= at;
  }
  std::int64_t parts = 0;
  for (const MovePass& pass : row_) {
    parts += pass.points();
    const int group = pass.group(core);
    beside_ = std::min<std::int64_t>(beside_, combiner_ ? combiner_->slots(group) : 32 >> group);
  }
  beside_ = std::clamp<std::int64_t>(most_in_block / parts, 1, beside_);
  if (parts > most_parts)
    throw Unsupported(
        {"no kernel moves rows of so many parts", {}, std::to_string(parts), std::to_string(most_parts), {}});
}

void IndexedRowWriter::add(unsigned reg, std::int64_t by) {
  if (by == 0) return;
  if (by >= -2048 && by < 2048) return code_.op("addi", {reg, reg, by});
  code_.load_constant(t1, by);
  code_.op("add", {reg, reg, t1});
}

}  // namespace tilesim::isa
