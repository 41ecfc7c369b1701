// The tile computes: their effect on buffers, and their latency.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "tilesim/base/dtype.hpp"
#include "tilesim/base/functions/functions.hpp"
#include "tilesim/base/numerics.hpp"
#include "tilesim/machine/share.hpp"

namespace tilesim {

enum class ComputeKind : std::uint8_t { mma, vector, permute, indexed, sort, opaque };
std::string_view name(ComputeKind kind);

// ---- Effect
// ---------------------------------------------------------------------------------------------------------------------

struct ViewDim { std::int64_t extent = 1, stride = 0; };  ///< stride in elements; 0 repeats an element

/// The memories of a core that contain views.
enum class TileMemory : std::uint8_t { scratchpad, accumulator };

/// A strided view of elements in one of a core's memories.
struct TileView {
  std::byte* data = nullptr;  ///< first element of the view; null if only timing is needed
  DType dtype = DType::f32;
  std::vector<ViewDim> dims;
  std::int64_t address = -1;  ///< address of the first element in `memory`, in bytes; -1: unknown, overlaps no view
  TileMemory memory = TileMemory::scratchpad;
};

/// c[batch, m, n] (+)= a[batch, m, k] * b[batch, k, n]. Each group consists of view dims: a.dims = batch + m + k,
/// b.dims = batch + k + n, c.dims = batch + m + n. Sums run in text order of k, outer to inner, in the accumulator type
/// of `numerics`, which is also c's dtype (f32, f64, i32, i64).
struct Mma {
  int batch_dims = 0, m_dims = 1, n_dims = 1, k_dims = 1;
  TileView a, b, c;
  bool accumulate = false;
  Numerics numerics;
  bool stationary_a = false;  ///< weight stationary: a stays in the array, instead of b
  int packed = 1;             ///< number of innermost k dims that share the array's rows: contiguous in `a`
};
void execute(const Mma& mma);

/// A node in the DAG of a vector compute.
struct VectorNode {
  enum class Op : std::uint8_t { input, constant, scalar, iota, function, convert, scan };
  Op op = Op::input;
  int index = 0;      ///< input: index of the input; iota, scan: index of the dim
  double number = 0;  ///< constant; scalar: value of the Program's expression in this execution
  Function function = Function::identity;
  std::array<int, 3> arguments{-1, -1, -1};  ///< indices of earlier nodes
  DType dtype = DType::f32;           ///< convert: type to which it rounds; iota, constant, scalar: type of the node
  Combiner combiner = Combiner::add;  ///< combiner of a scan
  bool reverse = false, exclusive = false;
};
struct VectorOutput {
  int node = 0;
  TileView view;            ///< dims of the compute; a reduced dim has the compute's extent and stride 0
  std::vector<int> reduce;  ///< dims that `combiner` reduces
  Combiner combiner = Combiner::add;
  bool accumulate = false;  ///< combine with the value in the view
};
/// A typed expression DAG over tiles, with broadcasts (stride 0) and optional reductions. Nodes compute in f32 (f64 for
/// f64 inputs, i64 for integers); outputs are rounded to their view's dtype. The compute reads all inputs before it
/// writes an output.
struct VectorCompute {
  std::vector<std::int64_t> extents;
  std::vector<TileView> inputs;  ///< dims in the order of `extents`
  std::vector<VectorNode> nodes;
  std::vector<VectorOutput> outputs;
  int lane = -1;  ///< lane dim; -1: the innermost dim
};
void execute(const VectorCompute& compute);

/// out[i] = in[i] for equal extents and dtypes but different strides: transposes and layout changes.
struct Permute { TileView in, out; };
void execute(const Permute& permute);

/// gather: out[i, j..] = in[index[i], j..]; scatter: out[index[i], j..] (combiner)= in[i, j..], along the first dim.
/// indexed.
struct Indexed {
  TileView in, index, out;
  bool scatter = false;
  std::optional<Combiner> combiner;
};
void execute(const Indexed& indexed);

/// Stable sort along the last dim, ascending or descending. Writes the first k keys and their positions.
struct Sort {
  TileView in, keys, positions;
  bool descending = false;
};
void execute(const Sort& sort);

/// A compute whose effect only the target knows, with a given duration.
struct Opaque {
  std::string target;
  std::vector<TileView> reads, writes;
  std::int64_t cycles = 0;
};

/// Alternatives are in the order of ComputeKind.
using TileCompute = std::variant<Mma, VectorCompute, Permute, Indexed, Sort, Opaque>;
/// Executes a compute; throws Unsupported for an opaque compute.
void execute(const TileCompute& compute);

/// Interface for the execution of tile computes; each level of fidelity implements it.
class TileExecutor {
 public:
  virtual ~TileExecutor() = default;
  virtual void run(const TileCompute& compute) = 0;
};

/// Executes tile computes directly by `execute`.
class DirectExecutor final : public TileExecutor {
 public:
  void run(const TileCompute& compute) override { execute(compute); }
};

// ---- Latency
// ---------------------------------------------------------------------------------------------------------------------

enum class Unit : std::uint8_t { array, vector, cross_lane, other };

/// Cost of the user-defined instructions in a vector compute, in thousandths of a cycle per register, by unit.
struct CustomWork {
  std::int64_t shared = 0;    ///< on the vector unit
  std::int64_t crossing = 0;  ///< on the cross-lane unit
  std::int64_t apart = 0;     ///< on the busiest separate unit
  std::int64_t latency = 0;   ///< longest latency of a result in cycles
  friend bool operator==(const CustomWork&, const CustomWork&) = default;
};

/// Numbers of moves and dependencies of a vector compute, indexed by vector_count (tile/vector_work.hpp). All 0: not
/// known, or the compute has running sums.
struct VectorMoves {
  static constexpr std::size_t kinds = 52;
  std::array<std::uint16_t, kinds> counts{};
  bool known() const { return counts[0] != 0; }
  friend bool operator==(const VectorMoves&, const VectorMoves&) = default;
};

/// All properties that determine a compute's duration. It is small and hashable, and contains no addresses.
struct Descriptor {
  ComputeKind kind = ComputeKind::mma;
  DType dtype = DType::f32;   ///< type of the operands (of a for mma)
  DType second = DType::f32;  ///< mma: type of b
  std::int64_t batch = 1, m = 1, n = 1,
               k = 1;            ///< mma: k is the inner contraction (packed dims together); sort: k results are kept
  std::int64_t k_outer = 1;      ///< mma: product of the outer k dims (window taps); each needs a separate pass
  bool stationary_a = false;     ///< mma: a stays in the array, instead of b
  bool accumulate = false;       ///< mma: adds its first sums to existing sums
  std::int64_t run = 0;          ///< mma: contiguous rows of the moving operand; 0: all
  std::int64_t elements = 0;     ///< vector, permute, indexed, sort: number of elements
  std::int64_t lane_extent = 1;  ///< extent of the lane dim; partly filled lanes cost a full register
  std::array<std::int32_t, 4> functions{};  ///< vector: nodes of class simple, multiply, divide, transcendental
  std::int64_t lane_reductions = 0;         ///< vector: outputs reduced over the lane dim
  std::int64_t lane_scans = 0;              ///< vector: running sums along the lane dim
  CustomWork custom{};                      ///< vector: work of user-defined instructions that replace functions
  std::int64_t combined = 1;                ///< vector: number of outer elements that are combined or share rows
  VectorMoves moves{};                      ///< vector
  std::int64_t duration = 0;                ///< opaque: declared cycles
  std::uint64_t signature = 0;              ///< of the kernel, if the fidelity uses kernels; else 0
  friend bool operator==(const Descriptor&, const Descriptor&) = default;
};

/// What the unit did before the compute.
struct History {
  bool weights_resident = false;  ///< the stationary operand is the version of the previous mma on this array
  bool pipelined = false;         ///< the array still drains another mma, which overlaps this one's fill
};

/// Latency of a compute, in core cycles from its start.
struct TileLatency {
  std::int64_t busy = 0;              ///< cycle from which the unit can start the next operation
  std::int64_t weights_consumed = 0;  ///< cycle from which the stationary operand may be released
  std::int64_t consumed = 0;          ///< cycle from which other operands may be released
  std::int64_t first = 0;             ///< cycle of the first result
  std::int64_t done = 0;              ///< cycle of the last result; busy <= done
  const char* limit = "";             ///< limiting unit: "rows", "weights", "lanes", "transcendental", ...
  const char* why = "";               ///< kernels: what limits the busiest unit
};

/// A 64-bit hash of all properties on which a kernel depends: extents, classes of strides, dtypes and memories of
/// views, which views share bytes, DAG, numerics and packing. It ignores addresses, data and values of scalars. It is
/// never 0, and equal in all builds, because files contain it.
std::uint64_t signature_of(const TileCompute& compute);

/// Supplies the compute of a descriptor to models that need it: views without data, at distinct addresses.
class ComputeSource {
 public:
  virtual ~ComputeSource() = default;
  virtual TileCompute compute() const = 0;
};
/// A source for models that need no compute; its `compute` throws InternalError.
const ComputeSource& no_source();

/// A model of tile latencies: closed forms in this module, kernels in module isa. Throws Unsupported for a compute that
/// the model does not cover.
class LatencyModel {
 public:
  virtual ~LatencyModel() = default;
  virtual TileLatency latency(const Descriptor& descriptor, const History& history, const ComputeSource& source) = 0;
  TileLatency latency(const Descriptor& descriptor, const History& history) {
    return latency(descriptor, history, no_source());
  }
  virtual std::string_view name() const = 0;
};

/// Closed forms for arrays of all three dataflows, and for vector and cross-lane units.
class ClosedForm final : public LatencyModel {
 public:
  explicit ClosedForm(const Share& machine) : machine_(machine) {}
  using LatencyModel::latency;
  TileLatency latency(const Descriptor& descriptor, const History& history, const ComputeSource& source) override;
  std::string_view name() const override { return "closed form"; }

 private:
  Share machine_;
};

/// Caches the latencies of another model in a small open-addressing table, by descriptor and history.
class LatencyStore final : public LatencyModel {
 public:
  /// Receives the number of requests for a compute since the previous report.
  using Counted = std::function<void(const Descriptor&, const History&, std::int64_t)>;
  explicit LatencyStore(LatencyModel& model, Counted counted = {}, std::size_t entries = 4096)
      : model_(model), counted_(std::move(counted)), entries_(entries) {}
  using LatencyModel::latency;
  TileLatency latency(const Descriptor& descriptor, const History& history, const ComputeSource& source) override;
  std::string_view name() const override { return model_.name(); }
  std::int64_t hits() const { return hits_; }
  std::int64_t misses() const { return misses_; }
  void tell_counts();  ///< reports the numbers of requests since the previous report

 private:
  struct CachedLatency {
    Descriptor descriptor;
    History history;
    TileLatency latency;
    bool used = false;
    std::int64_t asked = 0;
  };
  LatencyModel& model_;
  Counted counted_;
  std::size_t entries_;
  std::vector<CachedLatency> table_;
  std::int64_t hits_ = 0, misses_ = 0;
};

}  // namespace tilesim
