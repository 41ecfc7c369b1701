"""Names of elementwise functions in Tilesim, torch, ONNX and StableHLO."""

from __future__ import annotations

__all__ = ["FUNCTIONS", "functions_of"]

#: Tilesim's name -> names in torch (overloads of `aten`), ONNX, StableHLO with CHLO; spaces separate several names.
FUNCTIONS: dict[str, tuple[str, str, str]] = {
    "abs": ("abs", "Abs", "stablehlo.abs"),
    "acos": ("acos", "Acos", "chlo.acos"),
    "add": ("", "Add", ""),
    "asin": ("asin", "Asin", "chlo.asin"),
    "atan": ("atan", "Atan", "chlo.atan"),
    "atan2": ("", "", "stablehlo.atan2"),
    "bitwise_and": ("", "BitwiseAnd", ""),
    "bitwise_not": ("bitwise_not", "BitwiseNot", ""),
    "bitwise_or": ("", "BitwiseOr", ""),
    "bitwise_xor": ("", "BitwiseXor", ""),
    "cbrt": ("", "", "stablehlo.cbrt"),
    "ceil": ("ceil", "Ceil", "stablehlo.ceil"),
    "clamp": ("", "", "stablehlo.clamp"),
    "cos": ("cos", "Cos", "stablehlo.cosine"),
    "cosh": ("cosh", "Cosh", "chlo.cosh"),
    "divide": ("", "Div", ""),
    "equal": ("eq", "Equal", ""),
    "erf": ("erf", "Erf", "chlo.erf"),
    "erfc": ("erfc", "", "chlo.erfc"),
    "exp": ("exp", "Exp", "stablehlo.exponential"),
    "exp2": ("exp2", "", ""),
    "expm1": ("expm1", "", "stablehlo.exponential_minus_one"),
    "floor": ("floor", "Floor", "stablehlo.floor"),
    "greater": ("gt", "Greater", ""),
    "greater_equal": ("ge", "GreaterOrEqual", ""),
    "is_finite": ("", "", "stablehlo.is_finite"),
    "is_nan": ("", "IsNaN", ""),
    "less": ("lt", "Less", ""),
    "less_equal": ("le", "LessOrEqual", ""),
    "log": ("log", "Log", "stablehlo.log"),
    "log1p": ("log1p", "", "stablehlo.log_plus_one"),
    "log2": ("log2", "", ""),
    "logical_and": ("", "And", ""),
    "logical_not": ("", "Not", ""),
    "logical_or": ("", "Or", ""),
    "logical_xor": ("", "Xor", ""),
    "multiply": ("", "Mul", ""),
    "negate": ("neg", "Neg", "stablehlo.negate"),
    "not_equal": ("ne", "", ""),
    "popcount": ("", "", "stablehlo.popcnt"),
    "power": ("", "", "stablehlo.power"),
    "reciprocal": ("reciprocal", "Reciprocal", ""),
    "relu": ("relu", "Relu", ""),
    "round_even": ("round", "Round", "stablehlo.round_nearest_even"),
    "rsqrt": ("rsqrt", "", "stablehlo.rsqrt"),
    "select": ("", "Where", ""),
    "shift_left": ("", "", "stablehlo.shift_left"),
    "sigmoid": ("sigmoid", "Sigmoid", "stablehlo.logistic"),
    "sign": ("", "Sign", "stablehlo.sign"),
    "silu": ("silu", "", ""),
    "sin": ("sin", "Sin", "stablehlo.sine"),
    "sinh": ("sinh", "Sinh", "chlo.sinh"),
    "softplus": ("", "Softplus", ""),
    "sqrt": ("sqrt", "Sqrt", "stablehlo.sqrt"),
    "subtract": ("", "Sub", "stablehlo.subtract"),
    "tan": ("tan", "Tan", "stablehlo.tan chlo.tan"),
    "tanh": ("tanh", "Tanh", "stablehlo.tanh"),
    "trunc": ("trunc", "", ""),
}
_COLUMNS = ("torch", "onnx", "stablehlo")


def functions_of(front_end: str) -> dict[str, str]:
    """Maps a front end's function names to Tilesim's."""
    column = _COLUMNS.index(front_end)
    return {name: ours for ours, names in FUNCTIONS.items() for name in names[column].split()}
