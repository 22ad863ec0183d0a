#include "json_text.h"

#include <set>
#include <utility>
#include <vector>

#include "plan/error.h"

namespace gradrecomp::plan {
namespace {

constexpr int kDeepestNesting = 16;
constexpr std::size_t kMostNames = 256;  // of an object; each is looked for among all others

std::string flat(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void append(std::string& text, const Json& json, std::size_t indent) {
  if (!json.is_object() || json.empty()) {
    text += flat(json);
    return;
  }
  const char* separator = "{\n";
  for (const auto& [name, member] : json.items()) {
    text.append(separator).append(indent + 2, ' ').append(flat(name)).append(": ");
    append(text, member, indent + 2);
    separator = ",\n";
  }
  text.append("\n").append(indent, ' ').append("}");
}

[[noreturn]] void refuse_text(const Source& source, std::string what) {
  raise({source.function, source.file, std::move(what), "JSON as GradRecomp writes it",
         "Save it anew; it may have been cut off or edited"});
}

/// Follows the parser, which would take the first of two members of one name.
class NameCheck {
 public:
  explicit NameCheck(const Source& source) : source_(source) {}

  bool operator()(int depth, Json::parse_event_t event, Json& parsed) {
    if (depth > kDeepestNesting) refuse_text(source_, "nested too deeply");
    if (event == Json::parse_event_t::object_start) names_.emplace_back();
    if (event == Json::parse_event_t::object_end) names_.pop_back();
    if (event == Json::parse_event_t::key) {
      const auto& name = parsed.get_ref<const std::string&>();
      if (names_.back().size() >= kMostNames) refuse_text(source_, "given too many names");
      if (!names_.back().insert(name).second)
        refuse_text(source_, std::string("given ").append(name).append(" twice"));
    }
    return true;
  }

 private:
  const Source& source_;
  std::vector<std::set<std::string>> names_;
};

}  // namespace

std::string json_text(const Json& object) {
  std::string text;
  append(text, object, 0);
  return text + '\n';
}

Json parse_json(const Source& source, std::string_view text) {
  // To the parser, text ends there.
  if (const auto nul = text.find('\0'); nul != std::string_view::npos) {
    refuse_text(source, "broken at byte " + std::to_string(nul + 1));
  }
  try {
    return Json::parse(text, NameCheck(source));
  } catch (const Json::parse_error& error) {
    refuse_text(source, "broken at byte " + std::to_string(error.byte));
  } catch (const Json::out_of_range&) {
    refuse_text(source, "a text with a number beyond all bounds");
  }
}

}  // namespace gradrecomp::plan
