// Cores at instruction level. Each array, vector or cross-lane queue is a sequencer; sequencers share a core's units.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tilesim/base/units.hpp"
#include "tilesim/engine/chip/computes.hpp"
#include "tilesim/isa/live/core.hpp"

namespace tilesim::engine {

/// Simulates cores at instruction level, with one object per core that jobs use. A compute without a kernel occupies
/// its queue for the closed form's time; the report lists such computes.
class LiveCores final : public ComputePort {
 public:
  explicit LiveCores(const Machine& machine);

  bool takes(std::int64_t core, UnitKind kind) const override;
  void attach(Units& units, Timeline& timeline) override;
  bool tells_parts() const override { return true; }
  Offered offer(const Compute& compute, std::uint64_t tag, std::int64_t now) override;
  void drain(std::int64_t until, CancelToken* cancel, std::vector<Done>& done) override;
  bool idle() const override { return busy_.empty() && milestones_.empty(); }
  ComputeReport report() const override;

 private:
  /// Cores of one type.
  struct Kind {
    Kind(const Machine& whole, const Machine& of);
    std::int64_t own(std::int64_t now) const;      ///< the core cycle that contains chip cycle `now`
    std::int64_t own_end(std::int64_t end) const;  ///< first core cycle that begins at or after chip cycle `end`
    std::int64_t chip(std::int64_t own) const;

    isa::LiveKernels kernels;
    ClosedForm closed_form;
    Clock base, clock;
  };
  struct Array {
    std::int64_t stream = -1, weights = -1;  ///< stream and number of the latest weights
    bool whole = false;                      ///< the compute with the latest weights needed one set of weights only
  };
  struct Under {
    std::string text;
    std::int64_t started = 0;
    std::int32_t unit = 0;
  };
  struct Core {
    Core(std::int64_t of, Kind& sort) : number(of), kind(&sort), live(sort.kernels.table()) {}
    std::int64_t number;
    Kind* kind;
    isa::LiveCore live;
    std::map<int, Array> arrays;
    std::vector<std::vector<std::int32_t>> units;  ///< indices into `Units`, per type of pipe
    bool busy = false;
  };

  Core& core(std::int64_t number);
  bool fits_resident(Core& core, const Compute& compute, unsigned array);
  void begin_closed(Core& core, isa::Sequencer& sequencer, const Compute& compute, std::uint64_t tag, std::int64_t at);
  void tell(Core& core, std::int64_t& until);
  void list_pipes(Core& core);
  void show_pipes(Core& core, bool all);
  void over(std::uint64_t tag, std::int64_t cycle);

  Units* units_ = nullptr;
  Timeline* timeline_ = nullptr;
  std::int32_t label_ = 0;
  std::vector<std::unique_ptr<Kind>> kinds_;
  std::vector<Kind*> of_core_;
  std::vector<std::unique_ptr<Core>> cores_;
  std::vector<Core*> busy_;  ///< cores that still have instructions to issue
  std::vector<isa::LiveEvent> events_;
  std::vector<Done> milestones_;
  std::map<std::uint64_t, Under> under_way_;    ///< computes in progress, by tag
  std::map<std::int32_t, std::int64_t> ended_;  ///< by unit: end of its last compute
  ComputeReport report_;
};

}  // namespace tilesim::engine
