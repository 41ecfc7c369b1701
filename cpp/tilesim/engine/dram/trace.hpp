// Sequences of memory requests, from named generators and files.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tilesim::engine::dram {

/// Upper limit on the cycles in a trace; times derived from them still fit 63 bits.
inline constexpr std::int64_t latest_cycle = std::int64_t{1} << 61;

struct Trace {
  std::vector<std::uint64_t> addresses;
  std::vector<std::uint8_t> writes;  ///< 1: write
  std::vector<std::int64_t> cycles;  ///< earliest cycle of each request; empty: the run's `period` determines it
};

/// Generates `requests` requests of `burst` bytes; i numbers requests. Throws UserError for an unknown name. Names:
///   sequential_read, sequential_write     i b
///   copy_blocks_64KiB                     a block of reads from 0, then a block of writes from span / 2, and so on
///   tile_256B_pitch_4096B                 rows of 256 B, 4096 B apart, all reads
///   stride_4KiB                           4 KiB i modulo the span
///   two_streams_far, two_streams_1MiB     alternates between two streams, span / 4 or 1 MiB apart
///   random_read, random_write             uniform over the span (xorshift64)
///   mixed_rand                            as random_read, with one third of writes
///   mixed_small, mixed_small_64KiB        uniform over 32 KiB or 64 KiB, half of them writes
///   mixed_seq                             reads from 0 and writes from span / 2 alternate
Trace make_trace(const std::string& name, std::int64_t requests, std::int64_t burst, std::int64_t span = 1LL << 28);

/// Reads lines "R address [cycle]" or "W address [cycle]" (also LD, ST). Addresses are decimal or start with 0x; #
/// starts a comment. Throws UserError with the line number.
Trace parse_trace(const std::string& text, const std::string& source);

}  // namespace tilesim::engine::dram
