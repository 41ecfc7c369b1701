// Linux calls on memory, time and identity, and the table of calls. linux_files.cpp has the calls on files.
#include "tilesim/isa/run/linux.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "tilesim/isa/table/instruction_set.hpp"

namespace tilesim::isa {

namespace {

constexpr Address down(Address a) { return a & ~(page_bytes - 1); }
constexpr Address up(Address a) { return down(a + page_bytes - 1); }
constexpr std::uint64_t call_work = 1 << 10;                  ///< work of a call, for polls: it may move many bytes
constexpr std::uint64_t most_bytes = std::uint64_t{1} << 36;  ///< limit per mapping

constexpr Address highest_mapping = stack_top - stack_bytes - (1 << 20);
constexpr const char *heap_name = "heap", *mapping_name = "mapping";

std::uint8_t access_of(std::uint64_t protection) {
  return static_cast<std::uint8_t>(((protection & 1) != 0 ? readable : 0) |
                                   ((protection & 2) != 0 ? readable | writable : 0) |
                                   ((protection & 4) != 0 ? readable | executable : 0));
}

/// Calls of Linux (include/uapi/asm-generic/unistd.h) that programs are likely to try, for messages.
constexpr std::pair<int, const char*> others[] = {{17, "getcwd"},
                                                  {19, "eventfd2"},
                                                  {20, "epoll_create1"},
                                                  {34, "mkdirat"},
                                                  {35, "unlinkat"},
                                                  {46, "ftruncate"},
                                                  {48, "faccessat"},
                                                  {49, "chdir"},
                                                  {59, "pipe2"},
                                                  {61, "getdents64"},
                                                  {67, "pread64"},
                                                  {68, "pwrite64"},
                                                  {71, "sendfile"},
                                                  {72, "pselect6"},
                                                  {73, "ppoll"},
                                                  {82, "fsync"},
                                                  {101, "nanosleep"},
                                                  {103, "setitimer"},
                                                  {115, "clock_nanosleep"},
                                                  {122, "sched_setaffinity"},
                                                  {129, "kill"},
                                                  {132, "sigaltstack"},
                                                  {139, "rt_sigreturn"},
                                                  {153, "times"},
                                                  {165, "getrusage"},
                                                  {198, "socket"},
                                                  {203, "connect"},
                                                  {220, "clone"},
                                                  {221, "execve"},
                                                  {259, "riscv_flush_icache"},
                                                  {260, "wait4"},
                                                  {276, "renameat2"},
                                                  {279, "memfd_create"},
                                                  {283, "membarrier"},
                                                  {291, "statx"},
                                                  {293, "rseq"},
                                                  {435, "clone3"},
                                                  {439, "faccessat2"}};

}  // namespace

const std::vector<Linux::SystemCall>& Linux::table() {
  static const std::vector<SystemCall> entries = {{23, "dup", &Linux::dup},
                                                  {24, "dup3", &Linux::dup3},
                                                  {25, "fcntl", &Linux::fcntl},
                                                  {29, "ioctl", &Linux::ioctl},
                                                  {56, "openat", &Linux::openat},
                                                  {57, "close", &Linux::close},
                                                  {62, "lseek", &Linux::lseek},
                                                  {63, "read", &Linux::read},
                                                  {64, "write", &Linux::write},
                                                  {65, "readv", &Linux::readv},
                                                  {66, "writev", &Linux::writev},
                                                  {78, "readlinkat", &Linux::readlinkat},
                                                  {79, "newfstatat", &Linux::newfstatat},
                                                  {80, "fstat", &Linux::fstat},
                                                  {93, "exit", &Linux::exit},
                                                  {94, "exit_group", &Linux::exit},
                                                  {96, "set_tid_address", &Linux::own_id},
                                                  {98, "futex", &Linux::futex},
                                                  {99, "set_robust_list", &Linux::nothing},
                                                  {113, "clock_gettime", &Linux::clock_gettime},
                                                  {123, "sched_getaffinity", &Linux::affinity},
                                                  {124, "sched_yield", &Linux::nothing},
                                                  {130, "tkill", &Linux::signal},
                                                  {131, "tgkill", &Linux::signal},
                                                  {134, "rt_sigaction", &Linux::nothing},
                                                  {135, "rt_sigprocmask", &Linux::nothing},
                                                  {160, "uname", &Linux::uname},
                                                  {169, "gettimeofday", &Linux::gettimeofday},
                                                  {172, "getpid", &Linux::own_id},
                                                  {173, "getppid", &Linux::own_id},
                                                  {174, "getuid", &Linux::own_id},
                                                  {175, "geteuid", &Linux::own_id},
                                                  {176, "getgid", &Linux::own_id},
                                                  {177, "getegid", &Linux::own_id},
                                                  {178, "gettid", &Linux::own_id},
                                                  {179, "sysinfo", &Linux::sysinfo},
                                                  {214, "brk", &Linux::brk},
                                                  {215, "munmap", &Linux::munmap},
                                                  {216, "mremap", &Linux::mremap},
                                                  {222, "mmap", &Linux::mmap},
                                                  {226, "mprotect", &Linux::mprotect},
                                                  {233, "madvise", &Linux::nothing},
                                                  {258, "riscv_hwprobe", &Linux::hwprobe},
                                                  {261, "prlimit64", &Linux::prlimit},
                                                  {278, "getrandom", &Linux::getrandom}};
  return entries;
}

void Linux::call(Hart& hart, const Op&) {
  const std::uint64_t number = hart.x[17];
  hart.poll(call_work);
  for (const SystemCall& entry : table()) {
    if (static_cast<std::uint64_t>(entry.number) != number) continue;
    const std::array<std::uint64_t, 6> args{hart.x[10], hart.x[11], hart.x[12], hart.x[13], hart.x[14], hart.x[15]};
    try {
      hart.x[10] = static_cast<std::uint64_t>((this->*entry.call)(hart, args.data()));
    } catch (const Trap& trap) {
      if (trap.cause == Cause::aborted || trap.cause == Cause::no_memory) throw;
      hart.x[10] = static_cast<std::uint64_t>(-EFAULT);  // an invalid pointer of the program
    }
    return;
  }
  std::string name;
  for (const auto& [known, text] : others)
    if (static_cast<std::uint64_t>(known) == number) name = std::string(" (") + text + ")";
  throw Trap{Cause::unknown_call, number, "number " + std::to_string(static_cast<std::int64_t>(number)) + name};
}

/// splitmix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", OOPSLA 2014).
std::uint64_t Linux::random() {
  std::uint64_t z = options_.seed + ++drawn_ * 0x9E3779B97F4A7C15;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
  z = (z ^ z >> 27) * 0x94D049BB133111EB;
  return z ^ z >> 31;
}

std::int64_t Linux::exit(Hart&, const std::uint64_t* a) { throw Exit{static_cast<std::int64_t>(a[0] & 0xFF)}; }

std::int64_t Linux::nothing(Hart&, const std::uint64_t*) { return 0; }

std::int64_t Linux::own_id(Hart&, const std::uint64_t*) { return 1; }

std::int64_t Linux::signal(Hart& hart, const std::uint64_t* a) {
  const std::uint64_t number = hart.x[17] == 131 ? a[2] : a[1];
  if (number == 0) return 0;
  throw Trap{Cause::aborted, number, "signal " + std::to_string(number) + (number == 6 ? " (abort)" : "")};
}

bool Linux::fits(const Hart& hart, Address at, std::uint64_t old, std::uint64_t bytes) const {
  std::uint64_t sum = bytes;
  for (const Region& region : hart.memory->regions()) {
    if (region.access == 0 || (region.name != heap_name && region.name != mapping_name)) continue;
    const Address begin = std::max(region.begin, at), end = std::min(region.end, at + old);
    sum += region.end - region.begin - (begin < end ? end - begin : 0);
  }
  return sum <= options_.memory;
}

std::int64_t Linux::brk(Hart& hart, const std::uint64_t* a) {
  if (a[0] < heap_ || a[0] - heap_ > most_bytes) return static_cast<std::int64_t>(brk_);
  const Address end = up(a[0]);
  if (end > heap_end_) {
    if (hart.memory->gap(heap_end_, end, end - heap_end_) != heap_end_ || !fits(hart, heap_end_, 0, end - heap_end_))
      return static_cast<std::int64_t>(brk_);
    if (heap_end_ == heap_)
      hart.memory->add(heap_, end, readable | writable, heap_name);
    else
      hart.memory->grow(heap_, end);
    heap_end_ = end;
  }
  brk_ = a[0];
  return static_cast<std::int64_t>(brk_);
}

std::int64_t Linux::mmap(Hart& hart, const std::uint64_t* a) {
  constexpr std::uint64_t fixed = 0x10, anonymous = 0x20;
  const std::uint64_t bytes = up(a[1]);
  if (a[1] == 0 || a[0] % page_bytes != 0) return -EINVAL;
  if ((a[3] & anonymous) == 0) return -ENODEV;
  if (a[1] > most_bytes) return -ENOMEM;
  const std::uint8_t access = access_of(a[2]);
  Address at = a[0];
  if ((a[3] & fixed) != 0) {
    if (at > stack_top - stack_bytes - bytes || (access != 0 && !fits(hart, at, bytes, bytes))) return -ENOMEM;
    hart.memory->remove(at, at + bytes);
  } else {
    at = hart.memory->gap(mmap_from, highest_mapping, bytes);
    if (at == 0 || (access != 0 && !fits(hart, at, bytes, bytes))) return -ENOMEM;
  }
  hart.memory->add(at, at + bytes, access, mapping_name);
  return static_cast<std::int64_t>(at);
}

std::int64_t Linux::munmap(Hart& hart, const std::uint64_t* a) {
  if (a[0] % page_bytes != 0 || a[1] == 0 || a[1] > most_bytes) return -EINVAL;
  hart.memory->remove(a[0], a[0] + up(a[1]));
  return 0;
}

std::int64_t Linux::mprotect(Hart& hart, const std::uint64_t* a) {
  if (a[0] % page_bytes != 0 || a[1] > most_bytes) return -EINVAL;
  if (a[1] == 0) return 0;
  if (!hart.memory->can(a[0], up(a[1]), 0)) return -ENOMEM;
  const std::uint8_t access = access_of(a[2]);
  if (access != 0 && !fits(hart, a[0], up(a[1]), up(a[1]))) return -ENOMEM;
  hart.memory->protect(a[0], a[0] + up(a[1]), access);
  return 0;
}

/// Moves a mapping with its pages if it grows.
std::int64_t Linux::mremap(Hart& hart, const std::uint64_t* a) {
  constexpr std::uint64_t may_move = 1;
  const Address from = a[0];
  if (from % page_bytes != 0 || a[1] == 0 || a[2] == 0 || (a[3] & ~may_move) != 0) return -EINVAL;
  if (a[1] > most_bytes || a[2] > most_bytes) return -ENOMEM;
  const std::uint64_t old = up(a[1]), bytes = up(a[2]);
  if (!hart.memory->can(from, old, readable | writable)) return -EFAULT;
  if (bytes <= old) {
    if (bytes < old) hart.memory->remove(from + bytes, from + old);
    return static_cast<std::int64_t>(from);
  }
  if ((a[3] & may_move) == 0) return -ENOMEM;
  const Address to = hart.memory->gap(mmap_from, highest_mapping, bytes);
  if (to == 0 || !fits(hart, from, old, bytes)) return -ENOMEM;
  hart.memory->add(to, to + bytes, readable | writable, mapping_name);
  for (std::uint64_t at = 0; at < old; at += page_bytes) {
    if (at % (page_bytes << 6) == 0) hart.poll(call_work);
    hart.memory->move_page(from + at, to + at);
  }
  hart.memory->remove(from, from + old);
  return static_cast<std::int64_t>(to);
}

std::int64_t Linux::clock_gettime(Hart& hart, const std::uint64_t* a) {
  const std::uint64_t time[2] = {hart.cycles() / 1'000'000'000, hart.cycles() % 1'000'000'000};  // 1 GHz
  hart.memory->write(a[1], time, sizeof(time));
  return 0;
}

std::int64_t Linux::gettimeofday(Hart& hart, const std::uint64_t* a) {
  const std::uint64_t time[2] = {hart.cycles() / 1'000'000'000, hart.cycles() / 1000 % 1'000'000};
  if (a[0] != 0) hart.memory->write(a[0], time, sizeof(time));
  return 0;
}

std::int64_t Linux::getrandom(Hart& hart, const std::uint64_t* a) {
  if (a[1] > 1 << 25) return -EINVAL;
  for (std::uint64_t i = 0; i < a[1]; i += 8) {
    const std::uint64_t value = random();
    hart.memory->write(a[0] + i, &value, std::min<std::uint64_t>(8, a[1] - i));
  }
  return static_cast<std::int64_t>(a[1]);
}

std::int64_t Linux::futex(Hart& hart, const std::uint64_t* a) {
  const std::uint64_t operation = a[1] & 0x7F;
  if (operation == 1) return 0;  // wake: no thread waits
  if (operation != 0) return -ENOSYS;
  // no other thread could change the value: waiting would never end
  return hart.memory->load<std::uint32_t>(a[0]) != static_cast<std::uint32_t>(a[2]) ? -EAGAIN : -EDEADLK;
}

std::int64_t Linux::affinity(Hart& hart, const std::uint64_t* a) {
  const std::uint64_t one = 1;  // a single processor
  if (a[1] < sizeof(one)) return -EINVAL;
  hart.memory->write(a[2], &one, sizeof(one));
  return sizeof(one);
}

std::int64_t Linux::prlimit(Hart& hart, const std::uint64_t* a) {
  const std::uint64_t limit = a[1] == 3                ? stack_bytes
                              : a[1] == 7              ? 1024
                              : a[1] == 2 || a[1] == 9 ? options_.memory  // data, address space
                                                       : ~std::uint64_t{0};
  const std::uint64_t both[2] = {limit, limit};
  if (a[3] != 0) hart.memory->write(a[3], both, sizeof(both));
  return 0;
}

std::int64_t Linux::uname(Hart& hart, const std::uint64_t* a) {
  static const char* const fields[6] = {"Linux", "tilesim", "6.6.0", "#1", "riscv64", ""};
  std::array<char, std::size_t{6} * 65> text{};
  for (std::size_t i = 0; i < 6; ++i) std::strncpy(text.data() + i * 65, fields[i], 64);
  hart.memory->write(a[0], text.data(), text.size());
  return 0;
}

std::int64_t Linux::sysinfo(Hart& hart, const std::uint64_t* a) {
  // struct sysinfo of include/uapi/linux/sysinfo.h: memory in bytes, all free
  std::array<std::uint64_t, 14> info{};
  info[0] = hart.cycles() / 1'000'000'000;
  info[4] = info[5] = options_.memory;
  info[13] = 1;
  hart.memory->write(a[0], info.data(), info.size() * 8);
  return 0;
}

std::int64_t Linux::hwprobe(Hart& hart, const std::uint64_t* a) {
  // Documentation/arch/riscv/hwprobe.rst: F and D, C, V, Zba, Zbb, Zbs, Zfh, Zfhmin, Zvfh, Zvfhmin
  constexpr std::uint64_t extensions = 0x3F | 1U << 27 | 1U << 28 | std::uint64_t{3} << 30;
  for (std::uint64_t i = 0; i < std::min<std::uint64_t>(a[1], 64); ++i) {
    std::array<std::uint64_t, 2> pair{};
    hart.memory->read(a[0] + 16 * i, pair.data(), 16);
    switch (pair[0]) {
      case 0:
      case 1:
      case 2:
        pair[1] = 0;
        break;
      case 3:
        pair[1] = 1;
        break;
      case 4:
        pair[1] = extensions;
        break;
      case 5:
        pair[1] = 3;
        break;
      default:
        pair = {~std::uint64_t{0}, 0};
    }
    hart.memory->write(a[0] + 16 * i, pair.data(), 16);
  }
  return 0;
}

}  // namespace tilesim::isa
