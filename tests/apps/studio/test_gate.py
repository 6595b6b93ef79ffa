"""Nobody reaches the studio but its own pages, in a browser that has the token."""

import re
from pathlib import Path

import pytest
from visiting import BOUNDS, BUDGET

from ellipsum.apps.studio import app as application
from ellipsum.apps.studio import workspace
from ellipsum.apps.studio.security import FORM_BYTES, HEADERS, UPLOAD_BYTES
from ellipsum.apps.studio.serve import is_loopback

pytest_plugins = ["studios"]
POSTS = [route.path for route in application._routes.routes if "POST" in route.methods]
FORM = "application/x-www-form-urlencoded"


def test_without_the_token_there_is_only_the_door(outsider):
    for path in ("/", "/open", "/history", "/desk/x", "/release/x", "/job/x/state", "/nowhere"):
        done = outsider.get(path)
        assert done.status == 401
        assert "needs its token" in done.text
    assert outsider.post("/open/demo").status == 401
    assert not outsider.studio.desks
    for token in ("", "x", outsider.guard.token[:-1], outsider.guard.token + "0", "é"):
        assert outsider.post("/enter", {"token": token}).status == 403
    for cookie in (
        "",
        f"{outsider.guard.cookie}=",
        f"{outsider.guard.cookie}={outsider.guard.token}",
        ";;=",
        "x" * 9000,
    ):
        assert outsider.get("/open", cookie=cookie).status == 401


def test_the_cookie_is_for_this_site_alone_and_no_script(outsider):
    done = outsider.post("/enter", {"token": outsider.guard.token})
    cookie = done.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert outsider.guard.token not in cookie
    assert f"Path={outsider.guard.root}/" in cookie
    assert done.place == "/"


def test_cookie_and_secret_path_are_both_needed(visitor):
    """A browser sends cookies to every port of a host, but only below the path that they are scoped to."""
    root, cookie = visitor.guard.root, visitor.cookie
    assert visitor.get(f"{root}/open").status == 200
    assert visitor.get(f"{root}/open", cookie=None).status == 401
    visitor.cookie = ""
    for path in ("/open", "/", "/history", f"/{'0' * 64}/open", root, f"{root}x/open", f"/{root}/open"):
        done = visitor.get(path, cookie=cookie)
        assert done.status == 401, path
        assert root not in done.text
    assert visitor.post("/open/demo", cookie=cookie).status == 401
    assert not visitor.studio.desks


def test_a_cookie_of_another_server_locks_nobody_out(visitor):
    """A server on another port can set a cookie of the same name, and a browser then sends both."""
    own, name = visitor.cookie, visitor.guard.cookie
    for cookie in (f"{own}; {name}=stolen", f"{name}=stolen; {own}", f"{name}; {own};", f'{name}="; {own}'):
        assert visitor.get("/open", cookie=cookie).status == 200, cookie
    assert visitor.get("/open", cookie=f"x{own}; {name}=stolen").status == 401


def test_texts_that_are_not_unicode_are_refused(visitor):
    assert visitor.send("/ledger/balance", {"ledger": "\ud800"}).status == 400
    assert visitor.send("/ledger/balance", {"csrf": "\ud800"}).status == 400
    assert visitor.request("POST", "/open/demo", b"csrf=%ED%A0%80", content_type=FORM).status in (400, 403)
    visitor.cookie = ""
    for token in (b"token=%ED%A0%80", b"token=%FF"):
        assert visitor.request("POST", "/enter", token, content_type=FORM).status in (400, 403)


def test_other_hosts_are_refused(visitor):
    """A name that an attacker lets lead to this machine (DNS rebinding) is not ours."""
    for host in ("evil.example", "127.0.0.1", "127.0.0.1:1", f"localhost.evil.example:{visitor.port}", ""):
        assert visitor.get("/open", host=host).status == 400, host
        assert visitor.get("/static/studio.css", host=host).status == 400, host
    assert visitor.get("/open", host=f"localhost:{visitor.port}").status == 200


def test_forms_of_other_sites_are_refused(visitor):
    others = ("http://evil.example", "null", "http://127.0.0.1:1", f"https://127.0.0.1:{visitor.port}", "", None)
    for origin in others:
        assert visitor.post("/open/demo", origin=origin).status == 403, origin
    assert visitor.get("/open", origin="http://evil.example").status == 403
    assert not visitor.studio.desks


def test_every_form_needs_its_sessions_token(visitor):
    """Every address that accepts a form checks its token first; only the entry page has none."""
    paths = [path.replace("{number}", "x") for path in POSTS if path != "/enter"]
    assert len(paths) > 10
    other = visitor.guard.csrf_of(visitor.guard.enter(visitor.guard.token))
    for path in paths:
        for token in ("", "x", visitor.guard.token, other):
            assert visitor.post(path, {"csrf": token}).status == 403, path
            assert visitor.send(path, {"csrf": token}).status == 403, path


def test_nothing_changes_by_looking(visitor):
    """A link or a picture of another page can only GET."""
    for path in POSTS:
        assert visitor.get(path.replace("{number}", "x")).status in (404, 405)
    for method in ("PUT", "DELETE", "OPTIONS", "TRACE"):
        assert visitor.request(method, "/open").status == 405


def test_every_answer_has_the_strict_headers(visitor, people):
    desk = visitor.opened(people)
    answers = [visitor.get(path) for path in ("/", "/open", "/history", desk, "/static/studio.js", "/nowhere")]
    answers += [visitor.post("/open/file"), visitor.get("/open", host="evil.example"), visitor.get("/open", cookie="")]
    for answer in answers:
        for name, value in HEADERS.items():
            assert answer.headers.get_all(name) == [value], name
        assert "server" not in answer.headers or answer.headers["server"] == "uvicorn"  # the command turns it off
    policy = HEADERS["content-security-policy"]
    assert "unsafe" not in policy
    assert "http" not in policy
    assert "frame-ancestors 'none'" in policy


def test_no_page_has_scripts_or_styles_of_its_own_or_other_hosts(visitor, people):
    for path in ("/open", "/history", visitor.opened(people)):
        page = visitor.get(path).text
        assert re.findall(r"<script(?! src=\"/static/)", page) == []
        assert re.findall(r"\son\w+=|style=|<style|javascript:", page) == []
        assert re.findall(r"(?:src|href|action)=\"(?!/|#)", page) == []


@pytest.mark.parametrize("root", ["/static/", "/release/x/", "/desk/"])
def test_no_way_out_of_the_folder_of_static_files(visitor, root):
    for path in ("../app.py", "..%2fapp.py", "%2e%2e/app.py", "/etc/passwd", "..%5capp.py", "..%2f..%2fetc%2fpasswd"):
        assert visitor.get(root + path).status == 404, path


def test_sizes_are_limited(visitor):
    for path, most in (("/open/file", FORM_BYTES), ("/open/upload", UPLOAD_BYTES)):
        assert visitor.request("POST", path, content_length=str(most + 1)).status == 413
    assert visitor.request("POST", "/open/file", b"1\r\nx\r\n0\r\n\r\n", transfer_encoding="chunked").status == 411


@pytest.mark.parametrize("name", ["../../escape.csv", "/etc/escape.csv", "..\\escape.csv", "<script>.csv"])
def test_an_upload_stays_in_its_folder_for_the_user_alone(visitor, name):
    done = visitor.upload(name, b"age,income\n1,2\n")
    assert done.status == 303, done.text
    (desk,) = visitor.studio.desks.values()
    path, folder = Path(desk.data.path), visitor.studio._folder()
    assert path.parent == folder
    assert path.stat().st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o777 == 0o700
    page = visitor.get(done.place).text
    assert re.findall(r"<script(?! src=\"/static/)", page) == []
    assert str(path) not in page
    visitor.studio.close()
    assert not folder.exists()


def test_uploads_of_forgotten_tables_are_removed(visitor, monkeypatch):
    monkeypatch.setattr(workspace, "_MOST_KEPT", 2)
    for number in range(4):
        assert visitor.upload(f"{number}.csv", b"age,income\n1,2\n").status == 303
    kept = {Path(desk.data.path) for desk in visitor.studio.desks.values()}
    assert len(kept) == 2
    assert set(visitor.studio._folder().glob("*.csv")) == kept


def test_an_upload_that_cannot_be_read_is_not_kept(visitor):
    for name, content, words in (
        ("page.html", b"<html>", "CSV, Parquet or Feather"),
        ("secret.csv", b"7,3.25\n1,2\n", "The first line of secret.csv holds numbers"),
        ("broken.parquet", b"PAR1 no", "broken.parquet could not be read"),
    ):
        done = visitor.upload(name, content)
        assert done.status == 422
        assert words in done.text
        assert "3.25" not in done.text
        assert str(visitor.studio._folder()) not in done.text
    assert [path.name for path in visitor.studio._folder().iterdir() if path.name != "in-use"] == []


def test_a_password_is_not_taken(visitor):
    done = visitor.post("/open/database", {"database": "postgresql://me:hunter2@host/name", "table": "t"})
    assert done.status == 422
    assert "Keep the password out" in done.text
    assert not visitor.studio.desks
    assert "password" in visitor.ask("/ledger/balance", {"ledger": "postgresql://me:hunter2@host/name"})["problem"]


def test_what_fails_is_told_in_fixed_words(visitor, people, monkeypatch):
    desk = visitor.opened(people)
    monkeypatch.setattr("ellipsum.apps.studio.panels.forecast", lambda *_: 1 / 0)
    done = visitor.send(f"{desk}/forecast", {**BOUNDS, **BUDGET})
    assert done.status == 500
    assert "could not be done" in done.text
    assert "division" not in done.text
    assert "Traceback" not in done.text
    for body in (b"{", b"[1]", b"null", b'{"use": ["x"]}', b'{"use": 3}', b"\xff"):
        done = visitor.request("POST", f"{desk}/forecast", body, content_type="application/json")
        assert done.status in (400, 403)


def test_loopback_addresses():
    assert all(map(is_loopback, ("127.0.0.1", "localhost", "::1", "127.8.8.8")))
    assert not any(map(is_loopback, ("0.0.0.0", "192.168.1.2", "::", "example.org", "127.0.0.1.evil.example")))
