#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace gradrecomp {

namespace detail {
template <typename T>
inline constexpr bool holds_no_tensor = std::is_arithmetic_v<T> || std::is_enum_v<T>;
}

/// Calls `visit` with every tensor in what a region's callable returned: a tensor, numbers, and
/// std::vector, std::array, std::optional, std::pair and std::tuple of these, nested at will.
template <typename Visit>
void for_each_tensor(at::Tensor& tensor, Visit&& visit) {
  visit(tensor);
}

template <typename T, typename Visit>
requires detail::holds_no_tensor<T>
void for_each_tensor(T& /*number*/, Visit&& /*visit*/) {}

template <typename T, typename Visit>
void for_each_tensor(std::vector<T>& items, Visit&& visit);
template <typename T, std::size_t n, typename Visit>
void for_each_tensor(std::array<T, n>& items, Visit&& visit);
template <typename T, typename Visit>
void for_each_tensor(std::optional<T>& item, Visit&& visit);
template <typename T, typename U, typename Visit>
void for_each_tensor(std::pair<T, U>& items, Visit&& visit);
template <typename... Ts, typename Visit>
void for_each_tensor(std::tuple<Ts...>& items, Visit&& visit);

template <typename T, typename Visit>
void for_each_tensor(std::vector<T>& items, Visit&& visit) {
  for (auto& item : items) for_each_tensor(item, visit);
}

template <typename T, std::size_t n, typename Visit>
void for_each_tensor(std::array<T, n>& items, Visit&& visit) {
  for (auto& item : items) for_each_tensor(item, visit);
}

template <typename T, typename Visit>
void for_each_tensor(std::optional<T>& item, Visit&& visit) {
  if (item) for_each_tensor(*item, visit);
}

template <typename T, typename U, typename Visit>
void for_each_tensor(std::pair<T, U>& items, Visit&& visit) {
  for_each_tensor(items.first, visit);
  for_each_tensor(items.second, visit);
}

template <typename... Ts, typename Visit>
void for_each_tensor(std::tuple<Ts...>& items, Visit&& visit) {
  std::apply([&](auto&... item) { (for_each_tensor(item, visit), ...); }, items);
}

}  // namespace gradrecomp
