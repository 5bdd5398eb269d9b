"""The page in a real browser: what it loads, draws, and answers to wheel, pointer and keys."""

import json
import math
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from selenium.webdriver import ActionChains, Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.actions.wheel_input import ScrollOrigin
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement

from examples.make_traces import FOLDER, REFERENCES, Reference
from simaccel import load_accelerator
from simaccel.machine.accounts import NO_WAIT, Wait
from simaccel.report.figures.style import CAUSE_LABELS
from simaccel.report.page import loops, page_text, timeline, write_page
from simaccel.study.recording import record
from simaccel.trace import TraceReader
from simaccel.trace.schema import KEY
from simaccel.trace.track import measure_tracks
from simaccel.units import Cause
from simaccel.workload import build
from tests.draws import DRAWS
from tests.trace.exports.runs import recorded
from tests.trace.scripts import ENGINES, SCRIPTS, Again, Row, Script, padded, write, written

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(
    not (CHROMIUM and DRIVER), reason="needs a browser (apt-get install chromium-driver)"
)
each = pytest.mark.parametrize("reference", REFERENCES, ids=lambda reference: reference.name)
MOST_LOAD_SECONDS = 2
NOTHING: dict[str, Any] = {"loops": [], "limits": {}, "clock_hz": None, "utilisation": None}
NOTHING |= {"title": "made up", "version": ""}
"""For pages of made-up runs."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Chrome]:
    options = ChromeOptions()
    options.binary_location = str(CHROMIUM)
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"):
        options.add_argument(argument)
    options.add_argument("--window-size=1500,900")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    options.add_experimental_option("perfLoggingPrefs", {"enablePage": False})
    driver = Chrome(options=options, service=Service(DRIVER))
    try:
        yield driver
    finally:
        driver.quit()


Page = Callable[[Path], Chrome]


@pytest.fixture
def page(browser: Chrome, tmp_path: Path) -> Iterator[Page]:
    """Open a trace's page; at the end nothing was complained of and nothing was fetched."""
    out = tmp_path / "page.html"

    def show(path: Path) -> Chrome:
        with TraceReader.open(path) as trace:
            write_page(trace, out, force=True)
        browser.get(out.as_uri())
        return browser

    _log(browser, "performance")
    yield show
    assert _log(browser, "browser") == []
    logged = (json.loads(entry["message"])["message"] for entry in _log(browser, "performance"))
    sent = [m["params"]["request"]["url"] for m in logged if m["method"].endswith("WillBeSent")]
    assert {*sent} == {out.as_uri()}


def _log(browser: Chrome, kind: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = browser.get_log(kind)  # type: ignore[no-untyped-call]
    return found


def _run(browser: Chrome, script: str, *arguments: object) -> Any:  # noqa: ANN401 - of JavaScript
    """Run JavaScript when the frame that was asked for is drawn."""
    frames = (
        "await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));"
    )
    wrapped = f"return (async (...args) => {{{frames} {script}}})(...arguments)"
    return browser.execute_script(wrapped, *arguments)


def _window(browser: Chrome) -> list[float]:
    found: list[float] = _run(browser, "return simaccel.window()")
    return found


def _pointer(browser: Chrome) -> ActionChains:
    """Do something with pointer and keys, without the 250 ms that each way is to take."""
    return ActionChains(browser, duration=0)


def _canvas(browser: Chrome, lane: str) -> WebElement:
    return browser.find_element(By.CSS_SELECTOR, f"canvas[data-lane='{lane}']")


def _hover(browser: Chrome, lane: str, cycle: float) -> str:
    """Put the pointer on a cycle of a lane and give the tip's text."""
    start, end = _window(browser)
    canvas = _canvas(browser, lane)
    x = (cycle - start) / (end - start) * canvas.size["width"] - canvas.size["width"] / 2
    _pointer(browser).move_to_element_with_offset(canvas, round(x), 0).perform()
    return browser.find_element(By.ID, "tip").text


def _type(browser: Chrome, box: str, text: str) -> None:
    """Replace what a box says: it keeps the focus, so that no frame writes between the keys."""
    keys = (Keys.CONTROL, "a", Keys.CONTROL, text, Keys.ENTER)
    browser.find_element(By.ID, box).send_keys(*keys)


def _count(number: int) -> str:
    return f"{number:,}"


def _colours(browser: Chrome, lane: str) -> int:
    """Different pixels of a lane's canvas."""
    script = """const copy = new OffscreenCanvas(args[0].width, args[0].height).getContext("2d");
        copy.drawImage(args[0], 0, 0);
        const { data } = copy.getImageData(0, 0, args[0].width, args[0].height);
        return new Set(new Uint32Array(data.buffer)).size;"""
    return int(_run(browser, script, _canvas(browser, lane)))


@pytest.mark.parametrize(
    ("tile", "where"),
    [("tile K", "the buffer"), ("tile pe.K", "the buffer, those of pe. in each PE")],
)
def test_it_says_which_memories_hold_tiles(
    browser: Chrome, tmp_path: Path, tile: str, where: str
) -> None:
    out = tmp_path / "page.html"
    script = padded([Row("array", 9, (Cause.BUSY, NO_WAIT, 1))], ENGINES)
    with recorded(script, {"dram0": [(9, True, 9)]}, {tile: [(9, 64)]}) as trace:
        out.write_text(page_text({**NOTHING, **timeline(trace)}), encoding="utf-8")
        browser.get(out.as_uri())
        titles = [one.text for one in browser.find_elements(By.CSS_SELECTOR, "button.group")]
        assert sum(f"tiles: bytes held in {where}; the top is the most" in t for t in titles) == 1


@each
def test_it_draws_every_engine_of_the_whole_run(page: Page, reference: Reference) -> None:
    browser = page(reference.path)
    with TraceReader.open(reference.path) as trace:
        assert _window(browser) == [0, trace.cycles]
        for engine in trace.engines:
            causes = {event.cause for event in trace.decode(trace.events(0, 50_000, engine))}
            assert _colours(browser, engine) >= min(len(causes), 2)
        assert f"{_count(trace.cycles)} cycles" in browser.find_element(By.ID, "facts").text


def test_an_empty_canvas_would_be_noticed(page: Page) -> None:
    """So the test above can fail."""
    browser = page(FOLDER / "toy_gemm_naive.h5")
    before = _colours(browser, "array")
    _run(browser, "const c = args[0]; c.width = c.width;", _canvas(browser, "array"))
    assert before > 1 == _colours(browser, "array")


def test_lanes_out_of_sight_are_printed(page: Page) -> None:
    browser = page(FOLDER / "toy_attention_flat.h5")
    browser.set_window_size(1500, 400)
    try:
        hidden = browser.find_elements(By.CSS_SELECTOR, "#lanes canvas")[-1]
        lane = hidden.get_attribute("data-lane") or ""
        _run(browser, "args[0].width = args[0].width", hidden)  # empty
        assert _colours(browser, lane) == 1
        _run(browser, "window.dispatchEvent(new Event('beforeprint'))")
        assert _colours(browser, lane) > 1
    finally:
        browser.set_window_size(1500, 900)


def test_the_wheel_zooms_at_the_pointer_and_dragging_moves(page: Page) -> None:
    browser = page(FOLDER / "edge_bert_flat.h5")
    start, end = _window(browser)
    canvas = _canvas(browser, "array")
    quarter = ScrollOrigin.from_element(canvas, -canvas.size["width"] // 4, 0)
    _pointer(browser).scroll_from_origin(quarter, 0, -500).perform()
    near, far = _window(browser)
    assert far - near < (end - start) / 2
    assert (near + 0.25 * (far - near)) == pytest.approx((start + end) / 4, rel=0.01)
    _pointer(browser).drag_and_drop_by_offset(canvas, 100, 0).perform()
    moved, ended = _window(browser)
    assert ended - moved == pytest.approx(far - near)
    assert near - moved == pytest.approx(100 / canvas.size["width"] * (far - near), rel=0.02)
    _pointer(browser).scroll_from_origin(quarter, 0, 50_000).perform()
    assert _window(browser) == [start, end]


def test_dragging_with_shift_and_clicking_the_overview(page: Page) -> None:
    browser = page(FOLDER / "edge_bert_flat.h5")
    end = _window(browser)[1]
    canvas = _canvas(browser, "array")
    keys = _pointer(browser).key_down(Keys.SHIFT).click_and_hold(canvas).move_by_offset(100, 0)
    keys.release().key_up(Keys.SHIFT).perform()
    width = canvas.size["width"]
    shown = [end / 2, end * (0.5 + 100 / width)]
    assert _window(browser) == pytest.approx(shown, rel=0.01)
    overview = browser.find_element(By.ID, "overview-track")
    _pointer(browser).move_to_element(overview).move_by_offset(-width // 4, 0).click().perform()
    near, far = _window(browser)
    assert far - near == pytest.approx(shown[1] - shown[0])
    assert (near + far) / 2 == pytest.approx(end / 4, rel=0.02)
    browser.find_element(By.TAG_NAME, "body").send_keys(Keys.BACKSPACE)
    assert _window(browser) == [0, end]
    right = ScrollOrigin.from_element(overview, width // 4, 0)
    _pointer(browser).scroll_from_origin(right, 0, -500).perform()
    near, far = _window(browser)
    assert far - near < end / 2
    assert (near + 0.75 * (far - near)) == pytest.approx(0.75 * end, rel=0.01)


def test_keys_buttons_and_boxes_set_the_window(page: Page) -> None:
    browser = page(FOLDER / "edge_bert_flat.h5")
    whole = _window(browser)
    body = browser.find_element(By.TAG_NAME, "body")
    body.send_keys("+")
    near = _window(browser)
    assert near[1] - near[0] == pytest.approx(whole[1] / 2)
    body.send_keys(Keys.ARROW_RIGHT)
    assert _window(browser)[0] == pytest.approx(near[0] + 0.1 * whole[1])
    body.send_keys(Keys.ARROW_LEFT)
    assert _window(browser) == pytest.approx(near)
    body.send_keys("-")
    assert _window(browser) == whole
    for name, value in (("from", "1,000"), ("to", "13_100_388")):
        _type(browser, name, value)
    assert _window(browser) == [1000, 13_100_388]
    _type(browser, "from", "99999999999")
    assert _window(browser)[1] == 13_100_388
    allowed = _run(browser, "return document.getElementById('to').validationMessage")
    assert allowed == f"allowed: cycles from 0 up to {_count(int(whole[1]))}, the second one larger"
    browser.find_element(By.ID, "whole").click()
    assert _window(browser) == whole
    browser.find_element(By.ID, "back").click()
    assert _window(browser)[1] == 13_100_388
    _run(browser, "location.hash = 'cycles=2000-5000'")
    assert _window(browser) == [2000, 5000]
    body.send_keys("-")
    first, last = _window(browser)
    link = browser.find_element(By.ID, "link").get_attribute("href")
    assert link is not None
    assert link.endswith(f"#cycles={math.floor(first)}-{math.ceil(last)}")


@each
def test_hovering_tells_what_the_trace_tells(page: Page, reference: Reference) -> None:
    browser = page(reference.path)
    with TraceReader.open(reference.path) as trace:
        window = (0, 600) if trace.cycles < 1000 else (34_000, 80_000)
        _run(browser, "simaccel.show(...args)", *window)
        tried = set()
        lanes = ("engine", *trace.channels, *trace.tiles)
        for event in (e for lane in lanes for e in trace.decode(trace.events(*window, lane))):
            wide = event.end - event.start > 0.02 * (window[1] - window[0])
            if not wide or event.start < window[0] or event.end > window[1]:
                continue
            if (event.lane, event.cause) in tried:
                continue
            tried.add((event.lane, event.cause))
            text = _hover(browser, event.lane, (event.start + event.end) / 2)
            stalled = "" if event.cause in ("busy", "idle") else "stalled, root cause: "
            label = CAUSE_LABELS[event.cause]
            assert text.splitlines()[0] == f"{event.lane} {stalled}{label}"
            assert f"cycles {_count(event.start)} to {_count(event.end)}" in text
            assert f"length {_count(event.end - event.start)} cycles" in text
            if event.tile:
                held = f"waits for tile {event.tile} {event.kind}, held by {event.waits_for}"
                assert held in text
            if event.command:
                assert f"operator {event.operator}\ncommand {event.command}" in text
            if event.lane in trace.channels:
                assert f"served {_count(event.served)} cycles, " in text
        kinds = {trace.lanes[lane] for lane, _ in tried}
        assert kinds >= {"engine", "tile"}  # a channel may have nothing that is wide enough
        assert len(tried) > 10


def test_a_pixel_of_many_events_tells_their_shares(page: Page) -> None:
    browser = page(FOLDER / "edge_bert_flat.h5")
    with TraceReader.open(FOLDER / "edge_bert_flat.h5") as trace:
        text = _hover(browser, "array", trace.cycles / 2)
        start, end = (
            int(word.replace(",", ""))
            for word in text.split("this pixel cycles ")[1].splitlines()[0].split(" to ")
        )
        found = trace.utilisation(bins=1, start=start, end=end)
        busy = found.share("array")[0]
    assert "several events; zoom in" in text
    shown = float(text.split("busy ")[1].split("%")[0])
    assert shown == pytest.approx(100 * busy, abs=0.2)


def test_a_double_click_zooms_to_the_event(page: Page) -> None:
    browser = page(FOLDER / "edge_bert_flat.h5")
    with TraceReader.open(FOLDER / "edge_bert_flat.h5") as trace:
        events = trace.events(40_000, 60_000, "array")
        longest = events[(events["end"] - events["start"]).argmax()]
    start, end = int(longest["start"]), int(longest["end"])
    _run(browser, "simaccel.show(...args)", 30_000, 70_000)
    _hover(browser, "array", (start + end) / 2)
    _pointer(browser).double_click().perform()
    margin = 0.1 * (end - start)
    assert _window(browser) == pytest.approx([start - margin, end + margin])
    text = browser.find_element(By.ID, "tip").text
    assert f"cycles {_count(start)} to {_count(end)}" in text


def _place(browser: Chrome, text: str) -> WebElement:
    found = browser.find_elements(By.CSS_SELECTOR, "#loops .place")
    return next(one for one in found if text in one.text)


def test_clicks_in_the_loop_tree_zoom_to_one_iteration(page: Page) -> None:
    browser = page(FOLDER / "toy_attention_flat.h5")
    with TraceReader.open(FOLDER / "toy_attention_flat.h5") as trace:
        places, cycles = loops(trace), trace.cycles
    shown = browser.find_elements(By.CSS_SELECTOR, "#loops .place")
    told = _run(
        browser,
        "return [...document.querySelectorAll('#loops .place')].map("
        "row => [row.innerText.trim().split(/\\n/).pop(), row.getAttribute('aria-level')])",
    )
    assert told == [
        [f"{100 * place.cycles / cycles:.1f}%", str(place.depth + 1)] for place in places
    ]
    every_other = list(zip(shown, places, strict=True))[::2]
    for row, place in every_other:
        row.find_element(By.CSS_SELECTOR, ".go").click()
        assert place.window
        start, end = place.window
        margin = 0.25 * (end - start) if place.kind == "command" else 0
        margin = max(margin, (8 - (end - start)) / 2)  # the smallest window has 8 cycles
        expected = [max(start - margin, 0), min(end + margin, cycles)]
        assert _window(browser) == pytest.approx(expected)
    assert len(places) > 2
    operator, loop = (row.text.splitlines()[1] for row in shown[:2])
    _place(browser, loop).find_element(By.CSS_SELECTOR, ".toggle").click()
    visible = [row.text.splitlines()[1] for row in shown if row.is_displayed()]
    assert visible == [operator, loop] == ["operator L+softmax+A", loop]
    panel = browser.find_element(By.ID, "loops").rect
    rows = [row.rect for row in shown if row.is_displayed()]
    assert all(row["x"] >= panel["x"] and row["y"] >= panel["y"] for row in rows)
    assert rows[0]["y"] + rows[0]["height"] <= rows[1]["y"]


def test_operators_are_marked_on_the_axis_of_the_window(page: Page, tmp_path: Path) -> None:
    path = tmp_path / "apart.h5"
    workload = build("bert", batch=1, seq_len=64, scope="la")
    record(path, workload, load_accelerator("edge"), "naive-m")
    browser = page(path)
    with TraceReader.open(path) as trace:
        windows = [p.window for p in loops(trace) if p.kind == "operator" and p.window]
    assert len(windows) == 3
    axis = browser.find_element(By.ID, "axis").rect

    def marked(start: float, end: float) -> list[tuple[float, float]]:
        """Give the ends of the marks in cycles."""
        _run(browser, "simaccel.show(...args)", start, end)
        assert _window(browser) == [start, end]
        per_pixel = (end - start) / axis["width"]
        found = []
        for mark in browser.find_elements(By.CSS_SELECTOR, "#operators .mark:not([hidden])"):
            low = (mark.rect["x"] - axis["x"]) * per_pixel
            found.append((start + low, start + low + mark.rect["width"] * per_pixel))
        return found

    cycles = _window(browser)[1]
    for window in ([0, cycles], [windows[1][0], windows[2][0] + 100]):
        start, end = window
        inside = [(max(a, start), min(b, end)) for a, b in windows if a < end and b > start]
        near = 2 * (end - start) / axis["width"]
        found = marked(start, end)
        assert len(found) == len(inside)
        for mark, expected in zip(found, inside, strict=True):
            assert mark == pytest.approx(expected, abs=near)


def test_a_run_of_ten_to_the_eleven_cycles(page: Page, tmp_path: Path) -> None:
    """Loads at once, and zooms from the whole run to one event with its exact cycles."""
    workload = build("bert", batch=64, seq_len=65_536, scope="la")
    path = tmp_path / "long.h5"
    record(path, workload, load_accelerator("edge", ["dram.capacity_bytes=32768 GiB"]), "naive")
    browser = page(path)
    loaded = _run(
        browser, "return performance.getEntriesByType('navigation')[0].loadEventEnd / 1000"
    )
    assert 0 < loaded < MOST_LOAD_SECONDS
    milliseconds = _run(
        browser, "const t = performance.now(); draw(); return performance.now() - t"
    )
    assert milliseconds < 500
    with TraceReader.open(path) as trace:
        assert trace.cycles > 10**11
        assert _window(browser) == [0, trace.cycles]
        assert _colours(browser, "array") > 1
        for place in loops(trace):
            if place.kind != "loop" or not place.window:
                continue
            start, end = place.window
            _run(browser, "simaccel.show(...args)", start, end)
            (event, *_) = trace.decode(trace.events(start, start + 1, "array"))
            found = _run(browser, "return simaccel.event('array', args[0])", start)
            assert (found["start"], found["end"]) == (event.start, event.end)
        mine = next(e for e in trace.decode(trace.events(start, end, "array")) if e.command)
        _run(browser, "simaccel.show(...args)", mine.start, mine.end)
        text = _hover(browser, "array", (mine.start + mine.end) / 2)
        assert f"cycles {_count(mine.start)} to {_count(mine.end)}" in text


def _told(
    trace: TraceReader, page: dict[str, Any], lane: str, start: int, end: int
) -> list[list[int]]:
    """Events of the reader as the page numbers them, and what they served or held."""
    numbers = {tuple(activity): number for number, activity in enumerate(page["activities"])}
    return [
        [
            int(row["start"]),
            int(row["end"]),
            numbers[tuple(row[name].item() for name in KEY)],
            int(row["served"] + row["held"] * (row["end"] - row["start"])),
        ]
        for row in trace.events(start, end, lane)
    ]


SAID = """const [run, windows] = args;
return run.lanes.map((plain) => {
    const lane = new Lane(plain, run);
    return windows.map(([start, end]) => [
        lane.events(start, end, 1e6).map((e) => [
            e.start, e.end, e.activity, Math.round(lane.amount(e.start, e.end)),
        ]),
        Array.from(lane.sums(start, end)),
    ]);
});"""


def _require_same(browser: Chrome, trace: TraceReader, windows: list[tuple[int, int]]) -> None:
    """What the page's script finds in windows is what the reader finds."""
    run = timeline(trace)
    said = _run(browser, SAID, run, windows)
    for lane, answers in zip(run["lanes"], said, strict=True):
        for window, (events, sums) in zip(windows, answers, strict=True):
            assert events == _told(trace, run, lane["name"], *window)
            [measured] = measure_tracks([trace.track(lane["name"])], np.array(window))
            expected = np.diff(measured, axis=0)[0].tolist()
            amount = expected.pop() + expected.pop()
            assert sums[:-1] == expected
            assert sums[-1] == pytest.approx(amount, abs=1)


@each
def test_the_page_expands_windows_as_the_reader_does(page: Page, reference: Reference) -> None:
    browser = page(reference.path)
    pick = random.Random(reference.name)  # noqa: S311 - no secret
    with TraceReader.open(reference.path) as trace:
        starts = [0, *(pick.randrange(trace.cycles) for _ in range(20))]
        lengths = [min(pick.randint(1, 5000), trace.cycles - start) for start in starts]
        windows = [(start, start + n) for start, n in zip(starts, lengths, strict=True)]
        _require_same(browser, trace, windows)


@settings(deadline=None, max_examples=13 * DRAWS)
@given(SCRIPTS, st.sampled_from([1, 2, 64]), st.data())
def test_the_page_expands_any_run_as_the_reader_does(
    browser: Chrome, script: Script, block_rows: int, drawn: st.DataObject
) -> None:
    with written(script, block_rows) as trace:
        starts = drawn.draw(st.lists(st.integers(0, trace.cycles - 1), max_size=3))
        windows = [(start, drawn.draw(st.integers(start + 1, trace.cycles))) for start in starts]
        _require_same(browser, trace, [(0, trace.cycles), *windows])


def test_the_longest_run_is_counted_exactly(page: Page, tmp_path: Path) -> None:
    """2^53 cycles: at the very end, one cycle is still one cycle."""
    waits = Row("array", 1, (Cause.NOC, Wait("S", "free", "array"), 2))
    works = Row("array", 7, (Cause.BUSY, NO_WAIT, 1))
    body = Again((works, waits), 2**20 - 1)
    with write(tmp_path / "t.h5", (Again((body,), 2**30 - 1),)) as trace:
        assert trace.cycles == 2**53
        browser = page(FOLDER / "toy_gemm_naive.h5")
        out = tmp_path / "page.html"
        out.write_text(page_text({**NOTHING, **timeline(trace)}), encoding="utf-8")
        browser.get(out.as_uri())
        windows = [(0, 100), (2**52 - 50, 2**52 + 50), (2**53 - 100, 2**53)]
        _require_same(browser, trace, windows)
        for start, end in windows:
            _run(browser, "simaccel.show(...args)", start, end)
            assert _window(browser) == [start, end]
            assert _colours(browser, "array") > 1
        text = _hover(browser, "array", 2**53 - 1)
    assert f"cycles {_count(2**53 - 1)} to {_count(2**53)}" in text
    assert "length 1 cycles" in text


def test_it_follows_the_dark_scheme(page: Page) -> None:
    browser = page(FOLDER / "toy_attention_flat.h5")
    colour = "return getComputedStyle(document.body).backgroundColor"
    found = []
    for scheme in ("light", "dark"):
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        found.append(_run(browser, colour))
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    assert found == ["rgb(255, 255, 255)", "rgb(20, 23, 27)"]


def test_those_who_cannot_see_are_told(page: Page) -> None:
    """Every control has a name; every lane says its shares."""
    browser = page(FOLDER / "toy_attention_flat.h5")
    for tag in ("button", "input", "canvas"):
        for one in browser.find_elements(By.TAG_NAME, tag):
            assert one.accessible_name, one.get_attribute("outerHTML")
    with TraceReader.open(FOLDER / "toy_attention_flat.h5") as trace:
        share = trace.totals["array"].busy / trace.cycles
    told = _canvas(browser, "array").accessible_name
    assert told.startswith("array: ")
    assert f" busy {100 * share:.1f}%, " in told
