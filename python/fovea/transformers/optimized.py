"""The attention of transformers' models in copies of fovea.torch.optimize(), which calls attention() for these."""


def attention(model, report):
    """Puts `model`, a copy whose linear maps are still torch's, on Fovea's attention, and tells it in report.attention."""
    inside = None  # the prefix of a model that is done, with the models inside it
    for name, module in model.named_modules():
        if hasattr(module, "set_attn_implementation") and not (inside is not None and name.startswith(inside)):
            module.set_attn_implementation("fovea")
            inside = name + "." if name else ""
            report.attention.append(f"{name or type(module).__name__}: attn_implementation fovea")
