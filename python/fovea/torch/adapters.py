"""Adapters of PEFT in a copy: they can be switched off and on, and changed, which PEFT does with marks for training."""

import functools
import sys

from .packed_weight import unmarked


def _kinds() -> tuple:
    homes = (("peft.tuners.tuners_utils", "BaseTunerLayer"), ("peft.utils.other", "AuxiliaryTrainingWrapper"))
    kinds = (getattr(sys.modules.get(home), name, None) for home, name in homes)
    return tuple(kind for kind in kinds if kind is not None)


def _without_gradients(name, module, *args, **options):
    """A method of PEFT, after which no parameter has a gradient, as before."""
    with unmarked():
        result = getattr(type(module), name)(module, *args, **options)
    for parameter in module.parameters():
        parameter.requires_grad_(False)
    return result


def for_inference(model):
    """Has the adapters of a copy stay without gradients."""
    kinds = _kinds()
    for module in model.modules() if kinds else ():
        if isinstance(module, kinds):
            for name in ("enable_adapters", "set_adapter"):
                vars(module)[name] = functools.partial(_without_gradients, name, module)
