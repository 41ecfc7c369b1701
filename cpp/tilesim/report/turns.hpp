// Combines results of phases that run one after the other: on a machine, on its host and on the link between them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tilesim/report/result.hpp"

namespace tilesim {

/// An operation of the host, or a transfer over the link.
struct Elsewhere {
  std::string unit;       ///< "host" | "link"
  std::string name;       ///< of its row and its interval
  std::string operation;  ///< or the value that is transferred
  std::int64_t picoseconds = 0;
  std::int64_t load_bytes = 0, store_bytes = 0;
  double work = 0;  ///< operations
};

/// Parts one after another, in cycles of the machine's clock. A unit is idle while others have their turn.
class Turns {
 public:
  Turns(std::int64_t hertz, bool record) : record_(record) { sum_.hertz = hertz; }

  void part(const Result& part);  ///< a turn of the machine
  void elsewhere(const Elsewhere& what);
  /// Everything but program, machine, hashes and configuration, of which the caller knows; fidelity is the first
  /// part's.
  Result finish();

 private:
  UnitUse& unit(const UnitUse& like);
  void add_unit(const UnitUse& use, std::int64_t during);
  void add_operation(OperationUse use);
  void add_interval(const std::string& unit, const std::string& label, std::int64_t start, std::int64_t finish);
  void add_energy(const Result& part);
  void name_bottleneck();

  Result sum_;  ///< so far; its cycles are now
  CountSums counts_;
  bool record_, begun_ = false;
  std::map<std::string, std::size_t> units_, operations_, labels_, energy_;
  std::int64_t network_ = 0, dma_ = 0;  ///< cycles in which the network, a core's DMA port bounds a part
  std::int64_t host_ = 0, link_ = 0;    ///< busy cycles
};

}  // namespace tilesim
