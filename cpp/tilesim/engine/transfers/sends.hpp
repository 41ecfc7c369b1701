// Sends of tiles between cores.
#pragma once

#include "tilesim/engine/transfers/transfers.hpp"

namespace tilesim::engine {

class Sends {
 public:
  Sends(OffChip& memory, Agenda& agenda, Units& units, Accounts& accounts, Transfers& transfers, Totals& totals)
      : memory_(memory), agenda_(agenda), units_(units), accounts_(accounts), transfers_(transfers), totals_(totals) {}

  /// Starts the send at a queue's head. Returns true if the queue can remove it; otherwise it continues the queue
  /// later.
  bool start(Stream& stream, int queue, const ResolvedStatement& statement);

 private:
  /// Finds streams and versions that receive the tile. Returns false if a receiver has no space yet.
  bool targets(Stream& stream, const ResolvedStatement& statement, std::vector<Transfers::Target>& found);

  OffChip& memory_;
  Agenda& agenda_;
  Units& units_;
  Accounts& accounts_;
  Transfers& transfers_;
  Totals& totals_;
};

}  // namespace tilesim::engine
