// Times of kernels (outermost named scopes), per stream and over all streams of a job. Kernels may overlap.
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
  std::int64_t dma_busy = 0;  ///< thousandths of a cycle in which DMA engines passed bytes, of all cores
  std::int64_t padding_bytes = 0, send_bytes = 0;  ///< padding: of loads and stores, beyond the elements
  std::int64_t on_chip_bytes = 0;                  ///< of transfers inside of the core, not among loads and stores
  double multiply_adds = 0, vector_operations = 0;
  double array_multiply_adds = 0;  ///< with those of an array's ragged ends

  void add(const KernelCounters& other);  ///< of another job of the program
};

/// A kernel under way in a stream.
struct KernelRun {
  std::int32_t scope = -1;
  std::int64_t start = -1, finish = 0;
  std::int64_t pending = 0;   ///< its statements in queues
  bool ended = false;         ///< all of them have been dispatched
  bool worked = false;        ///< one of them took a unit
  std::int64_t instance = 0;  ///< of its scope in this stream
};

/// The kernels of a stream, in text order.
class KernelRuns {
 public:
  void begin(std::int32_t scope, std::int64_t start, std::int64_t finish);  ///< start below zero: not known yet
  void end() { running_.back().ended = true; }
  std::int64_t enter();             ///< a statement of the last one; its number
  bool leave(std::int64_t kernel);  ///< true: it was the last of an ended kernel
  void used(std::int64_t kernel, std::int64_t start, std::int64_t finish);  ///< below zero: none
  bool over() const { return !running_.empty() && running_.front().ended && running_.front().pending == 0; }
  const KernelRun& front() const { return running_.front(); }
  void pop();

 private:
  std::map<std::int32_t, std::int64_t> instances_;  ///< per scope: kernels begun
  std::deque<KernelRun> running_;
  std::int64_t first_ = 0;  ///< number of the front
};

/// The kernels of a job.
class JobKernels {
 public:
  void start(std::size_t scopes, std::int64_t now);
  KernelCounters* counters_of(std::int32_t scope) {
    return scope < 0 ? nullptr : &counters_[static_cast<std::size_t>(scope)];
  }
  const std::vector<KernelCounters>& counters() const { return counters_; }  ///< per scope
  void launch(std::int32_t scope, std::int64_t cycles);
  /// Kernels of a stream that are over get their time once all `streams` have done their part. A stream without a share
  /// of the work does not stretch it, but for the one that leads.
  void settle(KernelRuns& runs, bool leads, std::int64_t now, std::size_t streams);
  void finish(std::int64_t now);  ///< of the job

 private:
  /// Over all streams; some have yet to finish their part.
  struct Span {
    std::int64_t start = -1, finish = 0;
    std::size_t streams = 0;
  };
  void account(std::int32_t scope, const Span& span);

  std::vector<KernelCounters> counters_;
  std::map<std::pair<std::int32_t, std::int64_t>, Span> spans_;  ///< by scope and instance
  std::int32_t last_ = -1;
  std::int64_t accounted_ = 0;  ///< kernels have been given the time up to here
};

}  // namespace tilesim::engine
