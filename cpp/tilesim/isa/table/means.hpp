// Macros with which the scalar tables define meanings of instructions.
#pragma once

#include <cstdint>

#include "tilesim/isa/state/hart.hpp"
#include "tilesim/isa/table/encoding.hpp"
#include "tilesim/isa/table/instruction_set.hpp"

/// A meaning: statements on `h` (the hart) and `o` (the instruction).
#define MEANS(...) +[]([[maybe_unused]] Hart& h, [[maybe_unused]] const Op& o) { __VA_ARGS__; }

namespace tilesim::isa {

using s8 = std::int8_t;
using s16 = std::int16_t;
using s32 = std::int32_t;
using s64 = std::int64_t;
using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
__extension__ using s128 = __int128;
__extension__ using u128 = unsigned __int128;

/// A 32-bit result, sign-extended to a register.
constexpr u64 word(u64 value) { return static_cast<u64>(static_cast<s64>(static_cast<s32>(static_cast<u32>(value)))); }
constexpr s64 sign(u64 value) { return static_cast<s64>(value); }

}  // namespace tilesim::isa
