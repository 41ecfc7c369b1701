#include "tilesim/isa/state/memory.hpp"

#include <algorithm>
#include <new>

#include "tilesim/base/error.hpp"

namespace tilesim::isa {

namespace {

std::string hex(Address address) {
  static const char digits[] = "0123456789abcdef";
  std::string text;
  do text.insert(text.begin(), digits[address & 15]);
  while ((address >>= 4) != 0);
  return "0x" + text;
}

const char* access_text(std::uint8_t access) {
  return access == executable ? "fetched" : access == writable ? "written" : "read";
}

}  // namespace

void Pages::resize(std::uint64_t count) {
  for (std::uint64_t number = count; number < count_; ++number) {
    const std::unique_ptr<Block>& block = blocks_[(first_ + number) >> block_bits];
    if (block != nullptr) (*block)[(first_ + number) & (block_pages - 1)] = nullptr;
  }
  count_ = count;
  blocks_.resize((first_ + count + block_pages - 1) >> block_bits);
}

Pages Pages::split(std::uint64_t number) {
  Pages upper;
  upper.first_ = (first_ + number) & (block_pages - 1);
  upper.resize(count_ - number);
  for (std::uint64_t i = number; i < count_; ++i) {
    const std::unique_ptr<Block>& block = blocks_[(first_ + i) >> block_bits];
    if (block == nullptr) continue;
    Bytes& bytes = (*block)[(first_ + i) & (block_pages - 1)];
    if (bytes == nullptr) continue;
    upper.at(i - number) = std::move(bytes);
    --used, ++upper.used;
  }
  resize(number);
  return upper;
}

Region* Memory::owner(Address address) {
  auto after = std::upper_bound(regions_.begin(), regions_.end(), address,
                                [](Address a, const Region& region) { return a < region.begin; });
  if (after == regions_.begin()) return nullptr;
  Region& region = *std::prev(after);
  return address < region.end ? &region : nullptr;
}

const Region* Memory::find(Address address) const { return const_cast<Memory*>(this)->owner(address); }

void Memory::forget() {
  // an impossible page number
  reads_.fill({~Address{0}, nullptr});
  writes_.fill({~Address{0}, nullptr});
}

void Memory::add(Address begin, Address end, std::uint8_t access, std::string name) {
  require(begin % page_bytes == 0 && end % page_bytes == 0 && begin < end, "a region consists of whole pages");
  const auto at = std::find_if(regions_.begin(), regions_.end(), [&](const Region& r) { return r.end > begin; });
  if (at != regions_.end() && at->begin < end)
    throw UserError({"'" + name + "' and '" + at->name + "' overlap in memory",
                     {},
                     hex(begin) + " to " + hex(end),
                     "addresses outside " + hex(at->begin) + " to " + hex(at->end),
                     {}});
  Region region{begin, end, access, std::move(name), {}};
  region.pages.resize((end - begin) >> page_bits);
  regions_.insert(at, std::move(region));
  if ((access & executable) != 0) ++version_;
}

void Memory::grow(Address begin, Address end) {
  Region* region = owner(begin);
  require(region != nullptr && end % page_bytes == 0 && end > region->end, "a region grows by whole pages");
  region->pages.resize((end - region->begin) >> page_bits);
  region->end = end;
}

std::size_t Memory::cut(Address at) {
  const auto found = std::find_if(regions_.begin(), regions_.end(), [&](const Region& r) { return r.end > at; });
  const auto index = static_cast<std::size_t>(found - regions_.begin());
  if (found == regions_.end() || found->begin >= at) return index;
  Region upper{at, found->end, found->access, found->name, {}};
  upper.pages = found->pages.split((at - found->begin) >> page_bits);
  found->end = at;
  regions_.insert(std::next(found), std::move(upper));
  return index + 1;
}

void Memory::remove(Address begin, Address end) {
  const std::size_t first = cut(begin), last = cut(end);
  for (std::size_t i = first; i < last; ++i)
    used_ -= regions_[i].pages.used, version_ += (regions_[i].access & executable) != 0 ? 1 : 0;
  regions_.erase(regions_.begin() + static_cast<std::ptrdiff_t>(first),
                 regions_.begin() + static_cast<std::ptrdiff_t>(last));
  forget();
}

void Memory::protect(Address begin, Address end, std::uint8_t access) {
  const std::size_t first = cut(begin), last = cut(end);
  for (std::size_t i = first; i < last; ++i) {
    if (((regions_[i].access | access) & executable) != 0) ++version_;
    regions_[i].access = access;
  }
  forget();
}

Address Memory::gap(Address from, Address below, std::uint64_t bytes) const {
  Address at = from;
  for (const Region& region : regions_) {
    if (region.end <= at) continue;
    if (region.begin >= at && region.begin - at >= bytes) break;
    at = region.end;
  }
  return at <= below && below - at >= bytes ? at : 0;
}

std::uint8_t* Memory::page(Address address, std::uint8_t access, Cause cause) {
  Region* region = owner(address);
  if (region == nullptr) throw Trap{cause, address, "no region at this address"};
  if ((region->access & access) != access)
    throw Trap{cause, address, "'" + region->name + "' may not be " + access_text(access)};
  const std::uint64_t number = (address - region->begin) >> page_bits;
  if (!region->pages.has(number)) appear(*region, address);
  return region->pages.at(number).get();
}

void Memory::limit(std::uint64_t bytes) {
  constexpr std::size_t spare_bytes = 16 << 20;  // untouched reserve
  most_ = bytes >> page_bits;
  spare_.reset(new std::uint8_t[spare_bytes]);
}

void Memory::appear(Region& region, Address address) {
  if (used_ >= most_)
    throw Trap{Cause::no_memory, address, std::to_string(used()) + " bytes are in use, as many as max_memory allows"};
  try {
    region.pages.at((address - region.begin) >> page_bits) = std::make_unique<std::uint8_t[]>(page_bytes);
  } catch (const std::bad_alloc&) {
    spare_.reset();
    throw Trap{Cause::no_memory, address,
               "the machine that simulates has none left, " + std::to_string(used()) + " bytes are in use"};
  }
  ++region.pages.used, ++used_;
}

void Memory::move_page(Address from, Address to) {
  Region *source = owner(from), *target = owner(to);
  require(source != nullptr && target != nullptr, "pages move between regions");
  const std::uint64_t number = (from - source->begin) >> page_bits;
  if (!source->pages.has(number)) return;
  Pages::Bytes& place = target->pages.at((to - target->begin) >> page_bits);
  require(place == nullptr, "a page moves to an unmapped address");
  place = std::move(source->pages.at(number));
  --source->pages.used, ++target->pages.used;
  forget();
}

std::uint8_t* Memory::for_reading(Address address) {
  CachedPage& entry = reads_[address >> page_bits & mask];
  if (entry.page != address >> page_bits) {
    std::uint8_t* bytes = page(address, readable, Cause::load_fault);
    entry = {address >> page_bits, bytes};
  }
  return entry.bytes + (address & (page_bytes - 1));
}

std::uint8_t* Memory::for_writing(Address address) {
  CachedPage& entry = writes_[address >> page_bits & mask];
  if (entry.page == address >> page_bits) return entry.bytes + (address & (page_bytes - 1));
  std::uint8_t* bytes = page(address, writable, Cause::store_fault);
  // the watched page is never cached
  if (watched_ == 0 || address >> page_bits != watched_ >> page_bits) entry = {address >> page_bits, bytes};
  return bytes + (address & (page_bytes - 1));
}

void Memory::read(Address address, void* to, std::uint64_t bytes) {
  auto* out = static_cast<std::uint8_t*>(to);
  while (bytes != 0) {
    const std::uint64_t part = std::min(bytes, page_bytes - (address & (page_bytes - 1)));
    std::memcpy(out, for_reading(address), part);
    address += part, out += part, bytes -= part;
  }
}

void Memory::write(Address address, const void* from, std::uint64_t bytes) {
  const auto* in = static_cast<const std::uint8_t*>(from);
  for (Address at = address; bytes != 0 && at - address < bytes; at = (at | (page_bytes - 1)) + 1) for_writing(at);
  const bool ends = watched_ != 0 && address <= watched_ && watched_ - address < bytes;
  while (bytes != 0) {
    const std::uint64_t part = std::min(bytes, page_bytes - (address & (page_bytes - 1)));
    std::memcpy(for_writing(address), in, part);
    address += part, in += part, bytes -= part;
  }
  if (!ends) return;
  std::uint64_t value = 0;
  read(watched_, &value, sizeof(value));
  if ((value & 1) != 0) throw Exit{static_cast<std::int64_t>(value >> 1)};
}

void Memory::place(Address address, const void* from, std::uint64_t bytes) try {
  const auto* in = static_cast<const std::uint8_t*>(from);
  while (bytes != 0) {
    const std::uint64_t part = std::min(bytes, page_bytes - (address & (page_bytes - 1)));
    std::memcpy(page(address, 0, Cause::store_fault) + (address & (page_bytes - 1)), in, part);
    address += part, in += part, bytes -= part;
  }
} catch (const Trap& trap) {
  if (trap.cause != Cause::no_memory) throw;
  throw UserError({"program and arguments do not fit into memory",
                   "address " + hex(trap.value),
                   trap.text,
                   "a larger max_memory, or less to place",
                   {}});
}

std::uint16_t Memory::fetch(Address address) {
  std::uint16_t half = 0;
  std::memcpy(&half, page(address, executable, Cause::fetch_fault) + (address & (page_bytes - 1)), 2);
  return half;
}

bool Memory::can(Address address, std::uint64_t bytes, std::uint8_t access) const {
  while (bytes != 0) {
    const Region* region = find(address);
    if (region == nullptr || (region->access & access) != access) return false;
    const std::uint64_t part = std::min(bytes, region->end - address);
    address += part, bytes -= part;
  }
  return true;
}

}  // namespace tilesim::isa
