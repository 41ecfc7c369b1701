// Kernels of products: what they write, and how long they take beside closed forms by hand.
#include <algorithm>
#include <array>
#include <boost/test/unit_test.hpp>
#include <random>

#include "tilesim/base/shape.hpp"
#include "tilesim/isa/kernel/mma_kernel.hpp"
#include "tilesim/isa/latency/dry_run.hpp"
#include "tilesim/isa/latency/executor.hpp"
#include "tilesim/isa/latency/latency.hpp"
#include "tilesim/isa/state/npu.hpp"
#include "tilesim/tile/compute.hpp"

using namespace tilesim;
using namespace tilesim::isa;

namespace {

struct Product { std::int64_t batch, taps, moving, depth, across; };

Machine machine_of(std::int64_t rows, std::int64_t columns, std::int64_t lanes, std::int64_t sublanes) {
  Machine machine;
  machine.name = "test";
  machine.core.array.rows = rows, machine.core.array.columns = columns;
  machine.core.array.rates = {{DType::f32, 0.5}, {DType::bf16, 1}, {DType::i8, 4}};
  machine.core.vector.lanes = lanes, machine.core.vector.sublanes = sublanes;
  return machine;
}

/// Small whole numbers: sums of floats are exact.
std::vector<float> numbers(std::size_t count, std::mt19937& random) {
  std::vector<float> all(count);
  for (float& one : all) one = static_cast<float>(static_cast<int>(random() % 9) - 4);
  return all;
}

void place(Memory& memory, Address at, const std::vector<float>& values, DType dtype) {
  std::vector<std::uint8_t> bytes(values.size() * static_cast<std::size_t>(host_bytes(dtype)));
  convert(values.data(), DType::f32, bytes.data(), dtype, static_cast<std::int64_t>(values.size()));
  memory.place(at, bytes.data(), bytes.size());
}

///
/// Equal numbers: a sum that begins with 0 has no −0.
bool same(const std::vector<std::byte>& a, const std::vector<std::byte>& b, DType dtype) {
  std::vector<double> left(a.size() / 4), right(left.size());
  convert(a.data(), dtype, left.data(), DType::f64, static_cast<std::int64_t>(left.size()));
  convert(b.data(), dtype, right.data(), DType::f64, static_cast<std::int64_t>(right.size()));
  return left == right;
}

struct Run {
  Run(const Machine& of, const Product& shape, DType dtype, bool accumulate) : machine(of), core(core_of(of)) {
    form.batch = shape.batch, form.taps = shape.taps, form.depth = shape.depth, form.across = shape.across;
    form.moving = form.run = shape.moving, form.moving_type = form.kept_type = dtype, form.accumulate = accumulate;
  }
  /// Against a loop over all elements.
  bool equal(std::uint32_t seed) {
    std::mt19937 random(seed);
    const std::int64_t rows = core.array.rows, columns = core.array.columns, kb = ceil_div(form.depth, rows),
                       nb = ceil_div(form.across, columns), m = form.moving, tiles = form.taps * kb;
    const MmaBytes bytes = bytes_of(core, form);
    Memory memory;
    const Address a = 0x1000000, w = 0x40000000, c = 0x80000000, text = 0x10000;
    const auto region = [&](Address at, std::int64_t size, std::uint8_t access) {
      memory.add(at, at + static_cast<Address>(round_up(std::max<std::int64_t>(size, 1), 4096)), access, "data");
    };
    region(a, bytes.moving, 3), region(w, bytes.kept, 3), region(c, bytes.sums, 3);
    std::vector<float> moving = numbers(static_cast<std::size_t>(form.batch * tiles * m * rows), random);
    std::vector<float> kept = numbers(static_cast<std::size_t>(form.batch * nb * tiles * rows * columns), random);
    std::vector<float> sums = numbers(static_cast<std::size_t>(form.batch * nb * m * columns), random);
    place(memory, a, moving, form.moving_type), place(memory, w, kept, form.kept_type);
    place(memory, c, sums, is_float(form.moving_type) ? DType::f32 : DType::i32);
    if (!form.accumulate) std::fill(sums.begin(), sums.end(), 0.0F);
    for (std::int64_t b = 0; b < form.batch; ++b)
      for (std::int64_t n = 0; n < nb; ++n)
        for (std::int64_t t = 0; t < tiles; ++t)
          for (std::int64_t i = 0; i < m; ++i)
            for (std::int64_t k = 0; k < rows; ++k)
              for (std::int64_t j = 0; j < columns; ++j)
                sums[static_cast<std::size_t>(((b * nb + n) * m + i) * columns + j)] +=
                    moving[static_cast<std::size_t>(((b * tiles + t) * m + i) * rows + k)] *
                    kept[static_cast<std::size_t>((((b * nb + n) * tiles + t) * rows + k) * columns + j)];
    const auto set = InstructionSet::standard();
    const Kernel kernel = mma_kernel(*set, core, form, {a, w, c});
    region(text, static_cast<std::int64_t>(4 * kernel.words.size()), 7);
    memory.place(text, kernel.words.data(), 4 * kernel.words.size());
    Npu npu(npu_spec(machine, core));
    Hart hart(set, core.vlen);
    hart.npu = &npu, hart.pc = text, hart.x[1] = 0x8000;
    const Stop stop = hart.run(memory, 10'000'000, nullptr, 0x8000);
    if (stop.kind == Stop::trapped) BOOST_TEST_MESSAGE(stop.trap.text);
    if (stop.kind != Stop::returned) return false;
    std::vector<float> got(sums.size());
    for (std::size_t i = 0; i < sums.size(); ++i)
      got[i] = is_float(form.moving_type) ? memory.load<float>(c + 4 * i)
                                          : static_cast<float>(memory.load<std::int32_t>(c + 4 * i));
    return got == sums;
  }
  std::int64_t cycles(int times = 1, bool every_trip = false) const {
    DryRun dry(std::make_shared<PipelineTable>(InstructionSet::standard(), core), every_trip);
    const Kernel kernel = mma_kernel(*InstructionSet::standard(), core, form, {1 << 24, 1 << 30, 2LL << 30});
    for (int i = 0; i < times; ++i) dry.run(kernel);
    return dry.pipeline().drain();
  }
  Machine machine;
  CoreTiming core;
  MmaForm form;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(mma_kernel)

BOOST_AUTO_TEST_CASE(sums_equal_those_of_a_loop) {
  const Machine machines[] = {machine_of(8, 8, 8, 4), machine_of(16, 8, 16, 2), machine_of(4, 16, 16, 1)};
  const Product shapes[] = {{1, 1, 1, 1, 1},  {1, 1, 7, 8, 8},    {1, 2, 33, 19, 24}, {3, 1, 5, 9, 20},
                            {2, 3, 40, 8, 8}, {1, 1, 64, 64, 96}, {1, 1, 200, 8, 8},  {5, 1, 3, 8, 8}};
  std::uint32_t seed = 1;
  for (const Machine& machine : machines)
    for (const Product& shape : shapes)
      for (const DType dtype : {DType::f32, DType::bf16, DType::i8})
        for (const bool accumulate : {false, true}) {
          BOOST_TEST_CONTEXT(machine.core.array.rows << " " << shape.moving << " " << shape.depth << " " << shape.across
                                                     << " " << name(dtype) << " " << accumulate)
          BOOST_TEST(Run(machine, shape, dtype, accumulate).equal(seed++));
          Machine adding = machine;
          adding.core.isa.accumulates = Accumulates::array;
          BOOST_TEST(Run(adding, shape, dtype, accumulate).equal(seed++));
        }
}

BOOST_AUTO_TEST_CASE(loops_that_pass_at_once_take_as_long_as_every_trip) {
  for (const Product& shape : {Product{1, 1, 64, 64, 512}, Product{1, 2, 33, 19, 200}, Product{20, 1, 5, 9, 20}})
    for (const DType dtype : {DType::f32, DType::bf16, DType::i8}) {
      const Run run(machine_of(8, 8, 8, 4), shape, dtype, true);
      BOOST_TEST(run.cycles() == run.cycles(1, true));
    }
}

BOOST_AUTO_TEST_CASE(no_faster_than_array_and_ports_slower_by_little) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::i8})
    for (const Product& shape : {Product{1, 1, 256, 64, 64}, Product{1, 4, 128, 32, 64}}) {
      const Run run(machine_of(8, 8, 8, 4), shape, dtype, true);
      const double rate = run.machine.core.array.rates.at(dtype);
      const std::int64_t tiles = shape.taps * shape.depth / 8 * shape.across / 8, rows = tiles * shape.moving;
      const double array = static_cast<double>(rows) / rate;
      // each row of sums comes and goes, each row of operands comes: 128 bytes a cycle
      const double port = static_cast<double>(rows * (32 + 8 * bits(dtype) / 8)) / 128;
      const auto cycles = static_cast<double>(run.cycles(2) - run.cycles(1));
      BOOST_TEST(cycles >= std::max(array, port));
      BOOST_TEST(cycles <= 1.06 * std::max(array, port) + 40);
      BOOST_TEST_MESSAGE(name(dtype) << " " << cycles << " array " << array << " port " << port);
    }
}

/// Cycles that the array's rows, the bytes of ports and the vector instructions of a product take at least.
double least_cycles(const Machine& machine, const Descriptor& d, bool in_array) {
  const ArraySpec& array = machine.core.array;
  const auto side = static_cast<double>(array.rows), columns = static_cast<double>(array.columns);
  const double width = bits(d.dtype) / 8.0, port = 4.0 * static_cast<double>(machine.core.vector.lanes) *
                                                   static_cast<double>(machine.core.vector.sublanes);
  const double moving = static_cast<double>(d.stationary_a ? d.n : d.m);
  const double deep = static_cast<double>(d.k_outer * ceil_div(d.k, array.rows));
  const double blocks = static_cast<double>(d.batch * ceil_div(d.stationary_a ? d.m : d.n, array.columns));
  const double rows = deep * blocks * moving, sums = in_array ? 0 : 4 * rows * columns;
  const double loads =
      deep * blocks * side * columns * width + rows * side * width + (d.accumulate ? sums : sums * (deep - 1) / deep);
  const double streamed = side + rows / array.rates.at(d.dtype) + side + columns - 2;
  return std::max({streamed, loads / port, sums / port, 2 * (loads + sums) / (8 * port) / 8});
}

struct Given final : ComputeSource {
  explicit Given(const Mma& of) : mma(of) {}
  TileCompute compute() const override { return mma; }
  Mma mma;
};

BOOST_AUTO_TEST_CASE(computes_of_any_strides_equal_their_meaning) {
  std::mt19937 random(7);
  const auto up_to = [&](int most) { return static_cast<std::int64_t>(random() % static_cast<unsigned>(most)) + 1; };
  const Machine machines[] = {machine_of(8, 8, 8, 4), machine_of(16, 8, 16, 2)};
  std::int64_t kernels = 0;
  double differences = 0, worst = 0;
  for (int trial = 0; trial < 300; ++trial) {
    Machine machine = machines[random() % 2];
    machine.core.isa.accumulates = random() % 4 == 0 ? Accumulates::array : Accumulates::vector;
    Mma mma;
    mma.batch_dims = static_cast<int>(random() % 2), mma.m_dims = static_cast<int>(random() % 2) + 1;
    mma.n_dims = 1, mma.k_dims = static_cast<int>(random() % 3) + 1;
    mma.packed = 1 + static_cast<int>(random() % static_cast<unsigned>(mma.k_dims));
    mma.accumulate = random() % 2 == 0, mma.stationary_a = random() % 2 == 0;
    const DType dtype = std::array{DType::f32, DType::bf16, DType::i8}[random() % 3];
    std::vector<std::int64_t> batch, m, n, k;
    for (int i = 0; i < mma.batch_dims; ++i) batch.push_back(up_to(3));
    for (int i = 0; i < mma.m_dims; ++i) m.push_back(up_to(i == 0 ? 20 : 4));
    for (int i = 0; i < mma.n_dims; ++i) n.push_back(up_to(30));
    for (int i = 0; i < mma.k_dims; ++i) k.push_back(up_to(i + 1 == mma.k_dims ? 20 : 3));
    std::vector<std::vector<std::byte>> memories;
    // dims in a random order in memory, with gaps
    const auto view = [&](DType of, const std::vector<std::vector<std::int64_t>>& groups) {
      TileView made;
      made.dtype = of;
      for (const auto& group : groups)
        for (const std::int64_t extent : group) made.dims.push_back({extent, 0});
      std::vector<std::size_t> order(made.dims.size());
      for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
      std::shuffle(order.begin(), order.end(), random);
      std::int64_t stride = 1;
      for (const std::size_t i : order) made.dims[i].stride = stride, stride *= made.dims[i].extent + random() % 2;
      const std::vector<float> values = numbers(static_cast<std::size_t>(stride), random);
      memories.emplace_back(values.size() * static_cast<std::size_t>(host_bytes(of)));
      convert(values.data(), DType::f32, memories.back().data(), of, stride);
      return made;
    };
    mma.a = view(dtype, {batch, m, k}), mma.b = view(dtype, {batch, k, n});
    mma.c = view(is_float(dtype) ? DType::f32 : DType::i32, {batch, m, n});
    mma.a.data = memories[0].data(), mma.b.data = memories[1].data(), mma.c.data = memories[2].data();
    std::vector<std::byte> before = memories[2];
    execute(mma);
    std::swap(before, memories[2]);
    mma.c.data = memories[2].data();
    KernelExecutor executor(machine);
    executor.run(mma);
    kernels += executor.by_kernel();
    BOOST_TEST_CONTEXT("trial " << trial << " " << name(dtype) << " accumulate " << mma.accumulate << " in array "
                                << (machine.core.isa.accumulates == Accumulates::array) << " a kept "
                                << mma.stationary_a << " m " << m.front() << " n " << n.front() << " k " << k.back()
                                << " of " << k.size() << " packed " << mma.packed << " rows "
                                << machine.core.array.rows)
    BOOST_TEST(same(before, memories[2], mma.c.dtype));

    ProductDims dims{mma.batch_dims,   mma.m_dims,     mma.k_dims, mma.n_dims, mma.packed,
                     mma.stationary_a, mma.accumulate, dtype,      dtype};
    std::vector<std::int64_t> extents;
    for (const auto* group : {&batch, &m, &k, &n}) extents.insert(extents.end(), group->begin(), group->end());
    const Descriptor d =
        product_descriptor(dims, machine.layout, [&](int i) { return extents[static_cast<std::size_t>(i)]; });
    const double least = least_cycles(machine, d, machine.core.isa.accumulates == Accumulates::array);
    const Given source(mma);
    const TileLatency kernel = InstructionLatency(machine).latency(d, {}, source);
    const TileLatency form = ClosedForm(machine).latency(d, {});
    BOOST_TEST(static_cast<double>(kernel.done) >= least);
    BOOST_TEST(static_cast<double>(form.done) >= least);
    const TileLatency behind = InstructionLatency(machine).latency(d, {false, true}, source);
    const double apart =
        static_cast<double>(behind.busy) / static_cast<double>(ClosedForm(machine).latency(d, {false, true}).busy) - 1;
    differences += std::abs(apart), worst = std::max(worst, std::abs(apart));
  }
  BOOST_TEST_MESSAGE("mean difference " << differences / 300 << ", worst " << worst);
  BOOST_TEST(differences / 300 < 0.03);
  BOOST_TEST(kernels == 300);
}

BOOST_AUTO_TEST_SUITE_END()
