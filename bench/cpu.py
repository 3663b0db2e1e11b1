"""What a program that writes no record ran on, in the keys of records of the benchmarks (machine.cpp, clock_rates.cpp)."""

import os
import pathlib

CPUINFO = pathlib.Path("/proc/cpuinfo")


def machine():
    model = next((value for block in blocks() for key, value in block.items() if key == "model name"), "")
    return {"cpu": model, "cores": os.cpu_count()}


def clocks(cores):
    """The clock rates of `cores` now; nothing where the machine does not tell."""
    rates = [float(block["cpu MHz"]) for block in blocks() if "cpu MHz" in block and int(block["processor"]) in cores]
    governor = pathlib.Path(f"/sys/devices/system/cpu/cpu{cores[0]}/cpufreq/scaling_governor")
    return {**({"cpu_least_mhz": min(rates), "cpu_most_mhz": max(rates)} if rates else {}),
            **({"cpu_governor": governor.read_text().strip()} if governor.exists() else {})}


def blocks():
    """What the system tells of each core."""
    for text in CPUINFO.read_text().split("\n\n"):
        pairs = [line.partition(":") for line in text.splitlines() if ":" in line]
        yield {key.strip(): value.strip() for key, _, value in pairs}
