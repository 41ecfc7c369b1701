"""
The compiled core of Tilesim (private; use the package tilesim).
"""
from __future__ import annotations
import collections.abc
import numpy
import numpy.typing
import typing
__all__: list[str] = ['AttentionModel', 'Builder', 'ClusterNetwork', 'ConvolutionModel', 'Costs', 'DramPart', 'Error', 'GemmModel', 'Graph', 'GraphFile', 'GraphParts', 'HostCosts', 'InternalError', 'IsaProgram', 'IsaSet', 'LatencyBook', 'Machine', 'MappingProblem', 'MappingSpace', 'Network', 'NetworkMeasurement', 'NetworkRouter', 'NetworkTopology', 'OperationModel', 'PipelineOrder', 'Program', 'ReplacedFile', 'Result', 'Session', 'Sides', 'SimpleNetwork', 'Stop', 'StreamModel', 'Turns', 'Unsupported', 'UserError', 'VectorProblem', 'annotate_results', 'attention_constants', 'attention_term_names', 'check_attention_data', 'closed_form_latency', 'cluster_check_schedule', 'compile', 'convert_array', 'convolution_constants', 'convolution_term_names', 'count_trips', 'describe_compute', 'dram_parse_trace', 'dram_run', 'dram_trace', 'draw_patterns', 'dtype_bits', 'dtype_names', 'evaluate', 'evaluate_devices', 'evaluate_expr', 'evaluate_function', 'evaluate_op', 'execute', 'expected_sparse_time', 'find_zero_tiles', 'flit_network', 'fold_batch_norm', 'fold_constants', 'function_arity', 'function_names', 'fusion_rules', 'gemm_constants', 'gemm_term_names', 'gspmd_mesh', 'gspmd_shardings', 'has_kernel', 'has_lowering', 'hash_text', 'isa_assemble', 'isa_declare_operation', 'isa_disassemble', 'isa_functions', 'isa_instructions', 'isa_kernel', 'isa_latency', 'isa_loops', 'isa_numbers', 'isa_run_operation', 'isa_time', 'isa_timing_classes', 'isa_use', 'isa_version', 'kinds', 'least_traffic', 'link_picoseconds', 'loop_trips', 'lower_bound', 'lower_bound_of_rates', 'machine_documentation', 'machine_schema', 'machine_settings', 'mapping_choices', 'mapping_strategies', 'mark_sparse_products', 'mark_zero_tiles', 'measure_network', 'mesh_axes', 'mesh_text', 'mutants', 'network_destinations', 'network_traffic_names', 'normalize_expr', 'one_of_alike_devices', 'open_loops', 'parse_bandwidth', 'parse_bytes', 'parse_dtype', 'parse_duration', 'parse_energy', 'parse_frequency', 'parse_json', 'partition_graph', 'partition_rules', 'pipeline_order', 'poll_for', 'prepared', 'price_on_host', 'random_input', 'random_inputs', 'random_ranges', 'range_of_expr', 'read_file', 'recognise', 'recognised_functions', 'recognition_passes', 'round_array', 'sharding_division', 'sharding_text', 'shardy_module', 'share_array', 'simple_network', 'simulate', 'sparse_tile_times', 'sparse_time', 'spread_graph', 'stream_constants', 'stream_term_names', 'time_operations', 'unit_roundoff', 'usual_attention_data', 'verify']
class Error(Exception):
    """
    Base class of all errors that Tilesim raises.
    """
class UserError(Error, ValueError):
    """
    A mistake in the input. Attributes (str, empty if absent): what, place (file and line, or name), value, allowed, suggestion.
    """
    allowed: typing.ClassVar[str] = ''
    place: typing.ClassVar[str] = ''
    suggestion: typing.ClassVar[str] = ''
    value: typing.ClassVar[str] = ''
    what: typing.ClassVar[str] = ''
class Unsupported(UserError):
    """
    Legal input that Tilesim or the chosen machine cannot handle. Attributes beside those of UserError (str, empty if absent): operation of the graph as it was given, its function, and what is missing in the machine (dtype, scratchpad, ...).
    """
    function: typing.ClassVar[str] = ''
    lack: typing.ClassVar[str] = ''
    operation: typing.ClassVar[str] = ''
class InternalError(Error):
    """
    A broken invariant: a bug of Tilesim, with its state.
    """
class ReplacedFile:
    """
    The new content of a file, written beside it and renamed over it by commit().
    """
    def __init__(self, path: str) -> None:
        """
        UserError where the directory takes no file.
        """
    def commit(self) -> None:
        """
        Brings the content to disk and puts it in the old file's place.
        """
    def discard(self) -> None:
        """
        Leaves the old file and removes the new one.
        """
    @property
    def temporary(self) -> str:
        """
        Path that the content is written to.
        """
class Stop:
    """
    Ends the calls of the threads that entered it, at their next poll.
    """
    def __enter__(self) -> None:
        """
        From here on this thread's calls obey it.
        """
    def __exit__(self, kind: typing.Any, error: typing.Any, trace: typing.Any) -> None:
        """
        Until here.
        """
    def __init__(self) -> None:
        ...
    def request(self) -> None:
        """
        Ends them with KeyboardInterrupt, and those that begin later.
        """
    @property
    def requested(self) -> bool:
        """
        Whether it was asked for.
        """
class Graph:
    """
    Operations on single-assignment tensors, in functions, with weights by name.
    """
    name: str
    @staticmethod
    def from_json(text: str, directory: str = '.', weights_anywhere: bool = False) -> Graph:
        """
        Reads the JSON form. directory: where relative paths of weight files start, and beyond which they may not lie unless weights_anywhere. Raises UserError with line and path.
        """
    @staticmethod
    def load(path: str, weights_anywhere: bool = False) -> Graph:
        """
        Reads .json or .tsim. Raises UserError with file, line and path.
        """
    def __init__(self) -> None:
        ...
    def __repr__(self) -> str:
        ...
    def annotate(self, mesh: str | None = None, shardings: collections.abc.Mapping[str, str] = {}, devices: typing.SupportsInt | typing.SupportsIndex = 0) -> int:
        """
        Sets the mesh ("": none, and no shardings; None: as it is), shardings by name of value ("": none), the number of devices (0: as it is). Raises UserError for an unknown name, another rank, an axis used twice.
        """
    def check(self) -> None:
        """
        Raises UserError naming function and operation.
        """
    def communications(self, function: str = '') -> list:
        """
        Operations of a function that are between devices or run functions: name, kind, operands, results, attributes, functions, source.
        """
    def compulsory_bytes(self) -> int:
        """
        Bytes of inputs, weights and outputs that must cross the chip's border at least.
        """
    def copy(self) -> Graph:
        """
        Another graph with the same value; what changes one leaves the other alone.
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
    def extract(self, operations: collections.abc.Sequence[str], inputs: collections.abc.Sequence[str], outputs: collections.abc.Sequence[str]) -> Graph:
        """
        Operations of the entry function as a separate graph, with the named values at its border. Raises UserError for an unknown name.
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
    def parts(self) -> GraphParts:
        """
        For many parts of the graph as it is now: each costs what it has, not what the graph has.
        """
    def remove_dead_code(self) -> int:
        """
        Removes what no output needs; returns the number of operations.
        """
    def remove_no_ops(self) -> int:
        """
        Removes operations that change nothing; returns the number of operations.
        """
    def replaced(self) -> None:
        """
        Builders that build into it raise an error from then on.
        """
    def save(self, path: str, weights_anywhere: bool = False) -> None:
        """
        Writes .json or .tsim (a JSON header, then the weights); the old file stands until the new one is whole. Raises UserError when the file cannot be written, or a weight's file lies outside of a .json's directory.
        """
    def save_compiled(self, path: str, header: str) -> None:
        """
        Writes .tsim with a JSON header that holds more than the graph.
        """
    def set_weight(self, name: str, array: typing.Any) -> None:
        """
        Replaces the elements of one weight; dtype and shape must agree.
        """
    def set_weight_file(self, name: str, path: str, byte_offset: typing.SupportsInt | typing.SupportsIndex = 0) -> None:
        """
        Takes the elements of one weight from a file of raw little-endian elements, which is mapped when they are read.
        """
    def signature(self, function: str) -> tuple[list, list]:
        """
        Inputs and outputs of any function. Raises UserError for an unknown one.
        """
    def to_json(self) -> str:
        """
        The JSON form, schema "tilesim.graph"; reads back to an equal graph.
        """
    def unquantized(self) -> Graph:
        """
        The graph without its roundings to narrow types. Raises Unsupported where bits of codes are used.
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
    def devices(self) -> int:
        """
        Devices that run this together, each with separate values.
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
    def mesh(self) -> typing.Any:
        """
        The mesh of devices that shardings are about, as text, or None.
        """
    @property
    def outputs(self) -> list:
        """
        Outputs of the entry function in order: name, dtype, shape.
        """
    @property
    def shardings(self) -> dict:
        """
        Shardings by the name of their value ("function:value" outside of the entry), as text.
        """
class GraphParts:
    """
    Parts of a graph; names are looked up in one index.
    """
    def extract(self, operations: collections.abc.Sequence[str], inputs: collections.abc.Sequence[str], outputs: collections.abc.Sequence[str]) -> Graph:
        """
        As of `Graph`.
        """
class GraphFile:
    """
    A .tsim file, whose header is read once.
    """
    def __init__(self, path: str) -> None:
        ...
    def graph(self) -> Graph:
        """
        The graph; weights stay in the file.
        """
    def rest(self) -> str:
        """
        The header without graph and program, as JSON.
        """
    @property
    def compiled(self) -> bool:
        ...
class Builder:
    """
    Builds one function of a graph, operation by operation. Values are integers; -1 is an absent operand.
    """
    def __init__(self, graph: Graph, name: str = 'main') -> None:
        ...
    def adopt(self, graph: Graph, name: str) -> int:
        """
        A weight of another graph, under its name; its elements are not copied.
        """
    def alias(self, output: typing.SupportsInt | typing.SupportsIndex, input: typing.SupportsInt | typing.SupportsIndex) -> None:
        """
        Output number `output` overwrites input number `input`.
        """
    def annotate(self, value: typing.SupportsInt | typing.SupportsIndex, sharding: str) -> bool:
        """
        Says how a value is divided, as text; the first that is said stays. Whether it is this one.
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
    def set_devices(self, mesh: str, devices: typing.SupportsInt | typing.SupportsIndex) -> None:
        """
        The mesh that shardings are about ("": none), and how many devices run the graph together.
        """
    def set_source(self, source: str) -> None:
        """
        Place in the user's model of the operations that follow.
        """
    def transpose(self, x: typing.SupportsInt | typing.SupportsIndex, permutation: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex]) -> int:
        """
        Axis i of the result is axis permutation[i] of x.
        """
    def type(self, value: typing.SupportsInt | typing.SupportsIndex) -> tuple[str, tuple]:
        """
        (dtype, shape) of a value.
        """
    def weight(self, name: str, data: typing.Any = None, dtype: str = 'f32', shape: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex] = [], seed: typing.SupportsInt | typing.SupportsIndex = 0, scale: typing.SupportsFloat | typing.SupportsIndex = 0.05, offset: typing.SupportsFloat | typing.SupportsIndex = 0.0, path: str = '', byte_offset: typing.SupportsInt | typing.SupportsIndex = 0, trainable: bool = True, share: bool = False) -> int:
        """
        A weight: from an array, from a file (path), or random: uniform in offset ± scale. Equal names share it. share: refer to the array's memory (row-major arrays) instead of copying it.
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
    def only(self, sort: str) -> Machine:
        """
        A machine with the cores of one sort alone.
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
    def host(self) -> dict:
        """
        The host: device, and bytes_per_second and latency_ps of the link to it.
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
    def sorts(self) -> dict:
        """
        Sort of cores -> its cores' numbers; empty where all are alike.
        """
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
    def check(text: str, source: str, schema: str) -> None:
        """
        UserError with file, line and path for an invalid result: by its schema, and by sums that must agree.
        """
    @staticmethod
    def from_json(text: str) -> Result:
        """
        Reads the JSON form.
        """
    def counts(self) -> list[tuple[str, str, str, str, float]]:
        """
        What takes energy: part, item, level, operation (empty: none caused it), number.
        """
    def data(self) -> dict:
        """
        The JSON form as dicts and lists.
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
class Turns:
    """
    One result from parts that take turns: a machine's, its host's, the link's.
    """
    def __init__(self, hertz: typing.SupportsInt | typing.SupportsIndex, timeline: bool) -> None:
        """
        hertz: of the machine's clock; timeline: record intervals of host and link.
        """
    def elsewhere(self, unit: str, name: str, picoseconds: typing.SupportsInt | typing.SupportsIndex, operation: str, load_bytes: typing.SupportsInt | typing.SupportsIndex = 0, store_bytes: typing.SupportsInt | typing.SupportsIndex = 0, work: typing.SupportsFloat | typing.SupportsIndex = 0.0) -> None:
        """
        The host's turn (unit "host") or the "link"'s.
        """
    def finish(self) -> Result:
        """
        The result; program, machine, hashes and configuration are the caller's.
        """
    def part(self, result: Result) -> None:
        """
        The machine's turn.
        """
class MappingSpace:
    """
    All combinations of tile sizes, orders and depths of one product.
    """
    def at(self, index: typing.SupportsInt | typing.SupportsIndex) -> dict:
        """
        The combination with this number.
        """
    def count(self) -> float:
        """
        Combinations, legal or not.
        """
    def cut(self, nest: dict, choice: typing.SupportsInt | typing.SupportsIndex) -> dict:
        """
        The nest with its tiles in the pieces of this choice.
        """
    def neighbours(self, nest: dict) -> list:
        """
        Nests that differ in one choice.
        """
    def sample(self, seed: typing.SupportsInt | typing.SupportsIndex) -> dict:
        """
        A combination drawn by a generator with this seed.
        """
    @property
    def depths(self) -> list[list[int]]:
        """
        Buffers of a, b and the result.
        """
    @property
    def orders(self) -> list[list[int]]:
        """
        Loops, outer to inner.
        """
    @property
    def packs(self) -> list[int]:
        """
        Loop over the array's rows together with the innermost contracted one; -1: none.
        """
    @property
    def pieces(self) -> list[list[int]]:
        """
        Pieces in which a tile moves, per loop; first: whole tiles.
        """
    @property
    def tiles(self) -> list[list[int]]:
        """
        Per dim, ascending.
        """
class VectorProblem:
    """
    What one vector kernel asks of its tiles, on one machine.
    """
    def cost(self, tiles: dict) -> dict:
        """
        Bytes and transfers, cycles of the vector unit, and an estimate of all cycles.
        """
    def legal(self, tiles: dict) -> tuple[bool, str]:
        """
        (whether it is legal, which rule is broken and by how much)
        """
    def plan(self, tiles: dict) -> typing.Any:
        """
        Loops (axis, trips), buffers (name, dtype, elements, depth), whether tiles are permuted and the pieces until one may be used, of a kernel that moves data from known places; None of others.
        """
    def scratchpad_bytes(self, tiles: dict) -> int:
        """
        Bytes of scratchpad that the tiles take.
        """
    def search(self, keep: typing.SupportsInt | typing.SupportsIndex = 1) -> list:
        """
        The tiles with the least estimates, best first, with their cost.
        """
    def vector_plan(self, tiles: dict) -> dict:
        """
        Loops outer to inner (name, trips), pieces per axis and buffers per operand, of a kernel that computes.
        """
    def walk(self, tiles: dict) -> float:
        """
        Cycles by walking the tiles of a kernel that moves data.
        """
    @property
    def info(self) -> dict:
        """
        Space, reduced axes, lanes, operands and functions per point.
        """
class MappingProblem:
    """
    What one product asks of a mapping, on one machine.
    """
    def bound(self, nest: dict) -> float:
        """
        Cycles in closed form, never above those of walking the tiles.
        """
    def cost(self, nest: dict) -> dict:
        """
        Bytes and transfers of a, b, result; cycles in closed form and by walking the tiles.
        """
    def heuristic(self) -> dict:
        """
        The nest that the rule 'heuristic' chooses.
        """
    def legal(self, nest: dict) -> tuple[bool, str]:
        """
        (whether it is legal, which rule is broken and by how much)
        """
    def plan(self, nest: dict) -> dict:
        """
        Loops (name, trips) and, of a, b and the sums, the buffers that the kernel will have.
        """
    def price_rate(self, count: typing.SupportsInt | typing.SupportsIndex) -> float:
        """
        Legality and closed forms per second over a random sample of legal nests.
        """
    def scratchpad_bytes(self, nest: dict) -> int:
        """
        Bytes of scratchpad that the nest takes.
        """
    def search(self, keep: typing.SupportsInt | typing.SupportsIndex = 1, most_priced: typing.SupportsInt | typing.SupportsIndex = 60000, most_walked: typing.SupportsInt | typing.SupportsIndex = 96) -> dict:
        """
        The fastest nests by the cost model: best, lower_bound, gap, priced, walked, complete.
        """
    def space(self, sizes: str = 'aligned') -> MappingSpace:
        """
        The space of nests; sizes: 'aligned', 'all' or 'divisors'.
        """
    @property
    def info(self) -> dict:
        """
        Dims, dtypes, shapes, layouts and access maps.
        """
class Program:
    """
    A tile program.
    """
    @staticmethod
    def from_file(file: GraphFile) -> Program:
        """
        The program of a .tsim file; raises UserError with line and path.
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
    def check_races(self) -> None:
        """
        Checks that each use waits for what it uses, among the first 20,000 statements; raises UserError.
        """
    def contents(self) -> tuple:
        """
        Tile operations executed (loops of unknown length once), whether cores send to each other, and function, name and operations of every kernel.
        """
    def data_reads(self) -> list:
        """
        Tensors whose values timing reads (of a function's own names also what calls pass for them): name, whether only transfers go through it, function and operations of the kernel.
        """
    def footprint(self) -> list[tuple[int, str]]:
        """
        Bytes (with the padding of layouts) and name of every tensor that is not an alias, largest first.
        """
    def memory_plan(self, granule: typing.SupportsInt | typing.SupportsIndex) -> tuple:
        """
        Kernels, bytes at the peak and of the largest live set, whether tensors share bytes, and of each tensor name, address, bytes, first and last kernel, and the one in whose bytes it lies.
        """
    def save(self, path: str, graph: Graph, header: str) -> None:
        """
        Writes .tsim: graph, program, and a JSON header of what else there is.
        """
    def step_that_stores(self, tensor: str) -> typing.Any:
        """
        The step that makes a tensor, as a separate program, with its function and operations; none: nothing stores it.
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
class IsaSet:
    """
    Instructions that a hart knows: a value.
    """
    def __init__(self) -> None:
        ...
    def check(self, core: str) -> None:
        """
        Rejects instructions whose unit is missing in the core.
        """
    def coded(self) -> list:
        """
        The instructions of an NPU core and the user's, with the fields of their operands.
        """
    def extend(self, declared: dict, function: typing.Any) -> IsaSet:
        """
        A set with one more instruction.
        """
class IsaProgram:
    """
    A program in the memory of a hart.
    """
    def __init__(self, image: dict, vlen: typing.SupportsInt | typing.SupportsIndex, root: str = '', seed: typing.SupportsInt | typing.SupportsIndex = 0, streams: str = 'kkk', input: bytes = b'', set: IsaSet | None = None, max_memory: typing.SupportsInt | typing.SupportsIndex = 4294967296) -> None:
        """
        `streams`: where standard input, output and errors go: k(ept), o(wn), c(losed).
        """
    def allocate(self, arg0: typing.SupportsInt | typing.SupportsIndex) -> int:
        ...
    def be(self, machine: Machine) -> None:
        ...
    def call(self, function: typing.SupportsInt | typing.SupportsIndex, limit: typing.SupportsInt | typing.SupportsIndex) -> dict:
        ...
    def f(self, arg0: typing.SupportsInt | typing.SupportsIndex) -> int:
        ...
    def keep_intervals(self, limit: typing.SupportsInt | typing.SupportsIndex, functions: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex]) -> None:
        ...
    def keep_log(self, limit: typing.SupportsInt | typing.SupportsIndex) -> None:
        ...
    def make_bare(self, arg0: typing.SupportsInt | typing.SupportsIndex) -> None:
        ...
    def place(self, address: typing.SupportsInt | typing.SupportsIndex, bytes: bytes) -> None:
        ...
    def read(self, address: typing.SupportsInt | typing.SupportsIndex, count: typing.SupportsInt | typing.SupportsIndex) -> bytes:
        ...
    def run(self, limit: typing.SupportsInt | typing.SupportsIndex) -> dict:
        ...
    def set_f(self, arg0: typing.SupportsInt | typing.SupportsIndex, arg1: typing.SupportsInt | typing.SupportsIndex) -> None:
        ...
    def set_ones(self, arg0: bool) -> None:
        ...
    def set_stack(self, arg0: typing.SupportsInt | typing.SupportsIndex) -> None:
        ...
    def set_x(self, arg0: typing.SupportsInt | typing.SupportsIndex, arg1: typing.SupportsInt | typing.SupportsIndex) -> None:
        ...
    def start(self, arg0: collections.abc.Sequence[str]) -> None:
        ...
    def time(self, core: str, file: str = 'core') -> None:
        ...
    def x(self, arg0: typing.SupportsInt | typing.SupportsIndex) -> int:
        ...
    @property
    def cycles(self) -> int | None:
        ...
    @property
    def element_operations(self) -> int:
        ...
    @property
    def errors(self) -> bytes:
        ...
    @property
    def instructions(self) -> int:
        ...
    @property
    def intervals(self) -> dict:
        ...
    @property
    def log(self) -> dict:
        ...
    @property
    def marks(self) -> list:
        ...
    @property
    def output(self) -> bytes:
        ...
    @property
    def profile(self) -> list:
        ...
    @property
    def units(self) -> dict:
        ...
    @property
    def vector_instructions(self) -> int:
        ...
    @property
    def work(self) -> dict:
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
class AttentionModel:
    """
    Closed-form time of attention calls by one kernel.
    """
    def __init__(self, device: collections.abc.Mapping[str, typing.SupportsFloat | typing.SupportsIndex], constants: collections.abc.Mapping[str, typing.SupportsFloat | typing.SupportsIndex]) -> None:
        """
        device: padded (1: blocks as large as those of a library's kernels; 0: as the operands), units, clock (Hz), memory_bytes_per_second, flops_per_second of the arithmetic, cache_bytes of an element of keys and values.
        """
    def terms(self, batch: typing.Annotated[numpy.typing.ArrayLike, numpy.float64], queries: typing.Annotated[numpy.typing.ArrayLike, numpy.float64], keys: typing.Annotated[numpy.typing.ArrayLike, numpy.float64], heads: typing.Annotated[numpy.typing.ArrayLike, numpy.float64], key_heads: typing.Annotated[numpy.typing.ArrayLike, numpy.float64], depth: typing.Annotated[numpy.typing.ArrayLike, numpy.float64], window: typing.Annotated[numpy.typing.ArrayLike, numpy.float64], causal: bool = True, decode: AttentionModel | None = None) -> numpy.ndarray:
        """
        Seconds of every term per row, shape [count, terms]; decode: the kernel for one query, where it is faster.
        """
class ConvolutionModel:
    """
    Closed-form time of square convolutions.
    """
    def __init__(self, direct: GemmModel, plain: GemmModel, bytes_per_second: typing.SupportsFloat | typing.SupportsIndex, constants: collections.abc.Mapping[str, typing.SupportsFloat | typing.SupportsIndex]) -> None:
        """
        direct, plain: products with taps and without; bytes_per_second: that transforms and layouts see.
        """
    def terms(self, batch: typing.Annotated[numpy.typing.ArrayLike, numpy.float64], channels: typing.Annotated[numpy.typing.ArrayLike, numpy.float64], filters: typing.Annotated[numpy.typing.ArrayLike, numpy.float64], size: typing.Annotated[numpy.typing.ArrayLike, numpy.float64], kernel: typing.Annotated[numpy.typing.ArrayLike, numpy.float64], stride: typing.Annotated[numpy.typing.ArrayLike, numpy.float64], padding: typing.Annotated[numpy.typing.ArrayLike, numpy.float64]) -> numpy.ndarray:
        """
        Seconds of every term per row, shape [count, terms].
        """
class StreamModel:
    """
    Closed-form time of what streams over memory.
    """
    def __init__(self, device: collections.abc.Mapping[str, typing.SupportsFloat | typing.SupportsIndex], constants: collections.abc.Mapping[str, typing.SupportsFloat | typing.SupportsIndex]) -> None:
        """
        device: units, memory_bytes_per_second, shared_bytes, shared_bytes_per_second, lanes_per_second.
        """
    def once(self, bytes: typing.SupportsFloat | typing.SupportsIndex, operations: typing.SupportsFloat | typing.SupportsIndex, rows: typing.SupportsFloat | typing.SupportsIndex) -> typing.Annotated[list[float], "FixedSize(5)"]:
        """
        Seconds of every term of one call from memory.
        """
    def terms(self, rows: typing.Annotated[numpy.typing.ArrayLike, numpy.float64], width: typing.Annotated[numpy.typing.ArrayLike, numpy.float64], tensors: typing.SupportsFloat | typing.SupportsIndex, bytes: typing.SupportsFloat | typing.SupportsIndex, operations: typing.SupportsFloat | typing.SupportsIndex, by_row: bool) -> numpy.ndarray:
        """
        Seconds of every term of repeated calls per row, shape [count, terms].
        """
class Costs:
    """
    Seconds of operations in closed form.
    """
    def __init__(self, rows: collections.abc.Sequence[tuple]) -> None:
        """
        Of rows as `rows` gives them, one after another.
        """
    def result(self, program: str, device: str, hertz: typing.SupportsInt | typing.SupportsIndex) -> Result:
        """
        Operations one after another, as a Result.
        """
    def rows(self) -> list:
        """
        Per operation: name, kind, seconds, terms, bytes, flops, scheme, model, hits, occupancy.
        """
    @property
    def missing(self) -> list[tuple[str, str]]:
        """
        Form and dtype of what the model has to be given first; the rest is of no use until it is empty.
        """
    @property
    def notes(self) -> list[str]:
        """
        What was approximated, sorted.
        """
    @property
    def refused(self) -> typing.Any:
        """
        Name, kind and reason of the first operation that cannot run.
        """
    @property
    def seconds(self) -> numpy.typing.NDArray[numpy.float64]:
        """
        Per operation.
        """
class OperationModel:
    """
    Closed forms of a graph's operations on one device.
    """
    def __init__(self, units: typing.SupportsFloat | typing.SupportsIndex, memory_bytes_per_second: typing.SupportsFloat | typing.SupportsIndex, convolves: bool, lanes: collections.abc.Mapping[str, typing.SupportsFloat | typing.SupportsIndex], copy: collections.abc.Mapping[str, typing.SupportsFloat | typing.SupportsIndex], softmax: collections.abc.Mapping[str, typing.SupportsFloat | typing.SupportsIndex], norm: collections.abc.Mapping[str, typing.SupportsFloat | typing.SupportsIndex]) -> None:
        """
        convolves: whether its library has convolutions; lanes: operations per second by dtype; constants of streams.
        """
    def give_attention(self, dtype: str, prefill: AttentionModel, decode: AttentionModel, scheme: str) -> None:
        """
        Attention on a dtype.
        """
    def give_convolution(self, dtype: str, model: ConvolutionModel, scheme: str) -> None:
        """
        Square convolutions of the library on a dtype.
        """
    def give_lacking(self, form: str, dtype: str, reason: str) -> None:
        """
        What the device cannot run, and why.
        """
    def give_product(self, form: str, dtype: str, model: GemmModel, scheme: str, note: str, flops_per_second: typing.SupportsFloat | typing.SupportsIndex) -> None:
        """
        Products with weights, or of activations.
        """
    def price(self, graph: Graph) -> Costs:
        """
        Costs of a graph's operations one after another.
        """
class HostCosts:
    """
    Seconds of operations on a host.
    """
    @property
    def missing(self) -> list[tuple[str, str]]:
        """
        As of Costs.
        """
    @property
    def notes(self) -> list[str]:
        """
        What was approximated: behind an operation's name, or a kind's.
        """
    @property
    def seconds(self) -> list[tuple[str, float]]:
        """
        Name and seconds of the entry's operations.
        """
class Sides:
    """
    Operations that run on a machine or on its host.
    """
    def __init__(self, items: collections.abc.Sequence[tuple[collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex], collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex], typing.SupportsInt | typing.SupportsIndex | None, typing.SupportsInt | typing.SupportsIndex | None]], values: collections.abc.Sequence[tuple[typing.SupportsInt | typing.SupportsIndex, bool]], bytes_per_second: typing.SupportsInt | typing.SupportsIndex, latency: typing.SupportsInt | typing.SupportsIndex) -> None:
        """
        items: values read and made (numbers), picoseconds on machine and host (none: cannot); values: bytes, and whether the whole gives them; higher numbers are of what lies on both sides.
        """
    def cheapest(self) -> list[bool]:
        """
        By item whether it runs on the host: the least time, and of those placements one with the fewest transfers.
        """
    def crossings(self, host: collections.abc.Sequence[bool]) -> list[tuple[int, bool]]:
        """
        Value, and whether it goes to the host, of every transfer.
        """
    def turns(self, host: collections.abc.Sequence[bool]) -> list[tuple[bool, list[int]]]:
        """
        Whether it is the host's, and its items, of every turn.
        """
class NetworkTopology:
    """
    Routers, links, nodes and the routing table of an on-chip network.
    """
    @staticmethod
    def crossbar(nodes: typing.SupportsInt | typing.SupportsIndex) -> NetworkTopology:
        """
        One router between 1 to 1024 nodes.
        """
    @staticmethod
    def from_json(text: str, source: str = 'text') -> NetworkTopology:
        """
        Any graph: JSON text of schema tilesim.network. UserError with the place in `source`.
        """
    @staticmethod
    def in_regions(region: NetworkTopology, regions: typing.SupportsInt | typing.SupportsIndex, links: typing.SupportsInt | typing.SupportsIndex = 1, latency: typing.SupportsInt | typing.SupportsIndex = 1, per_flit: typing.SupportsInt | typing.SupportsIndex = 1, per_cycle: typing.SupportsInt | typing.SupportsIndex = 1, buffer_flits: typing.SupportsInt | typing.SupportsIndex = 0) -> NetworkTopology:
        """
        A copy of a network for each region, `links` side by side from each to each other one; a flit takes per_flit / per_cycle cycles of a link. UserError for rings, tori and too few nodes.
        """
    @staticmethod
    def mesh(extents: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex], concentration: typing.SupportsInt | typing.SupportsIndex = 1, link_latency: typing.SupportsInt | typing.SupportsIndex = 1) -> NetworkTopology:
        """
        Mesh of the given extents, `concentration` nodes at each router; links of `link_latency` cycles. UserError for an extent below 1 or more than 4096 nodes.
        """
    @staticmethod
    def torus(extents: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex], link_latency: typing.SupportsInt | typing.SupportsIndex = 2) -> NetworkTopology:
        """
        Torus (one extent: ring); links of `link_latency` cycles. UserError for an extent below 2.
        """
    @staticmethod
    def tree(arity: typing.SupportsInt | typing.SupportsIndex, levels: typing.SupportsInt | typing.SupportsIndex, link_latency: typing.SupportsInt | typing.SupportsIndex = 1) -> NetworkTopology:
        """
        Tree of routers with `arity` children each; arity^levels nodes at the leaves.
        """
    @property
    def extents(self) -> list[int]:
        """
        Digits of a node's number, lowest first.
        """
    @property
    def link_cycles_per_flit(self) -> list[float]:
        """
        Cycles for which a flit takes each link; 1 but where a link is slower.
        """
    @property
    def links(self) -> list[tuple[int, int, int]]:
        """
        (from router, to router, latency in cycles) of each directed link.
        """
    @property
    def name(self) -> str:
        """
        Such as 'mesh_8x8'.
        """
    @property
    def node_routers(self) -> list[int]:
        """
        Router of each node.
        """
    @property
    def nodes(self) -> int:
        """
        Number of nodes.
        """
    @property
    def routers(self) -> int:
        """
        Number of routers.
        """
    @property
    def routing(self) -> str:
        """
        How the routing table came about.
        """
class NetworkRouter:
    """
    Virtual channels, buffers and delays of every router.
    """
    def __init__(self, virtual_channels: typing.SupportsInt | typing.SupportsIndex = 4, buffer_flits: typing.SupportsInt | typing.SupportsIndex = 8, switch_cycles: typing.SupportsInt | typing.SupportsIndex = 1, credit_cycles: typing.SupportsInt | typing.SupportsIndex = 1, classes: collections.abc.Sequence[tuple[str, typing.SupportsInt | typing.SupportsIndex, typing.SupportsInt | typing.SupportsIndex]] = []) -> None:
        """
        `classes`: (name, first VC, VCs) of each message class; empty: one class that uses all.
        """
class SimpleNetwork:
    """
    Ports and buffers of the simple network.
    """
    def __init__(self, flits_per_cycle: typing.SupportsInt | typing.SupportsIndex = 1, buffer_flits: typing.SupportsInt | typing.SupportsIndex = 64) -> None:
        """
        Flits per cycle of a node's port, in and out; flits that a destination has place for.
        """
class NetworkMeasurement:
    """
    What a network did under synthetic traffic.
    """
    @property
    def accepted(self) -> float:
        """
        Flits delivered per node and cycle.
        """
    @property
    def cycles(self) -> int:
        """
        Simulated cycles, all phases.
        """
    @property
    def flit_hops(self) -> int:
        """
        Number of flits times routers, all phases.
        """
    @property
    def hops(self) -> float:
        """
        Mean number of routers passed.
        """
    @property
    def link_flits(self) -> list[int]:
        """
        Flits per link, all phases.
        """
    @property
    def longest_latency(self) -> int:
        """
        Cycles of the slowest measured packet.
        """
    @property
    def network_latency(self) -> float:
        """
        The same from the head's departure.
        """
    @property
    def packet_latency(self) -> float:
        """
        Mean cycles from creation to the tail's arrival.
        """
    @property
    def packets(self) -> int:
        """
        Number of measured packets.
        """
    @property
    def reply_latency(self) -> float:
        """
        Mean cycles of the answers alone.
        """
    @property
    def seconds(self) -> float:
        """
        Wall time of the run in seconds.
        """
    @property
    def stable(self) -> bool:
        """
        False: saturated.
        """
class Network:
    """
    A network in progress, in cycles of its clock.
    """
    def advance(self, until: typing.SupportsInt | typing.SupportsIndex) -> None:
        """
        Runs the cycles before `until`.
        """
    def advance_to_delivery(self, limit: typing.SupportsInt | typing.SupportsIndex) -> int:
        """
        Runs until something is delivered or `limit`; returns `now`.
        """
    def inject(self, source: typing.SupportsInt | typing.SupportsIndex, destination: typing.SupportsInt | typing.SupportsIndex, flits: typing.SupportsInt | typing.SupportsIndex, cycle: typing.SupportsInt | typing.SupportsIndex, message_class: typing.SupportsInt | typing.SupportsIndex = 0, tag: typing.SupportsInt | typing.SupportsIndex = 0) -> None:
        """
        Puts a packet into its source's queue at `cycle`, not before `now`.
        """
    def take_deliveries(self) -> list:
        """
        (tag, source, destination, created, sent, delivered, routers passed) since the last call, in cycles.
        """
    @property
    def flit_hops(self) -> int:
        """
        Number of flits times routers so far.
        """
    @property
    def idle(self) -> bool:
        """
        No packet anywhere.
        """
    @property
    def link_flits(self) -> list[int]:
        """
        Flits per link so far.
        """
    @property
    def now(self) -> int:
        """
        The next cycle to run.
        """
class DramPart:
    """
    A DRAM part's description, checked on load.
    """
    @staticmethod
    def from_json(text: str, source: str = 'text') -> DramPart:
        """
        Parses the JSON form; raises UserError with line and path.
        """
    @staticmethod
    def read_file(path: str) -> DramPart:
        """
        Reads a part's file.
        """
    def check_mapping(self, mapping: str, bank_hash: str = 'none') -> None:
        """
        UserError if a mapping's fields do not cover the part's addresses.
        """
    def hash(self) -> str:
        """
        Hash of the resolved part.
        """
    def to_json(self) -> str:
        """
        The resolved JSON form.
        """
    def with_controller(self, settings: str) -> DramPart:
        """
        A copy with controller settings replaced: JSON text of an object.
        """
    @property
    def banks(self) -> int:
        ...
    @property
    def burst_bytes(self) -> int:
        ...
    @property
    def bytes_per_second(self) -> float:
        ...
    @property
    def capacity_bytes(self) -> int:
        ...
    @property
    def clock_ps(self) -> int:
        ...
    @property
    def description(self) -> str:
        ...
    @property
    def name(self) -> str:
        ...
    @property
    def sources(self) -> dict[str, str]:
        ...
    @property
    def standard(self) -> str:
        ...
class LatencyBook:
    """
    Tile latencies of one source.
    """
    def __init__(self, source: str) -> None:
        ...
    def entries(self) -> dict:
        """
        All latencies by compute.
        """
    def put(self, compute: str, latency: dict) -> None:
        """
        Adds or replaces the latency of a compute, in cycles.
        """
    @property
    def counts(self) -> dict[str, int]:
        """
        Executions by compute, of source instruction.
        """
    @property
    def hits(self) -> int:
        """
        Lookups that found an entry.
        """
    @property
    def memory_hits(self) -> int:
        """
        Answers of the engine's own table in the last run.
        """
    @property
    def memory_misses(self) -> int:
        """
        What that table had to ask for in the last run.
        """
    @property
    def misses(self) -> int:
        """
        Lookups that found none.
        """
    @property
    def refused(self) -> dict[str, str]:
        """
        Computes without a kernel, and why.
        """
    @property
    def source(self) -> str:
        """
        What the latencies come from.
        """
class Session:
    """
    A simulation in progress with several jobs.
    """
    def __init__(self, machine: Machine, memory: str | None = None, dram: DramPart | None = None, network: str | None = None, topology: NetworkTopology | None = None, placement: collections.abc.Mapping[str, str] = {}, timeline: bool = False, resident: collections.abc.Sequence[str] = [], live: bool = False) -> None:
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
class ClusterNetwork:
    """
    The links between the devices of a cluster, from a JSON text.
    """
    def __init__(self, text: str, source: str = 'network') -> None:
        ...
    def busiest(self, requests: list) -> typing.Any:
        """
        Seconds per byte of the busiest link of a collective alone, and of all together; none where they share no link.
        """
    def dimension_of_link(self, link: typing.SupportsInt | typing.SupportsIndex) -> int:
        """
        The dimension of a link, -1 in a graph.
        """
    def loads(self, requests: list) -> list:
        """
        Of each collective the links that it takes, and the seconds of each that a byte takes: two arrays.
        """
    def price(self, requests: list, model: str, symmetry: bool, most: typing.SupportsInt | typing.SupportsIndex = 0) -> typing.Any:
        """
        Times of collectives that start together: a dict each; none where more than so many messages would be simulated (0: any number).
        """
    def route(self, source: typing.SupportsInt | typing.SupportsIndex, target: typing.SupportsInt | typing.SupportsIndex) -> list:
        """
        Links of a route: (node, node, bytes per second, latency in picoseconds, lanes) each.
        """
    def schedule(self, request: dict) -> dict:
        """
        Every transfer of a collective's algorithm.
        """
    def tried(self, request: dict) -> list:
        """
        What "auto" looks at for a collective alone: (algorithm, pieces, picoseconds) each.
        """
    @property
    def devices(self) -> int:
        """
        Number of devices.
        """
    @property
    def links(self) -> int:
        """
        Number of links, one per direction.
        """
class PipelineOrder:
    """
    An order of passes, listed behind those that they wait for.
    """
    @typing.overload
    def __init__(self, schedule: str, stages: typing.SupportsInt | typing.SupportsIndex, micros: typing.SupportsInt | typing.SupportsIndex, chunks: typing.SupportsInt | typing.SupportsIndex, before: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex], after: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex]) -> None:
        """
        Of a named schedule; before, after: per place, chunk x stages + stage, the one that a micro-batch comes from and goes to, -1: none.
        """
    @typing.overload
    def __init__(self, rows: collections.abc.Sequence[typing.Annotated[numpy.typing.ArrayLike, numpy.int32]], micros: typing.SupportsInt | typing.SupportsIndex, chunks: typing.SupportsInt | typing.SupportsIndex, before: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex], after: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex]) -> None:
        """
        Carries out custom rows of passes, in the form of `pipeline_order`.
        """
    def ends(self, times: typing.Annotated[numpy.typing.ArrayLike, numpy.int64], transfer: typing.SupportsInt | typing.SupportsIndex) -> list:
        """
        Of one step, the end of each pass, per stage.
        """
    def run(self, times: typing.Annotated[numpy.typing.ArrayLike, numpy.int64], transfer: typing.SupportsInt | typing.SupportsIndex) -> tuple:
        """
        When each stage begins and ends, two arrays [stages, steps]; times: picoseconds [4 x places, steps], of forward passes, input gradients, weight gradients, both gradients.
        """
    @property
    def passes(self) -> int:
        """
        How many come to be done.
        """
    @property
    def reached(self) -> list[int]:
        """
        Passes of each stage that come to be done: fewer than all where stages wait for each other.
        """
def annotate_results(graph: Graph, inputs: collections.abc.Sequence[str], results: collections.abc.Sequence[tuple[typing.SupportsInt | typing.SupportsIndex, typing.SupportsInt | typing.SupportsIndex, collections.abc.Sequence[str]]]) -> None:
    """
    Says shardings of the inputs, and of results by (function, operation, shardings): what is not said is whole.
    """
def attention_constants() -> list:
    """
    Constants of the attention model: name, default, low, high, unit.
    """
def attention_term_names() -> list[str]:
    """
    Columns of AttentionModel.terms.
    """
def check_attention_data(graph: Graph, data: dict) -> None:
    """
    Rejects lengths beyond their cache and unknown pages.
    """
def closed_form_latency(machine: Machine, compute: str) -> dict:
    """
    What the closed form says of a tile compute, in cycles.
    """
def cluster_check_schedule(schedule: dict) -> None:
    """
    Runs an algorithm on sets of contributions; an error where it is wrong.
    """
def compile(graph: Graph, machine: Machine, fuse: str = 'all', mappings: collections.abc.Mapping[str, dict] = {}, mapping: str = 'profile', only: str = '', cores: typing.SupportsInt | typing.SupportsIndex = 0, contexts: typing.SupportsInt | typing.SupportsIndex = 0, groups: list | None = None, residency: str = 'none', levels: collections.abc.Mapping[str, str] = {}, layout: str = 'auto', counted: typing.Any = None, timed: bool = False, unused: dict | None = None, notes: collections.abc.Sequence[str] = []) -> Program:
    """
    Lowers a graph for a machine. mappings: operation name -> {tiles, order, depths, unit}, tile sizes in elements;
    mapping: how other products are mapped, one of mapping_strategies(); only: lower just this kernel, to time it alone;
    cores: that share the work, 0 for all; contexts: of a core, that share every kernel without a given mapping;
    fuse: "all", "none" or names of rules with commas between; groups: a list that gets a row for each group looked at.
    residency: auto or none, values between kernels that stay in scratchpads; levels: name of a value -> memory or scratchpad; layout: "auto", or "given" for tensors in their own order of axes; counted: called with kernels done and all, at most 20 times a second; timed: of a small program the fastest of several, by simulation; unused: a dict that gets products whose tiles of zeros are still multiplied, with a note each; notes: the first ones of the program.
    Raises Unsupported, with operation, function and lack, for what the machine cannot run, and UserError when no tile fits the scratchpad.
    """
def convert_array(array: typing.Any, dtype: str, rounding: str = 'nearest_even', saturate: bool = False) -> numpy.ndarray:
    """
    Converts an array of any shape, rounding once ('nearest_even' or 'toward_zero'). Beyond the target's range: as the format defines (infinity, NaN, integers wrap), or clamped with `saturate`.
    """
def convolution_constants() -> list:
    """
    Constants of the model of convolutions beside those of products.
    """
def convolution_term_names() -> list[str]:
    """
    Columns of ConvolutionModel.terms.
    """
def count_trips(graph: Graph, trips: collections.abc.Sequence[tuple[str, str, typing.SupportsInt | typing.SupportsIndex, bool]]) -> None:
    """
    Gives loops, by function and operation, a number of trips, in place; True: the most, later ones keep the state.
    """
def describe_compute(compute: str) -> dict:
    """
    The parts of a tile compute's text.
    """
def dram_parse_trace(text: str, source: str) -> tuple[numpy.typing.NDArray[numpy.uint64], numpy.typing.NDArray[numpy.uint8], numpy.typing.NDArray[numpy.int64]]:
    """
    Addresses, write flags and cycles (empty: none given) of a trace file.
    """
def dram_run(part: DramPart, addresses: typing.Annotated[numpy.typing.ArrayLike, numpy.uint64], writes: typing.Annotated[numpy.typing.ArrayLike, numpy.uint8], cycles: typing.Annotated[numpy.typing.ArrayLike, numpy.int64], inject_every: typing.SupportsInt | typing.SupportsIndex, channels: typing.SupportsInt | typing.SupportsIndex, interleave_bytes: typing.SupportsInt | typing.SupportsIndex, channel_hash: str, mapping: str, hashes: str, wrap: bool, cache: str = '', tensors: str = '[]') -> dict:
    """
    Runs a trace on channels of a part.
    """
def dram_trace(name: str, requests: typing.SupportsInt | typing.SupportsIndex, burst: typing.SupportsInt | typing.SupportsIndex, span: typing.SupportsInt | typing.SupportsIndex) -> tuple[numpy.typing.NDArray[numpy.uint64], numpy.typing.NDArray[numpy.uint8]]:
    """
    Addresses and write flags by name.
    """
def draw_patterns(m: typing.SupportsInt | typing.SupportsIndex, n: typing.SupportsInt | typing.SupportsIndex, k: typing.SupportsInt | typing.SupportsIndex, a_density: typing.SupportsFloat | typing.SupportsIndex, b_density: typing.SupportsFloat | typing.SupportsIndex, seed: typing.SupportsInt | typing.SupportsIndex = 88172645463325252) -> tuple[numpy.typing.NDArray[numpy.bool], numpy.typing.NDArray[numpy.bool]]:
    """
    Patterns of a, then of b, from one xorshift stream (left 13, right 7, left 17), densities in whole percents.
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
def evaluate_devices(graph: Graph, inputs: collections.abc.Iterable, numerics: dict = {}) -> list:
    """
    Outputs per device of a graph that several devices run together, from inputs per device. Raises UserError where devices do not agree on a loop or branch with operations between them.
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
def execute(program: Program, inputs: dict, order: str = 'text', seed: typing.SupportsInt | typing.SupportsIndex = 0, find_races: bool = False, planned: bool = False, kernels: Machine | None = None) -> dict:
    """
    Runs a program on arrays by tensor name; returns outputs and final state.
    """
def expected_sparse_time(dataflow: str, settings: collections.abc.Mapping[str, typing.SupportsInt | typing.SupportsIndex], m: typing.SupportsInt | typing.SupportsIndex, n: typing.SupportsInt | typing.SupportsIndex, k: typing.SupportsInt | typing.SupportsIndex, a_nonzeros: typing.SupportsInt | typing.SupportsIndex, b_nonzeros: typing.SupportsInt | typing.SupportsIndex, hold_b: bool = False) -> dict[str, float]:
    """
    The same in expectation, from counts of nonzeros.
    """
def find_zero_tiles(graph: Graph, leave: collections.abc.Set[str] = set()) -> list[str]:
    """
    Adds tests of tiles of activations to the products that read them, in place; a line for each of them. leave: names of products that stay as they are.
    """
def flit_network(topology: NetworkTopology, router: NetworkRouter, seed: typing.SupportsInt | typing.SupportsIndex = 1) -> Network:
    """
    A network decided flit by flit. UserError if packets could wait for each other in a circle.
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
def fusion_rules() -> list:
    """
    Rules by which operations become one kernel: rule, matches, legal, saves, rounding.
    """
def gemm_constants() -> list:
    """
    Constants of the product model: name, default, low, high, unit.
    """
def gemm_term_names() -> list[str]:
    """
    Columns of GemmModel.terms.
    """
def gspmd_mesh(texts: collections.abc.Sequence[str], devices: typing.SupportsInt | typing.SupportsIndex) -> str:
    """
    A mesh whose axes express all of these GSPMD shardings. Raises Unsupported if no mesh can.
    """
def gspmd_shardings(text: str, mesh: str, ranks: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex]) -> list:
    """
    Per tensor its sharding (None: nothing is said) and, as the replicated axes of a text, those over which it is a device's own already.
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
def isa_assemble(text: str, address: typing.SupportsInt | typing.SupportsIndex = 0, set: IsaSet | None = None) -> tuple[bytes, dict[str, int]]:
    """
    Machine code of assembly text, and its labels.
    """
def isa_declare_operation(name: str, image: dict, function: typing.SupportsInt | typing.SupportsIndex, set: IsaSet, units: collections.abc.Sequence[tuple[str, typing.SupportsInt | typing.SupportsIndex, typing.SupportsInt | typing.SupportsIndex]], queue: str, reference: typing.Any, place: typing.Any) -> None:
    """
    Makes an operation known by its name.
    """
def isa_disassemble(bits: typing.SupportsInt | typing.SupportsIndex, address: typing.SupportsInt | typing.SupportsIndex = 0, set: IsaSet | None = None) -> str:
    """
    Text of one instruction, '.word' for an unknown one.
    """
def isa_functions(machine: Machine) -> dict:
    """
    Function -> what the instruction that kernels take for it does; None: that is not known.
    """
def isa_instructions(set: IsaSet | None = None) -> list:
    """
    All instructions of the standard table, or of a set.
    """
def isa_kernel(machine: Machine, compute: str, places: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex]) -> dict:
    """
    Code and listing of the kernel of a product or a permute whose operands lie at these (three) addresses, and their names and bytes.
    """
def isa_latency(machine: Machine, compute: str) -> dict:
    """
    What the kernel of a product or a permute takes on a machine's core, in cycles.
    """
def isa_loops(core: str, cases: collections.abc.Sequence[tuple[str, typing.SupportsInt | typing.SupportsIndex, typing.SupportsInt | typing.SupportsIndex, bool]], every_trip: bool = False, file: str = 'core') -> list:
    """
    Cycles per instruction of the measuring loop: for (text, SEW, log2 LMUL, vl is 1) each, or why they are missing.
    """
def isa_numbers() -> dict:
    """
    Numbers that instructions of an NPU core take: element types (with bits), functions, control registers.
    """
def isa_run_operation(name: str, machine: Machine, operands: list, results: list) -> tuple:
    """
    Results and cycles of an operation's kernel on a machine's core.
    """
def isa_time(core: str, text: str, sew: typing.SupportsInt | typing.SupportsIndex = 32, lmul: typing.SupportsInt | typing.SupportsIndex = 0, avl: typing.SupportsInt | typing.SupportsIndex = 18446744073709551615, times: typing.SupportsInt | typing.SupportsIndex = 1, set: IsaSet | None = None) -> dict:
    """
    Cycles of a list of instructions that are timed and not executed, and the time of its units.
    """
def isa_timing_classes() -> dict:
    """
    The timing class of each vector instruction.
    """
def isa_use(machine: Machine, function: str, declared: dict, meaning: typing.Any) -> Machine:
    """
    A machine whose kernels take an instruction for a function.
    """
def isa_version() -> str:
    """
    The version of kernels: of their generator, and of the instructions.
    """
def kinds() -> list:
    """
    The kinds of operations: operands, attributes with type and allowed values, results.
    """
def least_traffic(m: typing.SupportsInt | typing.SupportsIndex, n: typing.SupportsInt | typing.SupportsIndex, k: typing.SupportsInt | typing.SupportsIndex, words: typing.SupportsInt | typing.SupportsIndex, sizes: str = 'all') -> dict:
    """
    Least off-chip words of a product with one tile of each operand in a buffer of so many words.
    """
def link_picoseconds(bytes_per_second: typing.SupportsInt | typing.SupportsIndex, latency: typing.SupportsInt | typing.SupportsIndex, bytes: typing.SupportsInt | typing.SupportsIndex) -> typing.Any:
    """
    Time of one transfer, rounded up.
    """
def loop_trips(graph: Graph, inputs: collections.abc.Iterable) -> dict[tuple[str, str], tuple[int, int]]:
    """
    Fewest and most trips that each loop, by function and operation, makes on these inputs.
    """
def lower_bound(graph: Graph, machine: Machine, known: dict = {}) -> dict:
    """
    Least bytes and seconds, with those of every operation. known: lengths and page tables of attentions by name.
    """
def lower_bound_of_rates(graph: Graph, matrix: collections.abc.Mapping[str, typing.SupportsFloat | typing.SupportsIndex], vector: collections.abc.Mapping[str, typing.SupportsFloat | typing.SupportsIndex], memory_bytes_per_second: typing.SupportsFloat | typing.SupportsIndex, known: dict = {}) -> dict:
    """
    As lower_bound, for a device described only by its rates.
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
def mapping_choices(graph: Graph, machine: Machine, fuse: str = 'all', mapping: str = 'profile', contexts: typing.SupportsInt | typing.SupportsIndex = 1, each: typing.SupportsInt | typing.SupportsIndex = 0) -> tuple:
    """
    Products and vector kernels of a graph as compiled: function, operation, nest, and the mapping problem.
    """
def mapping_strategies() -> list[str]:
    """
    Names of the rules that choose a nest.
    """
def mark_sparse_products(graph: Graph, operations: collections.abc.Mapping[str, str], plan: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex], weights: dict) -> None:
    """
    Gives contracts of the entry a plan for sparse cores, and the graph the weights that belong to it.
    """
def mark_zero_tiles(graph: Graph, leave: collections.abc.Set[str] = set()) -> list[str]:
    """
    Adds to products with a weight that has tiles of zeros where these are, in place; a line for each of them. leave: names of products that stay as they are.
    """
def measure_network(topology: NetworkTopology, router: NetworkRouter, traffic: str, load: typing.SupportsFloat | typing.SupportsIndex, packet_flits: typing.SupportsInt | typing.SupportsIndex, seed: typing.SupportsInt | typing.SupportsIndex, period_cycles: typing.SupportsInt | typing.SupportsIndex = 10000, warmup_periods: typing.SupportsInt | typing.SupportsIndex = 3, most_periods: typing.SupportsInt | typing.SupportsIndex = 15, reply_flits: typing.SupportsInt | typing.SupportsIndex = 0, simple: SimpleNetwork | None = None) -> NetworkMeasurement:
    """
    Open-loop measurement with Bernoulli injection of `load` flits per node and cycle.
    """
def mesh_axes(text: str) -> tuple[list[tuple[str, int]], list[int]]:
    """
    Axes of a mesh as (name, size), and the device at each place (empty: counting).
    """
def mesh_text(text: str) -> str:
    """
    A mesh as Tilesim writes it: x=2, y=4.
    """
def mutants(program: Program, change: str = 'erase') -> list:
    """
    Programs with one synchronizing statement missing (erase), there twice (repeat) or one place later (delay), or
    with a wait for one piece less (fewer), and what that statement is.
    """
def network_destinations(topology: NetworkTopology, traffic: str, seed: typing.SupportsInt | typing.SupportsIndex = 1) -> list[int]:
    """
    One destination drawn for every source.
    """
def network_traffic_names() -> list[str]:
    """
    Names of synthetic traffic.
    """
def normalize_expr(text: str) -> str:
    """
    The simplified expression as text; parses back to an equal expression.
    """
def one_of_alike_devices(graph: Graph) -> list[str]:
    """
    Replaces operations between devices by what they give where all devices hold the same tensors, in place; their names.
    """
def open_loops(graph: Graph) -> list[tuple[str, str]]:
    """
    Function and operation of every loop whose number of trips only data know.
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
def partition_graph(graph: Graph) -> tuple:
    """
    A graph that names a mesh and shardings as (local graph, inputs, outputs, what was inserted and why). Raises UserError for shardings that do not fit.
    """
def partition_rules(graph: Graph) -> dict:
    """
    By operation of the entry function: its kind, and how each of its loop dimensions may be divided.
    """
def pipeline_order(schedule: str, stages: typing.SupportsInt | typing.SupportsIndex, micros: typing.SupportsInt | typing.SupportsIndex, chunks: typing.SupportsInt | typing.SupportsIndex) -> list:
    """
    The passes of each stage, rows of kind (0 forward, 1 input gradient, 2 weight gradient, 3 both), chunk and micro-batch.
    """
def poll_for(seconds: typing.SupportsFloat | typing.SupportsIndex, progress: typing.Any = None) -> int:
    """
    Polls for cancellation for so many seconds and returns how often; for tests of Ctrl-C.
    """
def prepared(graph: Graph, machine: Machine, cores: typing.SupportsInt | typing.SupportsIndex = 0, fuse: str = 'all', contexts: typing.SupportsInt | typing.SupportsIndex = 1, mapping: str = 'profile', mapped: collections.abc.Sequence[str] = [], attentions: collections.abc.Set[str] | None = None) -> Graph:
    """
    The graph that lowering works on: expanded and folded; its weights are the program's.
    """
def price_on_host(forms: OperationModel, matrix_flops_per_second: typing.SupportsFloat | typing.SupportsIndex, vector: collections.abc.Mapping[str, typing.SupportsFloat | typing.SupportsIndex], unit: str, graph: Graph) -> HostCosts:
    """
    Costs of the entry's operations on a host, each in a separate kernel; vector: rates of every dtype.
    """
def random_input(dtype: str, shape: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex], index: typing.SupportsInt | typing.SupportsIndex, range: tuple[typing.SupportsInt | typing.SupportsIndex, typing.SupportsInt | typing.SupportsIndex], seed: typing.SupportsInt | typing.SupportsIndex = 0) -> numpy.ndarray:
    """
    Random input `index` of a graph that need not be at hand, as random_inputs would draw it.
    """
def random_inputs(graph: Graph, seed: typing.SupportsInt | typing.SupportsIndex = 0) -> list:
    """
    Deterministic inputs of a graph: floats uniform in [-1, 1], integers small and legal as indices, random bools.
    """
def random_ranges(graph: Graph) -> list[tuple[int, int]]:
    """
    Pairs (first, end) that integers among a graph's random inputs lie in, input by input.
    """
def range_of_expr(text: str, ranges: collections.abc.Mapping[str, tuple[typing.SupportsInt | typing.SupportsIndex, typing.SupportsInt | typing.SupportsIndex]]) -> tuple[int, int]:
    """
    An interval (low, high), both ends included, around every value, from such intervals of the symbols.
    """
def read_file(path: str) -> bytes:
    """
    Bytes of a regular file. UserError with the system's reason, and for a directory, pipe or device.
    """
def recognise(graph: Graph, passes: collections.abc.Sequence[str]) -> list:
    """
    Recognises patterns by the passes named, in place; returns what was replaced: pass, function, operation, before, after, source. Raises UserError for an unknown name.
    """
def recognised_functions() -> list[str]:
    """
    Elementwise functions that the pass 'activations' knows spellings of.
    """
def recognition_passes() -> list[str]:
    """
    Names of the passes that recognise patterns, in order.
    """
def round_array(array: typing.Any, through: str) -> numpy.ndarray:
    """
    The values as f32, each rounded to a narrower float dtype or to 'tf32'.
    """
def sharding_division(sharding: str, mesh: str) -> tuple:
    """
    Parts of each axis, and per device the index of its part of each axis.
    """
def sharding_text(text: str) -> str:
    """
    A sharding as Shardy writes it.
    """
def shardy_module(graph: Graph) -> tuple:
    """
    A graph that names a mesh as (the graph with its calls opened, a module of Shardy's dialect about it). Raises UserError for shardings that do not fit.
    """
def share_array(array: typing.Any) -> numpy.ndarray:
    """
    The same array through the core and back: the same memory where it is row-major, aligned and native.
    """
def simple_network(topology: NetworkTopology, router: NetworkRouter, simple: SimpleNetwork) -> Network:
    """
    Latencies of the empty network, bandwidth of the nodes' ports, finite buffers; no contention inside.
    """
def simulate(program: Program, machine: Machine, memory: str | None = None, timeline: bool = False, tensors: dict = {}, shuffle_seed: typing.SupportsInt | typing.SupportsIndex = 0, extra_statistic: bool = False, dram: DramPart | None = None, network: str | None = None, topology: NetworkTopology | None = None, placement: collections.abc.Mapping[str, str] = {}, latencies: LatencyBook | None = None, cores: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex] = [], resident: collections.abc.Sequence[str] = [], sort_latencies: collections.abc.Mapping[str, LatencyBook] = {}, replay_beyond: typing.SupportsInt | typing.SupportsIndex | None = None, counted: typing.Any = None, kernels: bool = False, live: bool = False, expected: typing.Any = None) -> Result:
    """
    Runs a program in simulated time, on the first cores or those given; with more tile operations than `replay_beyond`, from its steady loops. `counted` is called with the tile operations done and all, at most 20 times a second; `expected` before each run with those that it simulates, and all.
    """
def sparse_tile_times(dataflow: str, settings: collections.abc.Mapping[str, typing.SupportsInt | typing.SupportsIndex], a: typing.Annotated[numpy.typing.ArrayLike, numpy.bool], b: typing.Annotated[numpy.typing.ArrayLike, numpy.bool], sizes: tuple[typing.SupportsInt | typing.SupportsIndex, typing.SupportsInt | typing.SupportsIndex, typing.SupportsInt | typing.SupportsIndex], hold_b: bool) -> tuple[numpy.typing.NDArray[numpy.int64], numpy.typing.NDArray[numpy.int64]]:
    """
    Cycles and multiply-adds of each tile of so many elements of m, n, k.
    """
def sparse_time(dataflow: str, settings: collections.abc.Mapping[str, typing.SupportsInt | typing.SupportsIndex], a: typing.Annotated[numpy.typing.ArrayLike, numpy.bool], b: typing.Annotated[numpy.typing.ArrayLike, numpy.bool], hold_b: bool = False) -> dict[str, float]:
    """
    Cycles and counts of [m, k] times [k, n] on a sparse core, from the patterns of both.
    """
def spread_graph(graph: Graph) -> Graph:
    """
    A graph that names a mesh with the sharding of every value. Raises UserError for shardings that do not fit.
    """
def stream_constants() -> list:
    """
    Constants of the model of streams: name, default, low, high, unit.
    """
def stream_term_names() -> list[str]:
    """
    Columns of StreamModel.terms.
    """
def time_operations(graph: Graph, inputs: collections.abc.Iterable, runs: typing.SupportsInt | typing.SupportsIndex = 1) -> list:
    """
    Runs a graph by the reference kernels `runs` times. Rows: function, operation, kind, calls (per run), seconds (of the
    fastest run, all calls together).
    """
def unit_roundoff(dtype: str) -> float:
    """
    Half the spacing just above 1 of a float dtype; 0 for integers and bool.
    """
def usual_attention_data(graph: Graph) -> dict:
    """
    Lengths and page tables that timing takes where none are given, by name.
    """
def verify(prepared: Graph, program: Program, machine: Machine, inputs: dict, exact: bool = True, kernels: bool = False) -> list:
    """
    Runs a program and compares every tensor that a kernel stores with the reference on the reference's
    operands; `exact`: also on values whose products and sums are exact. Rows: operation, tensor, elements,
    error, bound, ratio, largest, scale, worst position, ok, exact, integer_error, integer_ratio, rounds.
    """
__version__: str = '0.1.0'
