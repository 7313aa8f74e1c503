"""Attention, recurrent layers and experts of transformers' models in copies of fovea.torch.optimize(), which calls attention()."""

from fovea.transformers import recurrences, versions
from fovea.transformers.report import report as report_of


def attention(model, report):
    """Puts `model`, a copy whose linear maps are still torch's, on Fovea, and tells it in report.attention."""
    recurrences.set_recurrence_implementation(model, "fovea")
    with versions.adapter("attention that modules write out themselves"):
        from fovea.transformers.own_attention import serve

        report.attention += filter(None, (serve(name, module) for name, module in model.named_modules()))
    inside = None  # the prefix of a model that is done, with the models inside it
    for name, module in model.named_modules():
        if not hasattr(module, "set_attn_implementation"):
            continue
        module.fovea_attention = report_of  # a pickle of a model imports this package, which registers "fovea"
        if inside is None or not name.startswith(inside):
            module.set_attn_implementation("fovea")
            with versions.adapter('experts_implementation="fovea"'):
                from fovea.transformers import experts

                experts.serve(module, report)
            inside = name + "." if name else ""
            # Its code says which modules ask for it; what came of that is counted as they run: report(model).
            report.attention += [f"{name or type(module).__name__}: {line}" for line in report_of(module).lines()]
