"""GradRecomp's regions and its memory meter in Python, from the library of python_region.cpp."""

import ctypes

import torch

_FUNCTION = ctypes.CFUNCTYPE(None)


def load(library):
    """Loads the library, which counts every CPU tensor that is made from then on and places large
    ones, whatever tool makes them."""
    torch.classes.load_library(str(library))
    ctypes.CDLL(str(library)).gradrecomp_install_cpu_counter()


def memory_meter():
    """Counts bytes of tensors above what was live when it was made: measured_peak_bytes() is the
    highest, growth_bytes() the current number."""
    return torch.classes.gradrecomp.MemoryMeter()


class Region:
    """A gradrecomp::Region around any Python code that returns one tensor."""

    def __init__(self, max_overhead, cost):
        self.region = torch.classes.gradrecomp.Region(max_overhead, cost)

    def run(self, body):
        """Runs `body` as one step of the region and returns its tensor. Raises what it raises."""
        failures = []

        def call():
            try:
                self.region.output(body())
            except BaseException as failure:  # nothing may fly through the C++ that calls us
                failures.append(failure)

        function = _FUNCTION(call)
        try:
            return self.region.run(ctypes.cast(function, ctypes.c_void_p).value)
        except RuntimeError:
            raise failures[0] if failures else None

    def save_graph(self, path, description):
        """Writes the step that was profiled, for the planner to load."""
        self.region.save_graph(str(path), description)

    def figures(self):
        """The last step and the plan it followed."""
        names = (
            "followed_plan",
            "num_ops",
            "num_replayed_ops",
            "predicted_peak_bytes",
            "predicted_overhead_flops",
            "predicted_overhead_seconds",
        )
        return {name: getattr(self.region, name)() for name in names}
