"""The browser in which the report is looked at: Debian's chromium, without a window, driven by its own driver."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

ARGUMENTS = ("--headless=new", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage", "--window-size=1280,900")


@pytest.fixture(scope="session")
def chromium() -> Iterator[Chrome]:
    """One for all tests of this process; where there is none, they are skipped."""
    binary, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not binary or not driver:
        pytest.skip("needs chromium and its driver: apt-get install chromium chromium-driver")
    # Only here: no other check has to wait for this import.
    from selenium import webdriver  # noqa: PLC0415
    from selenium.webdriver.chrome.service import Service  # noqa: PLC0415

    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for argument in (*ARGUMENTS, *(("--no-sandbox",) if os.geteuid() == 0 else ())):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    chrome = webdriver.Chrome(options, Service(driver))
    try:
        yield chrome
    finally:
        chrome.quit()


@pytest.fixture
def browser(chromium: Chrome) -> Iterator[Chrome]:
    """A browser that has nothing to complain of, or the test fails."""
    yield chromium
    complaints = chromium.get_log("browser")  # type: ignore[no-untyped-call]  # selenium has no types there
    if complaints:
        pytest.fail(f"the browser complains: {complaints}")
