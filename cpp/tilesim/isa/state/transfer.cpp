#include "tilesim/isa/state/transfer.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "tilesim/isa/state/hart.hpp"

namespace tilesim::isa {

namespace {

constexpr std::uint64_t most_elements = std::uint64_t{1} << 32, most_rows = std::uint64_t{1} << 24;

using Index = std::int64_t;

std::vector<Index> row_table(Memory& memory, const Op& op, const TransferDescriptor& t) {
  std::vector<Index> rows;
  if (t.rows == 0) return rows;
  const std::uint64_t count = t.dim[t.row_dim].extent;
  if (count > most_rows) illegal(op, "a transfer's row table has more than 16,777,216 rows");
  for (std::uint64_t i = 0; i < count; ++i)
    rows.push_back((t.flags & TransferDescriptor::wide_rows) != 0 ? memory.load<std::int64_t>(t.rows + 8 * i)
                                                                  : Index{memory.load<std::int32_t>(t.rows + 4 * i)});
  return rows;
}

/// first + step, saturated to the range of Index.
Index index_of(const TransferDim& dim, Index step) {
  Index index = 0;
  if (!__builtin_add_overflow(dim.first, step, &index)) return index;
  return step < 0 ? INT64_MIN : INT64_MAX;
}

bool within(const TransferDim& dim, Index index) { return index >= 0 && index < dim.bound; }

/// Steps [begin, end) whose indices are within the bound, of a dim without a row table.
struct Steps { std::uint64_t begin = 0, end = 0; };
Steps steps_within(const TransferDim& dim) {
  const std::uint64_t first = static_cast<std::uint64_t>(dim.first);
  Steps found;
  found.begin = dim.first < 0 ? std::min(dim.extent, std::uint64_t{0} - first) : 0;
  const std::uint64_t last = dim.bound > dim.first ? static_cast<std::uint64_t>(dim.bound) - first : 0;
  found.end = std::max(found.begin, std::min(dim.extent, last));
  if (dim.bound <= 0) found.end = found.begin;
  return found;
}

bool nothing(const TransferDescriptor& t) {
  return std::any_of(t.dim, t.dim + t.dims, [](const TransferDim& dim) { return dim.extent == 0; });
}

/// Moves the elements of a transfer, with loops over the dims.
class Mover {
 public:
  Mover(Hart& hart, const Op& op, const TransferDescriptor& t, std::int64_t offset, bool store)
      : hart_(hart),
        memory_(*hart.memory),
        t_(t),
        store_(store),
        offset_(static_cast<std::uint64_t>(offset)),
        rows_(row_table(memory_, op, t)) {
    if (t_.dims == 0) t_.dims = 1, t_.dim[0] = {};
    std::uint64_t total = 1;
    for (unsigned k = 0; k < t_.dims; ++k)
      if (__builtin_mul_overflow(total, t_.dim[k].extent, &total) || total > most_elements)
        illegal(op, "a transfer has more than 4,294,967,296 elements");
  }

  void run() {
    checks_ = true;
    walk();
    checks_ = false;
    walk();
  }

 private:
  void walk() {
    const unsigned outer = t_.dims - 1;
    std::array<std::uint64_t, most_transfer_dims> step{};
    while (true) {
      Address from = t_.outside + offset_, to = t_.inside;
      bool in = true;
      for (unsigned k = 0; k < outer; ++k) {
        const TransferDim& dim = t_.dim[k];
        const Index index = index_at(k, step[k]);
        in = in && within(dim, index);
        from += static_cast<std::uint64_t>(index) * static_cast<std::uint64_t>(dim.outside_step);
        to += step[k] * static_cast<std::uint64_t>(dim.inside_step);
      }
      innermost(from, to, in);
      unsigned k = outer;
      while (k > 0 && ++step[k - 1] == t_.dim[k - 1].extent) step[--k] = 0;
      if (k == 0) return;
    }
  }

  Index index_at(unsigned k, std::uint64_t step) const {
    const bool by_table = t_.rows != 0 && k == t_.row_dim;
    return index_of(t_.dim[k], by_table ? rows_[step] : static_cast<Index>(step));
  }

  void innermost(Address outside, Address inside, bool in) {
    const unsigned last = t_.dims - 1;
    const TransferDim& dim = t_.dim[last];
    const bool by_table = t_.rows != 0 && last == t_.row_dim;
    const auto out_step = static_cast<std::uint64_t>(dim.outside_step);
    const auto in_step = static_cast<std::uint64_t>(dim.inside_step);
    const auto single = [&](std::uint64_t d) {
      const Index index = index_at(last, d);
      const Address far = outside + static_cast<std::uint64_t>(index) * out_step, near = inside + d * in_step;
      in&& within(dim, index) ? move(far, near, t_.element_bytes) : fill(far, near);
    };
    Steps inner = by_table || !in ? Steps{} : steps_within(dim);
    if (out_step != t_.element_bytes || in_step != t_.element_bytes) inner = {};
    for (std::uint64_t d = 0; d < inner.begin; ++d) single(d);
    if (inner.end > inner.begin)
      move(outside + (static_cast<std::uint64_t>(dim.first) + inner.begin) * out_step, inside + inner.begin * in_step,
           (inner.end - inner.begin) * t_.element_bytes);
    for (std::uint64_t d = inner.end; d < dim.extent; ++d) single(d);
  }

  void touch(Address at, std::uint64_t bytes, bool writes) {
    while (bytes != 0) {
      writes ? memory_.for_writing(at) : memory_.for_reading(at);
      const std::uint64_t part = std::min(bytes, page_bytes - (at & (page_bytes - 1)));
      at += part, bytes -= part;
    }
  }

  void worked(std::uint64_t bytes) {
    if ((work_ += 1 + bytes / 64) < (1 << 16)) return;
    hart_.poll(work_);
    work_ = 0;
  }

  void move(Address outside, Address inside, std::uint64_t bytes) {
    const Address from = store_ ? inside : outside, to = store_ ? outside : inside;
    if (checks_) {
      touch(from, bytes, false), touch(to, bytes, true);
      return worked(bytes / page_bytes);
    }
    std::array<std::uint8_t, page_bytes> held;
    for (std::uint64_t done = 0; done < bytes; done += held.size()) {
      const std::uint64_t part = std::min<std::uint64_t>(held.size(), bytes - done);
      memory_.read(from + done, held.data(), part);
      memory_.write(to + done, held.data(), part);
      worked(part);
    }
  }

  void fill(Address outside, Address inside) {
    if ((t_.flags & TransferDescriptor::has_fill) == 0)
      throw Trap{store_ ? Cause::store_fault : Cause::load_fault, outside,
                 "an index of the transfer lies outside its bound, and no fill is given"};
    worked(0);
    if (store_) return;
    if (checks_) return touch(inside, t_.element_bytes, true);
    memory_.write(inside, &t_.fill, t_.element_bytes);
  }

  Hart& hart_;
  Memory& memory_;
  TransferDescriptor t_;
  bool store_, checks_ = false;
  std::uint64_t offset_, work_ = 0;
  std::vector<Index> rows_;
};

}  // namespace

TransferDescriptor read_descriptor(Memory& memory, const Op& op, Address at) {
  TransferDescriptor t;
  constexpr std::size_t head = offsetof(TransferDescriptor, dim);
  memory.read(at, &t, head);
  if (t.element_bytes != 1 && t.element_bytes != 2 && t.element_bytes != 4 && t.element_bytes != 8)
    illegal(op, "a transfer's elements have 1, 2, 4 or 8 bytes");
  if (t.dims > most_transfer_dims) illegal(op, "a transfer has at most six dims");
  if ((t.flags & ~(TransferDescriptor::has_fill | TransferDescriptor::wide_rows)) != 0)
    illegal(op, "a transfer has no such flag");
  if (t.rows != 0 && t.row_dim >= t.dims) illegal(op, "the dim of a transfer's row table is unknown");
  memory.read(at + head, t.dim, t.dims * sizeof(TransferDim));
  return t;
}

std::uint64_t bytes_in_tensor(Memory& memory, const Op& op, const TransferDescriptor& t) {
  if (nothing(t)) return 0;
  const std::vector<Index> rows = row_table(memory, op, t);
  std::uint64_t elements = 1;
  for (unsigned k = 0; k < t.dims; ++k) {
    const TransferDim& dim = t.dim[k];
    const Steps steps = steps_within(dim);
    std::uint64_t inside = steps.end - steps.begin;
    if (t.rows != 0 && k == t.row_dim)
      inside = static_cast<std::uint64_t>(
          std::count_if(rows.begin(), rows.end(), [&](Index row) { return within(dim, index_of(dim, row)); }));
    if (__builtin_mul_overflow(elements, inside, &elements) || elements > most_elements) elements = most_elements;
  }
  return elements * t.element_bytes;
}

void carry_out(Hart& hart, const Op& op, const TransferDescriptor& transfer, std::int64_t offset, bool store) {
  if (!nothing(transfer)) Mover(hart, op, transfer, offset, store).run();
}

}  // namespace tilesim::isa
