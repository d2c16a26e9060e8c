/// Malformed code objects: whatever the bytes are, the loader refuses them with an Error or gives kernels that can be looked at
/// and launched. All inputs are deterministic.
#include <cstring>
#include <random>

#include "emulator/src/object/line_table.h"
#include "emulator/src/object/msgpack.h"
#include "emulator/tests/cpp/testing.h"

namespace jaxator::emulator::testing {
namespace {

using Random = std::mt19937;

/// Everything that the interface offers for a code object. True if it was loaded.
bool use(const std::vector<uint8_t>& image, bool launches = true) {
  try {
    const auto code = CodeObject::load(image);
    for (const KernelInfo& info : code->kernels()) {
      code->unknown_instructions(info.name);
      code->disassembly(info.name);
      if (!launches) continue;
      Device device(code->architecture());
      void* memory = device.allocate(1 << 16);
      Arguments arguments;
      for (int k = 0; k < 8; k++) arguments.add(memory);
      LaunchOptions options{.checks = kAllChecks | kTrace, .threads = 1, .time_limit_s = 0.02};
      options.block[0] = std::min(64u, std::max(1u, info.max_threads));
      try {
        device.launch(*code, info.name, arguments, options).text();
      } catch (const Error&) {
      }
    }
    return true;
  } catch (const Error& error) {
    EXPECT_GT(strlen(error.what()), 10u);
    return false;
  }
}

TEST(Loader, TruncatedImages) {
  const std::vector<uint8_t> image = image_of("vector_add", Architecture::gfx942);
  ASSERT_TRUE(use(image));
  for (size_t size = 0; size < image.size(); size += size < 1500 ? 1 : 37)
    use({image.begin(), image.begin() + static_cast<ptrdiff_t>(size)}, false);
}

TEST(Loader, ChangedBytes) {
  int loaded = 0;
  for (const Architecture architecture : kArchitectures) {
    const std::vector<uint8_t> image = image_of("gemm", architecture);
    Random random(1);
    for (int round = 0; round < 150; round++) {
      std::vector<uint8_t> changed = image;
      const int count = 1 + static_cast<int>(random() % 8);
      for (int k = 0; k < count; k++) changed[random() % changed.size()] = static_cast<uint8_t>(random());
      loaded += use(changed, round % 4 == 0);
    }
  }
  EXPECT_GT(loaded, 50);
}

TEST(Loader, ChangedHeaders) {
  const std::vector<uint8_t> image = image_of("vector_add", Architecture::gfx942);
  uint64_t sections = 0;
  memcpy(&sections, image.data() + 0x28, 8);
  Random random(2);
  static constexpr uint64_t kValues[] = {0, 1, 0x7F, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 0x7FFFFFFFFFFFFFFF, ~uint64_t{0}};
  for (int round = 0; round < 800; round++) {
    std::vector<uint8_t> changed = image;
    const size_t size = size_t{1} << random() % 4, table = random() % 2 ? sections : 0;
    const size_t at = table + random() % std::min<size_t>(image.size() - table - 8, 1024) / size * size;
    memcpy(changed.data() + at, &kValues[random() % std::size(kValues)], size);
    use(changed, false);
  }
}

/// Any words are instructions that are executed, unknown ones, or ones that LLVM does not know.
TEST(Loader, RandomCode) {
  for (const Architecture architecture : kArchitectures) {
    std::vector<uint8_t> image = image_of("vector_add", architecture);
    const auto code = CodeObject::load(image);
    const std::string first = code->disassembly("vadd").substr(0, 32);
    const size_t address = std::stoul(first, nullptr, 16);
    uint64_t program_headers = 0, offset = 0, virtual_address = 0;
    memcpy(&program_headers, image.data() + 0x20, 8);
    size_t begin = 0;
    for (int k = 0; k < image[0x38]; k++) {  // the segment of the code tells where it is in the file
      const uint8_t* header = image.data() + program_headers + 56 * static_cast<size_t>(k);
      uint64_t bytes = 0;
      memcpy(&offset, header + 8, 8), memcpy(&virtual_address, header + 16, 8), memcpy(&bytes, header + 32, 8);
      if (address >= virtual_address && address < virtual_address + bytes) begin = offset + address - virtual_address;
    }
    ASSERT_NE(begin, 0u);
    Random random(3);
    int loaded = 0;
    for (int round = 0; round < 120; round++) {
      std::vector<uint8_t> changed = image;
      for (size_t k = begin + random() % 16 * 4; k + 4 <= begin + 120; k += 4) {
        const uint32_t word = random() % 4 == 0 ? static_cast<uint32_t>(random()) : 0x7E000000 | (random() & 0x1FFFFFF);
        memcpy(changed.data() + k, &word, 4);
      }
      loaded += use(changed);
    }
    EXPECT_EQ(loaded, 120);
  }
}

TEST(Msgpack, EveryType) {
  const std::vector<uint8_t> bytes = {
      0xDC, 0,    16,  // a list of:
      0x7F, 0xE0, 0xCC, 200,  0xCD, 1,    2,    0xCE, 1,    0,    0,
      0,    0xCF, 0,    0,    0,    1,    0,    0,    0,    0,     // 127, -32, 200, 258, 2^24, 2^32
      0xD0, 0xFF, 0xD1, 0xFF, 0xFE, 0xD2, 0xFF, 0xFF, 0xFF, 0xFD,  // -1, -2, -3
      0xD3, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFC,        // -4
      0xC0, 0xC3,                                                  // nothing, true
      0xC4, 2,    9,    9,    0xD5, 1,    9,    9,                 // bytes, an extension
      0xA2, 'a',  'b',  0xD9, 1,    'c',                           // two texts
  };
  std::vector<uint8_t> with_rest = bytes;
  with_rest.insert(with_rest.end(), {0xDE, 0, 1, 0xA1, 'k', 0xCB, 0, 0, 0, 0, 0, 0, 0, 0});
  with_rest[2] = 17;
  const Message message = parse_message(Bytes(with_rest, "test"));
  ASSERT_EQ(message.list.size(), 17u);
  const int64_t numbers[] = {127, -32, 200, 258, 1 << 24, int64_t{1} << 32, -1, -2, -3, -4};
  for (size_t k = 0; k < std::size(numbers); k++) EXPECT_EQ(message.list[k].number, numbers[k]);
  EXPECT_EQ(message.list[10].type, Message::Type::nothing);
  EXPECT_EQ(message.list[11].type, Message::Type::boolean);
  EXPECT_EQ(message.list[14].text, "ab");
  EXPECT_EQ(message.list[15].text, "c");
  EXPECT_NE(message.list[16].find("k"), nullptr);
  EXPECT_EQ(parse_message(Bytes(bytes, "test")).list.size(), 16u);
}

TEST(Msgpack, RandomBytes) {
  Random random(4);
  int parsed = 0;
  for (int round = 0; round < 20000; round++) {
    std::vector<uint8_t> bytes(random() % 40);
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random() % 3 == 0 ? 0x80 | random() % 96 : random());
    try {
      const Message message = parse_message(Bytes(bytes, "test"));
      message.number_at("x");
      message.list_at("y");
      parsed++;
    } catch (const Error&) {
    }
  }
  EXPECT_GT(parsed, 100);
}

TEST(Msgpack, DeepNesting) {
  const std::vector<uint8_t> lists(100000, 0x91), maps(100000, 0x81);
  expect_error("", [&] { parse_message(Bytes(lists, "test")); });
  expect_error("", [&] { parse_message(Bytes(maps, "test")); });
}

TEST(LineTable, ChangedBytes) {
  const std::vector<uint8_t> image = image_of("gemm", Architecture::gfx950);
  const Elf elf{std::span(image)};
  const Section *program = elf.section(".debug_line"), *texts = elf.section(".debug_line_str");
  ASSERT_NE(program, nullptr);
  ASSERT_NE(texts, nullptr);
  Random random(5);
  for (int round = 0; round < 3000; round++) {
    std::vector<uint8_t> changed = image;
    const Section& section = random() % 8 == 0 ? *texts : *program;
    const int count = 1 + static_cast<int>(random() % 4);
    for (int k = 0; k < count; k++) changed[section.offset + random() % section.size] = static_cast<uint8_t>(random());
    LineTable::read(Elf{std::span(changed)}).at(0x1900);
  }
}

}  // namespace
}  // namespace jaxator::emulator::testing
