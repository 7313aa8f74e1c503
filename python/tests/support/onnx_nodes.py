"""The node tests of an ONNX operator, as the onnx package makes them."""

import importlib
import warnings

import onnx.backend.test.case.node as node


def cases_of(operator, module):
    """A module of cases adds them when it is run; another test may have imported it for another operator."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = importlib.import_module(f"onnx.backend.test.case.node.{module}")
        if not any(case.model.graph.node[0].op_type == operator for case in node._NodeTestCases):
            node._TargetOpType = operator
            importlib.reload(module)
    return [case for case in node._NodeTestCases if [n.op_type for n in case.model.graph.node] == [operator]]
