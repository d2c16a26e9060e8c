#include "emulator/command/options.h"

#include <charconv>
#include <cstring>
#include <filesystem>

#include "src/numeric/convert.h"

namespace jaxator::emulator::command {

const char* const kUsage =
    R"(jaxator-emulate: runs a kernel that was compiled for gfx942 or gfx950 on the CPU and reports what is wrong with it

  jaxator-emulate FILE.hsaco [--kernel NAME] --grid X[,Y[,Z]] --block X[,Y[,Z]] [--arg ARGUMENT ...]
  jaxator-emulate FILE.hsaco --list | --disassemble

  --kernel NAME          the kernel; may be left out if there is only one
  --grid X[,Y[,Z]]       workgroups (1)
  --block X[,Y[,Z]]      threads of a workgroup (64)
  --arg ARGUMENT         the next argument, one of
      buffer:BYTES         memory that nobody has written; BYTES may end in K, M or G (powers of 1024)
      buffer:BYTES:zeros   ... that holds zeros
      buffer:BYTES:random  ... that holds random bytes, the same each time
      buffer:@FILE         ... that holds what the file does
      i32:N u32:N i64:N u64:N f16:X bf16:X f32:X f64:X
  --dump N=FILE          writes the memory of argument N (from 0) to a file after the launch
  --lds BYTES            LDS beside what the kernel declares (0)
  --check LIST           of waits, races, banks, poison; or all, or none (all)
  --seed N               of the order of waves (0)
  --threads N            that run workgroups (as many as the machine has)
  --time-limit SECONDS   after which the launch is given up (none)
  --list                 the kernels, their parameters, registers and instructions that are not implemented
  --disassemble          the instructions of the kernel

Exit status: 0 if nothing was found, 1 if something was, 2 if the request cannot be met.
)";

namespace {

[[noreturn]] void refuse(const std::string& option, const std::string& value, const std::string& rule) {
  throw Error(option + " " + value + ": " + rule);
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  for (size_t begin = 0;;) {
    const size_t end = text.find(separator, begin);
    parts.push_back(text.substr(begin, end - begin));
    if (end == text.npos) return parts;
    begin = end + 1;
  }
}

template <class T> T number(const std::string& option, const std::string& text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::result_out_of_range) refuse(option, text, "the number is out of range");
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) refuse(option, text, "not a number of this kind");
  return value;
}

void read_axes(const std::string& option, const std::string& text, Extent& axes) {
  const std::vector<std::string> parts = split(text, ',');
  if (parts.size() > 3) refuse(option, text, "at most three numbers");
  axes = {};
  for (size_t k = 0; k < parts.size(); k++) axes[static_cast<int>(k)] = number<uint32_t>(option, parts[k]);
}

unsigned read_checks(const std::string& text) {
  unsigned checks = 0;
  for (const std::string& part : split(text, ',')) {
    if (part == "waits")
      checks |= kWaits;
    else if (part == "races")
      checks |= kRaces;
    else if (part == "banks")
      checks |= kBanks;
    else if (part == "poison")
      checks |= kPoison;
    else if (part == "all")
      checks |= kAllChecks;
    else if (part != "none")
      refuse("--check", part, "must be waits, races, banks, poison, all or none");
  }
  return checks;
}

size_t read_size(const std::string& text) {
  static constexpr std::string_view kSuffixes = "KMG";
  const size_t at = text.empty() ? kSuffixes.npos : kSuffixes.find(text.back());
  if (at == kSuffixes.npos) return number<size_t>("--arg buffer", text);
  const size_t count = number<size_t>("--arg buffer", text.substr(0, text.size() - 1));
  if (count > size_t{1} << 20) refuse("--arg buffer", text, "too large");
  return count << 10 * (at + 1);
}

template <class T> std::vector<uint8_t> bytes_of(T value) {
  std::vector<uint8_t> bytes(sizeof value);
  memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

Argument read_buffer(const std::string& text, const std::string& description) {
  Argument argument;
  argument.text = text;
  if (description.starts_with('@')) {
    argument.path = description.substr(1);
    argument.fill = Fill::file;
    std::error_code error;
    argument.bytes = std::filesystem::file_size(argument.path, error);
    if (error) refuse("--arg", text, error.message());
    return argument;
  }
  const std::vector<std::string> parts = split(description, ':');
  argument.bytes = read_size(parts[0]);
  if (parts.size() > 2 || (parts.size() == 2 && parts[1] != "zeros" && parts[1] != "random"))
    refuse("--arg", text, "after the size may follow zeros or random");
  if (parts.size() == 2) argument.fill = parts[1] == "zeros" ? Fill::zeros : Fill::random;
  return argument;
}

Argument read_argument(const std::string& text) {
  const size_t colon = text.find(':');
  if (colon == text.npos) refuse("--arg", text, "must be TYPE:VALUE");
  const std::string type = text.substr(0, colon), value = text.substr(colon + 1), option = "--arg " + type;
  if (type == "buffer") return read_buffer(text, value);
  Argument argument;
  argument.text = text;
  if (type == "i32")
    argument.value = bytes_of(number<int32_t>(option, value));
  else if (type == "u32")
    argument.value = bytes_of(number<uint32_t>(option, value));
  else if (type == "i64")
    argument.value = bytes_of(number<int64_t>(option, value));
  else if (type == "u64")
    argument.value = bytes_of(number<uint64_t>(option, value));
  else if (type == "f32")
    argument.value = bytes_of(number<float>(option, value));
  else if (type == "f64")
    argument.value = bytes_of(number<double>(option, value));
  else if (type == "f16")
    argument.value = bytes_of(numeric::from_float<numeric::f16>(number<float>(option, value)));
  else if (type == "bf16")
    argument.value = bytes_of(numeric::from_float<numeric::bf16>(number<float>(option, value)));
  else
    refuse("--arg", text, "unknown type " + type);
  return argument;
}

Dump read_dump(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == text.npos) refuse("--dump", text, "must be N=FILE");
  return {number<size_t>("--dump", text.substr(0, equals)), text.substr(equals + 1)};
}

void read_option(Options& options, const std::string& option, const std::string& value) {
  LaunchOptions& launch = options.launch;
  if (option == "--kernel")
    options.kernel = value;
  else if (option == "--grid")
    read_axes(option, value, launch.grid);
  else if (option == "--block")
    read_axes(option, value, launch.block);
  else if (option == "--arg")
    options.arguments.push_back(read_argument(value));
  else if (option == "--dump")
    options.dumps.push_back(read_dump(value));
  else if (option == "--lds")
    launch.dynamic_lds_bytes = number<uint32_t>(option, value);
  else if (option == "--check")
    launch.checks = read_checks(value);
  else if (option == "--seed")
    launch.seed = number<uint64_t>(option, value);
  else if (option == "--threads")
    launch.threads = number<int>(option, value);
  else if (option == "--time-limit")
    launch.time_limit_s = number<double>(option, value);
  else
    throw Error("unknown option " + option + " (see --help)");
}

}  // namespace

Options parse(const std::vector<std::string>& words) {
  Options options;
  options.launch.checks = kAllChecks;
  options.launch.block.x = 64;
  for (size_t k = 0; k < words.size(); k++) {
    const std::string& word = words[k];
    if (word == "--help" || word == "-h")
      options.help = true;
    else if (word == "--list")
      options.list = true;
    else if (word == "--disassemble")
      options.disassemble = true;
    else if (word.starts_with("--") && k + 1 == words.size())
      throw Error(word + " needs a value (see --help)");
    else if (word.starts_with("--"))
      read_option(options, word, words[++k]);
    else if (options.image.empty())
      options.image = word;
    else
      throw Error("unexpected " + word + ": the code object is " + options.image);
  }
  if (options.image.empty() && !options.help) throw Error("which code object? (see --help)");
  for (const Dump& dump : options.dumps)
    if (dump.argument >= options.arguments.size() || !options.arguments[dump.argument].bytes)
      throw Error("--dump " + std::to_string(dump.argument) + ": there is no buffer of that number");
  return options;
}

}  // namespace jaxator::emulator::command
