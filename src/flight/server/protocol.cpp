#include "src/flight/server/protocol.h"

#include "llvm/Config/llvm-config.h"

namespace jaxator::flight {

using namespace llvm;

namespace {

// More text than any kernel has; what is larger is a mistake in the line.
constexpr int64_t kMostBytes = 64 << 20;

Failure bad(const std::string& message) { return {"request", message, {}, {}}; }

std::string text_of(const json::Value& value) { return formatv("{0}", value).str(); }

/// One option with its rule.
std::optional<Failure> read_option(StringRef name, const json::Value& value, Options& options) {
  const auto refuse = [&](const char* rule) {
    return bad(("option " + name + " = " + text_of(value) + ": must be " + rule).str());
  };
  const auto number = value.getAsNumber();
  if (name == "time_limit_s") {
    if (!number || *number <= 0 || *number > 86400) return refuse("seconds, more than 0 and at most 86400");
    options.time_limit_s = *number;
  } else if (name == "memory_limit_mb") {
    if (!value.getAsInteger() || *value.getAsInteger() < 1 || *value.getAsInteger() > (1 << 20)) return refuse("1 to 1048576");
    options.memory_limit_mb = *value.getAsInteger();
  } else if (name == "dump") {
    if (!value.getAsBoolean()) return refuse("true or false");
    options.dump = *value.getAsBoolean();
  } else if (name == "route") {
    const auto route = value.getAsString();
    if (value.getAsNull()) return std::nullopt;
    if (!route || (*route != "tiles" && *route != "threads")) return refuse("\"tiles\" or \"threads\"");
    options.route = route->str();
  } else if (name == "cpu") {
    if (value.getAsNull()) return std::nullopt;
    if (!value.getAsString()) return refuse("the name of a CPU");
    options.cpu = value.getAsString()->str();
  } else if (name == "optimize") {
    const auto level = value.getAsInteger();
    if (!level || *level < 0 || *level > 3) return refuse("0 to 3");
    options.optimize = int(*level);
  } else {
    return bad(("option " + name + " is not one of time_limit_s, memory_limit_mb, dump, route, cpu, optimize").str());
  }
  return std::nullopt;
}

}  // namespace

std::optional<Failure> read_header(StringRef line, Header& header) {
  auto parsed = json::parse(line);
  if (!parsed) return bad("the line is not JSON: " + toString(parsed.takeError()));
  const json::Object* object = parsed->getAsObject();
  if (object == nullptr) return bad("the line is not a JSON object");
  if (const json::Value* id = object->get("id")) header.id = *id;
  const auto size = object->getInteger("size");
  if (!size || *size < 0 || *size > kMostBytes) return bad("size must be 0 to " + std::to_string(kMostBytes) + " bytes");
  header.size = *size;
  const auto target = object->getString("target");
  header.request.target = target ? find_target(*target) : nullptr;
  if (header.request.target == nullptr)
    return bad(("target " + (target ? "\"" + *target + "\"" : "that is missing") + " is not one of " + target_names()).str());
  const json::Value* options = object->get("options");
  if (options == nullptr) return std::nullopt;
  if (options->getAsObject() == nullptr) return bad("options must be a JSON object");
  for (const auto& [name, value] : *options->getAsObject())
    if (auto failure = read_option(name, value, header.request.options)) return failure;
  return std::nullopt;
}

std::string answer(const json::Value& id, const Failure& failure) {
  return text_of(json::Object{{"id", id}, {"size", 0}, {"error", to_json(failure)}}) + "\n";
}

std::string answer(const json::Value& id, Code& code, double seconds) {
  json::Array dumps;
  for (const Dump& dump : code.dumps) dumps.push_back(json::Object{{"name", dump.name}, {"text", json::fixUTF8(dump.text)}});
  json::Array remarks;
  for (const Remark& remark : code.remarks)
    remarks.push_back(json::Object{{"message", remark.message}, {"frames", to_json(remark.frames)}});
  json::Object report{{"kernels", std::move(code.kernels)}, {"remarks", std::move(remarks)}, {"seconds", seconds}};
  std::string line = text_of(
      json::Object{{"id", id}, {"size", int64_t(code.bytes.size())}, {"report", std::move(report)}, {"dumps", std::move(dumps)}});
  return line + "\n" + std::string(code.bytes.begin(), code.bytes.end());
}

std::string greeting() { return text_of(json::Object{{"flightc", JAXATOR_VERSION}, {"llvm", LLVM_VERSION_STRING}}) + "\n"; }

}  // namespace jaxator::flight
