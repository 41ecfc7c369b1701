"""Interactive settings of a machine: sliders in a notebook, or calls."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..base.checked import checked, checked_class
from ..base.errors import UserError, shown, user_error
from ..base.extras import need
from ..base.table import Tabled
from ..graph import Graph
from ..loading import GraphLike, as_graph
from ..machine.machine import Machine, MachineLike
from ..machine.settings import SHORT, Setting, find_setting, shown_value
from ..results.result import Result, Table
from ..timing.options import CompileOptions, SimulateOptions, by_call
from ..timing.simulate import compile, simulate
from .page.play import page

__all__ = ["Play", "play"]

USUAL = (
    "core.count",
    "core.clock",
    "core.array.count",
    "core.array.rows",
    "core.array.columns",
    "core.vector.lanes",
    "core.scratchpad.bytes",
    "core.dma.bytes_per_cycle",
    "core.kernel_launch_cycles",
    "memory.bandwidth",
    "memory.latency",
)
"""Default sliders."""
_FACTORS = (
    1 / 32,
    1 / 16,
    1 / 8,
    1 / 4,
    1 / 2,
    3 / 4,
    1,
    3 / 2,
    2,
    3,
    4,
    8,
    16,
    32,
)  # factors on the machine's value
_FROM_ZERO = (0, 1, 3, 10, 30, 100, 300, 1000, 3000, 10_000, 30_000, 100_000)
_RATIOS = tuple(i / 20 for i in range(1, 21))


def positions(setting: Setting, value: Any, ends: tuple[float, float] | None = None) -> list[Any]:
    """Returns the values of a slider within the setting's range, in equal ratios if the setting has no natural step."""
    number = setting.number(value)
    if number is None:
        found = [False, True] if isinstance(value, bool) else list(setting.allowed)
        return found if value in found else [value, *found]
    assert setting.low is not None and setting.high is not None
    if setting.unit == "ratio" and setting.high <= 1:
        steps: Sequence[float] = _RATIOS
    elif number == 0:
        steps = [one * (1000 if setting.unit in ("time (s)", "energy (J)") else 1) for one in _FROM_ZERO]
    elif ends:
        steps, step = [], max(ends[0], setting.low, 1 if setting.unit != "ratio" else 1e-3)
        while step <= ends[1]:
            steps, step = [*steps, step], step * 2
        steps = [*steps, *ends]
    else:
        binary = setting.unit in ("count", "size (B)")
        steps = [number * one if binary else float(f"{number * one:.3g}") for one in _FACTORS]
    low, high = ends or (setting.low, setting.high)
    low, high = max(low, setting.low), min(high, setting.high)
    whole = setting.unit != "ratio"
    numbers = {float(round(one)) if whole else one for one in (*steps, number)}
    inside = sorted(one for one in numbers if (low <= one <= high) or one == number)
    return [value if one == number else setting.text(one) for one in inside]


@checked_class()
class Play(Tabled):
    """A workload on a machine with variable settings: each change compiles and simulates again."""

    def __init__(
        self,
        graph: Graph,
        machine: Machine,
        settings: Mapping[str, list[Any]],
        run: Callable[[Machine], Result],
    ) -> None:
        """Simulates the unchanged machine; `ts.study.play` calls this."""
        self.graph, self.start, self.settings = graph, machine, dict(settings)
        self.machine = machine
        """The machine of the last legal settings."""
        self.error = ""
        """The error of the current settings; "" if legal."""
        self.notes: list[str] = []
        """Requested sliders that are missing or shortened."""
        self._run, self._wanted = run, dict[str, Any]()
        begun = time.perf_counter()
        self.before = self.result = run(machine)
        """Results of the initial machine and of the last legal settings."""
        self.took = time.perf_counter() - begun
        """Duration of the last change in seconds."""

    def set(self, path: str, value: Any) -> Result | None:
        """Changes one setting and keeps earlier changes.

        Args:
            path: any setting, with or without a slider.
            value: the value as in a machine file.

        Returns:
            The new result; None if settings contradict or the machine cannot run the workload: then `error` has the
            reason, machine and result stay. An invalid value is discarded; a value that contradicts others is kept
            until they change too.
        """
        begun, full = time.perf_counter(), SHORT.get(path, path)
        wanted = {**self._wanted, full: value}
        try:
            find_setting(path)
            machine = self.start.replace(wanted)
            self._wanted = wanted
            result = self._run(machine)
        except UserError as error:
            self.error = str(error)
            if error.place and not error.place.startswith(full):
                self._wanted = wanted
            return None
        finally:
            self.took = time.perf_counter() - begun
        self.machine, self.result, self.error = machine, result, ""
        return result

    def reset(self) -> Result:
        """Returns to the initial machine.

        Returns:
            The initial machine's result.
        """
        self._wanted.clear()
        self.machine, self.result, self.error = self.start, self.before, ""
        return self.before

    def table(self) -> Table:
        """Tabulates the changed settings.

        Returns:
            Rows with setting, start and now (values as in a machine file).
        """
        rows = self.start.diff(self.machine).rows
        return Table([{"setting": row["setting"], "start": row["a"], "now": row["b"]} for row in rows])

    def html(self) -> str:
        """Draws current time, bottleneck, longest operations and roofline.

        Returns:
            An HTML fragment.
        """
        return page(self.before, self.result, self.error, self.took, self.notes)

    def widget(self) -> Any:
        """Builds sliders with the HTML view.

        Returns:
            A box of ipywidgets.

        Raises:
            UserError: when ipywidgets is not installed.
        """
        widgets = need("ipywidgets", "notebook")
        view = widgets.HTML(self.html())
        controls = {path: self._control(widgets, path, offered) for path, offered in self.settings.items()}
        button = widgets.Button(description="reset")

        def turned(path: str) -> Callable[[Any], None]:
            def change(event: Any) -> None:
                self.set(path, event["new"])
                view.value = self.html()

            return change

        handlers = {path: turned(path) for path in controls}
        for path, control in controls.items():
            control.observe(handlers[path], names="value")

        def back(_: Any) -> None:
            for path, control in controls.items():
                control.unobserve(handlers[path], names="value")
                control.value = self.start.get(path)
                control.observe(handlers[path], names="value")
            self.reset()
            view.value = self.html()

        button.on_click(back)
        left = widgets.VBox([*controls.values(), button], layout=widgets.Layout(width="420px", flex="0 0 auto"))
        return widgets.Box([left, view], layout=widgets.Layout(flex_flow="row wrap", align_items="flex-start"))

    def _control(self, widgets: Any, path: str, offered: list[Any]) -> Any:
        value, setting = self.start.get(path), find_setting(path)
        named = {"description": path, "tooltip": setting.note(), "value": value}
        named |= {"style": {"description_width": "190px"}, "layout": widgets.Layout(width="410px")}
        if isinstance(value, bool):
            return widgets.Checkbox(**named)
        options = [(shown_value(one), one) for one in offered]
        if setting.is_number:
            return widgets.SelectionSlider(options=options, continuous_update=False, **named)
        return widgets.Dropdown(options=options, **named)

    def _ipython_display_(self) -> None:
        from IPython.display import HTML, display

        try:
            display(self.widget())
        except UserError as error:
            from html import escape

            display(HTML(f"<p>{escape(str(error))}</p>{self.html()}"))

    def __repr__(self) -> str:
        """The headline or the error, followed by notes."""
        return f"<Play {'; '.join([self.error or self.result.summary(), *self.notes])}>"


@checked()
def play(
    graph: GraphLike,
    machine: MachineLike = "tpu-v3",
    settings: Sequence[str] | Mapping[str, tuple[Any, Any]] | None = None,
    **options: Any,
) -> Play:
    """Creates interactive sliders for a machine's settings; each change updates time, bottleneck and roofline.

    A notebook cell displays them; elsewhere `.set(path, value)` changes a setting.

    Args:
        graph: the workload, as for `compile`.
        machine: preset name, file, dict or Machine to start from.
        settings: paths with a slider, or path to smallest and largest value as in a file (("100 GB/s", "2 TB/s"));
            default: the most important ones. Sliders stay within the declared ranges (`notes` names shortened ones), by
            default within 32 times the machine's value.
        options: any option of `compile` or `simulate` (mapping, fuse, memory, ...).

    Returns:
        An object with `set`, `reset`, `result`, `machine`, `error`, `notes`, `table`, `widget`.

    Raises:
        UserError: for an unknown setting or option, invalid ends of a slider, or if the machine cannot run the
            workload.
    """
    start, workload = Machine.load(machine), as_graph(graph)
    compiled, simulated = by_call(options, CompileOptions, SimulateOptions)
    given = settings if isinstance(settings, Mapping) else dict.fromkeys(USUAL if settings is None else settings)
    offered: dict[str, list[Any]] = {}
    notes: list[str] = []
    for name, ends in given.items():
        setting = find_setting(name)
        path = setting.path if not name.startswith("cores.") else name
        if settings is None and path == "core.count" and start.sorts:
            notes.append(f"no slider for core.count, because each core type has its own count: {_counted(start)}")
            continue
        if isinstance(start.get(path), (dict, list)):
            raise user_error(
                "the setting has no slider", place="settings", value=f"'{name}'", allowed="numbers, strings, flags"
            )
        between = _ends(setting, ends)
        notes += _cut(setting, path, start.get(path), between)
        offered[path] = positions(setting, start.get(path), between)

    def run(target: Machine) -> Result:
        return simulate(compile(workload, target, **compiled), target, **simulated)

    made = Play(workload, start, offered, run)
    made.notes = notes
    return made


def _counted(machine: Machine) -> str:
    return " and ".join(f"cores.{sort}.count" for sort in machine.sorts)


def _cut(setting: Setting, path: str, value: Any, ends: tuple[float, float] | None) -> list[str]:
    """Returns notes if a slider was shortened, or if the machine's value lies outside of it."""
    if ends is None or setting.low is None or setting.high is None:
        return []
    asked = f"{shown_value(setting.text(ends[0]))} to {shown_value(setting.text(ends[1]))}"
    if ends[0] > setting.high or ends[1] < setting.low:
        raise user_error("the slider's range contains no legal value", place=path, value=asked,
                         allowed=setting.range)  # fmt: skip
    said, own = [], setting.number(value)
    if ends[0] < setting.low or ends[1] > setting.high:
        least, most = max(ends[0], setting.low), min(ends[1], setting.high)
        left = f"{shown_value(setting.text(least))} to {shown_value(setting.text(most))}"
        said.append(f"{path}: the slider has {left} instead of {asked}; machines accept {setting.range}")
    if own is not None and not ends[0] <= own <= ends[1]:
        said.append(f"{path}: the slider also has the machine's value {shown_value(value)}, outside {asked}")
    return said


def _ends(setting: Setting, ends: Any) -> tuple[float, float] | None:
    """Converts the ends of a slider to numbers."""
    if ends is None:
        return None
    pair = list(ends) if isinstance(ends, (tuple, list)) else []
    numbers = [setting.number(end) for end in pair]
    if len(numbers) != 2 or None in numbers or not setting.is_number or not (numbers[0] or 0) < (numbers[1] or 0):
        allowed = (
            f"a smaller and a larger value, {setting.range}"
            if setting.range
            else "no range, because the setting is not a number"
        )
        raise user_error("not the ends of a slider", place=setting.path, value=shown(ends), allowed=allowed)
    return float(numbers[0] or 0), float(numbers[1] or 0)
