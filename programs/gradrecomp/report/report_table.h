#pragma once

#include <string>
#include <vector>

namespace gradrecomp::program {

/// Rows of text in columns as wide as their widest cell; the first is flush left, the rest right.
class ReportTable {
 public:
  using Row = std::vector<std::string>;

  explicit ReportTable(Row head);
  void add(Row row);
  [[nodiscard]] std::string text() const;

 private:
  std::vector<Row> rows_;
  std::vector<std::size_t> widths_;
};

}  // namespace gradrecomp::program
