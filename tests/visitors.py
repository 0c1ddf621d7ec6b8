"""A browser without JavaScript: cookies, links and forms, over one connection per request."""

import http.client
from html.parser import HTMLParser
from urllib.parse import urlencode

BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
NASTY = "<script>alert(1)</script>"
TOKEN = "a secret of the page"
FORM = "application/x-www-form-urlencoded"


class Elements(HTMLParser):
    """All elements of a page with their attributes, and its text."""

    def __init__(self, page):
        super().__init__()
        self.elements, self.text = [], ""
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_data(self, data):
        self.text += data

    def all(self, tag, **wanted):
        return [found for name, found in self.elements if name == tag and wanted.items() <= found.items()]


class Visitor:
    """Keeps cookies, as a browser does."""

    def __init__(self, service, accept=BROWSER):
        self.service, self.accept, self.cookies = service, accept, {}

    def ask(self, method, path, fields=None, **headers):
        """Status, headers and text."""
        connection = http.client.HTTPConnection(*self.service.place, timeout=60)
        headers = {"Accept": self.accept} | {name.replace("_", "-"): value for name, value in headers.items()}
        if self.cookies:
            headers["Cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        body = None if fields is None else urlencode(fields)
        if body is not None:
            headers = {"Content-Type": FORM} | headers
        try:
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            text = response.read().decode()
            for line in response.headers.get_all("set-cookie") or []:
                name, _, value = line.partition(";")[0].partition("=")
                self.cookies[name] = value
            return response.status, {name.lower(): value for name, value in response.headers.items()}, text
        finally:
            connection.close()

    def get(self, path, **headers):
        return self.ask("GET", path, **headers)

    def page(self, path):
        status, _, text = self.get(path)
        assert status == 200, text
        return Elements(text)

    def csrf(self, path="/"):
        return self.page(path).all("input", name="csrf")[0]["value"]

    def send(self, path, fields, **headers):
        """A form with its token."""
        return self.ask("POST", path, [("csrf", self.csrf()), *fields], **headers)

    def judge(self, query, document, label, system="web", rank=1):
        fields = [("q", query), ("judging", system), ("system", system), ("judgement", f"{label} {rank} {document}")]
        return self.send("/judge", fields)
