"""Kernels' rows on machines of more than ten arrays, whose eleventh array's name ends as the first one's."""

import tilesim as ts


def test_array_busy_of_a_kernel_is_that_of_the_first_array() -> None:
    machine = ts.Machine.load("edge-8").replace({"core.array.count": 11})
    result = ts.simulate(ts.compile(ts.workloads.matmul(1000, 1000, 128, dtype="i8"), machine))
    busy = {unit["unit"]: unit["cycles"]["busy"] for unit in result.data["units"]}
    assert busy["core0.array10"] > 0
    (row,) = [row for row in result.data["operations"] if row["array_busy"]]
    assert row["array_busy"] == busy["core0.array0"] <= result.cycles
