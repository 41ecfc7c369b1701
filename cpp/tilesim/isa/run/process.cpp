#include "tilesim/isa/run/process.hpp"

#include <algorithm>
#include <cstring>

#include "tilesim/base/error.hpp"
#include "tilesim/isa/table/instruction_set.hpp"

namespace tilesim::isa {

namespace {

constexpr Address lower_edge(Address a) { return a & ~(page_bytes - 1); }
constexpr Address upper_edge(Address a) { return lower_edge(a + page_bytes - 1); }
constexpr Address highest_segment = mmap_from;
constexpr Address returned_to = stack_top + page_bytes;  ///< return address of a call: no region has this address
constexpr std::uint64_t thread_room = 1 << 16;           ///< around tp: the C library keeps data below it

Address heap_of(const Image& image) {
  Address end = page_bytes;
  for (const Segment& segment : image.segments) end = std::max(end, upper_edge(segment.address + segment.size));
  return end;
}

void check(const Segment& segment) {
  if (segment.size < segment.bytes.size())
    throw UserError({"a segment holds more bytes in the file than in memory",
                     {},
                     std::to_string(segment.bytes.size()),
                     "at most " + std::to_string(segment.size),
                     {}});
  constexpr std::uint64_t most = std::uint64_t{1} << 34;
  if (segment.size > most || segment.address >= highest_segment || segment.size > highest_segment - segment.address)
    throw UserError({"a segment overlaps stack and mappings",
                     {},
                     std::to_string(segment.address),
                     "addresses below " + std::to_string(highest_segment),
                     {}});
}

}  // namespace

Process::Process(std::shared_ptr<const InstructionSet> set, std::uint32_t vlen, const Image& image,
                 LinuxOptions options)
    : hart(std::move(set), vlen), image_(image), linux_(std::make_unique<Linux>(std::move(options), heap_of(image))) {
  memory.limit(linux_->memory_limit());
  load(image);
  for (Segment& segment : image_.segments) segment.bytes.clear();
  memory.add(stack_top - stack_bytes, stack_top, readable | writable, "stack");
  hart.environment = linux_.get();
  hart.memory = &memory;
  hart.marks = &marks;
}

void Process::be(const NpuSpec& spec) {
  npu_ = std::make_unique<Npu>(spec);
  hart.npu = npu_.get();
  const auto add = [&](Address begin, std::uint64_t bytes, const char* name) {
    if (bytes != 0) memory.add(begin, begin + upper_edge(bytes), readable | writable, name);
  };
  add(scratchpad_base, spec.scratchpad_bytes, "scratchpad");
  add(accumulator_base, spec.accumulator_bytes, "accumulator memory");
  off_chip_ = off_chip_base, off_chip_end_ = off_chip_base + spec.off_chip_bytes;
  add(off_chip_base, spec.off_chip_bytes, "off-chip memory");
}

void Process::make_bare(Address tohost) {
  hart.environment = &bare_;
  memory.watch(tohost);
}

void Process::load(const Image& image) {
  std::vector<const Segment*> ordered;
  for (const Segment& segment : image.segments) {
    check(segment);
    if (segment.size != 0) ordered.push_back(&segment);
  }
  std::sort(ordered.begin(), ordered.end(), [](const Segment* a, const Segment* b) { return a->address < b->address; });
  Address end = 0;
  for (const Segment* segment : ordered) {
    if (segment->address < end)
      throw UserError({"two segments overlap",
                       {},
                       std::to_string(segment->address),
                       "addresses from " + std::to_string(end) + " on",
                       {}});
    Address begin = lower_edge(segment->address);
    if (const Region* before = memory.find(begin); before != nullptr) {  // both segments share a page
      memory.protect(begin, begin + page_bytes, before->access | segment->access);
      begin += page_bytes;
    }
    end = segment->address + segment->size;
    if (upper_edge(end) > begin)
      memory.add(begin, upper_edge(end), segment->access, (segment->access & executable) != 0 ? "text" : "data");
    memory.place(segment->address, segment->bytes.data(), segment->bytes.size());
  }
}

void Process::start(const std::vector<std::string>& arguments) {
  Address sp = stack_top;
  const auto push = [&](const void* data, std::uint64_t bytes) {
    sp -= bytes;
    if (sp < stack_top - stack_bytes / 2 || sp > stack_top)
      throw UserError({"the arguments are too long", {}, std::to_string(bytes), "at most half of the stack", {}});
    memory.place(sp, data, bytes);
    return sp;
  };
  std::vector<std::uint64_t> words{arguments.size()};
  for (const std::string& argument : arguments) words.push_back(push(argument.c_str(), argument.size() + 1));
  const std::uint64_t name = words.size() > 1 ? words[1] : 0;
  words.insert(words.end(), {0, 0});  // end of argv, and an empty environment
  const std::uint64_t random[2] = {linux_->random(), linux_->random()};
  const Address random_at = push(random, 16);
  // types of include/uapi/linux/auxvec.h; HWCAP has a bit for each letter of IMAFDCV
  std::uint64_t capabilities = 0;
  for (const char letter : {'I', 'M', 'A', 'F', 'D', 'C', 'V'}) capabilities |= std::uint64_t{1} << (letter - 'A');
  if (image_.headers != 0)
    words.insert(words.end(), {3, image_.headers, 4, image_.header_bytes, 5, image_.header_count});
  words.insert(words.end(), {6,  page_bytes,   9,  image_.entry, 11, 1, 12, 1,         13, 1,    14, 1,
                             16, capabilities, 17, 100,          23, 0, 25, random_at, 31, name, 0,  0});
  sp = (sp - 8 * words.size()) & ~Address{15};
  memory.place(sp, words.data(), 8 * words.size());
  hart.x.fill(0);
  hart.x[2] = sp;
  hart.pc = image_.entry;
}

Stop Process::finished(Stop stop) const {
  const Address base = stack_top - stack_bytes;
  const bool access = stop.trap.cause == Cause::load_fault || stop.trap.cause == Cause::store_fault;
  if (stop.kind == Stop::trapped && access && stop.trap.value < base && base - stop.trap.value <= stack_bytes)
    stop.trap.text = "the stack of 8 MiB is full";
  return stop;
}

Stop Process::run(std::uint64_t limit, Observer* observer) { return finished(hart.run(memory, limit, observer)); }

Address Process::allocate(std::uint64_t bytes) {
  if (off_chip_end_ == 0) return mapped(bytes);
  if (bytes > off_chip_end_ - off_chip_)
    throw UserError({"the arguments of the call do not fit into the machine's memory",
                     {},
                     std::to_string(bytes) + " bytes more",
                     std::to_string(off_chip_end_ - off_chip_) + " are left",
                     {}});
  const Address at = off_chip_;
  off_chip_ = std::min(off_chip_end_, upper_edge(at + std::max<std::uint64_t>(bytes, 1)));
  return at;
}

Address Process::mapped(std::uint64_t bytes) {
  const std::uint64_t room =
      upper_edge(std::max<std::uint64_t>(bytes, 1)) + page_bytes;  // one page between regions is left empty
  const Address at = memory.gap(mmap_from, stack_top - 2 * stack_bytes, room);
  if (at == 0) throw UserError("the arguments of the call do not fit into memory");
  memory.add(at, at + room - page_bytes, readable | writable, "argument");
  return at;
}

Stop Process::call(Address function, std::uint64_t limit, Observer* observer) {
  if (thread_ == 0) {
    thread_ = mapped(thread_room + image_.thread_bytes) + thread_room / 2;
    memory.place(thread_, image_.thread_data.data(), image_.thread_data.size());
  }
  hart.x[1] = returned_to;
  hart.x[3] = image_.global_pointer;
  hart.x[4] = thread_;
  hart.pc = function;
  return finished(hart.run(memory, limit, observer, returned_to));
}

}  // namespace tilesim::isa
