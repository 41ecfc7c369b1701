// Executes a program in text order. Each core and context is a stream; if a stream has to wait, another continues.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tilesim/program/byte_ranges.hpp"
#include "tilesim/program/run/execute.hpp"
#include "tilesim/program/run/operation.hpp"
#include "tilesim/program/run/races.hpp"
#include "tilesim/program/run/residents.hpp"
#include "tilesim/program/run/tensors.hpp"

namespace tilesim::program {

struct TextOptions {
  Tensors* tensors = nullptr;  ///< null: executes synchronization only
  Races* races = nullptr;      ///< null: no search for races
  const ExecuteOptions* execute = nullptr;
  std::int64_t statement_limit = -1;  ///< stops without an error after this many statements; negative: no limit
  bool must_release = false;          ///< whether a version that a consumer never releases is an error
};

/// Thrown by a run without tensors if the program reads tensor values.
struct NeedsData {};

class TextRun final : public CompiledExpr::TensorReader {
 public:
  TextRun(const CompiledProgram& program, const TextOptions& options);
  /// Throws NeedsData. Throws RaceError if text order is illegal: a wait that no earlier statement satisfies, a ring
  /// that is too small, or a use of a version that is free.
  void run();

 private:
  struct DataBuffer {
    std::vector<std::byte> bytes;
    std::int64_t version = -1, pieces = 0;
    std::uint32_t released = 0;
    bool free = true;
  };
  struct Ring {
    std::vector<DataBuffer> buffers;
    std::int64_t received = 0, sent = 0;
  };
  struct Touched {  ///< tensors that a scope loads and stores
    std::set<int> stored, loaded;
    void add(const Touched& other) {
      stored.insert(other.stored.begin(), other.stored.end());
      loaded.insert(other.loaded.begin(), other.loaded.end());
    }
  };
  struct Stream {
    Stream(const CompiledProgram& program, std::int64_t core_id, std::int64_t context, const TensorReader* reader)
        : cursor(program, core_id, context, reader), core(core_id) {}
    Cursor cursor;
    std::int64_t core;
    std::size_t id = 0;
    std::vector<Ring> rings;
    ByteRanges<std::pair<int, int>> live;  ///< slot and buffer of every version in use
    std::vector<Touched> touched;          ///< per open scope, for `observe`
    int operations = 0;                    ///< number of open scopes that compute an operation of the graph
    std::map<int, std::int64_t> ended;     ///< per scope: number of times it has ended, for `observe`
    bool held = false, finished = false;   ///< held: whether `op` waits
    Operation op;
  };

  std::int64_t read(int tensor, const std::int64_t* index, int rank) const override;
  CancelToken* cancel() const { return options_.execute ? options_.execute->cancel : nullptr; }
  bool step(Stream& stream, bool counters);
  bool perform_one(Stream& stream, bool counters);
  bool begin_scope(Stream& stream);
  void end_scope(Stream& stream);
  bool acquire(Stream& stream);
  bool wait(Stream& stream, bool counters);
  bool send(Stream& stream);
  void commit(Stream& stream);
  void release(Stream& stream);
  void operation(Stream& stream);
  struct Bytes {
    bool accumulator;
    std::int64_t low, high;
  };
  Bytes bytes_of(int slot, std::int64_t version) const;
  void use_resident(Stream& stream);
  bool is_room(const Stream& stream, int slot, std::int64_t version) const;
  void start_version(Stream& stream, int slot, std::int64_t version);
  DataBuffer& live(Stream& stream, int slot, std::int64_t version);
  DataBuffer& buffer(Stream& stream, int slot, std::int64_t version) const;
  void name_statement(const Stream& stream);
  void check_released(Stream& stream, int scope);
  void observe(Stream& stream, int scope, const Touched& own);
  std::string waits_for(const Stream& stream) const;
  [[noreturn]] void stuck() const;
  [[noreturn]] void fail(const Stream& stream, const std::string& what) const;

  const CompiledProgram& program_;
  TextOptions options_;
  TileExecutor& executor_;
  std::vector<std::vector<std::int64_t>> counters_;
  std::vector<std::unique_ptr<Stream>> streams_;
  mutable Stream* walking_ = nullptr;
  struct PartialKernel {
    Touched touched;
    std::size_t streams = 0;
  };
  std::map<std::pair<int, std::int64_t>, PartialKernel>
      partial_kernels_;  ///< kernels that some streams have not left: scope, instance
  std::int64_t statements_ = 0;
  Residents residents_;
  bool poison_ = false;
};

}  // namespace tilesim::program
