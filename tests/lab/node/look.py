"""Print what a study's page shows in a real browser, until the study has ended: `look.py URL`."""

import re
import shutil
import sys

from playwright.sync_api import Error, Page, sync_playwright

NOW = "document.querySelector('#now').innerText"
FLAGS = ("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking")


def shown(tab: Page) -> str:
    """How many trials the page says are completed, or that it is over."""
    try:
        found = re.search(r"Ended|\d+ completed", tab.evaluate(NOW))
    except Error:  # the page is just being loaded again
        return ""
    return found[0] if found else ""


def main(url: str) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=[*FLAGS]
        )
        tab = browser.new_page()
        tab.goto(url)
        last = ""
        while last != "Ended":
            now = shown(tab)
            if now and now != last:
                print(now, flush=True)
                last = now
            tab.wait_for_timeout(100)
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1])
