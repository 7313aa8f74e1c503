"""Checks of copies, for tests of fovea.torch.optimize()."""


def close(got, want, bound=4e-6):
    assert got.shape == want.shape
    assert (got - want).abs().max() < bound * want.abs().max()


def packed(model):
    """{name of a packed map: its sizes, and what it computes of what follows it}."""
    found = dict(line.rstrip(")").split(" (", 1) for line in model.fovea_report.packed)
    for line in model.fovea_report.fused:
        name, words = line.split(": ")
        found[name] += f"; {words}"
    return found
