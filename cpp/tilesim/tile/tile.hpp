// The vocabulary of tile computes: their meaning on buffers, and their latency.
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

// ---- Meaning
// ---------------------------------------------------------------------------------------------------------------------

struct ViewDim { std::int64_t extent = 1, stride = 0; };  ///< stride in elements; 0 repeats

/// Memories of a core that views lie in.
enum class TileMemory : std::uint8_t { scratchpad, accumulator };

/// A strided view of elements in one of a core's memories.
struct TileView {
  std::byte* data = nullptr;  ///< first element of the view, offset applied; null for timing only
  DType dtype = DType::f32;
  std::vector<ViewDim> dims;
  std::int64_t address = -1;  ///< of the first element, in bytes of `memory`; -1: unknown, separate from all others
  TileMemory memory = TileMemory::scratchpad;
};

/// c[batch, m, n] (+)= a[batch, m, k] * b[batch, k, n]; each group of dims is a product of view dims:
/// a.dims = batch + m + k, b.dims = batch + k + n, c.dims = batch + m + n. Sums run in text order of k (outer to
/// inner), in the accumulator type of `numerics`; c's dtype is where the accumulator lives (f32, f64, i32, i64).
struct Mma {
  int batch_dims = 0, m_dims = 1, n_dims = 1, k_dims = 1;
  TileView a, b, c;
  bool accumulate = false;
  Numerics numerics;
  bool stationary_a = false;  ///< which operand stays in the array (weight stationary: b unless set)
  int packed = 1;             ///< number of innermost k dims that cover the array's rows together: contiguous in `a`
};
void execute(const Mma& mma);

/// One node of a vector compute's DAG.
struct VectorNode {
  enum class Op : std::uint8_t { input, constant, scalar, iota, function, convert, scan };
  Op op = Op::input;
  int index = 0;      ///< input: which input; iota: which dim; scan: which dim
  double number = 0;  ///< constant; scalar: its value at this execution (an expression in the Program)
  Function function = Function::identity;
  std::array<int, 3> arguments{-1, -1, -1};  ///< earlier nodes
  DType dtype = DType::f32;           ///< convert: rounds through this type; iota, constant, scalar: type of the node
  Combiner combiner = Combiner::add;  ///< combiner of a scan
  bool reverse = false, exclusive = false;
};
struct VectorOutput {
  int node = 0;
  TileView view;            ///< dims of the compute; a reduced dim has the compute's extent and stride 0
  std::vector<int> reduce;  ///< dims combined by `combiner`
  Combiner combiner = Combiner::add;
  bool accumulate = false;  ///< combines with the value in the view
};
/// A typed expression DAG over tiles with broadcast (stride 0) and optional reductions. Nodes compute in f32 (f64 for
/// f64 inputs, i64 for integer ones); outputs are rounded to their view's dtype. All inputs are read before any output
/// is written.
struct VectorCompute {
  std::vector<std::int64_t> extents;
  std::vector<TileView> inputs;  ///< dims in the order of extents
  std::vector<VectorNode> nodes;
  std::vector<VectorOutput> outputs;
  int lane = -1;  ///< lane dim; -1: the innermost one
};
void execute(const VectorCompute& compute);

/// out[i] = in[i] over equal extents with different strides (dtype equal): transposes and layout changes.
struct Permute { TileView in, out; };
void execute(const Permute& permute);

/// gather: out[i, j..] = in[index[i], j..]; scatter: out[index[i], j..] (combiner)= in[i, j..]. First dim of in/out is
/// indexed.
struct Indexed {
  TileView in, index, out;
  bool scatter = false;
  std::optional<Combiner> combiner;
};
void execute(const Indexed& indexed);

/// Sorts along the last dim, stable; keys ascending or descending; writes the first k of keys and of payload positions.
struct Sort {
  TileView in, keys, positions;
  bool descending = false;
};
void execute(const Sort& sort);

/// A compute with target-specific meaning and a declared duration.
struct Opaque {
  std::string target;
  std::vector<TileView> reads, writes;
  std::int64_t cycles = 0;
};

/// In the order of ComputeKind.
using TileCompute = std::variant<Mma, VectorCompute, Permute, Indexed, Sort, Opaque>;
/// Executes a compute; Unsupported for an opaque one.
void execute(const TileCompute& compute);

/// Executes tile computes. Each level of fidelity implements it.
class TileExecutor {
 public:
  virtual ~TileExecutor() = default;
  virtual void run(const TileCompute& compute) = 0;
};

/// Executes tile computes by `execute`.
class DirectExecutor final : public TileExecutor {
 public:
  void run(const TileCompute& compute) override { execute(compute); }
};

// ---- Latency
// ---------------------------------------------------------------------------------------------------------------------

enum class Unit : std::uint8_t { array, vector, cross_lane, other };

/// Cost of user-defined instructions in a vector compute per register, in thousandths of a cycle, by unit.
struct CustomWork {
  std::int64_t shared = 0;    ///< on the vector unit
  std::int64_t crossing = 0;  ///< on the cross-lane unit
  std::int64_t apart = 0;     ///< on the busiest other unit
  std::int64_t latency = 0;   ///< longest cycles until a result
  friend bool operator==(const CustomWork&, const CustomWork&) = default;
};

/// Moves and dependencies of a vector compute, as counts by VectorCount (tile/vector_work.hpp). All 0: unknown, or
/// running sums.
struct VectorMoves {
  static constexpr std::size_t kinds = 52;
  std::array<std::uint16_t, kinds> counts{};
  bool known() const { return counts[0] != 0; }
  friend bool operator==(const VectorMoves&, const VectorMoves&) = default;
};

/// Everything that determines the duration of a compute. It is small and hashable and has no addresses.
struct Descriptor {
  ComputeKind kind = ComputeKind::mma;
  DType dtype = DType::f32;   ///< type of the operands (a for mma)
  DType second = DType::f32;  ///< type of b for mma
  std::int64_t batch = 1, m = 1, n = 1,
               k = 1;            ///< mma; k is the inner contraction (packed dims together). sort: k are kept
  std::int64_t k_outer = 1;      ///< mma: product of the outer k dims (window taps): each is a separate pass
  bool stationary_a = false;     ///< mma: which operand stays in the array (weight stationary: b unless set)
  bool accumulate = false;       ///< mma: adds its first sums to existing ones
  std::int64_t run = 0;          ///< mma: contiguous rows of the moving operand; 0: all
  std::int64_t elements = 0;     ///< vector, permute, indexed, sort: elements of the iteration space
  std::int64_t lane_extent = 1;  ///< extent of the lane dim; ragged lanes cost a full register
  std::array<std::int32_t, 4> functions{};  ///< vector: nodes per class simple, multiply, divide, transcendental
  std::int64_t lane_reductions = 0;         ///< vector: outputs reduced over the lane dim
  std::int64_t lane_scans = 0;              ///< vector: running sums along the lane dim
  CustomWork custom{};                      ///< vector: work of user-defined instructions that replace functions
  std::int64_t combined = 1;                ///< vector: outer elements that are combined, or share rows
  VectorMoves moves{};                      ///< vector
  std::int64_t duration = 0;                ///< opaque: declared cycles
  std::uint64_t signature = 0;              ///< of the compute's kernel, at fidelities that run one; else 0
  friend bool operator==(const Descriptor&, const Descriptor&) = default;
};

/// The preceding work on the unit.
struct History {
  bool weights_resident = false;  ///< the stationary operand is the same version as in the previous mma on this array
  bool pipelined = false;         ///< another mma is still draining on this array: fill overlaps its drain
};

/// Latency of a compute. All times are core cycles from the start of the operation.
struct TileLatency {
  std::int64_t busy = 0;              ///< the unit is reserved until then; the next operation may start
  std::int64_t weights_consumed = 0;  ///< stationary operand may be released
  std::int64_t consumed = 0;          ///< other operands may be released
  std::int64_t first = 0;             ///< first result
  std::int64_t done = 0;              ///< last result; busy <= done
  const char* limit = "";             ///< unit that limits it: "rows", "weights", "lanes", "transcendental", ...
  const char* why = "";               ///< kernels: cause of the time of the busiest unit
};

/// A 64-bit hash of all properties that a kernel depends on: extents, classes of strides, dtypes and memories of all
/// views, which of them share bytes, DAG, numerics and packing; not addresses, data and values of scalars. It is never
/// 0 and equal in all builds, because files store it.
std::uint64_t signature_of(const TileCompute& compute);

/// Provides the compute of a descriptor to models that need it: views without data, at distinct addresses.
class ComputeSource {
 public:
  virtual ~ComputeSource() = default;
  virtual TileCompute compute() const = 0;
};
/// A source for models that do not need one; `compute` throws InternalError.
const ComputeSource& no_source();

/// A model of tile latencies: closed form here, instruction level in module isa. It throws Unsupported for computes
/// that it does not cover.
class LatencyModel {
 public:
  virtual ~LatencyModel() = default;
  virtual TileLatency latency(const Descriptor& descriptor, const History& history, const ComputeSource& source) = 0;
  TileLatency latency(const Descriptor& descriptor, const History& history) {
    return latency(descriptor, history, no_source());
  }
  virtual std::string_view name() const = 0;
};

/// Closed forms for weight-, output- and input-stationary arrays, vector and cross-lane units.
class ClosedForm final : public LatencyModel {
 public:
  explicit ClosedForm(const Share& machine) : machine_(machine) {}
  using LatencyModel::latency;
  TileLatency latency(const Descriptor& descriptor, const History& history, const ComputeSource& source) override;
  std::string_view name() const override { return "closed form"; }

 private:
  Share machine_;
};

/// Memoizes another model; a small open-addressing table keyed by descriptor and history.
class LatencyStore final : public LatencyModel {
 public:
  /// Receives the number of requests of a compute since the last report.
  using Counted = std::function<void(const Descriptor&, const History&, std::int64_t)>;
  explicit LatencyStore(LatencyModel& model, Counted counted = {}, std::size_t entries = 4096)
      : model_(model), counted_(std::move(counted)), entries_(entries) {}
  using LatencyModel::latency;
  TileLatency latency(const Descriptor& descriptor, const History& history, const ComputeSource& source) override;
  std::string_view name() const override { return model_.name(); }
  std::int64_t hits() const { return hits_; }
  std::int64_t misses() const { return misses_; }
  void tell_counts();  ///< reports the counts since the last report

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
