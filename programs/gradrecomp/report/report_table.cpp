#include "report/report_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace gradrecomp::program {

ReportTable::ReportTable(Row head) : widths_(head.size(), 0) { add(std::move(head)); }

void ReportTable::add(Row row) {
  row.resize(widths_.size());
  for (std::size_t i = 0; i < row.size(); ++i) widths_[i] = std::max(widths_[i], row[i].size());
  rows_.push_back(std::move(row));
}

std::string ReportTable::text() const {
  std::string text;
  for (const Row& row : rows_) {
    text += fmt::format("{:<{}}", row[0], widths_[0]);
    for (std::size_t i = 1; i < row.size(); ++i)
      text += fmt::format("  {:>{}}", row[i], widths_[i]);
    text += '\n';
  }
  return text;
}

}  // namespace gradrecomp::program
