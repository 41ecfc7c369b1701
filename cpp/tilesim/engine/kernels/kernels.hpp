// Times of kernels (outermost named scopes), per stream and over all streams of a job. Kernels may overlap in time.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <utility>
#include <vector>

namespace tilesim::engine {

struct KernelCounters {
  std::int64_t count = 0, start = -1, finish = 0, cycles = 0, exclusive = 0;
  std::int64_t load_bytes = 0, store_bytes = 0, below_bytes = 0, array_busy = 0, vector_busy = 0, launch = 0;
  std::int64_t dma_busy = 0;  ///< thousandths of cycles in which DMA engines moved bytes, summed over cores
  std::int64_t padding_bytes = 0, send_bytes = 0;  ///< padding_bytes: bytes of loads and stores beyond their elements
  std::int64_t on_chip_bytes = 0;  ///< bytes of transfers within the core; loads and stores exclude them
  double multiply_adds = 0, vector_operations = 0;
  double array_multiply_adds = 0;  ///< multiply_adds including idle rows and columns at the edges of an array

  void add(const KernelCounters& other);  ///< adds the counters of another job
};

/// A run of a kernel in one stream.
struct KernelRun {
  std::int32_t scope = -1;
  std::int64_t start = -1, finish = 0;
  std::int64_t pending = 0;   ///< number of its statements in queues
  bool ended = false;         ///< whether all its statements are dispatched
  bool worked = false;        ///< whether one of its statements used a unit
  std::int64_t instance = 0;  ///< number of earlier runs of the same scope in this stream
};

/// Runs of kernels in a stream, in text order, that have not been settled.
class KernelRuns {
 public:
  void begin(std::int32_t scope, std::int64_t start, std::int64_t finish);  ///< start -1: not yet known
  void end() { running_.back().ended = true; }
  std::int64_t enter();             ///< counts a statement of the latest kernel; returns the kernel's number
  bool leave(std::int64_t kernel);  ///< returns whether this was the last statement of an ended kernel
  void used(std::int64_t kernel, std::int64_t start, std::int64_t finish);  ///< records that a statement used a unit
  bool over() const { return !running_.empty() && running_.front().ended && running_.front().pending == 0; }
  const KernelRun& front() const { return running_.front(); }
  void pop();

 private:
  std::map<std::int32_t, std::int64_t> instances_;  ///< per scope: number of runs so far
  std::deque<KernelRun> running_;
  std::int64_t first_ = 0;  ///< number of the front kernel
};

/// Times and counters of the kernels of a job.
class JobKernels {
 public:
  void start(std::size_t scopes, std::int64_t now);
  KernelCounters* counters_of(std::int32_t scope) {
    return scope < 0 ? nullptr : &counters_[static_cast<std::size_t>(scope)];
  }
  const std::vector<KernelCounters>& counters() const { return counters_; }  ///< per scope
  void launch(std::int32_t scope, std::int64_t cycles);
  /// Assigns exclusive time to each kernel that all `streams` have completed. A kernel's time includes this stream's
  /// part only if the stream used a unit in the kernel or `leads`.
  void settle(KernelRuns& runs, bool leads, std::int64_t now, std::size_t streams);
  void finish(std::int64_t now);  ///< call it at the end of the job

 private:
  /// Time from the first start to the last end over streams; `streams` is the number of streams that have finished.
  struct Span {
    std::int64_t start = -1, finish = 0;
    std::size_t streams = 0;
  };
  void account(std::int32_t scope, const Span& span);

  std::vector<KernelCounters> counters_;
  std::map<std::pair<std::int32_t, std::int64_t>, Span> spans_;  ///< by scope and instance
  std::int32_t last_ = -1;
  std::int64_t accounted_ = 0;  ///< exclusive time up to this cycle is assigned
};

}  // namespace tilesim::engine
