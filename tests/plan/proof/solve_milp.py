"""Solves integer programs for tests by HiGHS.

Usage: solve_milp.py <seconds> <file.lp>...

Prints a line for each file: the cost of the best solution found and what is proven that none is
below, both "inf" if there is no solution. <seconds> limits each solve.
"""

import sys

import highspy


def solve(path, seconds):
    solver = highspy.Highs()
    solver.silent()
    solver.setOptionValue("time_limit", seconds)
    solver.setOptionValue("threads", 1)
    solver.setOptionValue("mip_rel_gap", 1e-7)
    if solver.readModel(path) != highspy.HighsStatus.kOk:
        sys.exit(f"solve_milp.py: {path} is no LP file that HiGHS reads")
    solver.run()
    if solver.getModelStatus() == highspy.HighsModelStatus.kInfeasible:
        return "inf inf"
    info = solver.getInfo()
    found = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
    cost = repr(info.objective_function_value) if found else "inf"
    return f"{cost} {info.mip_dual_bound!r}"


for file in sys.argv[2:]:
    print(solve(file, float(sys.argv[1])))
