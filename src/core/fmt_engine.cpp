// fmt's engine, compiled once for all of Partita (cmake/PartitaLibraries.cmake). Hidden, so that it never meets a
// program's own fmt.
#include <fmt/format-inl.h>

// What fmt/format.h declares extern.
template auto fmt::detail::thousands_sep_impl<char>(fmt::detail::locale_ref) -> fmt::detail::thousands_sep_result<char>;
template auto fmt::detail::decimal_point_impl<char>(fmt::detail::locale_ref) -> char;
