// Combines results of phases that run one after the other: on a machine, on its host and on the link between them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tilesim/report/result.hpp"

namespace tilesim {

/// An operation on the host, or a transfer over the link.
struct Elsewhere {
  std::string unit;       ///< "host" | "link"
  std::string name;       ///< name of its row and its interval
  std::string operation;  ///< operation, or transferred value
  std::int64_t picoseconds = 0;
  std::int64_t load_bytes = 0, store_bytes = 0;
  double work = 0;  ///< number of operations
};

/// Adds up consecutive parts, in cycles of the machine's clock. A unit is idle during the other parts.
class Turns {
 public:
  Turns(std::int64_t hertz, bool record) : record_(record) { sum_.hertz = hertz; }

  void part(const Result& part);  ///< adds a part on the machine
  void elsewhere(const Elsewhere& what);
  /// The sum, except for program, machine, hashes and configuration, which the caller sets; the fidelity is the first
  /// part's.
  Result finish();

 private:
  UnitUse& unit(const UnitUse& like);
  void add_unit(const UnitUse& use, std::int64_t during);
  void add_operation(OperationUse use);
  void add_interval(const std::string& unit, const std::string& label, std::int64_t start, std::int64_t finish);
  void add_energy(const Result& part);
  void name_bottleneck();

  Result sum_;  ///< sum so far; its cycles are the current time
  CountSums counts_;
  bool record_, begun_ = false;
  std::map<std::string, std::size_t> units_, operations_, labels_, energy_;
  std::int64_t network_ = 0, dma_ = 0;  ///< cycles in which the network, or a core's DMA port, limits a part
  std::int64_t host_ = 0, link_ = 0;    ///< busy cycles of each
};

}  // namespace tilesim
