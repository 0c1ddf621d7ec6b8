"""Markup: the elements that a regular expression finds, and the tokens that Python's HTML parser finds."""

import html
import random
import re

import pytest

from podium.search.documents.markup import elements, html_tokens, plain_text, without

# The obvious pattern, which takes time with the square of the text.
_OBVIOUS = re.compile(r"<(A|B)>(.*?)</\1>", re.IGNORECASE | re.DOTALL)


def test_elements_are_those_of_the_obvious_pattern():
    rng = random.Random(0)
    parts = ["<A>", "</A>", "<b>", "</B>", "x", "\n", "<C>"]
    for _ in range(2000):
        text = "".join(rng.choices(parts, k=rng.randint(0, 12)))
        expected = [(match.start(), match.end(), match[2]) for match in _OBVIOUS.finditer(text)]
        found = list(elements(text, "A|B"))
        assert [(one.start, one.end, one.content) for one in found] == expected
        assert [one.name for one in found] == [match[1].upper() for match in _OBVIOUS.finditer(text)]
        assert without(text, found) == _OBVIOUS.sub(" ", text)


def test_text_has_no_tags_and_no_references():
    assert plain_text("a <b>bold</b> &amp; <i\nx='1'>&#65;") == "a  bold  &  A"
    assert plain_text("1 < 2 <b>and</b> 3 > 2") == "1 < 2  and  3 > 2"
    assert plain_text("&#" + "1" * 5000 + "; &#xD800;") == "\ufffd \ufffd"  # int() takes 4,300 digits


def tokens(text):
    return [(token.kind, token.text, token.attributes) for token in html_tokens(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a<b>c", [("text", "a", {}), ("start", "b", {}), ("text", "c", {})]),
        ("<A HREF='x>y' href=z Id=\"1\">", [("start", "a", {"href": "x>y", "id": "1"})]),
        ("<a href=b/c&amp;d >", [("start", "a", {"href": "b/c&d"})]),
        ("<script>if (a<b) '<p>'</SCRIPT >x", [("start", "script", {}), ("end", "script", {}), ("text", "x", {})]),
        ("<script src=x />y", [("start", "script", {"src": "x"}), ("end", "script", {}), ("text", "y", {})]),
        ("<!-- <b> -->x<!DOCTYPE html>y<?php ?>", [("text", "x", {}), ("text", "y", {})]),
        ("1 < 2", [("text", "1 ", {}), ("text", "<", {}), ("text", " 2", {})]),
        ("x<a href='y", [("text", "x", {}), ("text", "<a href='y", {})]),
        ('<a href="x><p>y', [("start", "a", {"href": '"x'}), ("start", "p", {}), ("text", "y", {})]),
        ("<!-- x", [("text", "<!-- x", {})]),
        ("", []),
    ],
)
def test_tokens_of_html(text, expected):
    assert tokens(text) == expected


def test_no_text_of_broken_html_is_lost():
    """What is neither a whole tag nor a comment is text: nothing of it is dropped."""
    rng = random.Random(1)
    for _ in range(2000):
        text = "".join(rng.choices(["<a ", "<", "x", "'", "=", '"', "b", " "], k=rng.randint(1, 15)))
        assert "".join(token.text for token in html_tokens(text)) == html.unescape(text)  # there is no >
