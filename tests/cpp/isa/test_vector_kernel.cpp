// Kernels of vector computes: equal to what the compute means, and no faster than ports and units.
#include <algorithm>
#include <array>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <random>
#include <span>

#include "kernels.hpp"
#include "shared.hpp"
#include "tilesim/base/error.hpp"
#include "tilesim/isa/latency/dry_run.hpp"
#include "tilesim/isa/latency/executor.hpp"

using namespace tilesim;
using namespace tilesim::isa;

namespace {

/// A compute of random shape, its operands and two sets of memories for its results.
struct Trial : KernelTrial {
  explicit Trial(std::uint32_t seed) : KernelTrial(seed) {}

  TileView view(DType dtype, const std::vector<bool>& repeats, bool odd) {
    TileView made;
    made.dtype = dtype;
    std::int64_t stride = 1;
    std::vector<std::size_t> order(extents.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), random);
    made.dims.resize(extents.size());
    for (const std::size_t i : order) {
      made.dims[i] = {extents[i], repeats[i] ? 0 : stride};
      if (!repeats[i]) stride *= extents[i] + below(2);
    }
    std::vector<float> values(static_cast<std::size_t>(stride));
    for (float& value : values) value = static_cast<float>(below(13) - 6);
    if (odd && is_float(dtype))
      for (float& value : values) {
        const std::int64_t which = below(12);
        if (which == 0) value = NAN;
        if (which == 1) value = -0.0F;
        if (which == 2) value = INFINITY;
        if (which == 3) value = 2.5F;
      }
    memories.emplace_back(values.size() * static_cast<std::size_t>(host_bytes(dtype)));
    convert(values.data(), DType::f32, memories.back().data(), dtype, stride);
    return made;
  }

  void shape() {
    extents.resize(static_cast<std::size_t>(below(4) + 1));
    for (std::int64_t& extent : extents) extent = below(5) == 0 ? 1 : below(22) + 1;
    if (below(12) == 0) extents.back() = 70;
  }

  void make() {
    shape();
    compute.extents = extents;
    if (below(4) == 0) compute.lane = static_cast<int>(below(static_cast<std::int64_t>(extents.size())));
    const bool sums = below(2) == 0;  // exact values where sums are asked for
    const std::array<DType, 4> types{DType::f32, DType::bf16, DType::f16, DType::f32};
    const std::int64_t count = below(3) + 1;
    for (std::int64_t i = 0; i < count; ++i) {
      std::vector<bool> repeats(extents.size());
      for (std::size_t d = 0; d < repeats.size(); ++d) repeats[d] = below(3) == 0;
      compute.inputs.push_back(view(types[static_cast<std::size_t>(below(4))], repeats, !sums));
      VectorNode node;
      node.op = VectorNode::Op::input, node.index = static_cast<int>(i);
      compute.nodes.push_back(node);
    }
    VectorNode constant;
    constant.op = VectorNode::Op::constant, constant.number = 3;
    compute.nodes.push_back(constant);
    const std::vector<Function> exact{Function::add,  Function::subtract, Function::maximum, Function::minimum,
                                      Function::relu, Function::negate,   Function::abs,     Function::identity};
    std::vector<Function> all = exact;
    for (const Function f :
         {Function::multiply, Function::divide, Function::sqrt, Function::exp, Function::tanh, Function::round_even,
          Function::trunc, Function::fma, Function::clamp, Function::reciprocal})
      all.push_back(f);
    for (std::int64_t i = below(5); i >= 0; --i) {
      VectorNode node;
      node.op = VectorNode::Op::function;
      const std::vector<Function>& from = sums ? exact : all;
      node.function = from[static_cast<std::size_t>(below(static_cast<std::int64_t>(from.size())))];
      for (int a = 0; a < info(node.function).arity; ++a)
        node.arguments[static_cast<std::size_t>(a)] =
            static_cast<int>(below(static_cast<std::int64_t>(compute.nodes.size())));
      compute.nodes.push_back(node);
    }
    VectorOutput output;
    output.node = static_cast<int>(compute.nodes.size()) - 1;
    std::vector<bool> reduced(extents.size());
    if (sums)
      for (std::size_t d = 0; d < reduced.size(); ++d)
        if (below(2) == 0) reduced[d] = true, output.reduce.push_back(static_cast<int>(d));
    output.combiner =
        std::array{Combiner::add, Combiner::maximum, Combiner::minimum}[static_cast<std::size_t>(below(3))];
    output.accumulate = !output.reduce.empty() && below(2) == 0;
    output.view = view(sums ? DType::f32 : types[static_cast<std::size_t>(below(4))], reduced, false);
    compute.outputs.push_back(output);
  }

  std::string text() const {
    std::string all = " extents";
    for (const std::int64_t extent : extents) all += " " + std::to_string(extent);
    all += " lane " + std::to_string(compute.lane) + " reduce";
    for (const int dim : compute.outputs[0].reduce) all += " " + std::to_string(dim);
    all += compute.outputs[0].accumulate ? " accumulate" : "";
    all += " combiner " + std::string(name(compute.outputs[0].combiner));
    for (const VectorNode& node : compute.nodes)
      if (node.op == VectorNode::Op::function)
        all += ", " + std::string(info(node.function).name) + " " + std::to_string(node.arguments[0]) + " " +
               std::to_string(node.arguments[1]);
    return all;
  }

  /// Views point into `memories`.
  void point() {
    for (std::size_t i = 0; i < compute.inputs.size(); ++i) compute.inputs[i].data = memories[i].data();
    compute.outputs[0].view.data = memories.back().data();
  }

  std::vector<std::int64_t> extents;
  VectorCompute compute;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(vector_kernels)

BOOST_AUTO_TEST_CASE(random_computes_equal_their_meaning) {
  const Machine machines[] = {kernel_machine(8, 4), kernel_machine(16, 1), kernel_machine(4, 8)};
  std::int64_t kernels = 0, many = trials(60);
  std::map<std::string, std::int64_t> others;
  for (std::uint32_t trial = 0; trial < many; ++trial) {
    Trial made(trial);
    made.make();
    std::vector<std::byte> result = made.memories.back();
    const std::vector<std::byte> before = result;
    made.point();
    execute(made.compute);
    std::swap(result, made.memories.back());
    made.point();
    KernelExecutor executor(machines[trial % 3]);
    // every shape of the kernel in its turn; what was there before is given back
    for (int turn = 0; turn < 6; ++turn) {
      std::vector<std::byte> again = before;
      std::swap(again, made.memories.back());
      made.point();
      executor.run(made.compute);
      BOOST_TEST_CONTEXT("trial " << trial << " shape " << turn << made.text())
      BOOST_TEST(same_values(result, made.memories.back(), made.compute.outputs[0].view.dtype));
    }
    kernels += executor.by_kernel() > 0 ? 1 : 0;
    for (const auto& [why, count] : executor.others()) others[why] += count;
  }
  for (const auto& [why, count] : others) BOOST_TEST_MESSAGE(count << " " << why);
  BOOST_TEST(kernels >= many * 5 / 6);
}

/// By IEEE 754-2019 the larger of two zeros is +0, the smaller -0: the same bits in any order, at both levels.
BOOST_AUTO_TEST_CASE(extremes_of_zeros_have_one_sign) {
  for (const std::int64_t width : {1, 5, 16, 100})
    for (const bool largest : {true, false})
      for (const std::vector<int>& reduce : {std::vector<int>{0}, {1}, {0, 1}}) {
        constexpr std::int64_t rows = 9;
        std::mt19937 random(static_cast<std::uint32_t>(width));
        std::vector<float> values(static_cast<std::size_t>(rows * width));
        for (float& value : values) value = random() % 3 == 0 ? 0.0F : -0.0F;
        const bool over_rows = reduce[0] == 0, over_lanes = reduce.back() == 1;
        const std::int64_t kept = (over_rows ? 1 : rows) * (over_lanes ? 1 : width);
        std::vector<float> result(static_cast<std::size_t>(kept), 7.0F), wanted = result;
        for (std::int64_t at = 0; at < kept; ++at) {
          bool positive = false, negative = false;
          for (std::int64_t r = 0; r < rows; ++r)
            for (std::int64_t c = 0; c < width; ++c)
              if ((over_rows ? 0 : r * (over_lanes ? 1 : width)) + (over_lanes ? 0 : c) == at)
                (std::signbit(values[static_cast<std::size_t>(r * width + c)]) ? negative : positive) = true;
          wanted[static_cast<std::size_t>(at)] = largest ? (positive ? 0.0F : -0.0F) : negative ? -0.0F : 0.0F;
        }
        VectorCompute compute;
        compute.extents = {rows, width};
        compute.inputs.push_back(
            {std::as_writable_bytes(std::span(values)).data(), DType::f32, {{rows, width}, {width, 1}}, -1, {}});
        compute.nodes.push_back({.op = VectorNode::Op::input, .index = 0});
        VectorOutput output;
        output.reduce = reduce, output.combiner = largest ? Combiner::maximum : Combiner::minimum;
        output.view = {std::as_writable_bytes(std::span(result)).data(),
                       DType::f32,
                       {{rows, over_rows    ? 0
                               : over_lanes ? 1
                                            : width},
                        {width, over_lanes ? 0 : 1}},
                       -1,
                       {}};
        compute.outputs.push_back(output);
        const auto check = [&] {
          for (std::size_t i = 0; i < wanted.size(); ++i)
            BOOST_TEST(std::signbit(result[i]) == std::signbit(wanted[i]));
        };
        execute(compute);
        check();
        KernelExecutor executor(kernel_machine(8, 4));
        for (int turn = 0; turn < 4; ++turn) {
          std::fill(result.begin(), result.end(), 7.0F);
          executor.run(compute);
          check();
        }
        BOOST_TEST(executor.by_kernel() == 4);
      }
}

BOOST_AUTO_TEST_CASE(no_faster_than_ports_and_units) {
  const Machine machine = kernel_machine(8, 4);
  for (const std::int64_t rows : {64, 256}) {
    VectorCompute compute;
    compute.extents = {rows, 32};
    for (int i = 0; i < 2; ++i) {
      compute.inputs.push_back({nullptr, DType::f32, {{rows, 32}, {32, 1}}, -1, {}});
      VectorNode node;
      node.op = VectorNode::Op::input, node.index = i;
      compute.nodes.push_back(node);
    }
    VectorNode sum;
    sum.op = VectorNode::Op::function, sum.function = Function::add, sum.arguments = {0, 1, -1};
    compute.nodes.push_back(sum);
    VectorOutput output;
    output.node = 2, output.view = compute.inputs[0];
    compute.outputs.push_back(output);
    const KernelSource source(compute);
    Descriptor d;
    d.kind = ComputeKind::vector, d.elements = rows * 32, d.lane_extent = 32, d.functions = {1, 0, 0, 0};
    InstructionLatency model(machine), slow(machine);
    slow.every_trip();
    const TileLatency latency = model.latency(d, {}, source);
    // two loads of each register of 32 elements at one port
    BOOST_TEST(latency.busy >= 2 * rows);
    BOOST_TEST(latency.busy <= 2 * rows + 40);
    BOOST_TEST(latency.done == slow.latency(d, {}, source).done);
    BOOST_TEST(latency.limit == std::string("load port"));
  }
}

/// Cycles of a second kernel behind a first: extents, strides of each input (along rows, along columns), functions that
/// take the value so far and the next input; combined over the columns.
std::int64_t busy_of(const Machine& machine, std::int64_t rows, std::int64_t columns,
                     const std::vector<std::array<std::int64_t, 2>>& inputs, const std::vector<Function>& functions,
                     bool combined) {
  VectorCompute compute;
  compute.extents = {rows, columns};
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    compute.inputs.push_back({nullptr, DType::f32, {{rows, inputs[i][0]}, {columns, inputs[i][1]}}, -1, {}});
    VectorNode node;
    node.op = VectorNode::Op::input, node.index = static_cast<int>(i);
    compute.nodes.push_back(node);
  }
  int value = 0;
  for (std::size_t i = 0; i < functions.size(); ++i) {
    VectorNode node;
    node.op = VectorNode::Op::function, node.function = functions[i];
    node.arguments = {value, -1, -1};
    if (info(functions[i]).arity > 1) node.arguments[1] = static_cast<int>(std::min(i + 1, inputs.size() - 1));
    value = static_cast<int>(compute.nodes.size());
    compute.nodes.push_back(node);
  }
  VectorOutput output;
  output.node = value;
  output.view = {nullptr, DType::f32, {{rows, combined ? 1 : columns}, {columns, combined ? 0 : 1}}, -1, {}};
  if (combined) output.reduce = {1};
  compute.outputs.push_back(output);
  const KernelSource source(compute);
  Descriptor d;
  d.kind = ComputeKind::vector, d.elements = rows * columns, d.lane_extent = columns;
  return InstructionLatency(machine).latency(d, {}, source).busy;
}

BOOST_AUTO_TEST_CASE(as_fast_as_the_busiest_unit) {
  const Machine machine = kernel_machine(8, 4);  // 32 elements to a register
  using F = Function;
  constexpr std::int64_t rows = 400, most = 24;  // what is left of filling and emptying
  const auto near = [](std::int64_t took, std::int64_t wanted) {
    BOOST_TEST(took >= wanted);
    BOOST_TEST(took <= wanted + most);
  };
  // 100 registers: an instruction of each is more than its load
  near(busy_of(machine, rows, 8, {{8, 1}}, {F::relu, F::negate, F::abs, F::relu, F::negate}, false), 100 * 5);
  // two loads of each
  near(busy_of(machine, rows, 8, {{8, 1}, {8, 1}}, {F::add}, false), 100 * 2);
  // rows of four registers; what is the same in all rows is loaded once for each of the four
  near(busy_of(machine, rows, 32, {{32, 1}, {0, 1}}, {F::add}, false), 400 + 4);
  // an addition each: those of a row do not wait for each other
  near(busy_of(machine, rows, 64, {{64, 1}}, {}, true), 800);
}

/// Over channels, height and width: (value * first + second) * third ..., where all but the value have one element for
/// each channel.
struct OfChannels {
  OfChannels(const std::array<std::int64_t, 3>& extents, std::size_t operands) {
    const auto [channels, height, width] = extents;
    compute.extents = {channels, height, width};
    const std::vector<ViewDim> each{{channels, height * width}, {height, width}, {width, 1}};
    const std::vector<ViewDim> of_channel{{channels, 1}, {height, 0}, {width, 0}};
    std::mt19937 random(static_cast<std::uint32_t>(channels * 97 + height));
    const auto filled = [&](std::int64_t count) {
      memories.emplace_back(static_cast<std::size_t>(count));
      for (float& value : memories.back()) {
        value = static_cast<float>(random() % 64) - 31.5F;
        if (random() % 16 == 0) value = std::array{NAN, -0.0F, INFINITY}[random() % 3];
      }
      return std::as_writable_bytes(std::span(memories.back())).data();
    };
    for (std::size_t i = 0; i <= operands; ++i) {
      const bool of_all = i == 0;
      compute.inputs.push_back(
          {filled(of_all ? channels * height * width : channels), DType::f32, of_all ? each : of_channel, -1, {}});
      VectorNode node;
      node.op = VectorNode::Op::input, node.index = static_cast<int>(i);
      compute.nodes.push_back(node);
    }
    for (std::size_t i = 0; i < operands; ++i) {
      VectorNode node;
      node.op = VectorNode::Op::function, node.function = i % 2 == 0 ? Function::multiply : Function::add;
      node.arguments = {i == 0 ? 0 : static_cast<int>(operands + i), static_cast<int>(i) + 1, -1};
      compute.nodes.push_back(node);
    }
    VectorOutput output;
    output.node = static_cast<int>(compute.nodes.size()) - 1;
    output.view = {filled(channels * height * width), DType::f32, each, -1, {}};
    compute.outputs.push_back(output);
  }

  std::vector<std::vector<float>> memories;
  VectorCompute compute;
};

BOOST_AUTO_TEST_CASE(operands_of_channels_are_spread_once_for_all_rows_of_a_channel) {
  Machine machine = kernel_machine(64, 2);
  machine.core.vector.latency = 8;
  machine.core.cross_lane.bytes_per_cycle = 128, machine.core.cross_lane.latency = 16;
  const OfChannels made({32, 7, 7}, 2);
  const KernelSource source(made.compute);
  Descriptor d;
  d.kind = ComputeKind::vector, d.elements = std::int64_t{32} * 7 * 7, d.lane_extent = 7;
  InstructionLatency model(machine);
  const std::int64_t alone = model.latency(d, {}, source).done;
  DryRun run(model.table());
  run.run(model.taken());
  std::int64_t spreading = 0;
  for (const UnitTimes& unit : run.pipeline().units())
    if (unit.name.starts_with("cross_lane")) spreading = unit.in[static_cast<std::size_t>(State::busy)] / cycle;
  // a row of 64 elements passes in two cycles: one of each channel, of both operands
  BOOST_TEST(spreading >= 32 * 2 * 2);
  BOOST_TEST(spreading <= 32 * 2 * 2 + 8);
  // two functions of each of 32 * 7 / 2 registers; before the first a load and both spreads, behind the last what it
  // takes until it is stored
  BOOST_TEST(alone >= 2 * 112);
  BOOST_TEST(alone <= 2 * 112 + 3 * (16 + 8));
}

BOOST_AUTO_TEST_CASE(what_channels_share_keeps_its_meaning) {
  // ragged channels, one row of a channel, stretches of lanes, fewer channels than rows of a register
  for (const auto& extents :
       {std::array<std::int64_t, 3>{32, 7, 7}, {5, 3, 8}, {9, 1, 3}, {3, 11, 21}, {2, 9, 4}, {1, 6, 5}})
    for (const std::size_t operands : {1, 2, 3}) {
      OfChannels made(extents, operands);
      execute(made.compute);
      const std::vector<float> wanted = made.memories.back();
      KernelExecutor executor(kernel_machine(8, 2));
      for (int turn = 0; turn < 6; ++turn) {
        std::fill(made.memories.back().begin(), made.memories.back().end(), 77.0F);
        executor.run(made.compute);
        const auto& found = made.memories.back();
        for (std::size_t i = 0; i < wanted.size(); ++i)
          if (!(found[i] == wanted[i] || (std::isnan(found[i]) && std::isnan(wanted[i]))))
            BOOST_ERROR("extents " << extents[0] << " " << extents[1] << " " << extents[2] << " turn " << turn
                                   << " place " << i << ": " << found[i] << " for " << wanted[i]);
      }
      BOOST_TEST(executor.by_kernel() == 6);
    }
}

BOOST_AUTO_TEST_CASE(more_units_are_never_slower) {
  using F = Function;
  for (const std::int64_t columns : {8, 24, 40}) {
    Machine machine = kernel_machine(8, 4);
    const auto busy = [&] {
      return busy_of(machine, 60, columns, {{columns, 1}, {columns, 1}, {0, 1}}, {F::add, F::multiply, F::relu}, false);
    };
    const std::int64_t before = busy();
    machine.core.isa.loads = 2;
    const std::int64_t two_ports = busy();
    BOOST_TEST(two_ports <= before);
    machine.core.vector.issue = 2;
    BOOST_TEST(busy() <= two_ports);
  }
}

BOOST_AUTO_TEST_SUITE_END()
