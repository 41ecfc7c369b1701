// Kernels of user-defined operations: a function of a program, called by the C ABI on a core of the machine.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tilesim/isa/pipeline/timing.hpp"
#include "tilesim/isa/run/process.hpp"
#include "tilesim/machine/custom_operation.hpp"
#include "tilesim/tile/tile.hpp"

namespace tilesim::isa {

/// The function receives pointers to operands and results (dense, row-major), then the extents of the operands, axis by
/// axis, as 64-bit integers.
class CustomKernel : public CustomOperation {
 public:
  struct Program {
    std::string name;  ///< name of the operation, for messages
    Image image;
    Address function = 0;
    std::shared_ptr<const InstructionSet> set;
    std::vector<CustomUnit> units;  ///< units of the core in addition to the machine's
    std::string queue = "vector";
  };
  explicit CustomKernel(Program program) : program_(std::move(program)) {}

  /// Returns the cycles of all work if `timed`, else 0. Throws UserError with symbol and line if the kernel traps.
  std::int64_t run(const Machine& machine, const std::vector<Array>& operands, std::vector<Array>& results,
                   bool timed) const;
  /// Measures once per core and types, on fixed numbers between -1 and 1 (integers: 0 and 1).
  std::int64_t cycles(const Machine& machine, const std::vector<Array>& operands,
                      const std::vector<Array>& results) const override;
  std::string queue() const override { return program_.queue; }

 protected:
  /// "symbol, line" of an instruction, as far as they are known.
  virtual std::string where(Address pc) const = 0;

 private:
  CoreTiming core(const Machine& machine) const;

  Program program_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, std::int64_t> cached_;
};

/// Executes the operation by its kernel; false if it has none.
bool run_own(const Machine& machine, const Opaque& opaque);
/// Whether a kernel determines the operation's time.
bool has_kernel(const Opaque& opaque);

}  // namespace tilesim::isa
