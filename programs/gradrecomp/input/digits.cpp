#include "input/digits.h"

#include <fmt/format.h>
#include <torch/torch.h>
#include <zlib.h>

#include <array>
#include <charconv>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "bad_input.h"

namespace gradrecomp::program {
namespace {

constexpr std::int64_t kSide = 8;
constexpr std::int64_t kNumPixels = kSide * kSide;
constexpr int kDarkest = 16;
constexpr int kHighestDigit = 9;

using Row = std::array<int, kNumPixels + 1>;

/// The content of a file that may be gzipped.
std::string read_unzipped(const std::filesystem::path& path) {
  constexpr int kMostBytes = 64 << 20;
  std::string text(kMostBytes, '\0');
  // A folder opens without complaint and fails at its first byte.
  auto* file = std::filesystem::is_directory(path) ? nullptr : gzopen(path.c_str(), "rb");
  if (file == nullptr) {
    reject("--data", path.string(), "readable. Pass a CSV file, such as data/digits.csv.gz.");
  }
  const int size = gzread(file, text.data(), kMostBytes);
  if (gzclose(file) != Z_OK || size < 0) {
    reject("--data", path.string(), "an intact CSV file, gzipped or not. Get it again.");
  }
  if (size == kMostBytes) reject("--data", path.string(), "one that ends within 64 MiB.");
  text.resize(static_cast<std::size_t>(size));
  return text;
}

std::optional<Row> parse_row(std::string_view line) {
  Row row{};
  const char* position = line.data();
  const char* end = position + line.size();
  for (std::size_t i = 0; i < row.size(); ++i) {
    const auto [stop, error] = std::from_chars(position, end, row[i]);
    const int highest = i < kNumPixels ? kDarkest : kHighestDigit;
    if (error != std::errc{} || row[i] < 0 || row[i] > highest) return std::nullopt;
    const bool last = i + 1 == row.size();
    if (last ? stop != end : (stop == end || *stop != ',')) return std::nullopt;
    position = stop + 1;
  }
  return row;
}

}  // namespace

Digits read_digits(const std::filesystem::path& path) {
  std::istringstream lines(read_unzipped(path));
  std::vector<float> pixels;
  std::vector<std::int64_t> labels;
  for (std::string line; std::getline(lines, line);) {
    if (line.ends_with('\r')) line.pop_back();
    const auto row = parse_row(line);
    if (!row) {
      reject(fmt::format("line {} of {}", labels.size() + 1, path.string()),
             fmt::format("\"{:.40}{}\"", line, line.size() > 40 ? "..." : ""),
             "64 pixels of 0 to 16 and a digit of 0 to 9, with commas between. Correct the line.");
    }
    pixels.insert(pixels.end(), row->begin(), row->end() - 1);
    labels.push_back(row->back());
  }
  if (labels.empty()) reject("--data", path.string(), "a file of at least one line.");
  const auto num_rows = static_cast<std::int64_t>(labels.size());
  return {torch::tensor(pixels).view({num_rows, kSide, kSide}), torch::tensor(labels)};
}

torch::Tensor digit_images(const torch::Tensor& pixels, std::int64_t image_size) {
  namespace F = torch::nn::functional;
  const auto scaled = pixels.unsqueeze(1) / (kDarkest / 2.0) - 1;
  return F::interpolate(scaled, F::InterpolateFuncOptions()
                                    .size(std::vector<std::int64_t>{image_size, image_size})
                                    .mode(torch::kBilinear)
                                    .align_corners(false))
      .repeat({1, 3, 1, 1});
}

}  // namespace gradrecomp::program
