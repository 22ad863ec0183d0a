"""Regions for Python, from the library of region_calls.cpp, and all modes in which a test runs them."""

import ctypes

import torch

SEED = 29
FIRST_STEP, NEVER = -1, 0  # when a region verifies, but for every so many steps

_SIGNATURES = {
    "failure": (ctypes.c_char_p,),
    "region_new": (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_double, ctypes.c_int64),
    "region_delete": (None, ctypes.c_void_p),
    "step_open": (ctypes.c_void_p, ctypes.c_void_p),
    "step_close": (ctypes.c_bool, ctypes.c_void_p),
    "step_delete": (None, ctypes.c_void_p),
    "region_followed_plan": (ctypes.c_bool, ctypes.c_void_p),
    "region_replays": (ctypes.c_int64, ctypes.c_void_p),
    "region_ops": (ctypes.c_int64, ctypes.c_void_p),
    "region_report": (ctypes.c_char_p, ctypes.c_void_p),
}

_calls = None


def load(library):
    """Loads the library. Calls keep Python's lock, as those of most extensions do."""
    global _calls
    _calls = ctypes.PyDLL(str(library))
    for name, (result, *arguments) in _SIGNATURES.items():
        function = getattr(_calls, name)
        function.restype, function.argtypes = result, arguments


def _checked(result):
    if not result:
        raise RuntimeError(_calls.failure().decode())
    return result


def _run_step(region, body):
    step = _checked(_calls.step_open(region))
    try:
        result = body()
        _checked(_calls.step_close(step))
        return result
    finally:
        _calls.step_delete(step)


class Region:
    """A gradrecomp::Region around any Python code, which verifies FIRST_STEP alone, every so many
    steps, or NEVER."""

    def __init__(self, policy="", max_overhead=0.1, verify=FIRST_STEP):
        self._region = _checked(_calls.region_new(policy.encode(), max_overhead, verify))

    def __del__(self):
        if getattr(self, "_region", None):
            _calls.region_delete(self._region)

    def run(self, body):
        return _run_step(self._region, body)

    def followed_plan(self):
        return _calls.region_followed_plan(self._region)

    def num_replays(self):
        return _calls.region_replays(self._region)

    def num_ops(self):
        return _calls.region_ops(self._region)

    def report(self):
        return _checked(_calls.region_report(self._region)).decode()


def checkpoint(body):
    return _run_step(None, body)


def plainly(body):
    return body()


def every_mode():
    """Names of modes, and functions that each make a fresh one: what runs a part of a program."""
    kinds = {
        "keep_all": {"policy": "keep_all"},
        "drop_all": {"policy": "drop_all"},
        "every_2": {"policy": "every_2"},
        "nested": {"policy": "nested"},
        "FLOPs budget": {"max_overhead": 0.1},
    }
    modes = {"checkpoint()": lambda: checkpoint}
    suffixes = {FIRST_STEP: "", NEVER: ", never verified", 2: ", every second step verified"}
    for verify, suffix in suffixes.items():
        for kind, options in kinds.items():
            modes[kind + suffix] = lambda options=options, verify=verify: Region(**options, verify=verify).run
    return modes


def run_seeded(program, run):
    torch.manual_seed(SEED)
    return list(program(run))


def differences(plain, tensors):
    """Positions at which lists of tensors differ in a bit; None stands for no tensor."""
    if len(plain) != len(tensors):
        return [f"{len(tensors)} tensors instead of {len(plain)}"]
    return [i for i, (one, other) in enumerate(zip(plain, tensors)) if not _same_bits(one, other)]


def _same_bits(one, other):
    if one is None or other is None:
        return one is other
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    return torch.equal(_bytes(one), _bytes(other))


def _bytes(tensor):
    return tensor.detach().clone(memory_format=torch.contiguous_format).view(-1).view(torch.uint8)


def assert_same_in_every_mode(case, program, error=None):
    """Expects of `program(run)`, which returns tensors, the bits in every mode that it has plainly.

    Where `error` is given, a text or several, raising one with such a text will do as well. Returns how many modes did.
    """
    plain = run_seeded(program, plainly)
    num_errors = 0
    for name, make in every_mode().items():
        with case.subTest(mode=name):
            try:
                case.assertEqual(differences(plain, run_seeded(program, make())), [], "tensors that differ")
            except RuntimeError as raised:
                texts = (error,) if isinstance(error, str) else error or ()
                if not any(text in str(raised) for text in texts):
                    raise
                num_errors += 1
    return num_errors


def gradient_of(y, x):
    """The gradient of the sum of `y`, which does not stay behind."""
    y.sum().backward()
    gradient, x.grad = x.grad, None
    return gradient


def steps_of(make, body, after=lambda x: None, num_steps=3):
    """A program of steps through `body(x)`, which runs in the region; `after(x)` follows it."""

    def program(run):
        all_tensors = []
        for _ in range(num_steps):
            x = make().requires_grad_()
            y = run(lambda: body(x))
            after(x)
            all_tensors += [y.detach().clone(), gradient_of(y, x)]
        return all_tensors

    return program
