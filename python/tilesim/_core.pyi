"""
The compiled core of Tilesim (private; use the package tilesim).
"""
from __future__ import annotations
import collections.abc
import numpy
import numpy.typing
import typing
__all__: list[str] = ['Builder', 'Error', 'GemmModel', 'Graph', 'InternalError', 'Machine', 'Program', 'Result', 'Session', 'Unsupported', 'UserError', 'compile', 'convert_array', 'dtype_bits', 'dtype_names', 'evaluate', 'evaluate_expr', 'evaluate_function', 'evaluate_op', 'execute', 'fold_batch_norm', 'fold_constants', 'function_arity', 'function_names', 'gemm_constants', 'gemm_term_names', 'has_kernel', 'has_lowering', 'hash_text', 'kinds', 'machine_documentation', 'machine_schema', 'machine_settings', 'mutants', 'normalize_expr', 'parse_bandwidth', 'parse_bytes', 'parse_dtype', 'parse_duration', 'parse_energy', 'parse_frequency', 'parse_json', 'poll_for', 'prepared', 'random_inputs', 'range_of_expr', 'round_array', 'share_array', 'simulate', 'unit_roundoff']
class Error(Exception):
    """
    Base class of all errors that Tilesim raises.
    """
class UserError(Error, ValueError):
    """
    A mistake in the input. Attributes (str, empty if there is none): what, place (file and line, or name), value, allowed, suggestion.
    """
    allowed: typing.ClassVar[str] = ''
    place: typing.ClassVar[str] = ''
    suggestion: typing.ClassVar[str] = ''
    value: typing.ClassVar[str] = ''
    what: typing.ClassVar[str] = ''
class Unsupported(UserError):
    """
    Legal input that Tilesim or the chosen machine cannot handle.
    """
class InternalError(Error):
    """
    A broken invariant: a bug of Tilesim, with its state.
    """
class Graph:
    """
    Operations on single-assignment tensors, in functions, with weights by name.
    """
    name: str
    @staticmethod
    def from_json(text: str, directory: str = '.') -> Graph:
        """
        Reads the JSON form. directory: where relative paths of weight files start. Raises UserError with line and path.
        """
    @staticmethod
    def load(path: str) -> Graph:
        """
        Reads .json or .tsim. Raises UserError with file, line and path.
        """
    def __init__(self) -> None:
        ...
    def __repr__(self) -> str:
        ...
    def check(self) -> None:
        """
        Raises UserError naming function and operation.
        """
    def compulsory_bytes(self) -> int:
        """
        Bytes of inputs, weights and outputs that must cross the chip's border at least.
        """
    def copy(self) -> Graph:
        """
        An independent copy.
        """
    def domain(self, operation: str, function: str = '') -> dict:
        """
        Loop nest of one operation: names, extents and reduction of the dims, and per operand and result its axes as sums of (dim, coefficient) (None: not affine). Raises UserError for an unknown name.
        """
    def equals(self, other: Graph) -> bool:
        """
        Whether both have the same JSON form.
        """
    def expand(self, kinds: collections.abc.Sequence[str] = []) -> int:
        """
        Replaces composite operations (all, or those of `kinds`) by primitives; returns the number.
        """
    def flops(self) -> dict:
        """
        Operations by unit: matrix (a multiply-add is 2), simple, multiply, divide, transcendental.
        """
    def inline_calls(self) -> int:
        """
        Replaces calls by the callee's operations; returns the number of calls.
        """
    def merge_common_subexpressions(self) -> int:
        """
        Computes equal operations once; returns the number removed.
        """
    def operations(self, function: str = '') -> list:
        """
        Operations of a function (main by default): name, kind, operands, results, attributes, functions, source, flops by unit, compulsory bytes.
        """
    def parameter_count(self) -> int:
        """
        Number of elements of all trainable weights.
        """
    def remove_dead_code(self) -> int:
        """
        Removes what no output needs; returns the number of operations.
        """
    def remove_no_ops(self) -> int:
        """
        Removes operations that change nothing; returns the number of operations.
        """
    def save(self, path: str) -> None:
        """
        Writes .json or .tsim (a JSON header, then the weights). Raises UserError when the file cannot be written.
        """
    def set_weight(self, name: str, array: typing.Any) -> None:
        """
        Replaces the elements of one weight; dtype and shape must agree.
        """
    def signature(self, function: str) -> tuple[list, list]:
        """
        Inputs and outputs of any function. Raises UserError for an unknown one.
        """
    def to_json(self) -> str:
        """
        The JSON form, schema "tilesim.graph"; reads back to an equal graph.
        """
    def weight(self, name: str) -> numpy.ndarray:
        """
        Elements of one weight. Raises UserError for an unknown name or an unreadable file.
        """
    def weights(self) -> dict:
        """
        Weights by name: dtype, shape, source, trainable.
        """
    @property
    def aliases(self) -> list[tuple[int, int]]:
        """
        Pairs (output, input) of the entry function: the output overwrites the input.
        """
    @property
    def functions(self) -> list[str]:
        """
        Names of all functions.
        """
    @property
    def inputs(self) -> list:
        """
        Inputs of the entry function in order: name, dtype, shape.
        """
    @property
    def main(self) -> str:
        """
        Name of the entry function.
        """
    @property
    def outputs(self) -> list:
        """
        Outputs of the entry function in order: name, dtype, shape.
        """
class Builder:
    """
    Builds one function of a graph, operation by operation. Values are integers; -1 is an absent operand.
    """
    def __init__(self, graph: Graph, name: str = 'main') -> None:
        ...
    def alias(self, output: typing.SupportsInt | typing.SupportsIndex, input: typing.SupportsInt | typing.SupportsIndex) -> None:
        """
        Output number `output` overwrites input number `input`.
        """
    def convert(self, x: typing.SupportsInt | typing.SupportsIndex, dtype: str) -> int:
        """
        x in another dtype.
        """
    def elementwise(self, function: str, operands: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex], name: str = '') -> int:
        """
        An elementwise function; operands broadcast as numpy's.
        """
    def finish(self) -> None:
        """
        Makes this function the graph's entry and checks the graph.
        """
    def input(self, name: str, dtype: str, shape: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex]) -> int:
        """
        A new input of the function.
        """
    def matmul(self, a: typing.SupportsInt | typing.SupportsIndex, b: typing.SupportsInt | typing.SupportsIndex, bias: typing.SupportsInt | typing.SupportsIndex = -1, name: str = '') -> int:
        """
        numpy's matmul, plus bias.
        """
    def op(self, kind: str, operands: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex] = [], attributes: dict = {}, name: str = '', results: typing.SupportsInt | typing.SupportsIndex = 1, functions: collections.abc.Sequence[str] = []) -> list[int]:
        """
        Any kind of operation; gives its results. Raises UserError naming operation, got and expected.
        """
    def output(self, value: typing.SupportsInt | typing.SupportsIndex, name: str = '') -> None:
        """
        Makes a value an output of the function.
        """
    def reshape(self, x: typing.SupportsInt | typing.SupportsIndex, shape: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex]) -> int:
        """
        x in another shape of as many elements.
        """
    def scalar(self, value: typing.SupportsFloat | typing.SupportsIndex, dtype: str = 'f32') -> int:
        """
        A constant without axes.
        """
    def transpose(self, x: typing.SupportsInt | typing.SupportsIndex, permutation: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex]) -> int:
        """
        Axis i of the result is axis permutation[i] of x.
        """
    def type(self, value: typing.SupportsInt | typing.SupportsIndex) -> tuple[str, tuple]:
        """
        (dtype, shape) of a value.
        """
    def weight(self, name: str, data: typing.Any = None, dtype: str = 'f32', shape: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex] = [], seed: typing.SupportsInt | typing.SupportsIndex = 0, scale: typing.SupportsFloat | typing.SupportsIndex = 0.05, offset: typing.SupportsFloat | typing.SupportsIndex = 0.0, path: str = '', byte_offset: typing.SupportsInt | typing.SupportsIndex = 0, trainable: bool = True) -> int:
        """
        A weight: from an array, from a file (path), or random: uniform in offset ± scale. Equal names share it.
        """
class Machine:
    """
    A chip's description, checked on load.
    """
    @staticmethod
    def from_json(text: str, source: str = 'text') -> Machine:
        """
        Parses the JSON form; raises UserError with line and path.
        """
    @staticmethod
    def read_file(path: str) -> Machine:
        """
        Reads a machine file.
        """
    def device(self) -> dict:
        """
        Closed-form view: peak rates per dtype (FLOP/s), bytes/s, seconds per kernel.
        """
    def hash(self) -> str:
        """
        Hash of all settings.
        """
    def replace(self, changes: collections.abc.Mapping[str, str]) -> Machine:
        """
        A copy with settings replaced: path -> JSON text of the value.
        """
    def to_json(self) -> str:
        """
        The resolved JSON form: every setting.
        """
    @property
    def description(self) -> str:
        ...
    @property
    def hertz(self) -> int:
        """
        Core clock in Hz.
        """
    @property
    def multiply(self) -> typing.Any:
        """
        Type that float operands of products are rounded to, or None.
        """
    @property
    def name(self) -> str:
        ...
    @property
    def sources(self) -> dict[str, str]:
        """
        Setting path -> where the number comes from.
        """
class Result:
    """
    What a simulation found.
    """
    @staticmethod
    def from_json(text: str) -> Result:
        """
        Reads the JSON form.
        """
    def timing_hash(self) -> str:
        """
        Hash of everything that timing decides: equal on every machine and build.
        """
    def to_json(self) -> str:
        """
        The JSON form, schema "tilesim.result".
        """
    @property
    def cycles(self) -> int:
        ...
    @property
    def hertz(self) -> int:
        ...
class Program:
    """
    A tile program.
    """
    @staticmethod
    def from_json(text: str, source: str = 'text') -> Program:
        """
        Parses the JSON form; raises UserError with line and path.
        """
    def check(self) -> None:
        """
        Checks structure, names and rings; raises UserError.
        """
    def tensors(self) -> list:
        """
        Name, dtype, shape, role of every tensor.
        """
    def to_json(self) -> str:
        """
        The JSON form, schema "tilesim.program".
        """
    @property
    def cores(self) -> int:
        ...
    @property
    def machine(self) -> str:
        ...
    @property
    def name(self) -> str:
        ...
    @property
    def notes(self) -> list[str]:
        ...
class GemmModel:
    """
    Closed-form time of matrix products on one device with one scheme.
    """
    def __init__(self, hardware: collections.abc.Mapping[str, typing.SupportsFloat | typing.SupportsIndex], scheme: collections.abc.Mapping[str, typing.SupportsFloat | typing.SupportsIndex], constants: collections.abc.Mapping[str, typing.SupportsFloat | typing.SupportsIndex], kernels: collections.abc.Sequence[typing.Annotated[collections.abc.Sequence[typing.SupportsFloat | typing.SupportsIndex], "FixedSize(8)"]]) -> None:
        """
        From specification, scheme, constants and kernels (tile m, n, k, most splits, ranges of m and of n).
        """
    def seconds(self, batch: typing.Annotated[numpy.typing.ArrayLike, numpy.float64], m: typing.Annotated[numpy.typing.ArrayLike, numpy.float64], n: typing.Annotated[numpy.typing.ArrayLike, numpy.float64], k: typing.Annotated[numpy.typing.ArrayLike, numpy.float64]) -> numpy.ndarray:
        """
        Seconds per row of four arrays of equal length, shape [count].
        """
    def terms(self, batch: typing.Annotated[numpy.typing.ArrayLike, numpy.float64], m: typing.Annotated[numpy.typing.ArrayLike, numpy.float64], n: typing.Annotated[numpy.typing.ArrayLike, numpy.float64], k: typing.Annotated[numpy.typing.ArrayLike, numpy.float64]) -> numpy.ndarray:
        """
        Every term per row, shape [count, terms]; columns are gemm_term_names().
        """
class Session:
    """
    A simulation in progress with several jobs.
    """
    def __init__(self, machine: Machine, memory: str | None = None) -> None:
        ...
    def finished(self, job: typing.SupportsInt | typing.SupportsIndex) -> int | None:
        """
        Core cycle of completion, or None.
        """
    def result(self) -> Result:
        """
        The Result so far.
        """
    def run(self) -> None:
        """
        Runs to the end.
        """
    def run_until(self, cycles: typing.SupportsInt | typing.SupportsIndex) -> bool:
        """
        Processes events up to a core cycle; False when nothing is left.
        """
    def submit(self, program: Program, cores: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex] = [], arrival: typing.SupportsInt | typing.SupportsIndex = 0, priority: typing.SupportsInt | typing.SupportsIndex = 0, tensors: dict = {}) -> int:
        """
        Queues a program on physical cores, from core cycle `arrival` on; returns the job's id.
        """
    @property
    def now(self) -> int:
        """
        Core cycles.
        """
def compile(graph: Graph, machine: Machine, fuse: str = 'all', mappings: collections.abc.Mapping[str, dict] = {}) -> Program:
    """
    Lowers a graph for a machine. mappings: operation name -> {tiles, order, depths}, tile sizes in elements.
    Raises Unsupported for what the machine cannot run and UserError when no tile fits the scratchpad.
    """
def convert_array(array: typing.Any, dtype: str, rounding: str = 'nearest_even', saturate: bool = False) -> numpy.ndarray:
    """
    Converts an array of any shape, rounding once ('nearest_even' or 'toward_zero'). Beyond the target's range: as the format has it (infinity, NaN, integers wrap), or clamped with `saturate`.
    """
def dtype_bits(dtype: str) -> int:
    """
    Bits of one element as stored in a memory.
    """
def dtype_names() -> list[str]:
    """
    Canonical names of all dtypes.
    """
def evaluate(graph: Graph, inputs: collections.abc.Iterable, numerics: dict = {}) -> list:
    """
    Outputs of a graph by the reference kernels, as a list of arrays. `inputs` follow the graph's inputs; `numerics` may hold multiply and accumulate (dtype names) and multiply_tf32. Raises UserError on a wrong input.
    """
def evaluate_expr(text: str, symbols: collections.abc.Mapping[str, typing.SupportsInt | typing.SupportsIndex] = {}, compiled: bool = False) -> int:
    """
    Value of a quasi-affine expression (int64) under values of its symbols; `compiled`: by the form that simulation uses. UserError for bad text, an unknown symbol, or a value beyond 64 bits.
    """
def evaluate_function(function: str, operands: collections.abc.Sequence[typing.SupportsFloat | typing.SupportsIndex]) -> float:
    """
    Scalar value (f64) of an elementwise function.
    """
def evaluate_op(kind: str, operands: collections.abc.Iterable, attributes: dict = {}, results: typing.SupportsInt | typing.SupportsIndex = 1, numerics: dict = {}) -> list:
    """
    Results of one operation on arrays (None: absent operand) by its reference kernel, as a list of arrays.
    """
def execute(program: Program, inputs: dict, order: str = 'text', seed: typing.SupportsInt | typing.SupportsIndex = 0, find_races: bool = False) -> dict:
    """
    Runs a program on arrays by tensor name; returns outputs and final state.
    """
def fold_batch_norm(graph: Graph) -> int:
    """
    Folds batch_norm into a preceding convolution or contract with weights, in place; returns how many.
    """
def fold_constants(graph: Graph, max_elements: typing.SupportsInt | typing.SupportsIndex = 1048576) -> int:
    """
    Evaluates operations on constants with at most max_elements results, in place; returns how many.
    """
def function_arity(name: str) -> int:
    """
    Number of operands of an elementwise function. Raises UserError for an unknown one.
    """
def function_names() -> list[str]:
    """
    Names of the elementwise functions.
    """
def gemm_constants() -> list:
    """
    Constants of the product model: name, default, low, high, unit.
    """
def gemm_term_names() -> list[str]:
    """
    Columns of GemmModel.terms.
    """
def has_kernel(kind: str) -> bool:
    """
    Whether a kind has a reference kernel.
    """
def has_lowering(kind: str) -> bool:
    """
    Whether the kind can be compiled, directly or through its expansion.
    """
def hash_text(text: str) -> str:
    """
    64-bit FNV-1a as 16 hex digits.
    """
def kinds() -> list:
    """
    The kinds of operations: operands, attributes with type and allowed values, results.
    """
def machine_documentation() -> str:
    """
    Markdown table of every setting.
    """
def machine_schema() -> str:
    """
    JSON schema of a machine file.
    """
def machine_settings() -> list:
    """
    Path, unit and description of every setting.
    """
def mutants(program: Program) -> list:
    """
    Programs with one wait, commit or release deleted, and what was deleted.
    """
def normalize_expr(text: str) -> str:
    """
    The simplified expression as text; parses back to an equal expression.
    """
def parse_bandwidth(text: str) -> int:
    """
    '450 GB/s' in bytes/s. UserError for a wrong unit.
    """
def parse_bytes(text: str) -> int:
    """
    '16 MiB' in bytes. UserError for a wrong unit.
    """
def parse_dtype(text: str) -> str:
    """
    Canonical name of a dtype or alias. UserError with a suggestion if it is neither.
    """
def parse_duration(text: str) -> int:
    """
    '1.5 us' in picoseconds. UserError for a wrong unit.
    """
def parse_energy(text: str) -> int:
    """
    '909 pJ' in femtojoules. UserError for a wrong unit.
    """
def parse_frequency(text: str) -> int:
    """
    '940 MHz' in hertz. UserError for a wrong unit.
    """
def parse_json(text: str, source: str = 'text', indent: typing.SupportsInt | typing.SupportsIndex = -1) -> str:
    """
    JSON text in normal form. UserError with source:line:column and path for bad syntax, a duplicate key, an integer beyond 64 bits, a number that is not finite, more than 200 levels.
    """
def poll_for(seconds: typing.SupportsFloat | typing.SupportsIndex, progress: typing.Any = None) -> int:
    """
    Polls for cancellation for so many seconds and returns how often; for tests of Ctrl-C.
    """
def prepared(graph: Graph, machine: Machine) -> Graph:
    """
    The graph that lowering works on: expanded and folded; its weights are the program's.
    """
def random_inputs(graph: Graph, seed: typing.SupportsInt | typing.SupportsIndex = 0) -> list:
    """
    Deterministic inputs of a graph: floats uniform in [-1, 1], integers small and legal as indices, random bools.
    """
def range_of_expr(text: str, ranges: collections.abc.Mapping[str, tuple[typing.SupportsInt | typing.SupportsIndex, typing.SupportsInt | typing.SupportsIndex]]) -> tuple[int, int]:
    """
    An interval (low, high), both ends included, around every value, from such intervals of the symbols.
    """
def round_array(array: typing.Any, through: str) -> numpy.ndarray:
    """
    The values as f32, each rounded to a narrower float dtype or to 'tf32'.
    """
def share_array(array: typing.Any) -> numpy.ndarray:
    """
    The same array through the core and back: the same memory where it is row-major, aligned and native.
    """
def simulate(program: Program, machine: Machine, memory: str | None = None, timeline: bool = False, tensors: dict = {}, shuffle_seed: typing.SupportsInt | typing.SupportsIndex = 0, extra_statistic: bool = False) -> Result:
    """
    Runs a program in simulated time.
    """
def unit_roundoff(dtype: str) -> float:
    """
    Half the spacing just above 1 of a float dtype; 0 for integers and bool.
    """
__version__: str = '0.1.0'
