#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/temporary_folder.h"

namespace gradrecomp::test {

/// An integer program: variables from 0 to 1 of least total cost under linear constraints.
class Milp {
 public:
  using Variable = int;
  using Terms = std::map<Variable, double>;

  Variable add_binary(double cost = 0) {
    binaries_.push_back(num_variables());
    return add_continuous(cost);
  }
  Variable add_continuous(double cost = 0) {
    costs_.push_back(cost);
    return num_variables() - 1;
  }
  void set_cost(Variable v, double cost) { costs_[v] = cost; }
  /// sum of coefficient * variable over `terms` is at most `bound`.
  void add_row(Terms terms, double bound) { rows_.push_back({std::move(terms), "<=", bound}); }
  /// That sum is `value`.
  void add_equation(Terms terms, double value) { rows_.push_back({std::move(terms), "=", value}); }

  /// In the LP format, one term a line.
  void write(const std::filesystem::path& path) const {
    std::ofstream file(path);
    file.precision(15);
    file << "Minimize\n";
    for (Variable v = 0; v < num_variables(); ++v) write_term(file, costs_[v], v);
    file << "Subject To\n";
    for (const Row& row : rows_) {
      for (const auto& [variable, coefficient] : row.terms) write_term(file, coefficient, variable);
      if (row.terms.empty()) write_term(file, 0, 0);
      file << row.relation << ' ' << row.bound << '\n';
    }
    file << "Bounds\n";
    for (Variable v = 0; v < num_variables(); ++v) file << "0 <= x" << v << " <= 1\n";
    file << "Binary\n";
    for (const Variable v : binaries_) file << 'x' << v << '\n';
    file << "End\n";
  }

 private:
  struct Row {
    Terms terms;
    const char* relation = "<=";
    double bound = 0;
  };

  [[nodiscard]] Variable num_variables() const { return static_cast<Variable>(costs_.size()); }
  static void write_term(std::ostream& file, double coefficient, Variable v) {
    file << (coefficient < 0 ? "- " : "+ ") << std::abs(coefficient) << " x" << v << '\n';
  }

  std::vector<double> costs_;
  std::vector<Variable> binaries_;
  std::vector<Row> rows_;
};

/// What a solver found; infinite costs stand for "no solution".
struct MilpSolution {
  double cost = 0;    ///< of the best solution found
  double proven = 0;  ///< no solution costs less
};

/// The output of a command, or nothing if it fails.
inline std::string output_of(const std::string& command) {
  std::FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return {};
  std::string output;
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) output += static_cast<char>(c);
  return pclose(pipe) == 0 ? output : std::string{};
}

/// Whether the Python that CMake found has the solver, which scripts/setup installs.
inline bool has_milp_solver() {
  return std::system(GRADRECOMP_PYTHON " -c 'import highspy' >/dev/null 2>&1") == 0;
}

/// Solves each program within `max_seconds`, in one run of Python.
inline std::vector<MilpSolution> solve(const std::vector<Milp>& programs, double max_seconds) {
  const TemporaryFolder folder;
  std::string command =
      GRADRECOMP_PYTHON " " GRADRECOMP_SOLVE_MILP " " + std::to_string(max_seconds);
  for (std::size_t i = 0; i < programs.size(); ++i) {
    const std::filesystem::path path = folder / (std::to_string(i) + ".lp");
    programs[i].write(path);
    command += " '" + path.string() + '\'';
  }
  std::istringstream lines(output_of(command));
  std::vector<MilpSolution> solutions;
  for (std::string cost, proven; lines >> cost >> proven;) {
    solutions.push_back({std::stod(cost), std::stod(proven)});
  }
  if (solutions.size() != programs.size()) throw std::runtime_error("solve_milp.py failed");
  return solutions;
}

}  // namespace gradrecomp::test
