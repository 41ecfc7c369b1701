// Who doubles a width of a core is not slower: random computes of every kind on the kernels that the core writes.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <fstream>
#include <iterator>
#include <random>

#include "shared.hpp"
#include "tilesim/base/error.hpp"
#include "tilesim/isa/latency/latency.hpp"
#include "tilesim/tile/compute.hpp"

using namespace tilesim;
using namespace tilesim::isa;

namespace {

struct WiderGiven final : ComputeSource {
  TileCompute compute() const override { return value; }
  TileCompute value;
  Descriptor descriptor;
};

class RandomCompute {
 public:
  explicit RandomCompute(std::uint32_t seed, std::int64_t lanes) : random_(seed), lanes_(lanes) {
    switch (seed % 7) {
      case 0:
        product();
        break;
      case 1:
        permute();
        break;
      case 2:
        indexed();
        break;
      case 3:
        sort();
        break;
      case 4:
        vector(true);
        break;
      default:
        vector(false);
        break;
    }
  }
  WiderGiven made;
  std::string text;

 private:
  std::int64_t below(std::int64_t n) { return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(n)); }
  /// Whole registers, ragged ones, few.
  std::int64_t extent(std::int64_t most) {
    const std::int64_t sort = below(4);
    if (sort == 0) return below(9) + 1;
    if (sort == 1) return std::min(most, lanes_ << below(3));
    return below(most) + 1;
  }
  DType of(std::initializer_list<DType> all) { return all.begin()[below(std::ssize(all))]; }

  static TileView view(DType dtype, const std::vector<std::int64_t>& extents, const std::vector<std::size_t>& order,
                       const std::vector<bool>& repeats = {}) {
    TileView made;
    made.dtype = dtype, made.dims.resize(extents.size());
    std::int64_t stride = 1;
    for (const std::size_t i : order) {
      const bool same = !repeats.empty() && repeats[i];
      made.dims[i] = {extents[i], same ? 0 : stride};
      if (!same) stride *= extents[i];
    }
    return made;
  }
  static std::vector<std::size_t> inside_out(std::size_t rank) {
    std::vector<std::size_t> order(rank);
    for (std::size_t i = 0; i < rank; ++i) order[i] = rank - 1 - i;
    return order;
  }
  void say(const char* kind, const std::vector<std::int64_t>& extents, DType dtype) {
    text = std::string(kind) + " " + std::string(name(dtype));
    for (const std::int64_t extent : extents) text += " " + std::to_string(extent);
  }

  void product() {
    const DType dtype = of({DType::bf16, DType::f32, DType::i8});
    const DType sums = dtype == DType::i8 ? DType::i32 : DType::f32;
    const std::int64_t taps = below(3) == 0 ? 9 : 1, m = extent(700), k = extent(300), n = extent(300);
    Mma mma;
    mma.accumulate = below(2) == 0, mma.k_dims = 2;
    const std::int64_t run = taps > 1 && below(2) == 0 ? std::max<std::int64_t>(1, m / 7) : m;
    // windows break rows of pictures apart
    mma.m_dims = 2;
    mma.a = {nullptr, dtype, {{ceil_div(m, run), run * k + k}, {run, k}, {taps, run * k}, {k, 1}}, -1, {}};
    mma.b = {nullptr, dtype, {{taps, k * n}, {k, n}, {n, 1}}, -1, {}};
    mma.c = {nullptr, sums, {{ceil_div(m, run), run * n}, {run, n}, {n, 1}}, -1, {}};
    Descriptor& d = made.descriptor;
    d.kind = ComputeKind::mma, d.dtype = d.second = dtype;
    d.m = ceil_div(m, run) * run, d.k = k, d.k_outer = taps, d.n = n, d.accumulate = mma.accumulate;
    if (taps > 1 && run < d.m) d.run = run;
    say("product", {d.m, run, taps, k, n}, dtype);
    made.value = mma;
  }

  void permute() {
    const DType dtype = of({DType::f32, DType::bf16, DType::i8});
    std::vector<std::int64_t> extents(static_cast<std::size_t>(below(3) + 2));
    for (std::int64_t& one : extents) one = extent(extents.size() > 2 ? 30 : 150);
    std::vector<std::size_t> order = inside_out(extents.size());
    Permute made_of;
    made_of.in = view(dtype, extents, order);
    std::shuffle(order.begin(), order.end(), random_);
    made_of.out = view(dtype, extents, order);
    made_of.in.address = 0, made_of.out.address = 1 << 22;
    Descriptor& d = made.descriptor;
    d.kind = ComputeKind::permute, d.dtype = dtype, d.elements = 1;
    for (const std::int64_t one : extents) d.elements *= one;
    d.lane_extent = extents.back();
    say("permute", extents, dtype);
    for (const std::size_t i : order) text += " <" + std::to_string(i);
    made.value = made_of;
  }

  void indexed() {
    const DType dtype = of({DType::f32, DType::bf16});
    const std::int64_t rows = extent(200), width = extent(200), picks = extent(150);
    Indexed made_of;
    made_of.scatter = below(2) == 0;
    if (made_of.scatter && below(2) == 0) made_of.combiner = Combiner::add;
    const std::vector<std::size_t> order{1, 0};
    made_of.in = view(dtype, {made_of.scatter ? picks : rows, width}, order);
    made_of.out = view(dtype, {made_of.scatter ? rows : picks, width}, order);
    made_of.index = view(DType::i32, {picks}, {0});
    made_of.in.address = 0, made_of.index.address = 1 << 21, made_of.out.address = 1 << 22;
    Descriptor& d = made.descriptor;
    d.kind = ComputeKind::indexed, d.dtype = dtype, d.elements = picks * width, d.lane_extent = width;
    say(made_of.scatter ? (made_of.combiner ? "scatter add" : "scatter") : "gather", {rows, picks, width}, dtype);
    made.value = made_of;
  }

  void sort() {
    const DType dtype = of({DType::f32, DType::i32, DType::bf16});
    const std::int64_t rows = extent(64), n = extent(300),
                       k = below(2) == 0 ? n : std::min<std::int64_t>(n, below(9) + 1);
    tilesim::Sort made_of;
    made_of.in = view(dtype, {rows, n}, {1, 0});
    made_of.keys = view(dtype, {rows, k}, {1, 0});
    made_of.positions = view(DType::i32, {rows, k}, {1, 0});
    Descriptor& d = made.descriptor;
    d.kind = ComputeKind::sort, d.dtype = dtype, d.elements = rows * n, d.lane_extent = n, d.k = k;
    say("sort", {rows, n, k}, dtype);
    made.value = made_of;
  }

  void vector(bool scans) {
    VectorCompute compute;
    compute.extents.resize(static_cast<std::size_t>(below(3) + 1));
    for (std::int64_t& one : compute.extents) one = extent(compute.extents.size() > 2 ? 30 : 150);
    const std::size_t rank = compute.extents.size();
    const std::vector<std::size_t> order = inside_out(rank);
    const DType dtype = of({DType::f32, DType::bf16});
    say(scans ? "scan" : "vector", compute.extents, dtype);
    int value = 0;
    for (std::int64_t i = 0, inputs = below(3) + 1; i < inputs; ++i) {
      std::vector<bool> repeats(rank, false);
      for (std::size_t d = 0; i > 0 && d < rank; ++d) repeats[d] = below(2) == 0;
      compute.inputs.push_back(view(dtype, compute.extents, order, repeats));
      compute.nodes.push_back({.op = VectorNode::Op::input, .index = static_cast<int>(i)});
      const int last = static_cast<int>(compute.nodes.size()) - 1;
      if (i > 0) {
        compute.nodes.push_back(
            {.op = VectorNode::Op::function, .function = Function::multiply, .arguments = {value, last, -1}});
        value = last + 1;
        text += " *";
        for (const bool same : repeats) text += same ? "1" : "x";
      }
    }
    const auto apply = [&](Function f) {
      compute.nodes.push_back({.op = VectorNode::Op::function, .function = f, .arguments = {value, -1, -1}});
      value = static_cast<int>(compute.nodes.size()) - 1;
      text += " " + std::string(info(f).name);
    };
    if (below(2) == 0) apply(Function::relu);
    if (below(3) == 0) apply(Function::exp);
    if (scans) {
      VectorNode scan;
      scan.op = VectorNode::Op::scan, scan.index = static_cast<int>(below(static_cast<std::int64_t>(rank)));
      scan.exclusive = below(2) == 0, scan.arguments = {value, -1, -1}, scan.dtype = dtype;
      compute.nodes.push_back(scan);
      value = static_cast<int>(compute.nodes.size()) - 1;
      text += " along " + std::to_string(scan.index);
    }
    VectorOutput output;
    output.node = value;
    std::vector<bool> reduced(rank, false);
    if (!scans && below(2) == 0)
      for (std::size_t d = 0; d < rank; ++d)
        if (below(2) == 0)
          reduced[d] = true, output.reduce.push_back(static_cast<int>(d)), text += " sum " + std::to_string(d);
    output.view = view(output.reduce.empty() ? dtype : DType::f32, compute.extents, order, reduced);
    compute.outputs.push_back(output);
    Descriptor& d = made.descriptor;
    d.kind = ComputeKind::vector, d.dtype = dtype, d.elements = 1;
    for (const std::int64_t one : compute.extents) d.elements *= one;
    d.lane_extent = compute.extents.back();
    made.value = compute;
  }

  std::mt19937 random_;
  std::int64_t lanes_;
};

Machine preset(const std::string& name) {
  std::ifstream file(TILESIM_SOURCE_DIR "/configs/machines/" + name + ".json");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  return Machine::from_json(Json::parse(text, name));
}

struct Width {
  const char* name;
  void (*from)(Machine&);  ///< what it is before
  void (*to)(Machine&);
};

std::int64_t register_bytes(const Machine& m) { return 4 * m.core.vector.lanes * m.core.vector.sublanes; }

const Width widths[] = {
    // with the bytes of the cross-lane unit, which else passes a row of lanes in twice the time
    {"lanes and cross-lane bytes", [](Machine&) {},
     [](Machine& m) { m.core.vector.lanes *= 2, m.core.cross_lane.bytes_per_cycle *= 2; }},
    {"sublanes", [](Machine&) {}, [](Machine& m) { m.core.vector.sublanes *= 2; }},
    {"sublanes and cross-lane bytes", [](Machine&) {},
     [](Machine& m) { m.core.vector.sublanes *= 2, m.core.cross_lane.bytes_per_cycle *= 2; }},
    {"issue", [](Machine& m) { m.core.vector.issue = 1; }, [](Machine& m) { m.core.vector.issue = 2; }},
    {"issue 2", [](Machine& m) { m.core.vector.issue = 2; }, [](Machine& m) { m.core.vector.issue = 4; }},
    {"loads", [](Machine&) {}, [](Machine& m) { m.core.isa.loads = 2; }},
    {"loads 2", [](Machine& m) { m.core.isa.loads = 2; }, [](Machine& m) { m.core.isa.loads = 4; }},
    {"stores", [](Machine&) {}, [](Machine& m) { m.core.isa.stores = 2; }},
    {"width", [](Machine& m) { m.core.isa.width = m.core.isa.dispatch = 2; }, [](Machine& m) { m.core.isa.width = 4; }},
    {"width 8", [](Machine&) {}, [](Machine& m) { m.core.isa.width *= 2; }},
    {"dispatch", [](Machine& m) { m.core.isa.dispatch = 1; }, [](Machine& m) { m.core.isa.dispatch = 2; }},
    {"queue", [](Machine& m) { m.core.isa.queue = 4; }, [](Machine& m) { m.core.isa.queue = 8; }},
    {"queue 16", [](Machine&) {}, [](Machine& m) { m.core.isa.queue *= 2; }},
    {"port bytes", [](Machine& m) { m.core.isa.port_bytes = register_bytes(m) / 4; },
     [](Machine& m) { m.core.isa.port_bytes *= 2; }},
    {"port bytes 2", [](Machine& m) { m.core.isa.port_bytes = register_bytes(m); },
     [](Machine& m) { m.core.isa.port_bytes *= 2; }},
    {"cross-lane bytes", [](Machine&) {}, [](Machine& m) { m.core.cross_lane.bytes_per_cycle *= 2; }},
    {"input rows", [](Machine& m) { m.core.isa.input_rows = m.core.array.rows + m.core.array.columns; },
     [](Machine& m) { m.core.isa.input_rows *= 2; }},
    {"result rows", [](Machine& m) { m.core.isa.result_rows = m.core.array.rows + m.core.array.columns; },
     [](Machine& m) { m.core.isa.result_rows *= 2; }},
};

/// Twice the lanes: rows that filled a row of lanes, of which results are combined, do not any more; what is missing is
/// masked out.
bool fills_no_more(const WiderGiven& made, std::int64_t lanes) {
  const auto* compute = std::get_if<VectorCompute>(&made.value);
  return compute != nullptr && !compute->outputs[0].reduce.empty() && made.descriptor.lane_extent % lanes == 0 &&
         made.descriptor.lane_extent % (2 * lanes) != 0;
}

/// Schedules are found by lists of what is ready, which may come out worse with more room: 3 % at most, and a few
/// cycles, since numbers beyond 12 bits take two instructions.
constexpr double worse = 1.03, few_cycles = 6;

}  // namespace

BOOST_AUTO_TEST_SUITE(wider)

BOOST_AUTO_TEST_CASE(no_compute_is_slower) {
  const std::uint32_t many = trials(5);
  std::int64_t compared = 0, faster = 0;
  for (const char* const name : {"tpu-v3", "mesh-16", "edge-8"})
    for (const Width& width : widths) {
      Machine narrow = preset(name);
      width.from(narrow);
      Machine wide = narrow;
      width.to(wide);
      InstructionLatency before(narrow), after(wide);
      for (std::uint32_t trial = 0; trial < many; ++trial) {
        const RandomCompute one(trial, narrow.core.vector.lanes);
        if (wide.core.vector.lanes != narrow.core.vector.lanes && fills_no_more(one.made, narrow.core.vector.lanes))
          continue;
        for (const bool pipelined : {false, true}) {
          if (pipelined && one.made.descriptor.kind != ComputeKind::mma) continue;
          TileLatency a, b;
          try {
            a = before.latency(one.made.descriptor, {false, pipelined}, one.made);
            b = after.latency(one.made.descriptor, {false, pipelined}, one.made);
          } catch (const Unsupported&) {
            continue;  // on both: neither depends on the width
          }
          // of kernels the one is taken that is best for both times together
          const auto x = static_cast<double>(a.busy + a.done), y = static_cast<double>(b.busy + b.done);
          ++compared, faster += y < x ? 1 : 0;
          BOOST_TEST(y <= worse * x + few_cycles,
                     width.name << " " << name << " trial " << trial << ": " << one.text << " " << x << " -> " << y);
        }
      }
    }
  BOOST_TEST(compared > 40 * many);
  BOOST_TEST(faster > compared / 16);
}

BOOST_AUTO_TEST_SUITE_END()
