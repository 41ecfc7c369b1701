// The memory of a run: regions of pages that are allocated on first use. Accesses outside regions trap.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "tilesim/isa/state/op.hpp"

namespace tilesim::isa {

using Address = std::uint64_t;

inline constexpr unsigned page_bits = 12;
inline constexpr Address page_bytes = Address{1} << page_bits;

enum Access : std::uint8_t { readable = 1, writable = 2, executable = 4 };

/// Pages of a region by number, in blocks allocated with their first page: a region may be far larger than the memory
/// in use.
class Pages {
 public:
  using Bytes = std::unique_ptr<std::uint8_t[]>;

  /// The bytes of a page; null: not allocated, reads as zeros.
  Bytes& at(std::uint64_t number) {
    std::unique_ptr<Block>& block = blocks_[(first_ + number) >> block_bits];
    if (block == nullptr) block = std::make_unique<Block>();
    return (*block)[(first_ + number) & (block_pages - 1)];
  }
  void resize(std::uint64_t count);
  bool has(std::uint64_t number) const {
    const std::unique_ptr<Block>& block = blocks_[(first_ + number) >> block_bits];
    return block != nullptr && (*block)[(first_ + number) & (block_pages - 1)] != nullptr;
  }
  /// Removes the pages from `number` on, and returns them.
  Pages split(std::uint64_t number);

  std::uint64_t used = 0;  ///< number of allocated pages, counted by Memory

 private:
  static constexpr unsigned block_bits = 9, block_pages = 1 << block_bits;
  using Block = std::array<Bytes, block_pages>;

  std::vector<std::unique_ptr<Block>> blocks_;
  std::uint64_t first_ = 0, count_ = 0;  ///< page 0 has index `first_` in the first block
};

/// Addresses [begin, end), whole pages, with access rights `access`.
struct Region {
  Address begin = 0, end = 0;
  std::uint8_t access = readable | writable;
  std::string name;  ///< "text", "heap", "stack"...
  Pages pages;
};

/// Little-endian, byte-addressed memory for one thread. Pointers to pages are valid until their region is removed.
class Memory {
 public:
  Memory() { forget(); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  /// Adds a region; throws UserError if it overlaps another one.
  void add(Address begin, Address end, std::uint8_t access, std::string name);
  void remove(Address begin, Address end);                        ///< removes the range, splitting regions
  void protect(Address begin, Address end, std::uint8_t access);  ///< changes access rights, splitting regions
  void grow(Address begin, Address end);                          ///< extends the region that contains `begin`
  const Region* find(Address address) const;                      ///< null outside all regions
  const std::vector<Region>& regions() const { return regions_; }
  /// Limits the bytes of allocated pages over all regions; a page beyond traps.
  void limit(std::uint64_t bytes);
  std::uint64_t used() const { return used_ << page_bits; }
  /// Moves the page at `from` to `to`, where no page is allocated; both are in regions.
  void move_page(Address from, Address to);
  /// The lowest free range of `bytes` at or above `from` and below `below`; 0: none.
  Address gap(Address from, Address below, std::uint64_t bytes) const;
  /// Changes whenever code may have changed, which makes older decoded blocks invalid.
  std::uint64_t version() const { return version_; }
  void code_changed() { ++version_; }

  template <class T>
  T load(Address address) {
    const CachedPage& entry = reads_[address >> page_bits & mask];
    if (entry.page == address >> page_bits && (address & (page_bytes - 1)) <= page_bytes - sizeof(T)) [[likely]] {
      T value;
      std::memcpy(&value, entry.bytes + (address & (page_bytes - 1)), sizeof(T));
      return value;
    }
    T value;
    read(address, &value, sizeof(T));
    return value;
  }

  template <class T>
  void store(Address address, T value) {
    const CachedPage& entry = writes_[address >> page_bits & mask];
    if (entry.page == address >> page_bits && (address & (page_bytes - 1)) <= page_bytes - sizeof(T)) [[likely]] {
      std::memcpy(entry.bytes + (address & (page_bytes - 1)), &value, sizeof(T));
      return;
    }
    write(address, &value, sizeof(T));
  }

  void read(Address address, void* to, std::uint64_t bytes);           ///< throws Trap, load fault
  void write(Address address, const void* from, std::uint64_t bytes);  ///< throws Trap, store fault, before any change
  /// Like `write`, but ignores access rights: for loaders and arguments. Throws UserError at the memory limit.
  void place(Address address, const void* from, std::uint64_t bytes);
  std::uint16_t fetch(Address address);  ///< throws Trap, fetch fault
  /// Pointer to the bytes from `address` to the end of its page, for long rows; throws Trap.
  std::uint8_t* for_reading(Address address);
  std::uint8_t* for_writing(Address address);
  bool can(Address address, std::uint64_t bytes, std::uint8_t access) const;
  /// A store of an odd number n to this double word throws Exit with n / 2: `tohost` of bare programs. 0: none.
  void watch(Address address) { watched_ = address, forget(); }

 private:
  struct CachedPage {
    Address page = 0;
    std::uint8_t* bytes = nullptr;
  };
  static constexpr Address mask = 1023;

  Region* owner(Address address);
  std::uint8_t* page(Address address, std::uint8_t access, Cause cause);
  void appear(Region& region, Address address);
  std::size_t cut(Address at);  ///< splits the region that contains `at`; index of the first region at or above `at`
  void forget();                ///< clears cached pages

  std::vector<Region> regions_;  ///< by address
  std::array<CachedPage, mask + 1> reads_, writes_;
  std::uint64_t version_ = 1;
  std::uint64_t used_ = 0, most_ = ~std::uint64_t{0};  ///< pages
  std::unique_ptr<std::uint8_t[]> spare_;              ///< reserve for reporting a failed allocation
  Address watched_ = 0;
};

}  // namespace tilesim::isa
