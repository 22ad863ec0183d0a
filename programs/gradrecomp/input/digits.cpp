#include "input/digits.h"

#include <fmt/format.h>
#include <torch/torch.h>
#include <zlib.h>

#include <array>
#include <charconv>
#include <memory>
#include <optional>
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
constexpr std::size_t kMostRows = 200000;  // so that a pipe that never ends does

using Row = std::array<int, kNumPixels + 1>;

/// Reads lines from a file that may be gzipped.
class LineReader {
 public:
  explicit LineReader(const std::filesystem::path& path) : path_(path) {
    // A folder opens without complaint and fails at its first byte.
    if (!std::filesystem::is_directory(path)) file_.reset(gzopen(path.c_str(), "rb"));
    if (!file_) {
      reject("--data", "file", path.string(),
             "readable. Pass a CSV file, such as data/digits.csv.gz.");
    }
  }

  /// The next line or, of one that is longer than any row can be, its start.
  std::optional<std::string> next() {
    std::array<char, 1024> start{};
    const bool found = gzgets(file_.get(), start.data(), start.size()) != nullptr;
    check();
    if (!found) return std::nullopt;
    std::string line = start.data();
    while (line.ends_with('\n') || line.ends_with('\r')) line.pop_back();
    return line;
  }

 private:
  struct Close {
    void operator()(gzFile file) const { gzclose(file); }
  };

  void check() {
    int error = Z_OK;
    const char* message = gzerror(file_.get(), &error);
    if (error == Z_OK || error == Z_STREAM_END) return;
    reject("--data", "file", fmt::format("{} ({})", path_.string(), message),
           "an intact CSV file, gzipped or not. Get it again.");
  }

  std::filesystem::path path_;
  std::unique_ptr<gzFile_s, Close> file_;
};

[[noreturn]] void refuse_more(const std::filesystem::path& path) {
  reject("--data", "file", path.string(),
         fmt::format("one of at most {} lines. Pass its start, as by head.", kMostRows));
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
  LineReader lines(path);
  std::vector<float> pixels;
  std::vector<std::int64_t> labels;
  while (const auto line = lines.next()) {
    if (labels.size() == kMostRows) refuse_more(path);
    const auto row = parse_row(*line);
    if (!row) {
      reject("--data", fmt::format("line {} of {}", labels.size() + 1, path.string()),
             '"' + line->substr(0, 40) + (line->size() > 40 ? "...\"" : "\""),
             "64 pixels of 0 to 16 and a digit of 0 to 9, with commas between. Correct the line.");
    }
    pixels.insert(pixels.end(), row->begin(), row->end() - 1);
    labels.push_back(row->back());
  }
  if (labels.empty())
    reject("--data", "file", path.string(), "at least one line. Pass another file.");
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
      .expand({-1, 3, -1, -1})
      .contiguous();
}

torch::Tensor wrapped_rows(std::int64_t first, std::int64_t count, std::int64_t size) {
  return torch::arange(first, first + count).remainder(size);
}

}  // namespace gradrecomp::program
