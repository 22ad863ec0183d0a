#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "gradrecomp/plan/graph.h"
#include "json_text.h"

namespace gradrecomp::plan {

/// The whole numbers that a field may hold.
struct Bounds {
  std::int64_t least = 0;
  std::int64_t most = std::numeric_limits<std::int64_t>::max();
};

/// A number as JSON holds it; JSON itself has none that is infinite.
Json json_of(double number);

/// One JSON value under the name that errors know it by, "sweeps[2].target".
///
/// Lifetime: refers to the JSON and the source it was made from.
/// Throws:   every accessor std::invalid_argument, unless the value is what the accessor is for.
class Field {
 public:
  Field(const Source& source, const Json& json) : source_(&source), json_(&json) {}

  /// Refuses any file but one of this `format` and `version`.
  void expect_format(std::string_view format, std::int64_t version) const;
  /// Refuses an object with another set of members.
  void expect_members(const std::vector<std::string_view>& names) const;
  [[nodiscard]] Field operator[](std::string_view member) const;
  /// Of an object: whether it has a member of that name.
  [[nodiscard]] bool has(std::string_view member) const;

  void expect_size(std::size_t size) const;
  [[nodiscard]] std::size_t size() const;  ///< of a list
  [[nodiscard]] Field operator[](std::size_t place) const;

  [[nodiscard]] bool flag() const;
  [[nodiscard]] std::string text() const;
  [[nodiscard]] std::int64_t whole(Bounds bounds = {}) const;
  [[nodiscard]] Index index(Index least, Index end) const;
  [[nodiscard]] double amount() const;  ///< at least 0; infinity is one
  [[nodiscard]] std::uint64_t signature() const;
  [[nodiscard]] std::vector<Index> indices(Index end) const;
  [[nodiscard]] std::vector<Index> ascending_indices(Index end) const;
  /// The place of the text in `names`.
  [[nodiscard]] std::size_t choice(const std::vector<std::string_view>& names) const;

 private:
  [[noreturn]] void refuse(std::string requirement) const;
  [[noreturn]] void refuse_as(std::string value, std::string requirement) const;
  [[nodiscard]] std::string shown() const;

  const Source* source_;
  const Json* json_;
  std::string name_ = {};  // empty: the whole file
};

}  // namespace gradrecomp::plan
