#include "json_field.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "gradrecomp/plan/signature.h"
#include "plan/error.h"

namespace gradrecomp::plan {
namespace {

constexpr std::string_view kInfinity = "infinity";
constexpr std::size_t kLongestShown = 40;

std::string list_of(const std::vector<std::string_view>& names) {
  std::string text;
  for (const auto name : names) text += (text.empty() ? "" : ", ") + std::string(name);
  return text;
}

std::string spelled_bounds(Bounds bounds) {
  if (bounds.most == Bounds{}.most) return "of at least " + std::to_string(bounds.least);
  return "from " + std::to_string(bounds.least) + " to " + std::to_string(bounds.most);
}

}  // namespace

Json json_of(double number) {
  return std::isinf(number) && number > 0 ? Json(kInfinity) : Json(number);
}

void Field::refuse(std::string requirement) const { refuse_as(shown(), std::move(requirement)); }

void Field::refuse_as(std::string value, std::string requirement) const {
  const auto name = name_.empty() ? source_->file : name_ + " of " + source_->file;
  raise({source_->function, name, std::move(value), std::move(requirement),
         "Pass a file as GradRecomp wrote it, or save it anew"});
}

std::string Field::shown() const {
  if (json_->is_object()) return "an object";
  if (json_->is_array()) return "a list";
  auto text = json_->dump(-1, ' ', true);
  return text.size() <= kLongestShown ? text : text.substr(0, kLongestShown) + "...";
}

void Field::expect_format(std::string_view format, std::int64_t version) const {
  if (!json_->is_object()) refuse("an object");
  if ((*this)["format"].text() != format) {
    (*this)["format"].refuse('"' + std::string(format) + '"');
  }
  const auto found = (*this)["version"];
  if (found.whole({.least = 1}) <= version) return;
  raise({source_->function, "version of " + source_->file, found.shown(),
         "at most " + std::to_string(version) + ", the newest this GradRecomp reads",
         "Update GradRecomp, or save the file with this one"});
}

void Field::expect_members(const std::vector<std::string_view>& names) const {
  if (!json_->is_object()) refuse("an object");
  for (const auto name : names) static_cast<void>((*this)[name]);
  for (const auto& [name, member] : json_->items()) {
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    refuse_as("an object with a member " + Json(name).dump(-1, ' ', true),
              "one with " + list_of(names) + " and no other");
  }
}

Field Field::operator[](std::string_view member) const {
  const auto found = json_->find(std::string(member));
  Field field(*source_, found != json_->end() ? *found : *json_);
  field.name_ = (name_.empty() ? "" : name_ + ".") + std::string(member);
  if (found == json_->end()) field.refuse_as("missing", "given");
  return field;
}

bool Field::has(std::string_view member) const { return json_->contains(std::string(member)); }

std::size_t Field::size() const {
  if (!json_->is_array()) refuse("a list");
  return json_->size();
}

void Field::expect_size(std::size_t expected) const {
  if (size() == expected) return;
  refuse_as("a list of " + std::to_string(size()),
            "of " + std::to_string(expected) + " like the lists beside it");
}

Field Field::operator[](std::size_t place) const {
  Field field(*source_, (*json_)[place]);
  field.name_ = name_ + "[" + std::to_string(place) + "]";
  return field;
}

bool Field::flag() const {
  if (!json_->is_boolean()) refuse("true or false");
  return json_->get<bool>();
}

std::string Field::text() const {
  if (!json_->is_string()) refuse("text");
  return json_->get<std::string>();
}

std::int64_t Field::whole(Bounds bounds) const {
  constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
  const bool fits = json_->is_number_integer() &&
                    (!json_->is_number_unsigned() || json_->get<std::uint64_t>() <= kMost);
  const std::int64_t number = fits ? json_->get<std::int64_t>() : 0;
  if (fits && number >= bounds.least && number <= bounds.most) return number;
  refuse("a whole number " + spelled_bounds(bounds));
}

Index Field::index(Index least, Index end) const {
  return static_cast<Index>(whole({.least = least, .most = end - 1}));
}

double Field::amount() const {
  if (*json_ == kInfinity) return std::numeric_limits<double>::infinity();
  if (!json_->is_number() || !(json_->get<double>() >= 0)) refuse("a number of at least 0");
  return json_->get<double>();
}

std::uint64_t Field::signature() const {
  const auto signature = signature_of(text());
  if (!signature) refuse("0x and 16 hexadecimal digits");
  return *signature;
}

std::vector<Index> Field::indices(Index end) const {
  std::vector<Index> list(size());
  for (std::size_t i = 0; i < list.size(); ++i) list[i] = (*this)[i].index(0, end);
  return list;
}

std::vector<Index> Field::ascending_indices(Index end) const {
  auto list = indices(end);
  for (std::size_t i = 1; i < list.size(); ++i) {
    if (list[i] <= list[i - 1]) (*this)[i].refuse("above the one before it");
  }
  return list;
}

std::size_t Field::choice(const std::vector<std::string_view>& names) const {
  const auto found = std::find(names.begin(), names.end(), text());
  if (found == names.end()) refuse("one of " + list_of(names));
  return static_cast<std::size_t>(found - names.begin());
}

}  // namespace gradrecomp::plan
