#include "gradrecomp/plan/signature.h"

#include <charconv>
#include <system_error>

namespace gradrecomp::plan {
namespace {

constexpr std::string_view kPrefix = "0x";
constexpr std::size_t kDigits = 16;

}  // namespace

std::string signature_text(std::uint64_t signature) {
  std::string digits(kDigits, '0');
  for (auto digit = digits.rbegin(); signature != 0; ++digit, signature >>= 4) {
    *digit = "0123456789abcdef"[signature & 15];
  }
  return std::string(kPrefix) + digits;
}

std::optional<std::uint64_t> signature_of(std::string_view text) {
  if (text.size() != kPrefix.size() + kDigits || !text.starts_with(kPrefix)) return std::nullopt;
  std::uint64_t signature = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data() + kPrefix.size(), end, signature, 16);
  if (error != std::errc{} || stop != end) return std::nullopt;
  return signature;
}

}  // namespace gradrecomp::plan
