// The memory system behind its interface: latency, bandwidth, channels, back-pressure.
#include <boost/test/unit_test.hpp>

#include "engine/programs.hpp"
#include "tilesim/engine/memory/memory.hpp"

using namespace tilesim;
using namespace tilesim::test;
using engine::Request;

BOOST_AUTO_TEST_SUITE(memory)

BOOST_AUTO_TEST_CASE(unloaded_latency_and_bandwidth) {
  const auto memory = engine::simple_memory(plain_machine());
  BOOST_TEST(memory->offer({0, 0, 64, false}, 0, 0).completion.cycle() == 10 + 64 + 100 + 10);
  BOOST_TEST(memory->offer({0, 64, 64, false}, 0, 0).completion.cycle() == 10 + 128 + 100 + 10);  // behind the first
  BOOST_TEST(memory->offer({0, 128, 64, true}, 0, 1000).completion.cycle() == 1000 + 10 + 64 + 100);
  BOOST_TEST(memory->channels()[0].bytes == 192);
  BOOST_TEST(memory->channels()[0].busy == 192);
}

BOOST_AUTO_TEST_CASE(efficiency_slows_the_channel) {
  Machine machine = plain_machine();
  machine.memory.efficiency = 0.5;
  BOOST_TEST(engine::simple_memory(machine)->offer({0, 0, 64, false}, 0, 0).completion.cycle() == 10 + 128 + 100 + 10);
}

BOOST_AUTO_TEST_CASE(channels_work_side_by_side) {
  Machine machine = plain_machine();
  machine.memory.channels = 4;
  machine.memory.bytes_per_second = 4000000000;
  machine.memory.interleave_bytes = 256;
  const auto memory = engine::simple_memory(machine);
  // 1024 bytes: 256 on each of the four channels.
  BOOST_TEST(memory->offer({0, 0, 1024, false}, 0, 0).completion.cycle() == 10 + 256 + 100 + 10);
  for (const auto& channel : memory->channels()) BOOST_TEST(channel.bytes == 256);
  // 256 bytes lie on one channel only.
  BOOST_TEST(memory->offer({0, 512, 256, false}, 0, 5000).completion.cycle() == 5000 + 10 + 256 + 100 + 10);
  BOOST_TEST(memory->channels()[2].bytes == 512);
  BOOST_TEST(memory->channels()[3].bytes == 256);
}

BOOST_AUTO_TEST_CASE(full_queues_push_back_and_open_again) {
  Machine machine = plain_machine();
  machine.memory.buffer_bytes = 1024;
  const auto memory = engine::simple_memory(machine);
  std::int64_t now = 0, taken = 0, last = 0;
  for (int i = 0; i < 200; ++i) {
    const engine::Offered offered = memory->offer({0, i * 512, 512, false}, 0, now);
    if (offered.accepted()) {
      ++taken;
      BOOST_TEST(offered.completion.cycle() > last);
      last = offered.completion.cycle();
      continue;
    }
    BOOST_TEST(offered.retry > now);
    now = offered.retry;
  }
  BOOST_TEST(now > 0);  // it did push back
  BOOST_TEST(taken > 90);
  BOOST_TEST(last >= taken * 512);  // never above the bandwidth
  BOOST_TEST(memory->channels()[0].bytes == taken * 512);
}

BOOST_AUTO_TEST_CASE(ideal_memory_counts_and_never_waits) {
  const auto memory = engine::ideal_memory(plain_machine());
  for (std::int64_t now : {0, 0, 7})
    BOOST_TEST(memory->offer({0, 0, 1 << 20, false}, 0, now).completion.cycle() == now);
  BOOST_TEST(memory->channels()[0].bytes == 3 << 20);
}

BOOST_AUTO_TEST_SUITE_END()
