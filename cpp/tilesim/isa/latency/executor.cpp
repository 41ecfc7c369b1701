#include "tilesim/isa/latency/executor.hpp"

#include <cstring>

#include "tilesim/base/error.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/tile/compute.hpp"
#include "tilesim/tile/strided.hpp"

namespace tilesim::isa {

namespace {

using Offsets = std::vector<std::int64_t>;

/// In elements, of all points of some dims of a view.
Offsets offsets_of(const TileView& view, int first, int count) {
  Offsets all;
  for_each_offset(view.dims.data() + first, static_cast<std::size_t>(count),
                  [&](std::int64_t offset) { all.push_back(offset); });
  return all;
}

/// The groups of dims of a product's operands.
struct Parts { Offsets batch, rows, taps, depth, columns; };

Parts moving_parts(const Mma& mma, int kept, int packed) {
  const TileView& view = kept == 1 ? mma.a : mma.b;
  const int own = kept == 1 ? mma.m_dims : mma.n_dims, k = kept == 1 ? mma.batch_dims + own : mma.batch_dims;
  const int at = kept == 1 ? mma.batch_dims : mma.batch_dims + mma.k_dims;
  return {offsets_of(view, 0, mma.batch_dims),
          offsets_of(view, at, own),
          offsets_of(view, k, mma.k_dims - packed),
          offsets_of(view, k + mma.k_dims - packed, packed),
          {}};
}

Parts kept_parts(const Mma& mma, int kept, int packed) {
  const TileView& view = kept == 1 ? mma.b : mma.a;
  const int own = kept == 1 ? mma.n_dims : mma.m_dims, k = kept == 1 ? mma.batch_dims : mma.batch_dims + mma.m_dims;
  const int at = kept == 1 ? mma.batch_dims + mma.k_dims : mma.batch_dims;
  return {offsets_of(view, 0, mma.batch_dims),
          {},
          offsets_of(view, k, mma.k_dims - packed),
          offsets_of(view, k + mma.k_dims - packed, packed),
          offsets_of(view, at, own)};
}

/// moving[batch][taps][blocks of depth][rows][array rows]
std::vector<std::byte> pack_moving(const TileView& view, const Parts& of, std::int64_t width) {
  const auto bytes = static_cast<std::size_t>(host_bytes(view.dtype));
  const std::int64_t blocks = ceil_div(static_cast<std::int64_t>(of.depth.size()), width);
  std::vector<std::byte> to(of.batch.size() * of.taps.size() * static_cast<std::size_t>(blocks * width) *
                            of.rows.size() * bytes);
  std::byte* at = to.data();
  for (const std::int64_t batch : of.batch)
    for (const std::int64_t tap : of.taps)
      for (std::int64_t block = 0; block < blocks; ++block)
        for (const std::int64_t row : of.rows)
          for (std::int64_t k = block * width; k < (block + 1) * width; ++k, at += bytes)
            if (k < static_cast<std::int64_t>(of.depth.size()))
              std::memcpy(at,
                          view.data + (batch + tap + row + of.depth[static_cast<std::size_t>(k)]) *
                                          static_cast<std::int64_t>(bytes),
                          bytes);
  return to;
}

/// kept[batch][blocks across][taps][blocks of depth][array rows][array columns]
std::vector<std::byte> pack_kept(const TileView& view, const Parts& of, std::int64_t rows, std::int64_t columns) {
  const auto bytes = static_cast<std::size_t>(host_bytes(view.dtype));
  const auto depth = static_cast<std::int64_t>(of.depth.size()), across = static_cast<std::int64_t>(of.columns.size());
  const std::int64_t down = ceil_div(depth, rows), blocks = ceil_div(across, columns);
  std::vector<std::byte> to(of.batch.size() * of.taps.size() *
                            static_cast<std::size_t>(down * rows * blocks * columns) * bytes);
  std::byte* at = to.data();
  for (const std::int64_t batch : of.batch)
    for (std::int64_t block = 0; block < blocks; ++block)
      for (const std::int64_t tap : of.taps)
        for (std::int64_t k = 0; k < down * rows; ++k)
          for (std::int64_t n = block * columns; n < (block + 1) * columns; ++n, at += bytes)
            if (k < depth && n < across)
              std::memcpy(at,
                          view.data + (batch + tap + of.depth[static_cast<std::size_t>(k)] +
                                       of.columns[static_cast<std::size_t>(n)]) *
                                          static_cast<std::int64_t>(bytes),
                          bytes);
  return to;
}

/// Between a view of sums and sums[batch][blocks across][rows][array columns].
template <class Move>
void each_sum(const Mma& mma, int kept, std::int64_t width, Move move) {
  const Offsets batches = offsets_of(mma.c, 0, mma.batch_dims), m = offsets_of(mma.c, mma.batch_dims, mma.m_dims),
                n = offsets_of(mma.c, mma.batch_dims + mma.m_dims, mma.n_dims);
  const Offsets &rows = kept == 1 ? m : n, &columns = kept == 1 ? n : m;
  const auto across = static_cast<std::int64_t>(columns.size()), down = static_cast<std::int64_t>(rows.size());
  const std::int64_t blocks = ceil_div(across, width);
  for (std::size_t b = 0; b < batches.size(); ++b)
    for (std::int64_t r = 0; r < down; ++r)
      for (std::int64_t c = 0; c < across; ++c)
        move(mma.c.data + 4 * (batches[b] + rows[static_cast<std::size_t>(r)] + columns[static_cast<std::size_t>(c)]),
             ((static_cast<std::int64_t>(b) * blocks + c / width) * down + r) * width + c % width);
}

}  // namespace

KernelExecutor::KernelExecutor(const Machine& machine)
    : machine_(machine), core_(core_of(machine)), set_(InstructionSet::standard()) {}

void KernelExecutor::run(const TileCompute& compute) {
  try {
    if (const auto* mma = std::get_if<Mma>(&compute)) {
      product(*mma);
      ++by_kernel_;
      return;
    }
    if (const auto* of_vectors = std::get_if<VectorCompute>(&compute)) {
      vector(*of_vectors);
      ++by_kernel_;
      return;
    }
    if (const auto* moves = std::get_if<Permute>(&compute)) {
      permute(*moves);
      ++by_kernel_;
      return;
    }
    if (const auto* rows = std::get_if<Indexed>(&compute)) {
      indexed(*rows);
      ++by_kernel_;
      return;
    }
    throw Unsupported({"no kernel is written for this kind of compute", {}, {}, {}, {}});
  } catch (const Unsupported& error) {
    ++others_[error.parts().what + (error.parts().value.empty() ? "" : ": " + error.parts().value)];
  }
  execute(compute);
}

Stop KernelExecutor::start_code(const Kernel& kernel, Memory& memory) const {
  constexpr Address text = 0x10000, back = 0x8000;
  const std::vector<std::uint32_t> image = kernel.image();
  const std::size_t bytes = 4 * image.size();
  memory.add(text, text + static_cast<Address>(round_up(static_cast<std::int64_t>(bytes), 4096)), readable | executable,
             "text");
  memory.place(text, image.data(), bytes);
  Npu npu(npu_spec(machine_, core_));
  Hart hart(set_, core_.vlen);
  hart.npu = &npu, hart.pc = text, hart.x[ra] = back;
  return hart.run(memory, ~std::uint64_t{0} >> 1, nullptr, back);
}

void KernelExecutor::run_code(const Kernel& kernel, Memory& memory) const {
  const Stop stop = start_code(kernel, memory);
  if (stop.kind != Stop::returned)
    throw InternalError("a kernel ended with: " + std::string(cause_text(stop.trap.cause)) + " " + stop.trap.text);
}

void KernelExecutor::product(const Mma& mma) {
  const int kept = kept_operand(machine_.core.array, mma.stationary_a);
  const int packed = std::clamp(mma.packed, 1, std::max(1, mma.k_dims));
  const auto extents = [&](const Offsets& all) { return static_cast<std::int64_t>(all.size()); };
  Descriptor d;
  d.stationary_a = mma.stationary_a;
  if (kept < 0) form_of(machine_, mma, d);  // refuses
  const Parts moving = moving_parts(mma, kept, packed), held = kept_parts(mma, kept, packed);
  d.batch = extents(moving.batch), d.k_outer = extents(moving.taps), d.k = extents(moving.depth);
  d.m = extents(kept == 1 ? moving.rows : held.columns), d.n = extents(kept == 1 ? held.columns : moving.rows);
  if (d.batch * d.m * d.n == 0 || d.k * d.k_outer == 0) return execute(mma);  // nothing streams
  MmaForm form = form_of(machine_, mma, d);
  form.run = form.moving;  // all of its rows are laid one behind the other
  const MmaBytes bytes = bytes_of(core_, form);
  const auto page = [](std::int64_t n) { return static_cast<Address>(round_up(std::max<std::int64_t>(n, 1), 4096)); };
  MmaAddresses at;
  at.moving = scratchpad_base, at.kept = at.moving + page(bytes.moving), at.sums = at.kept + page(bytes.kept);
  const Kernel kernel = mma_kernel(*set_, core_, form, at);

  Memory memory;
  memory.add(at.moving, at.sums + page(bytes.sums), readable | writable, "scratchpad");
  const std::vector<std::byte> a = pack_moving(kept == 1 ? mma.a : mma.b, moving, core_.array.rows);
  memory.place(at.moving, a.data(), a.size());
  const std::vector<std::byte> b = pack_kept(kept == 1 ? mma.b : mma.a, held, core_.array.rows, core_.array.columns);
  memory.place(at.kept, b.data(), b.size());
  std::vector<std::uint32_t> sums(static_cast<std::size_t>(bytes.sums / 4));
  if (mma.accumulate)
    each_sum(mma, kept, core_.array.columns,
             [&](std::byte* view, std::int64_t i) { std::memcpy(&sums[static_cast<std::size_t>(i)], view, 4); });
  memory.place(at.sums, sums.data(), sums.size() * 4);

  run_code(kernel, memory);
  memory.read(at.sums, sums.data(), sums.size() * 4);
  each_sum(mma, kept, core_.array.columns,
           [&](std::byte* view, std::int64_t i) { std::memcpy(view, &sums[static_cast<std::size_t>(i)], 4); });
}

}  // namespace tilesim::isa
