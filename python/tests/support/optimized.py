"""What tests of fovea.torch.optimize() ask of a copy."""


def close(got, want, bound=4e-6):
    assert got.shape == want.shape
    assert (got - want).abs().max() < bound * want.abs().max()


def packed(model):
    """{name: fused words} of the report's lines."""
    return dict(line.rstrip(")").split(" (", 1) for line in model.fovea_report.packed)
