"""The report in a real browser: charts, contrast, keyboard, narrow screens, hostile names."""

from __future__ import annotations

import pytest

# The number of different opaque colours in a chart: an empty canvas has none.
COUNT_COLOURS = """canvas => {
  const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  const seen = new Set(); for (let i = 0; i < data.length; i += 4) if (data[i + 3] > 200)
    seen.add(data[i] << 16 | data[i + 1] << 8 | data[i + 2]); return seen.size; }"""
WIDTHS = "() => [document.documentElement.scrollWidth, innerWidth]"


def listed_tasks(page):
    return page.locator("#tasks-table tbody th").all_inner_texts()


@pytest.mark.parametrize(
    ("kind", "scheme"), [("usual", "light"), ("usual", "dark"), ("graph", "light"), ("hostile", "dark")]
)
def test_every_chart_is_drawn_and_all_text_has_contrast(opened, pages, least_contrast, kind, scheme):
    page = opened(pages[kind], scheme=scheme)
    charts = page.locator("[data-chart]")
    assert charts.count() >= 6
    for chart in charts.all():
        assert chart.locator("canvas").evaluate(COUNT_COLOURS) >= 3 and chart.get_attribute("aria-label")
        assert int(chart.get_attribute("data-drawn")) > 1
    worst, where = least_contrast(page)
    assert worst >= 4.5, where
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(255, 255, 255)") == (scheme == "light")


@pytest.mark.parametrize("kind", ["usual", "graph", "hostile", "many"])
def test_a_narrow_screen_needs_no_horizontal_scrolling(opened, pages, kind):
    page = opened(pages[kind], width=360)
    width, window = page.evaluate(WIDTHS)
    assert width <= window
    for details in page.locator("summary").all():
        details.click()
    assert page.evaluate(WIDTHS)[0] <= window


def test_the_colour_scheme_may_change_while_the_page_is_open(opened, pages):
    page = opened(pages["usual"])
    colour = "getComputedStyle(document.querySelectorAll('[data-chart=error] .u-marker')[1]).borderColor"
    before = page.evaluate(colour)
    page.emulate_media(color_scheme="dark")
    # Playwright's `wait_for_function` calls `eval` in the page, which the content security policy of the page forbids.
    while page.evaluate(colour) == before:  # if the page never changes, the test ends by its timeout
        page.wait_for_timeout(20)
    assert page.locator("[data-chart=error] canvas").count() == 1


def test_tasks_are_searched_and_sorted_with_the_keyboard_alone(opened, pages):
    def examples():
        cells = page.locator("#tasks-table tbody td:nth-child(4)").all_inner_texts()
        return [int(cell.replace(",", "")) for cell in cells]

    page = opened(pages["usual"])
    assert len(listed_tasks(page)) == 25
    assert page.get_by_role("columnheader", name="At least").get_attribute("aria-sort") == "descending"
    button = page.get_by_role("button", name="Examples", exact=True)
    button.focus()
    page.keyboard.press("Enter")
    assert examples() == sorted(examples(), reverse=True)
    page.keyboard.press("Space")
    assert examples() == sorted(examples())
    page.get_by_role("button", name="Task", exact=True).press("Enter")
    assert listed_tasks(page)[:3] == ["school 0", "school 1", "school 2"]
    page.get_by_label("Search tasks").fill("SCHOOL 1")
    assert listed_tasks(page) == ["school 1", *(f"school 1{digit}" for digit in range(10))]
    assert "11 of 40" in page.get_by_role("status").inner_text()
    page.get_by_label("Search tasks").fill("")
    page.get_by_role("button", name="Show 15 more").click()
    assert len(listed_tasks(page)) == 40 and page.get_by_role("button", name="more").count() == 0


def test_a_line_of_a_chart_is_hidden_with_the_keyboard(opened, pages):
    page = opened(pages["usual"])
    name = page.locator("[data-chart=error] .u-legend th").nth(2)
    name.focus()
    page.keyboard.press("Enter")
    assert "u-off" in name.locator("..").get_attribute("class")


def test_a_report_has_headings_landmarks_and_contents(opened, pages):
    page = opened(pages["usual"])
    for selector in ("html[lang=en] main", "h1", "header", "nav", "footer"):
        assert page.locator(selector).count() == 1
    for link in page.locator("nav a").all():
        section = page.locator(link.get_attribute("href"))
        assert section.get_by_role("heading", level=2).inner_text() == link.inner_text()
    assert page.locator("table:not(.u-legend):not(:has(th[scope]))").count() == 0
    assert page.locator("svg:not([aria-label]), [data-chart]:not([aria-label])").count() == 0


def test_hostile_names_are_shown_as_text(opened, pages):
    page = opened(pages["hostile"])
    assert page.title().startswith("<script>document.title=")
    assert page.locator("img").count() == 0 and page.locator("script").count() == 2
    shown = listed_tasks(page)
    assert {'<script>document.title="owned"</script>', "�gnp.exe", "(blank, 3 characters)"} <= set(shown)
    assert max(map(len, shown)) == 60


def test_an_injected_script_does_not_run(browser, pages, tmp_path):
    injected = tmp_path / "injected.html"
    text = pages["usual"].read_text(encoding="utf-8")
    script = "<script>window.ran = 1</script><img src=x onerror='window.ran = 2'></main>"
    injected.write_text(text.replace("</main>", script), encoding="utf-8")
    page = browser.new_page()
    page.goto(injected.as_uri())
    assert page.evaluate("window.ran === undefined") and page.locator("#tasks-table tbody tr").count() == 25
    page.close()


def test_a_report_of_ten_thousand_tasks_is_shown(opened, pages):
    page = opened(pages["many"])
    assert "10,000 of 10,000 tasks" in page.get_by_role("status").inner_text() and len(listed_tasks(page)) == 25
    page.get_by_label("Search tasks").fill("user 9999")
    assert listed_tasks(page) == ["user 9999"]
    assert page.locator(".multiples li").count() <= 24
    assert "24 tasks with the most examples" in page.locator("#relations").inner_text()
