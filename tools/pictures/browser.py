"""Debian's Chromium without a window, which draws the pictures; and pages that it can open."""

import contextlib
import functools
import http.server
import pathlib
import tempfile
import threading

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.support.wait import WebDriverWait


class Browser:
    def __init__(self, width=1400, height=1000):
        options = webdriver.ChromeOptions()
        options.binary_location = "/usr/bin/chromium"
        for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"):
            options.add_argument(argument)
        self.driver = webdriver.Chrome(service=Service("/usr/bin/chromedriver"), options=options)
        self.size(width, height)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.driver.quit()

    def size(self, width, height):
        self.driver.set_window_size(width, height)

    def open(self, address):
        self.driver.get(address)

    def page(self, text):
        """Opens a page of that HTML."""
        with tempfile.NamedTemporaryFile("w", suffix=".html") as file:
            file.write(text)
            file.flush()
            self.open(pathlib.Path(file.name).as_uri())

    def script(self, code, *arguments):
        """What a script, the body of a function, returns."""
        return self.driver.execute_script(code, *arguments)

    def script_later(self, code, *arguments):
        """The same of one that waits, the body of an asynchronous function."""
        code = f"(async function () {{ {code} }}).apply(null, arguments).then(arguments[arguments.length - 1])"
        return self.driver.execute_async_script(code, *arguments)

    def wait(self, condition, seconds=120):
        """Until a script returns something true."""
        WebDriverWait(self.driver, seconds).until(lambda _: self.script(f"return {condition}"), condition)

    def save(self, file, element="body"):
        """Writes a picture of the element."""
        assert self.driver.find_element(By.CSS_SELECTOR, element).screenshot(str(file)), file
        print(f"{file}: {file.stat().st_size} bytes", flush=True)


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@contextlib.contextmanager
def serve(folder):
    """The address of a web server for the files of a folder."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
