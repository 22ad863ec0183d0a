#include "input/output_file.h"

#include <fmt/format.h>

#include "bad_input.h"
#include "plan/files/file_replacement.h"

namespace gradrecomp::program {
namespace {

void check_apart(const NamedFile& a, const NamedFile& b) {
  if (a.path.empty() || b.path.empty() || !plan::is_same_file(a.path, b.path)) return;
  reject(b.option, b.path, fmt::format("another file than that of {}. Pass two files.", a.option));
}

}  // namespace

void check_outputs(const std::vector<NamedFile>& outputs, const std::vector<NamedFile>& inputs) {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].path.empty()) plan::check_replaceable(outputs[i].option, outputs[i].path);
    for (std::size_t j = 0; j < i; ++j) check_apart(outputs[j], outputs[i]);
    for (const NamedFile& input : inputs) check_apart(input, outputs[i]);
  }
}

void write_output(const NamedFile& file, std::string_view text) {
  if (!file.path.empty()) plan::replace_file(file.option, file.path, text);
}

}  // namespace gradrecomp::program
