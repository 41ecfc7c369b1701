// Derives the synchronisation of a kernel from what its statements write and read.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tilesim/base/dtype.hpp"
#include "tilesim/program/program.hpp"

namespace tilesim::lower {

/// A ring of buffers. A version begins in each pass of the innermost block that contains all its uses, and at a load
/// into a ring that has been read.
struct Ring {
  std::string name;
  DType dtype = DType::f32;
  std::int64_t elements = 0, depth = 2;
  std::int64_t load_queue = 0;
  std::string carried = {};              ///< index of the loop that reads and updates one version; empty: none
  std::vector<std::string> pieces = {};  ///< indices of the loops whose trips each fill a piece, outermost first
  /// A compute that only writes begins another version if the ring has been read. A loop's trip may then read, on
  /// another queue, the version that the previous trip wrote.
  bool renewed = false;
  bool accumulator = false;
  bool counted = false;  ///< statements below, not the writer, decide where versions and pieces begin and end
};

/// Completes a kernel. `body` contains loads, stores, computes, loops and branches; a statement without a queue gets
/// its unit's queue. Each version of a ring is acquired once, committed after each write that another queue reads,
/// waited for before each read (for all writes so far), and released by each reading queue after its last read. A
/// compute that updates in place (writes the views that it reads) does not wait for writes of its own queue. A loop
/// that writes a ring and does not read it, or that carries it, counts as one statement; so does a branch, unless it
/// passes the ring to another queue inside, or contains a version. A loop that reads pieces waits for one piece per
/// trip. A tile that another core sends (Receive) counts as one write.
program::Scope write_kernel(program::Scope scope, const std::vector<Ring>& rings, program::Block body);

/// A statement for `write_kernel`, on the queue of its unit.
program::Statement statement(program::Action action);

/// Statements about a counted ring. begun: a version begins; complete: what was written since the last such statement
/// completes pieces on each writing queue; counted: later readers wait for this many pieces; released: the version
/// ends. A queue that writes only after the first complete piece also waits.
program::Statement begun(const std::string& ring);
program::Statement complete(const std::string& ring, std::int64_t pieces = 1);
program::Statement counted(const std::string& ring, const Expr& pieces);
program::Statement released(const std::string& ring);

}  // namespace tilesim::lower
