// Synchronisation of a kernel, derived from what its statements write and read.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tilesim/base/dtype.hpp"
#include "tilesim/program/program.hpp"

namespace tilesim::lower {

/// A ring of buffers. A version begins in each pass of the innermost block that holds all its uses, and at a load of a
/// ring that has been read.
struct Ring {
  std::string name;
  DType dtype = DType::f32;
  std::int64_t elements = 0, depth = 2;
  std::int64_t load_queue = 0;
  std::string carried = {};              ///< index of the loop that reads and updates one version; empty: none
  std::vector<std::string> pieces = {};  ///< indices of the loops, outermost first, each trip of which fills one piece
  /// A compute that only writes begins another version if the ring has been read. A loop's trip may then read the
  /// version that the previous trip wrote, on another queue.
  bool renewed = false;
  bool accumulator = false;
  bool counted = false;  ///< conditions decide when a version begins and ends, and when a piece of it is complete
};

/// Completes a kernel. `body` has loads, stores, computes, loops and branches; a statement without a queue gets that of
/// its unit. Each version of a ring is acquired once, committed after each write that another queue reads, waited for
/// before each read (for all writes so far), and released by each reading queue after its last read. A compute that
/// updates in place (writes the views that it reads) does not wait for what its own queue has written. A loop that
/// writes a ring and does not read it, or that carries it, counts as one statement; so does a branch, unless it hands
/// the ring over inside, or a version lies in it. Loops that read pieces wait for one piece in each trip. A tile that
/// another core sends (Receive) counts as one write.
program::Scope write_kernel(program::Scope scope, const std::vector<Ring>& rings, program::Block body);

/// A statement for `write_kernel`, on the queue of its unit.
program::Statement statement(program::Action action);

/// Statements about a counted ring: a version begins; what has been written since the last such statement completes
/// pieces on each writing queue; later readers wait for this many pieces; the version ends. A queue that writes only
/// after the first complete piece waits too.
program::Statement begun(const std::string& ring);
program::Statement complete(const std::string& ring, std::int64_t pieces = 1);
program::Statement counted(const std::string& ring, const Expr& pieces);
program::Statement released(const std::string& ring);

}  // namespace tilesim::lower
