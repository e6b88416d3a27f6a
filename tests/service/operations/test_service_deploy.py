"""The files in deploy/: the systemd unit, the nginx site and the Grafana dashboard.

systemd-analyze and nginx run in the long tests only (`make test-long`), which need both: on Debian
and Ubuntu, `apt install systemd nginx-light`. The short tests check what they can without them.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from service_faults.processes import free_port
from service_fixtures import Service, server
from sizes import LONG

from entice.service.http import server as http_server
from entice.service.http.requests import MAX_BODY
from entice.service.storage.api_keys import Keys
from entice.service.storage.store import open_store

DEPLOY = Path(__file__).parents[3] / "deploy"
UNIT = (DEPLOY / "entice.service").read_text()
SITE = (DEPLOY / "nginx.conf").read_text()
DASHBOARD = (DEPLOY / "grafana.json").read_text()


# systemd


def settings(unit: str) -> dict[str, list[str]]:
    """Return the settings of a unit, each with all its values."""
    found: dict[str, list[str]] = {}
    for name, value in re.findall(r"^(\w+)=(.*)$", unit, re.M):
        found.setdefault(name, []).append(value)
    return found


def test_the_unit_stops_later_than_the_service_needs() -> None:
    [seconds] = settings(UNIT)["TimeoutStopSec"]
    assert int(seconds) > http_server.STOP_TIMEOUT
    assert settings(UNIT)["KillMode"] == ["mixed"]


def analyze(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = ["systemd-analyze", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def _systemd_accepts_the_unit_and_rates_it_as_hardened(tmp_path: Path) -> None:
    """Controls: a setting in the wrong section, and a unit without the hardening."""
    command = str(Path(sys.executable).with_name("entice"))
    unit = tmp_path / "entice.service"
    unit.write_text(UNIT.replace("/opt/entice/bin/entice", command))
    verified = analyze("verify", unit)
    assert (verified.returncode, verified.stdout, verified.stderr) == (0, "", "")
    assert analyze("security", "--offline=true", "--threshold=15", unit).returncode == 0
    wrong = tmp_path / "wrong.service"
    wrong.write_text(unit.read_text().replace("[Unit]\n", "[Unit]\nProtectHome=yes\n"))
    assert "ProtectHome" in analyze("verify", wrong).stderr
    wrong.write_text(unit.read_text().partition("NoNewPrivileges")[0])
    assert analyze("security", "--offline=true", "--threshold=15", wrong).returncode != 0


# nginx


def test_the_site_has_the_limits_and_streams_of_the_service(shop: Service) -> None:
    assert f"client_max_body_size {MAX_BODY // 2**20}m;" in SITE
    [pattern] = re.findall(r"location ~ (\S*stream\S*) {", SITE)
    streams = {
        re.sub(":str", "", path)
        for route in shop.client.app.routes
        for handler, _ in getattr(route, "route_handler_map", {}).values()
        for path in handler.paths
        if {"text/event-stream", "application/x-ndjson"}
        & set(getattr(handler.opt.get("route"), "media_types", ()))
    }
    assert len(streams) >= 4
    for path in streams:
        assert re.search(pattern, path.format(campaign="c_1")), path
    assert not re.search(pattern, "/v1/campaigns/c_1/offers")


@contextlib.contextmanager
def nginx(folder: Path, upstream: int) -> Iterator[int]:
    """Run nginx with the site in a folder; yield its port for TLS."""
    ports = [free_port() for _ in range(2)]
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
         "-nodes", "-subj", "/CN=entice.example.com", "-addext",
         "subjectAltName=DNS:entice.example.com", "-days", "1",
         "-keyout", "privkey.pem", "-out", "fullchain.pem"],
        cwd=folder, check=True, capture_output=True,
    )  # fmt: skip
    site = SITE.replace("/etc/ssl/entice/", f"{folder}/")
    site = site.replace("127.0.0.1:8000", f"127.0.0.1:{upstream}")
    site = site.replace("listen 80;", f"listen 127.0.0.1:{ports[0]};")
    site = site.replace("listen 443 ", f"listen 127.0.0.1:{ports[1]} ")
    (folder / "entice.conf").write_text(site)
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    temporary = "".join(f"{kind}_temp_path {folder}/{kind};" for kind in kinds)
    (folder / "nginx.conf").write_text(
        f"user root; pid {folder}/nginx.pid; error_log {folder}/error.log; daemon off; events {{}} "
        f"http {{ access_log off; {temporary} include {folder}/entice.conf; }}"
    )
    found = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
    assert found, "The long tests need nginx; on Debian and Ubuntu: apt install nginx-light"
    command = [found, "-c", f"{folder}/nginx.conf"]
    subprocess.run([*command, "-t"], check=True, capture_output=True)
    process = subprocess.Popen(command)
    try:
        for _ in range(500):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", ports[1])):
                break
            time.sleep(0.01)
        yield ports[1]
    finally:
        process.terminate()
        process.wait(30)


class Site:
    """A client of the site, which resolves its host name to this machine."""

    def __init__(self, folder: Path, port: int, key: str) -> None:
        self._context = ssl.create_default_context(cafile=str(folder / "fullchain.pem"))
        self._port = port
        self.key = key

    def connect(self) -> http.client.HTTPConnection:
        connection = http.client.HTTPSConnection("entice.example.com", timeout=30)
        sock = socket.create_connection(("127.0.0.1", self._port), 30)
        connection.sock = self._context.wrap_socket(sock, server_hostname="entice.example.com")
        return connection

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        with contextlib.closing(self.connect()) as connection:
            sent = {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"}
            data = body if body is None or isinstance(body, bytes) else json.dumps(body)
            connection.request(method, path, data, sent | headers)
            response = connection.getresponse()
            return response.status, response.read()


def _nginx_serves_offers_streams_and_limits(tmp_path: Path) -> None:
    folder = tmp_path / "nginx"
    folder.mkdir()
    with contextlib.closing(open_store(f"sqlite:///{tmp_path / 'entice.db'}")) as store:
        _, key = Keys(store).create("admin", None, "test")
    with (
        server(tmp_path, "--db", f"sqlite:///{tmp_path / 'entice.db'}") as running,
        nginx(folder, int(running.url.rpartition(":")[2])) as port,
    ):
        site = Site(folder, port, key)
        spec = {"name": "Teas", "arms": ["a", "b"], "budget": 1000, "price_of_a_star": 100}
        status, body = site.call("POST", "/v1/campaigns", spec)
        assert status == 201, body
        campaign = f"/v1/campaigns/{json.loads(body)['id']}"
        assert site.call("GET", "/v1/campaigns", Authorization="Bearer wrong")[0] == 401
        assert site.call("GET", "/healthz")[0] == 200
        assert site.call("GET", "/metrics")[0] == 200  # from this machine
        assert site.call("POST", f"{campaign}/offers", b" " * (MAX_BODY + 1))[0] == 413
        assert site.call("GET", f"{campaign}/export?format=csv")[0] == 200
        # An event arrives at once, while the stream stays open.
        with contextlib.closing(site.connect()) as stream:
            stream.request("GET", f"{campaign}/stream", headers={"Authorization": f"Bearer {key}"})
            response = stream.getresponse()
            assert response.status == 200
            assert response.readline() == b"retry: 2000\n"
            started = time.monotonic()
            assert site.call("POST", f"{campaign}/offers", {"player": "ann"})[0] == 201
            while not response.readline().startswith(b"data:"):
                pass
            assert time.monotonic() - started < 5
        statuses = [site.call("GET", "/healthz")[0] for _ in range(20)]
        assert set(statuses) == {200}
        with contextlib.closing(site.connect()) as flood:
            found = []
            for _ in range(400):
                flood.request("GET", "/healthz")
                found.append(flood.getresponse())
                found[-1].read()
        assert {response.status for response in found} == {200, 429}


if LONG:
    test_systemd_accepts_the_unit_and_rates_it_as_hardened = (
        _systemd_accepts_the_unit_and_rates_it_as_hardened
    )
    test_nginx_serves_offers_streams_and_limits = _nginx_serves_offers_streams_and_limits


# Grafana


def queries(dashboard: str) -> list[str]:
    """Return all queries of a dashboard."""
    plain = json.loads(dashboard)
    of_variables = [
        variable["query"]["query"]
        for variable in plain["templating"]["list"]
        if variable["type"] == "query"
    ]
    return of_variables + [
        target["expr"] for panel in plain["panels"] for target in panel["targets"]
    ]


def unknown_names(queries: list[str], text: str) -> set[str]:
    """Return the metrics and labels in queries that Prometheus metrics do not have."""
    labels: dict[str, set[str]] = {}
    for name, given in re.findall(r"^([a-z_]+)(?:{(.*)})? ", text, re.M):
        labels.setdefault(name, set()).update(re.findall(r'(\w+)="', given))
    labels |= {name: set() for name in re.findall(r"^# TYPE (\w+) gauge", text, re.M)} | labels
    unknown = set()
    for query in queries:
        names = set(re.findall(r"\bentice_\w+", query))
        unknown |= names - set(labels)
        used = set(re.findall(r"(\w+)=~?\"", query))
        for group in re.findall(r"by \((.*?)\)", query):
            used |= set(group.split(", "))
        used |= set(re.findall(r"label_values\(\w+, (\w+)\)", query))
        for name in names & set(labels):
            unknown |= {f"{name} {label}" for label in used - labels[name]}
    return unknown


def test_the_dashboard_uses_metrics_and_labels_that_exist(own_shop: Service) -> None:
    campaign = own_shop.campaign()
    own_shop.client.post(
        f"/v1/campaigns/{campaign}/webhooks", json={"url": "https://warehouse.invalid/"}
    )
    own_shop.offer(campaign, "ann")
    text = own_shop.client.get("/metrics").text
    found = queries(DASHBOARD)
    assert len(found) > 20
    assert unknown_names(found, text) == set()
    # Controls: a metric and a label that do not exist.
    assert unknown_names(["sum(entice_request_total)"], text) == {"entice_request_total"}
    wrong = 'sum by (code) (entice_requests_total{path="/"})'
    assert unknown_names([wrong], text) == {
        "entice_requests_total code", "entice_requests_total path",
    }  # fmt: skip


def test_the_dashboard_shows_every_metric(own_shop: Service) -> None:
    text = own_shop.client.get("/metrics").text
    shown = " ".join(queries(DASHBOARD))
    for name in re.findall(r"^# TYPE (entice_\w+)", text, re.M):
        assert name in shown, f"{name} has no panel"
